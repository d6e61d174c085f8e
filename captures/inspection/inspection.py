"""All results from two captures of one transfer, of owlt or not: summary, packets, messages, traces.

The packets that aimed faults hit are found here. Each other part belongs to another module; here they are combined,
and a note states what could not be computed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from owlt.captures.accounting.ledger import Account
from owlt.captures.accounting.one_side import OneSide
from owlt.captures.accounting.summary import NO_LINKS, CaptureSummary, Transfer, account_both, conclude
from owlt.captures.accounting.suspicion import MORE_THAN_ALL, NOTHING_EXPECTED, Claims, Expected, contradictions
from owlt.captures.files.pcap import read_frames
from owlt.captures.frames.columns import Columns
from owlt.captures.frames.conversations import suspect_groups
from owlt.captures.frames.session import Host, Session
from owlt.captures.inspection.critical_path import PROMPT_BY_REAL_CLOCK_NS, Clues, CriticalPath, critical_path
from owlt.captures.inspection.packet_tables import Table, fates_of, packet_table
from owlt.captures.inspection.traces import Traces, trace_run
from owlt.captures.matches.bottleneck import Link
from owlt.captures.matches.clocks import ClockRelation, relate_clocks
from owlt.captures.matches.delivery import Crossing, OneWay
from owlt.captures.matches.matching import match_captures
from owlt.captures.protocols.ladder import Rung, rungs
from owlt.captures.protocols.messages import PORT_CLOSED, Message, stated_file_bytes
from owlt.captures.protocols.tshark import NoDissection
from owlt.captures.protocols.view import Exchange, ProtocolView, read_exchange, view
from owlt.results.record import FaultHit, Faults
from owlt.results.waits import TimedWait

COMPLETED = "completed"


@dataclass(frozen=True)
class Case:
    """Facts about a transfer that are not from its captures; None if not known.

    `dissector` are options for tshark, as a profile has them. The links are those of a channel that does not change.
    `delay_ns` is of the channel, one way, where the links are not known. `outcome` is "completed", "failed" or another
    word for how the transfer is known to have ended, `reason` why; "" where only the packets are there. `beside` are
    further numbers to be shown with those of the packets, each with its name.
    `faults` is what aimed faults of the channel hit.
    `two_clocks`: the captures were taken on two hosts; the receiver's times are then corrected, by the true
    one-way delays if these are known.
    """

    session: Session
    dissector: Sequence[str] = ()
    file_size_bytes: int | None = None
    file_delivered_at_ns: int | None = None
    duration_s: float | None = None
    """The duration of a run that sends for a time: `file_size_bytes` are then the bytes received in that time."""
    rate_bps: float | None = None
    forward_link: Link | None = None
    reverse_link: Link | None = None
    expected: Expected = NOTHING_EXPECTED
    two_clocks: bool = False
    delay_ns: int | None = None
    outcome: str = ""
    reason: str = ""
    beside: Sequence[tuple[str, str]] = ()
    faults: Faults | None = None
    waits: Sequence[TimedWait] = ()
    """The waits of its programs that a timer ended, as far as they are known."""
    prompt_ns: int = PROMPT_BY_REAL_CLOCK_NS
    """The longest time in which a host answers."""
    launched_at_ns: int | None = None

    @property
    def has_failed(self) -> bool:
        """Whether the file is known not to have arrived."""
        return self.outcome not in ("", COMPLETED)

    @property
    def claims(self) -> Claims:
        """The description of the transfer with which the packets are compared."""
        there, back = self.forward_link, self.reverse_link
        return Claims(
            None if self.has_failed else self.file_size_bytes,
            self.rate_bps,
            there.delay_ns if there else self.delay_ns,
            back.delay_ns if back else self.delay_ns,
        )

    def transfer(self, file_size_bytes: int | None) -> Transfer:
        """The facts that the summary needs, with a file size that may be inferred from the packets."""
        return Transfer(
            file_size_bytes=file_size_bytes,
            file_delivered_at_ns=self.file_delivered_at_ns,
            expected=self.expected,
            rate_bps=self.rate_bps,
            links=NO_LINKS if self.two_clocks else (self.forward_link, self.reverse_link),
            duration_s=self.duration_s,
        )


@dataclass(frozen=True, eq=False)
class OneSideInspection:
    """All results from a single capture. `endings` are the messages that end the session, in words."""

    side: OneSide
    traces: Traces
    messages: list[Message]
    endings: list[str]


@dataclass(frozen=True, eq=False)
class Inspection:
    """All results. `packets` has a row for each packet of the session (`accounting.packets`), `rungs` are the messages
    with their departures and arrivals, and `path` is where the session time went. `exchange`, `view` and `path` are
    None, and `rungs` is empty, if the protocol could not be analysed; `clocks` is None if there is one clock. `notes`
    say so, each in a sentence. `left_out` states why the summary has no goodput and no measure derived from it; "" if
    it has them, or if the file's size is not known. `hits` are the packets that aimed faults have hit.
    """

    summary: CaptureSummary
    packets: Table
    traces: Traces
    exchange: Exchange | None
    view: ProtocolView | None
    rungs: list[Rung]
    path: CriticalPath | None
    clocks: ClockRelation | None
    notes: list[str]
    left_out: str = ""
    hits: Sequence[NamedHit] = ()


def inspect(
    at_sender: Columns,
    at_receiver: Columns,
    case: Case,
    kept: CaptureSummary | None = None,
    crossing: Crossing | None = None,
) -> Inspection:
    """Look at both captures, whose columns are hashed over the same part of frames (`accounting.summary.read_both`).

    `kept` is the summary that was made of them before, perhaps when their frames were complete; `crossing` is
    what is kept of their packets (`accounting.derived_files.load_pairs`), None if nothing is. Raises ValueError
    if the dissector's options are not known, OSError.
    """
    notes: list[str] = []
    crossing = crossing or match_captures(at_sender, at_receiver, case.session, one_clock=not case.two_clocks)
    clocks = _relate(crossing, case) if case.two_clocks else None
    if clocks is not None:
        at_receiver = replace(at_receiver, time_ns=clocks.to_sender_clock(at_receiver.time_ns))
        crossing = match_captures(at_sender, at_receiver, case.session, one_clock=not case.two_clocks)
        notes.append(_clock_note(clocks, case))
    exchange, protocol_view = _protocol(crossing, case, notes)
    carried_bytes = protocol_view.carried_file_bytes if protocol_view is not None else None
    stated_bytes = stated_file_bytes(exchange.of_sender) if exchange is not None else None
    size_bytes = _file_size(case, carried_bytes, stated_bytes, notes)
    accounts = account_both(crossing, case.expected, clocks.error_ns if clocks is not None else None)
    summary = conclude(crossing, accounts, case.transfer(size_bytes))
    summary = _most_complete(summary, kept, notes)
    notes += summary.caveats
    if case.expected.sender_counters is not None:
        summary = summary.model_copy(
            update={"suspect": [*summary.suspect, *suspect_groups(case.session, crossing.captures)]}
        )
    wrong = contradictions(crossing, case.claims, carried_bytes, clocks)
    if exchange is not None and not case.outcome and (uncaptured := exchange.uncaptured):
        wrong.append(uncaptured)
    if not wrong and summary.utilisation is not None and summary.utilisation > MORE_THAN_ALL:
        notes.append("the session ended at the sender before all packets had arrived, so utilisation is above 1")
    left_out = _left_out(case, wrong, exchange, carried_bytes, stated_bytes)
    summary = _believed(summary, wrong, left_out)
    if not case.outcome and summary.goodput_bps is not None and exchange is not None and exchange.shows_delivery:
        notes.append("the receiver's messages state that the file was delivered")
    elif not case.outcome and summary.goodput_bps is not None:
        notes.append("goodput assumes that the transfer completed; the packets alone do not show this")
    packets = packet_table(crossing, accounts)
    notes += refusal_notes(exchange)
    hits = named_hits(case.faults, crossing) if case.faults else []
    actions = {(hit.host, hit.frame): hit.action for hit in hits}
    steps = rungs(exchange.of_sender, exchange.of_receiver, crossing, fates_of(packets), actions) if exchange else []
    return Inspection(
        summary=summary,
        packets=packets,
        traces=_traces(crossing, accounts, exchange, case),
        exchange=exchange,
        view=protocol_view,
        rungs=steps,
        path=path_of(steps, summary, case),
        clocks=clocks,
        notes=notes,
        left_out=left_out,
        hits=hits,
    )


def _protocol(crossing: Crossing, case: Case, notes: list[str]) -> tuple[Exchange | None, ProtocolView | None]:
    """The messages and their view; a note instead if they could not be dissected."""
    exchange = None
    try:
        exchange = read_exchange(crossing, case.session, case.dissector)
        return exchange, view(exchange, crossing.at_sender, case.session, case.dissector)
    except NoDissection as problem:
        notes.append(f"the protocol was not analysed: {problem}")
        return exchange, None


def path_of(steps: Sequence[Rung], summary: CaptureSummary, case: Case) -> CriticalPath | None:
    """The critical path of the session; None without messages, or without time."""
    begin_ns, end_ns = summary.first_packet_ns, summary.last_packet_ns
    if not steps or begin_ns is None or end_ns is None or end_ns <= begin_ns:
        return None
    links = case.forward_link, case.reverse_link
    clues = Clues(links, case.file_delivered_at_ns, case.waits, case.prompt_ns, case.launched_at_ns, case.has_failed)
    return critical_path(steps, begin_ns, end_ns, clues)


def refusal_notes(exchange: Exchange | None) -> list[str]:
    """A sentence for each kind of ICMP error about packets of the session."""
    errors: dict[tuple[str, Host, str], list[Message]] = {}
    sent = sorted(exchange.sent, key=lambda message: message.time_ns) if exchange else []
    for message in sent:
        if message.name.startswith("ICMP "):
            errors.setdefault((message.name, message.host, message.detail), []).append(message)
    return [
        f"the {host}'s host answered {len(each)}× {name}{': no program listened on' if name == PORT_CLOSED else ' of'} "
        f"{port}; the first time {(each[0].time_ns - sent[0].time_ns) / 1e9:.3f} s after the first packet"
        for (name, host, port), each in errors.items()
    ]


def _file_size(case: Case, carried_bytes: int | None, stated_bytes: int | None, notes: list[str]) -> int | None:
    """The file's size in bytes: the given size, else the size that the messages state or carry, with a note."""
    if case.file_size_bytes is not None:
        return case.file_size_bytes
    if stated_bytes is not None:
        notes.append(f"the file size is the {stated_bytes} bytes that the messages state")
        return stated_bytes
    if carried_bytes:
        notes.append(f"the file size is assumed to be the {carried_bytes} bytes that the messages carry")
        return carried_bytes
    notes.append("the file size is unknown, so goodput is not available; give it with --file-size")
    return None


