"""The summary of a run's two captures: counts, bytes, times, goodput, delays, and what is suspect about them.

Definitions only; finding the packets is matching.py's, keeping the summary beside the captures cache.py's.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict

from captures.columns import Columns, Kind, read_columns
from captures.delays import DelaySummary, summarise_delays
from captures.matching import INTACT, Delivery, match_captures, without
from captures.pcap import read_header
from captures.session import Session
from captures.suspicion import NOTHING_EXPECTED, Expected, suspect_capture, suspect_delivery

SCHEMA_VERSION = 2
"""Raised whenever a field or the meaning of one changes; summaries of other versions are made again."""


class Source(BaseModel):
    """What a summary was made from: the SHA-256 of the arguments and, by file name, of each capture in
    every form in which it may lie there (as captured; cut to its headers)."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    arguments: str
    captures: dict[str, list[str]]

    def accepts(self, other: Source) -> bool:
        """Whether a summary made from this is as good as one made from the other."""
        return self.arguments == other.arguments and self.accepts_captures(other.captures)

    def accepts_captures(self, captures: dict[str, list[str]]) -> bool:
        """Whether the captures are among the forms that this knows."""
        return all(set(digests) <= set(self.captures.get(name, ())) for name, digests in captures.items())


class CaptureSummary(BaseModel):
    """What the packets of one run say.

    STR are the packets that the sender sent, RTS those that the receiver sent, each counted as sent (in the
    capture at its own port) and as delivered (in the other one). The counts are those of
    `summary_filter(session, host)` in tshark, packet for packet. Bytes are Ethernet frames without preamble
    and checksum.

    A copy with a flipped bit is delivered too. `*_delivered_damaged` are copies that the filter misses
    because the bit was in an address, a port or a length; `*_bit_errors` are all copies with a flipped bit,
    within the filter or not (in captures cut to headers: those hit in what is left). `*_lost` never came
    out. So

    sent = delivered - duplicated + delivered_damaged + lost        (unless `suspect` says otherwise).

    `first_packet_ns` and `last_packet_ns` are of the session, either host's, in sender.pcap, and
    `session_s` lies between. `goodput_bps` = 8 file bytes / session_s; `goodput_until_whole_bps` = 8 file
    bytes / the time from the first packet until the receiver's file was whole. Both are None where there is
    no such time; whether the file arrived at all is not for the packets to say. `background_packets` counts
    by kind the frames of both captures that are not of the session; one that crosses the emulator is in
    both. `suspect` gives the reasons not to trust these numbers.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    schema_version: int = SCHEMA_VERSION
    str_sent: int
    str_delivered: int
    str_delivered_damaged: int
    str_bit_errors: int
    str_duplicated: int
    str_lost: int
    str_sent_bytes: int
    str_delivered_bytes: int
    rts_sent: int
    rts_delivered: int
    rts_delivered_damaged: int
    rts_bit_errors: int
    rts_duplicated: int
    rts_lost: int
    rts_sent_bytes: int
    rts_delivered_bytes: int
    first_packet_ns: int | None
    last_packet_ns: int | None
    session_s: float | None
    goodput_bps: float | None
    goodput_until_whole_bps: float | None
    owd_forward: DelaySummary
    owd_reverse: DelaySummary
    background_packets: dict[str, int]
    headers_only: bool
    suspect: list[str]
    source: Source | None = None


def summarise(
    sender_pcap: Path,
    receiver_pcap: Path,
    session: Session,
    file_size_bytes: int,
    file_whole_at_ns: int | None,
    expected: Expected = NOTHING_EXPECTED,
) -> CaptureSummary:
    """The summary of the two captures; `expected` only serves to find what is suspect.

    `file_whole_at_ns` is of the captures' clock. Raises NotACapture, OSError.
    """
    hashed_bytes = min(read_header(pcap).snaplen_bytes for pcap in (sender_pcap, receiver_pcap))
    at_sender, at_receiver = (read_columns(pcap, hashed_bytes) for pcap in (sender_pcap, receiver_pcap))
    forward, reverse = match_captures(at_sender, at_receiver, session)
    session_times_ns = at_sender.time_ns[np.concatenate([forward.near, reverse.far])]
    suspect = [
        *suspect_capture(at_sender, expected.sender_counters, expected.mtu_bytes),
        *suspect_capture(at_receiver, expected.receiver_counters, expected.mtu_bytes),
        *suspect_delivery(forward, "sender", expected.forward_dropped),
        *suspect_delivery(reverse, "receiver", expected.reverse_dropped),
    ]
    if file_whole_at_ns is not None:
        in_time = forward.far[at_receiver.time_ns[forward.far] <= file_whole_at_ns]
        came_bytes = int(at_receiver.wire_bytes[in_time].sum())
        if came_bytes < file_size_bytes:
            suspect.append(f"the file seemed whole when {came_bytes} of its {file_size_bytes} bytes had come")
    if not len(session_times_ns):
        suspect.append(f"{sender_pcap.name} holds no packet of the session: are its ports and addresses right?")
    return CaptureSummary.model_validate(
        {
            **_flow("str", at_sender, at_receiver, forward),
            **_flow("rts", at_receiver, at_sender, reverse),
            **_times(session_times_ns, file_size_bytes, file_whole_at_ns),
            "owd_forward": summarise_delays(forward.delay_ns[forward.first_copies]),
            "owd_reverse": summarise_delays(reverse.delay_ns[reverse.first_copies]),
            "background_packets": _background(at_sender, forward.near, reverse.far, reverse.delivered)
            + _background(at_receiver, reverse.near, forward.far, forward.delivered),
            "headers_only": _is_cut(at_sender) or _is_cut(at_receiver),
            "suspect": suspect,
        }
    )


def _flow(name: str, near: Columns, far: Columns, delivery: Delivery) -> dict[str, int]:
    flow = {
        "sent": len(delivery.near),
        "delivered": len(delivery.far),
        "delivered_damaged": len(delivery.outside),
        "bit_errors": np.count_nonzero(delivery.flipped_bit != INTACT),
        "duplicated": len(delivery.sent) - len(delivery.first_copies),
        "lost": len(delivery.lost),
        "sent_bytes": near.wire_bytes[delivery.near].sum(),
        "delivered_bytes": far.wire_bytes[delivery.far].sum(),
    }
    return {f"{name}_{key}": int(value) for key, value in flow.items()}


def _times(
    session_times_ns: NDArray[np.int64], file_size_bytes: int, file_whole_at_ns: int | None
) -> dict[str, int | float | None]:
    if not len(session_times_ns):
        names = "first_packet_ns", "last_packet_ns", "session_s", "goodput_bps", "goodput_until_whole_bps"
        return dict.fromkeys(names)
    first_ns, last_ns = int(session_times_ns.min()), int(session_times_ns.max())
    return {
        "first_packet_ns": first_ns,
        "last_packet_ns": last_ns,
        "session_s": (last_ns - first_ns) / 1e9,
        "goodput_bps": goodput_bps(file_size_bytes, first_ns, last_ns),
        "goodput_until_whole_bps": goodput_bps(file_size_bytes, first_ns, file_whole_at_ns),
    }


def goodput_bps(file_size_bytes: int, start_ns: int, end_ns: int | None) -> float | None:
    """The bits of the file over the time from start to end; None where no time passed or there is no end."""
    if end_ns is None or end_ns <= start_ns:
        return None
    return 8e9 * file_size_bytes / (end_ns - start_ns)


def _background(capture: Columns, *session_rows: NDArray[np.int64]) -> Counter[str]:
    """How many frames of each kind are in none of the session's rows."""
    others = without(np.arange(len(capture)), np.concatenate(session_rows))
    kinds, counts = np.unique(capture.kind[others], return_counts=True)
    return Counter(
        {Kind(kind).name.lower(): count for kind, count in zip(kinds.tolist(), counts.tolist(), strict=True)}
    )


def _is_cut(capture: Columns) -> bool:
    return bool((capture.captured_bytes < capture.wire_bytes).any())
