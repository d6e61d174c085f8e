"""The summary of a run: the results from the packets of its two captures, and the reasons not to trust them.

It is kept beside the captures as summary.json. When the code has changed it is made again from the captures, even if
these were cut since: the fate of each packet is stored beside them (derived_files.py). Without the captures, the stored
summary is used. Finding the packets belongs to `captures.matches`, their fate to ledger.py, rates and amounts to
measures.py.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import ConfigDict, Field

from owlt.captures.accounting.derived_files import CAPTURES, DerivedFile, load, load_or_make, load_or_match
from owlt.captures.accounting.ledger import Account, Ledger, account
from owlt.captures.accounting.measures import (
    OF_A_DELIVERED_FILE,
    Amounts,
    DelaySummary,
    Measures,
    measure,
    summarise_delays,
)
from owlt.captures.accounting.suspicion import (
    NOTHING_EXPECTED,
    Expected,
    order_notes,
    suspect_capture,
    suspect_copies,
)
from owlt.captures.files.pcap import read_snaplen
from owlt.captures.frames.background import count_background
from owlt.captures.frames.columns import Columns, read_columns
from owlt.captures.frames.conversations import suspect_groups
from owlt.captures.frames.decoding import OF_PROGRAMS
from owlt.captures.frames.session import Session
from owlt.captures.matches.bottleneck import Link, overdue_ns
from owlt.captures.matches.delivery import Crossing, Delivery, without
from owlt.results.record import SUMMARY, CaptureCounters
from owlt.results.upgrades import Steps, Values, current_version, renamed

Links = tuple[Link | None, Link | None]
"""Forward and reverse; None if a direction changes, varies from packet to packet, or has no rate."""

NO_LINKS: Links = (None, None)


@dataclass(frozen=True)
class Transfer:
    """Facts about a transfer that are not from its captures; None if not known.

    `file_size_bytes` is also None if the file was not delivered; of a run for a duration (`duration_s`) it is how many
    bytes the receiver reports. `file_delivered_at_ns` is of the captures' clock. `rate_bps` is the forward channel's;
    None also if it is unlimited.
    """

    file_size_bytes: int | None = None
    file_delivered_at_ns: int | None = None
    expected: Expected = NOTHING_EXPECTED
    rate_bps: float | None = None
    links: Links = NO_LINKS
    duration_s: float | None = None


def _summary_4(summary: Values) -> dict[str, Any]:
    """New name: goodput_to_delivery_bps."""
    return renamed(summary, {"goodput_until_whole_bps": "goodput_to_delivery_bps"})


def _summary_5(summary: Values) -> dict[str, Any]:
    """New in ledgers: ecn_capable and ecn_marked, which older summaries do not have."""
    return dict(summary)


SUMMARY_STEPS: Steps = {3: _summary_4, 4: _summary_5}
"""Summaries of version 2 and older do not hold what version 3 needs: they are made again from the captures."""
SCHEMA_VERSION = current_version(SUMMARY_STEPS)
"""Incremented, with an upgrade step, whenever a field or its meaning changes."""


class CaptureSummary(Measures, DerivedFile):
    """The results from the packets of one run. docs/measures.md defines the terms and formulas.

    STR are the packets that the sender sent, RTS those that the receiver sent, each counted as sent (in the capture at
    its own port) and as delivered (in the other one). The counts are those of `summary_filter(session, host)` in
    tshark, packet for packet: copies count, and so do those with flipped bits that the filter still passes. Bytes are
    Ethernet frames without preamble and checksum. The fate of each packet is in the ledgers.

    `overdue_ns` is the time during which some packet was in the emulator for longer than the channel explains; None if
    the links are not known, or vary. `background_packets` counts by name the frames of both captures that are not of
    the session; one that crosses the emulator is in both. `slow_frames` had to be read one by one. `headers_only`:
    frames were cut when damaged ones were searched, so flipped bits beyond the cut are not seen. `suspect` has the
    reasons not to trust these numbers, `caveats` further notes on them.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    upgrades: ClassVar[Steps] = SUMMARY_STEPS

    schema_version: int = SCHEMA_VERSION
    str_sent: int
    str_delivered: int
    str_sent_bytes: int
    str_delivered_bytes: int
    rts_sent: int
    rts_delivered: int
    rts_sent_bytes: int
    rts_delivered_bytes: int
    ledger_forward: Ledger
    ledger_reverse: Ledger
    owd_forward: DelaySummary
    owd_reverse: DelaySummary
    overdue_ns: int | None = None
    background_packets: dict[str, int]
    slow_frames: int
    headers_only: bool
    suspect: list[str]
    caveats: list[str] = Field(default_factory=list)

    @property
    def of_no_file(self) -> Self:
        """The summary without the measures that are defined only for a delivered file."""
        return self.model_copy(update=dict.fromkeys(OF_A_DELIVERED_FILE))


