"""All that two captures say of one transfer, of a run of ours or of anybody's: summary, packets, messages, traces.

Each part is another module's; here they are put in order, and what one of them cannot do is noted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from captures.clocks import ClockRelation, relate_clocks
from captures.columns import Columns
from captures.ladder import Rung, rungs
from captures.ledger import account
from captures.matching import Delivery, match_captures
from captures.packets import Table, joined, packet_rows
from captures.session import Session
from captures.summary import CaptureSummary, conclude
from captures.suspicion import NOTHING_EXPECTED, Expected
from captures.tcp import NoTshark
from captures.traces import Link, Traces, trace_run
from captures.tshark import NoDissection
from captures.view import Heard, ProtocolView, hear, view


@dataclass(frozen=True)
class Case:
    """What is known of a transfer beside its captures; None where it is not known.

    `dissector` are options for tshark, as a profile has them. The links are those of a channel that does not change.
    `two_clocks`: the captures were taken on two hosts; the receiver's times are then corrected, by the true least
    one-way delays if the links are known.
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


@dataclass(frozen=True, eq=False)
class Inspection:
    """All that was found. `packets` has a row for each packet of the session (`captures.packets`), `climbed` the
    messages with their departures and arrivals. `heard` and `view` are None, and `climbed` is empty, where the protocol
    could not be looked at; `clocks` is None where there is one clock. `notes` say so, each in a sentence."""

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


def inspect(at_sender: Columns, at_receiver: Columns, case: Case) -> Inspection:
    """Look at both captures, whose columns are hashed over the same part of frames (`captures.summary.read_both`).

    Raises ValueError where the dissector's options are not known, OSError.
    """
    notes: list[str] = []
    deliveries = match_captures(at_sender, at_receiver, case.session)
    clocks = _relate(at_sender, at_receiver, deliveries, case) if case.two_clocks else None
    if clocks is not None:
        at_receiver = replace(at_receiver, time_ns=clocks.to_sender_clock(at_receiver.time_ns))
        deliveries = match_captures(at_sender, at_receiver, case.session)
        notes.append(_clock_note(clocks))
    heard, seen = None, None
    try:
        heard = hear(at_sender, at_receiver, deliveries, case.session, case.dissector)
        seen = view(heard, at_sender, case.session, case.dissector)
    except (NoDissection, NoTshark) as problem:
        notes.append(f"the protocol was not looked at: {problem}")
    size_bytes = case.file_size_bytes
    if size_bytes is None and seen is not None and seen.carried_file_bytes:
        size_bytes = seen.carried_file_bytes
        notes.append(f"the file's size is taken to be what the messages carry of it, {size_bytes} bytes")
    elif size_bytes is None:
        notes.append("the file's size is not known, so there is no goodput; give it with --file-size")
    forward, reverse = deliveries
    told = (
        account(at_sender, at_receiver, forward, "sender", case.expected.forward),
        account(at_receiver, at_sender, reverse, "receiver", case.expected.reverse),
    )
    summary = conclude(
        at_sender, at_receiver, deliveries, size_bytes, case.file_whole_at_ns, case.expected, case.rate_bps
    )
    if summary.headers_only:
        notes.append("frames are cut in the captures: bits that were flipped behind the cut are not seen")
    return Inspection(
        at_sender=at_sender,
        at_receiver=at_receiver,
        summary=summary,
        packets=joined(
            packet_rows(at_sender, at_receiver, forward, told[0], "sender"),
            packet_rows(at_receiver, at_sender, reverse, told[1], "receiver"),
        ),
        traces=trace_run(
            at_sender,
            at_receiver,
            deliveries,
            heard.at_sender if heard else (),
            case.forward_link,
            case.reverse_link,
        ),
        heard=heard,
        view=seen,
        climbed=_climb(heard, at_sender, at_receiver, deliveries) if heard else [],
        clocks=clocks,
        notes=notes,
    )


def _relate(
    at_sender: Columns, at_receiver: Columns, deliveries: tuple[Delivery, Delivery], case: Case
) -> ClockRelation | None:
    there, back = case.forward_link, case.reverse_link
    least_ns = (float(there.delay_ns), float(back.delay_ns)) if there and back else None
    return relate_clocks(at_sender, at_receiver, *deliveries, least_delays_ns=least_ns)


def _clock_note(clocks: ClockRelation) -> str:
    drift = "unknown" if clocks.drift_ppm is None else f"{clocks.drift_ppm:+.3f} ppm"
    if clocks.offset_ns is None:
        return f"two clocks: the receiver's drift is {drift}; packets went one way only, so its offset cannot be known"
    return (
        f"two clocks: the receiver's is {clocks.offset_ns / 1e6:+.3f} ms from the sender's, true to within "
        f"{(clocks.offset_uncertainty_ns or 0) / 1e6:.3f} ms, its drift {drift}, "
        f"residual {clocks.residual_p50_ns / 1e3:.1f} µs; delays are corrected by that"
    )


def _climb(heard: Heard, at_sender: Columns, at_receiver: Columns, deliveries: tuple[Delivery, Delivery]) -> list[Rung]:
    sent = [message for message in heard.at_sender if message.host == "sender"]
    answered = [message for message in heard.at_receiver if message.host == "receiver"]
    return rungs(sent, at_receiver, deliveries[0], answered, at_sender, deliveries[1])