def _most_complete(summary: CaptureSummary, kept: CaptureSummary | None, notes: list[str]) -> CaptureSummary:
    """The kept summary, if only that was made from complete frames, else the new one; cut frames are noted."""
    if summary.headers_only and kept is not None and not kept.headers_only:
        notes.append(
            "the summary was made from complete frames, the tables from the cut frames; the fate of packets whose "
            "frames are cut is unknown"
        )
        return kept
    if summary.headers_only:
        notes.append(
            "the captures contain cut frames: flipped bits beyond the cut are not visible, and the fate of packets "
            "whose frames are cut is unknown unless the emulator's counters show it"
        )
    return summary


def _traces(
    crossing: Crossing,
    accounts: tuple[Account, Account],
    exchange: Exchange | None,
    case: Case,
) -> Traces:
    return trace_run(
        crossing,
        exchange.at_sender if exchange else (),
        case.forward_link,
        case.reverse_link,
        (accounts[0].missing["unrecognised"], accounts[1].missing["unrecognised"]),
    )


def _left_out(
    case: Case,
    wrong: Sequence[str],
    exchange: Exchange | None,
    carried_bytes: int | None,
    stated_bytes: int | None,
) -> str:
    if case.has_failed:
        return "the transfer did not complete"
    if wrong:
        return "the transfer is suspect"
    if case.outcome or case.duration_s is not None or exchange is None:
        return ""
    if stated_bytes is not None and carried_bytes is not None and carried_bytes < stated_bytes:
        return f"the transfer failed: the messages carry {carried_bytes} of the {stated_bytes} bytes that they state"
    failure = exchange.failure
    return f"the transfer failed: {failure}" if failure else ""