def load_or_summarise(run_dir: Path, session: Session, transfer: Transfer) -> CaptureSummary:
    """The summary of the run in `run_dir`: the stored one if captures, arguments and code are those it was made from,
    else a new one, which is then stored. Raises NotACapture, OSError."""

    def make() -> CaptureSummary:
        both = read_both(*(run_dir / name for name in CAPTURES))
        crossing = load_or_match(run_dir, *both, session)
        summary = conclude(crossing, account_both(crossing, transfer.expected), transfer)
        return summary.model_copy(update={"suspect": [*summary.suspect, *suspect_groups(session, both)]})

    arguments = [session.model_dump(mode="json"), asdict(transfer)]
    return load_or_make(run_dir / SUMMARY, CaptureSummary, arguments, make)


def load_summary(run_dir: Path) -> CaptureSummary | None:
    """The stored summary as it is; None if there is none, or if it is damaged or has another schema."""
    summary = load(run_dir / SUMMARY, CaptureSummary)
    return summary if summary and summary.schema_version == SCHEMA_VERSION else None


def read_both(sender_pcap: Path, receiver_pcap: Path) -> tuple[Columns, Columns]:
    """The columns of both captures, hashed over the part of each frame that both contain.

    Raises NotACapture, OSError.
    """
    hashed_bytes = min(read_snaplen(pcap) for pcap in (sender_pcap, receiver_pcap))
    both = read_columns(sender_pcap, hashed_bytes), read_columns(receiver_pcap, hashed_bytes)
    kept_bytes = min(hashed_bytes, *(_kept_bytes(capture) for capture in both))
    if kept_bytes == hashed_bytes or all(_kept_bytes(capture) == kept_bytes for capture in both):
        return both
    return read_columns(sender_pcap, kept_bytes), read_columns(receiver_pcap, kept_bytes)


def _kept_bytes(capture: Columns) -> int:
    """The most bytes of any frame in a cut capture; may be more than the file's header states."""
    return int(capture.captured_bytes[capture.is_cut].max(initial=0)) or capture.hashed_bytes


def account_both(
    crossing: Crossing, expected: Expected, clock_error_ns: float | None = None
) -> tuple[Account, Account]:
    """The accounts of the sender's and of the receiver's packets; `clock_error_ns` is of two clocks."""
    forward, reverse = crossing.ways
    return account(forward, expected.forward, clock_error_ns), account(reverse, expected.reverse, clock_error_ns)


def conclude(crossing: Crossing, accounts: tuple[Account, Account], transfer: Transfer) -> CaptureSummary:
    """The summary of captures whose packets were matched and accounted for; the expectations for the captures only give
    reasons for suspicion."""
    at_sender, at_receiver = crossing.captures
    forward, reverse = crossing.forward, crossing.reverse
    of_sender, of_receiver = accounts
    times_ns = at_sender.time_ns[np.concatenate([forward.near, reverse.far])]
    first_ns, last_ns = (int(times_ns.min()), int(times_ns.max())) if len(times_ns) else (None, None)
    amounts = Amounts(
        str_sent_bytes=_bytes(at_sender, forward.near),
        str_delivered_bytes=_bytes(at_receiver, forward.far),
        rts_sent_bytes=_bytes(at_receiver, reverse.near),
        rts_delivered_bytes=_bytes(at_sender, reverse.far),
    )
    return CaptureSummary(
        **measure(
            amounts,
            first_ns,
            last_ns,
            transfer.file_size_bytes,
            transfer.file_delivered_at_ns,
            transfer.rate_bps,
            transfer.duration_s,
        ).model_dump(),
        **amounts._asdict(),
        str_sent=len(forward.near),
        str_delivered=len(forward.far),
        rts_sent=len(reverse.near),
        rts_delivered=len(reverse.far),
        ledger_forward=of_sender.ledger,
        ledger_reverse=of_receiver.ledger,
        owd_forward=summarise_delays(forward.delay_ns[forward.first_copies]),
        owd_reverse=summarise_delays(reverse.delay_ns[reverse.first_copies]),
        overdue_ns=None
        if first_ns is None or last_ns is None
        else overdue_ns(crossing, transfer.links, first_ns, last_ns),
        background_packets=dict(
            _background(at_sender, forward.near, reverse.far, reverse.delivered)
            + _background(at_receiver, reverse.near, forward.far, forward.delivered)
        ),
        slow_frames=at_sender.slow_frames + at_receiver.slow_frames,
        headers_only=forward.was_cut,
        suspect=_suspect(crossing, accounts, transfer, amounts.str_delivered_bytes),
        caveats=[*order_notes(at_sender), *order_notes(at_receiver), *of_sender.caveats, *of_receiver.caveats],
    )


