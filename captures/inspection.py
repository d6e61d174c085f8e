"""All that two captures say of one transfer, of a run of ours or of anybody's: summary, packets, messages, traces.

Each part is another module's; here they are put in order, and what one of them cannot do is noted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from captures.accounting.suspicion import NOTHING_EXPECTED, Expected
from captures.frames.columns import Columns
from captures.matches.clocks import ClockRelation, relate_clocks
from captures.matches.matching import Delivery, match_captures
from captures.packets import Table, joined, packet_rows
from captures.plausibility import MORE_THAN_ALL, Claims, contradictions
from captures.protocols.ladder import Rung, rungs
from captures.protocols.tshark import NoDissection
from captures.protocols.view import Heard, ProtocolView, hear, view
from captures.session import Session
from captures.summary import CaptureSummary, account_both, conclude
from captures.traces.bottleneck import Link
from captures.traces.tracing import Traces, trace_run

COMPLETED = "completed"


@dataclass(frozen=True)
class Case:
    """What is known of a transfer beside its captures; None where it is not known.

    `dissector` are options for tshark, as a profile has them. The links are those of a channel that does not change.
    `delay_ns` is of the channel, one way, where the links are not known. `outcome` is "completed", "failed" or another
    word for how the transfer is known to have ended, `reason` why; "" where only the packets are there. `beside` are
    further numbers to be shown with those of the packets, each with its name.
    `two_clocks`: the captures were taken on two hosts; the receiver's times are then corrected, by the true
    one-way delays if these are known.
    """

    session: Session
    dissector: Sequence[str] = ()
    file_size_bytes: int | None = None
    file_whole_at_ns: int | None = None
    rate_bps: float | None = None
    forward_link: Link | None = None
    reverse_link: Link | None = None
    expected: Expected = NOTHING_EXPECTED
    two_clocks: bool = False
    delay_ns: int | None = None
    outcome: str = ""
    reason: str = ""
    beside: Sequence[tuple[str, str]] = ()

    @property
    def has_failed(self) -> bool:
        """Whether the file is known not to have come."""
        return self.outcome not in ("", COMPLETED)

    @property
    def claims(self) -> Claims:
        """What the packets can be held against."""
        there, back = self.forward_link, self.reverse_link
        return Claims(
            None if self.has_failed else self.file_size_bytes,
            self.rate_bps,
            there.delay_ns if there else self.delay_ns,
            back.delay_ns if back else self.delay_ns,
        )


@dataclass(frozen=True, eq=False)
class Inspection:
    """All that was found. `packets` has a row for each packet of the session (`captures.packets`), `climbed` the
    messages with their departures and arrivals. `heard` and `view` are None, and `climbed` is empty, where the protocol
    could not be looked at; `clocks` is None where there is one clock. `notes` say so, each in a sentence.
    `left_out` says why the summary has no goodput, and none of what is made of it; "" where it has, or where the file's
    size is not known."""

    at_sender: Columns
    at_receiver: Columns
    summary: CaptureSummary
    packets: Table
    traces: Traces
    heard: Heard | None
    view: ProtocolView | None
    climbed: list[Rung]
    clocks: ClockRelation | None
    notes: list[str]
    left_out: str = ""


def inspect(
    at_sender: Columns,
    at_receiver: Columns,
    case: Case,
    kept: CaptureSummary | None = None,
    deliveries: tuple[Delivery, Delivery] | None = None,
) -> Inspection:
    """Look at both captures, whose columns are hashed over the same part of frames (`captures.summary.read_both`).

    `kept` is the summary that was made of them before, perhaps when their frames were complete; `deliveries` are what
    is kept of their packets (`captures.pairs.load_pairs`), None where nothing is. Raises ValueError where the
    dissector's options are not known, OSError.
    """
    notes: list[str] = []
    deliveries = deliveries or match_captures(at_sender, at_receiver, case.session, one_clock=not case.two_clocks)
    clocks = _relate(at_sender, at_receiver, deliveries, case) if case.two_clocks else None
    if clocks is not None:
        at_receiver = replace(at_receiver, time_ns=clocks.to_sender_clock(at_receiver.time_ns))
        deliveries = match_captures(at_sender, at_receiver, case.session, one_clock=not case.two_clocks)
        notes.append(_clock_note(clocks, case))
    heard, seen = None, None
    try:
        heard = hear(at_sender, at_receiver, deliveries, case.session, case.dissector)
        seen = view(heard, at_sender, case.session, case.dissector)
    except NoDissection as problem:
        notes.append(f"the protocol was not looked at: {problem}")
    size_bytes = case.file_size_bytes
    if size_bytes is None and seen is not None and seen.carried_file_bytes:
        size_bytes = seen.carried_file_bytes
        notes.append(f"the file's size is taken to be what the messages carry of it, {size_bytes} bytes")
    elif size_bytes is None:
        notes.append("the file's size is not known, so there is no goodput; give it with --file-size")
    accounts = account_both(at_sender, at_receiver, deliveries, case.expected)
    summary = conclude(
        at_sender,
        at_receiver,
        deliveries,
        accounts,
        size_bytes,
        case.file_whole_at_ns,
        case.expected,
        case.rate_bps,
        (None, None) if case.two_clocks else (case.forward_link, case.reverse_link),
    )
    if summary.headers_only and kept is not None and not kept.headers_only:
        summary = kept
        notes.append(
            "the summary was made from complete frames, the tables from the cut frames; the fate of packets whose "
            "frames are cut is unknown"
        )
    elif summary.headers_only:
        notes.append(
            "the captures contain cut frames: flipped bits beyond the cut are not visible, and the fate of packets "
            "whose frames are cut is unknown unless the emulator's counters show it"
        )
    notes += summary.caveats
    carried = seen.carried_file_bytes if seen is not None else None
    wrong = contradictions(at_sender, at_receiver, deliveries, case.claims, carried, clocks)
    if not wrong and summary.utilisation is not None and summary.utilisation > MORE_THAN_ALL:
        notes.append("the session ended at the sender before all had arrived, so utilisation is above 1")
    left_out = _left_out(case, wrong)
    summary = _believed(summary, wrong, left_out)
    if not case.outcome and summary.goodput_bps is not None:
        notes.append("goodput is that of a transfer that completed, which the packets alone do not tell")
    return Inspection(
        at_sender=at_sender,
        at_receiver=at_receiver,
        summary=summary,
        packets=joined(
            packet_rows(at_sender, at_receiver, deliveries[0], accounts[0], "sender"),
            packet_rows(at_receiver, at_sender, deliveries[1], accounts[1], "receiver"),
        ),
        traces=trace_run(
            at_sender,
            at_receiver,
            deliveries,
            heard.at_sender if heard else (),
            case.forward_link,
            case.reverse_link,
            (accounts[0].missing["unrecognised"], accounts[1].missing["unrecognised"]),
        ),
        heard=heard,
        view=seen,
        climbed=_climb(heard, at_sender, at_receiver, deliveries) if heard else [],
        clocks=clocks,
        notes=notes,
        left_out=left_out,
    )


def _left_out(case: Case, wrong: Sequence[str]) -> str:
    if case.has_failed:
        return "the transfer did not complete"
    return "the transfer is suspect" if wrong else ""


def _believed(summary: CaptureSummary, wrong: Sequence[str], left_out: str) -> CaptureSummary:
    """The summary with what is wrong among its reasons for suspicion, without what then says nothing."""
    suspect = list(dict.fromkeys([*wrong, *summary.suspect]))
    summary = summary.of_no_file if left_out else summary
    return summary.model_copy(update={"suspect": suspect} | ({"utilisation": None} if wrong else {}))


def _relate(
    at_sender: Columns, at_receiver: Columns, deliveries: tuple[Delivery, Delivery], case: Case
) -> ClockRelation | None:
    links = (case.forward_link, case.reverse_link) if case.forward_link and case.reverse_link else None
    return relate_clocks(at_sender, at_receiver, *deliveries, least_delays_ns=case.claims.delays_ns, links=links)


def _clock_note(clocks: ClockRelation, case: Case) -> str:
    drift = "unknown" if clocks.drift_ppm is None else f"{clocks.drift_ppm:+.3g} ppm, how truly is unknown"
    if clocks.drift_ppm is not None and clocks.drift_uncertainty_ppm is not None:
        decimals = _decimals(clocks.drift_uncertainty_ppm)
        drift = f"{clocks.drift_ppm:+.{decimals}f} ± {clocks.drift_uncertainty_ppm:.{decimals}f} ppm"
    if clocks.offset_ns is None:
        return f"two clocks: the receiver's drift is {drift}; packets went one way only, so its offset cannot be known"
    off = "nobody knows how much"
    if clocks.offset_uncertainty_ns is not None:
        off_ms = clocks.offset_uncertainty_ns / 1e6
        off = f"{off_ms:.{_decimals(off_ms)}f} ms"
    by_what = (
        f"by the delay that is given, true to within {off}"
        if case.claims.delays_ns
        else f"if both ways take equally long; otherwise off by up to {off}"
    )
    return (
        f"two clocks: the receiver's is {clocks.offset_ns / 1e6:+.3f} ms from the sender's {by_what}; its drift is "
        f"{drift}, the residual {clocks.residual_p50_ns / 1e3:.1f} µs; delays are corrected by that"
    )


def _decimals(uncertainty: float) -> int:
    """As many as show two digits of it, up to six."""
    return int(np.clip(1 - np.floor(np.log10(max(uncertainty, 1e-6))), 0, 6))


def _climb(heard: Heard, at_sender: Columns, at_receiver: Columns, deliveries: tuple[Delivery, Delivery]) -> list[Rung]:
    return rungs(heard.of_sender, at_receiver, deliveries[0], heard.of_receiver, at_sender, deliveries[1])