def _believed(summary: CaptureSummary, wrong: Sequence[str], left_out: str) -> CaptureSummary:
    """The summary with contradictions among its reasons for suspicion, and without the measures that they
    invalidate."""
    suspect = list(dict.fromkeys([*wrong, *summary.suspect]))
    summary = summary.of_no_file if left_out else summary
    return summary.model_copy(update={"suspect": suspect} | ({"utilisation": None} if wrong else {}))


def _relate(crossing: Crossing, case: Case) -> ClockRelation | None:
    links = (case.forward_link, case.reverse_link) if case.forward_link and case.reverse_link else None
    return relate_clocks(crossing, least_delays_ns=case.claims.delays_ns, links=links)


def _clock_note(clocks: ClockRelation, case: Case) -> str:
    drift = "unknown" if clocks.drift_ppm is None else f"{clocks.drift_ppm:+.3g} ppm, with unknown uncertainty"
    if clocks.drift_ppm is not None and clocks.drift_uncertainty_ppm is not None:
        decimals = _decimals(clocks.drift_uncertainty_ppm)
        drift = f"{clocks.drift_ppm:+.{decimals}f} ± {clocks.drift_uncertainty_ppm:.{decimals}f} ppm"
    if clocks.offset_ns is None:
        return f"two clocks: the receiver's drift is {drift}; packets went in one direction, so its offset is unknown"
    error = "an unknown amount"
    if clocks.offset_uncertainty_ns is not None:
        error_ms = clocks.offset_uncertainty_ns / 1e6
        error = f"{error_ms:.{_decimals(error_ms)}f} ms"
    assumption = (
        f"according to the given delays, with an error of up to {error}"
        if case.claims.delays_ns
        else f"if both directions have the same delay, otherwise with an error of up to {error}"
    )
    return (
        f"two clocks: the receiver's is {clocks.offset_ns / 1e6:+.3f} ms from the sender's {assumption}; its drift is "
        f"{drift}, the residual {clocks.residual_p50_ns / 1e3:.1f} µs; delays are corrected accordingly"
    )