def _suspect(
    crossing: Crossing, accounts: tuple[Account, Account], transfer: Transfer, str_delivered_bytes: int
) -> list[str]:
    """Why the numbers may be wrong, in sentences."""
    expected = transfer.expected
    at_sender, at_receiver = crossing.captures
    forward, reverse = crossing.forward, crossing.reverse
    suspect = [
        *suspect_capture(at_sender, expected.sender_counters, expected.mtu_bytes),
        *suspect_capture(at_receiver, expected.receiver_counters, expected.mtu_bytes),
        *_suspect_copies(at_sender, forward.near, reverse.far, expected.sender_counters),
        *_suspect_copies(at_receiver, forward.far, reverse.near, expected.receiver_counters),
        *(reason for each in accounts for reason in each.reasons),
        *_suspect_delivery(at_receiver, forward, transfer.file_size_bytes, transfer.file_delivered_at_ns),
        *_suspect_report(expected.received_bytes, str_delivered_bytes),
    ]
    if not len(forward.near) and not len(reverse.far):
        has_others = np.isin(at_sender.kind, OF_PROGRAMS).any()
        why = "" if has_others else expected.why_silent
        why = why or "are the session's ports and addresses right?"
        suspect.append(f"{at_sender.path.name} has no packet of the session: {why}")
    return suspect


def _suspect_copies(
    capture: Columns, of_sender: NDArray[np.int64], of_receiver: NDArray[np.int64], counters: CaptureCounters | None
) -> Iterator[str]:
    """A reason if a capture contains packets twice. A capture by one tcpdump at one port (with counters) cannot."""
    if counters is None:
        yield from suspect_copies(capture, {"sender": of_sender, "receiver": of_receiver})


def _suspect_delivery(
    at_receiver: Columns, forward: Delivery, file_size_bytes: int | None, file_delivered_at_ns: int | None
) -> Iterator[str]:
    """A reason if the file was reported delivered before all of it had arrived."""
    if file_delivered_at_ns is None or file_size_bytes is None:
        return
    arrived_bytes = _bytes(at_receiver, forward.far[at_receiver.time_ns[forward.far] <= file_delivered_at_ns])
    if arrived_bytes < file_size_bytes:
        yield f"the file was reported delivered when {arrived_bytes} of its {file_size_bytes} bytes had arrived"
    elif (data_bytes := _most_data_bytes(at_receiver, np.union1d(forward.far, forward.delivered))) < file_size_bytes:
        yield (
            f"only {data_bytes} distinct bytes of data reached the receiver, fewer than the {file_size_bytes} of the "
            "file: a part of the file did not come over the channel"
        )


def _most_data_bytes(capture: Columns, rows: NDArray[np.int64]) -> int:
    """An upper bound of the data in these frames, in bytes: their transport payloads, equal payloads counted once.

    It holds for any protocol, encrypted or with redundancy, because the test file is random and cannot be compressed.
    For a frame whose payload is not known, the whole frame counts.
    """
    payload_bytes = capture.payload_bytes[rows]
    has_payload = payload_bytes > 0
    is_comparable = has_payload & ~capture.is_cut[rows] & (capture.wire_bytes[rows] <= capture.hashed_bytes)
    _, first = np.unique(capture.payload_hash[rows[is_comparable]], return_index=True)
    counted = payload_bytes[is_comparable][first], payload_bytes[has_payload & ~is_comparable]
    whole = capture.wire_bytes[rows[~has_payload]]
    return sum(int(each.sum(dtype=np.int64)) for each in (*counted, whole))


def _suspect_report(reported_bytes: int | None, arrived_bytes: int) -> Iterator[str]:
    """A reason if the receiver reports more bytes than arrived."""
    if reported_bytes is not None and arrived_bytes < reported_bytes:
        yield f"the receiver reports {reported_bytes} bytes of data, and frames of only {arrived_bytes} bytes arrived"


def _bytes(capture: Columns, rows: NDArray[np.int64]) -> int:
    return int(capture.wire_bytes[rows].sum(dtype=np.int64))


def _background(capture: Columns, *session_rows: NDArray[np.int64]) -> Counter[str]:
    """The number of frames outside the session, by name."""
    return count_background(capture, without(np.arange(len(capture)), np.concatenate(session_rows)))