def _decimals(uncertainty: float) -> int:
    """The number of decimals that show two significant digits, at most six."""
    return int(np.clip(1 - np.floor(np.log10(max(uncertainty, 1e-6))), 0, 6))


_ANY = "any"
"""The class of all packets."""
_SAME_MOMENT_NS = 1_000
"""By how much the capture's clock and that of the faults may differ within the emulator."""


@dataclass(frozen=True)
class NamedHit:
    """A packet that an aimed fault has hit: its class and which of the packets of that class it was, what happened to
    it, when, by the clock of the captures (0: not known), the host that sent it, and its frame in the capture at that
    host's port (None: not found there)."""

    action: str
    packet: str
    occurrence: int
    at_ns: int
    host: Host
    frame: int | None

    @property
    def text(self) -> str:
        """For example "dropped: cfdp.eof #2, frame 1003 of sender.pcap"."""
        where = f"frame {self.frame} of {self.host}.pcap" if self.frame else f"not found in {self.host}.pcap"
        packet = "packet" if self.packet == _ANY else self.packet
        return f"{self.action}: {packet} #{self.occurrence}, {where}"


def named_hits(faults: Faults, crossing: Crossing) -> list[NamedHit]:
    """The hits in the order of time. Raises OSError if a capture cannot be read."""
    by_way = ((way, [hit for hit in faults.hits if hit.direction == name]) for name, way in _named_ways(crossing))
    return sorted(
        (
            NamedHit(
                faults.faults[hit.fault].action,
                faults.faults[hit.fault].packet,
                hit.occurrence,
                faults.started_at_ns and faults.started_at_ns + hit.at_ns,
                way.host,
                frame,
            )
            for way, hits in by_way
            for hit, frame in zip(hits, _frames(way, hits, faults.started_at_ns), strict=True)
        ),
        key=lambda hit: hit.at_ns,
    )


def _named_ways(crossing: Crossing) -> tuple[tuple[str, OneWay], tuple[str, OneWay]]:
    forward, reverse = crossing.ways
    return ("forward", forward), ("reverse", reverse)


def _frames(way: OneWay, hits: Sequence[FaultHit], started_at_ns: int) -> list[int | None]:
    """The frame of each hit, in their order: of the session's packets with its beginning and its length, the latest
    that was sent before the hit and that no earlier hit has."""
    near, rows = way.near, way.delivery.near
    rows = rows[np.isin(near.wire_bytes[rows], [hit.frame_bytes for hit in hits])]
    head_bytes = max((len(hit.head) // 2 for hit in hits), default=0)
    heads = read_frames(near.path, near.offset[rows], np.minimum(near.captured_bytes[rows], head_bytes))
    alike: dict[tuple[int, bytes], list[int]] = defaultdict(list)
    for row, head in zip(rows.tolist(), heads, strict=True):
        alike[int(near.wire_bytes[row]), head].append(row)
    lengths = sorted({len(head) for head in heads}, reverse=True)
    frames: list[int | None] = []
    for hit in hits:
        head, until_ns = bytes.fromhex(hit.head), started_at_ns + hit.at_ns + _SAME_MOMENT_NS
        keys = [(hit.frame_bytes, head[:length]) for length in lengths]
        candidates = next((alike[key] for key in keys if key in alike), [])
        before = [row for row in candidates if not started_at_ns or near.time_ns[row] <= until_ns]
        frames.append(before[-1] + 1 if before else None)
        if before:
            candidates.remove(before[-1])
    return frames
