"""Measures of a transfer: goodput, one-way delays and others from its packets' bytes and times; and the numbers of
frames that crossed a direction of the channel, by the emulator's counters and in the captures.

docs/measures.md has each with its formula and source. Finding packets belongs to `captures.matches`. The numbers of
frames include those outside the session (ARP, IGMP), so that they can be compared. The emulator counts from the
moment the channel was applied, in all stages that a frame passes. What its counters mean is defined by the emulator's
`statistics` and by netem (sch_netem.c of Linux 7.3).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict

from owlt.captures.frames.decoding import CE
from owlt.captures.matches.delivery import INTACT, Delivery, OneWay


class Amounts(NamedTuple):
    """Bytes in Ethernet frames of the session, without preamble and checksum, by who sent them."""

    str_sent_bytes: int
    str_delivered_bytes: int
    rts_sent_bytes: int
    rts_delivered_bytes: int


class Measures(BaseModel):
    """The measures of one run; None if a time, a rate or bytes are missing that it needs.

    `goodput_bps` counts the file's bits over the session, from its first to its last packet at the sender's port;
    `goodput_to_delivery_bps` until the receiver's file was complete. Throughputs count delivered frames over the
    session, each way. `total_data_bytes` are the bytes that the sender sent, `normalized_goodput_bps` is the session's
    goodput times the share of the file in them. `efficiency` is goodput over the forward channel's rate, `utilisation`
    the share of that rate that the delivered frames filled.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    first_packet_ns: int | None
    last_packet_ns: int | None
    session_s: float | None
    goodput_bps: float | None
    goodput_to_delivery_bps: float | None
    throughput_forward_bps: float | None
    throughput_reverse_bps: float | None
    total_data_bytes: int
    data_ratio: float | None
    """`total_data_bytes` for each byte of the file."""
    normalized_goodput_bps: float | None
    efficiency: float | None
    utilisation: float | None


OF_A_DELIVERED_FILE = (
    "goodput_bps",
    "goodput_to_delivery_bps",
    "normalized_goodput_bps",
    "efficiency",
    "data_ratio",
)
"""The measures that are defined only if the receiver has a file equal to the sent one."""


class DelaySummary(BaseModel):
    """The least, the middle and the greatest one-way delay of `matched` packets, in ns; None if there is
    none.

    p50 and p99 are delays that some packet had (nearest rank; Hyndman and Fan's type 1), not interpolated.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    matched: int
    min_ns: int | None = None
    p50_ns: int | None = None
    p99_ns: int | None = None
    max_ns: int | None = None


def measure(
    amounts: Amounts,
    first_ns: int | None,
    last_ns: int | None,
    file_size_bytes: int | None,
    file_delivered_at_ns: int | None,
    rate_bps: float | None,
    duration_s: float | None = None,
) -> Measures:
    """The measures of a session that lasted from `first_ns` to `last_ns`; None, None: no packet was seen.

    `file_size_bytes` None: not known. `rate_bps` is the forward channel's; None: it has no limit, or one that changes.
    `duration_s` is given for a run for a duration: `file_size_bytes` are then the bytes received in that time, goodput
    is over that time, and measures that relate all packets to these bytes are not defined.
    """
    if duration_s is not None:
        return _of_duration(amounts, first_ns, last_ns, file_size_bytes, rate_bps, duration_s)
    goodput = rate_over(file_size_bytes, first_ns, last_ns)
    to_delivery = rate_over(file_size_bytes, first_ns, file_delivered_at_ns)
    forward = rate_over(amounts.str_delivered_bytes, first_ns, last_ns)
    sent = amounts.str_sent_bytes
    return Measures(
        first_packet_ns=first_ns,
        last_packet_ns=last_ns,
        session_s=seconds_between(first_ns, last_ns),
        goodput_bps=goodput,
        goodput_to_delivery_bps=to_delivery,
        throughput_forward_bps=forward,
        throughput_reverse_bps=rate_over(amounts.rts_delivered_bytes, first_ns, last_ns),
        total_data_bytes=sent,
        data_ratio=ratio(sent, file_size_bytes),
        normalized_goodput_bps=_product(goodput, ratio(file_size_bytes, sent)),
        efficiency=ratio(goodput, rate_bps),
        utilisation=ratio(forward, rate_bps),
    )


def _of_duration(
    amounts: Amounts,
    first_ns: int | None,
    last_ns: int | None,
    received_bytes: int | None,
    rate_bps: float | None,
    duration_s: float,
) -> Measures:
    goodput = None if received_bytes is None else 8 * received_bytes / duration_s
    of_packets = measure(amounts, first_ns, last_ns, None, None, rate_bps)
    return of_packets.model_copy(update={"goodput_bps": goodput, "efficiency": ratio(goodput, rate_bps)})


def summarise_delays(delay_ns: NDArray[np.int64]) -> DelaySummary:
    """The summary of the delays, one a packet, between two captures that were taken with one clock."""
    if not len(delay_ns):
        return DelaySummary(matched=0)
    least, middle, late, greatest = np.quantile(delay_ns, [0, 0.5, 0.99, 1], method="inverted_cdf").tolist()
    return DelaySummary(matched=len(delay_ns), min_ns=least, p50_ns=middle, p99_ns=late, max_ns=greatest)


def seconds_between(start_ns: int | None, end_ns: int | None) -> float | None:
    """The time from start to end, in s; None if one is missing."""
    return None if start_ns is None or end_ns is None else (end_ns - start_ns) / 1e9


def rate_over(size_bytes: int | None, start_ns: int | None, end_ns: int | None) -> float | None:
    """The bits of so many bytes over the time from start to end, in bit/s; None if no time passed or one of them is
    missing."""
    if size_bytes is None or start_ns is None or end_ns is None or end_ns <= start_ns:
        return None
    return 8e9 * size_bytes / (end_ns - start_ns)


def _product(factor: float | None, other: float | None) -> float | None:
    return None if factor is None or other is None else factor * other


def ratio(part: float | None, whole: float | None) -> float | None:
    """A ratio; None if a value is missing or the denominator is 0."""
    return None if part is None or not whole else part / whole


Stages = Mapping[str, Mapping[str, float]]
"""Stage (gate, bottleneck, faults, errors, pipe: the order in which a frame meets them) to counter to value."""


@dataclass(frozen=True)
class DirectionCounters:
    """Frames that one direction of the channel took in, dropped, held at the end, damaged and doubled.

    `entered` is None if no stage was there to count. `queue_drops` found the queue full, `mtu_drops` were too long,
    `losses` were lost by the link. netem draws a loss and a duplication for the same frame, which then arrives once and
    is counted in `losses` and in `duplicates`; so only their difference can be compared with captures. `duplicates` and
    `corrupted_by_netem` are None if the kernel does not count them; `hit_by_errors` are those that the errors stage let
    through damaged, and that the pipe, behind it, may still have lost. `marked` got the mark CE (RFC 3168) before
    anything else of the link; None if no rule marked any.
    """

    entered: int | None
    queue_drops: int
    mtu_drops: int
    losses: int
    losses_behind_errors: int
    waiting: int
    duplicates: int | None
    corrupted_by_netem: int | None
    hit_by_errors: int
    marked: int | None = None

    @property
    def not_delivered(self) -> int:
        """Frames that entered and did not leave."""
        return self.queue_drops + self.mtu_drops + self.losses + self.waiting

    @property
    def corrupted_copies(self) -> tuple[int, int]:
        """The least and the most copies that can have come out with a flipped bit.

        The pipe may lose or duplicate frames that the errors stage has hit, and damaged frames may still be in flight.
        """
        by_netem = self.corrupted_by_netem or 0
        surviving = max(self.hit_by_errors - self.losses_behind_errors, 0)
        both = min(surviving, by_netem)  # frames that may have been hit in both
        least = max(surviving + by_netem - both - self.waiting, 0)
        return least, self.hit_by_errors + by_netem + (self.duplicates or 0 if self.hit_by_errors else 0)


def direction_counters(stages: Stages) -> DirectionCounters:
    """The counters of one direction, including stages that existed for a part of the time."""
    values = {stage: {name: int(value) for name, value in counters.items()} for stage, counters in stages.items()}
    names = ("gate", "bottleneck", "faults", "errors", "pipe")
    gate, bottleneck, faults, errors, pipe = (values.get(name, {}) for name in names)
    gate_drops = gate.get("dropped_queue_packets", 0) + gate.get("dropped_mtu_packets", 0)
    queue_drops = gate.get("dropped_queue_packets", 0) + bottleneck.get("dropped_packets", 0)
    lost_in_pipe = pipe.get("lost_packets", pipe.get("dropped_packets", 0))
    error_drops = errors.get("dropped_packets", 0)
    fault_drops, held_by_faults = faults.get("dropped_packets", 0), faults.get("waiting_packets", 0)
    doubled, doubled_by_faults = pipe.get("duplicated_packets"), faults.get("duplicated_packets", 0)
    to_bottleneck = _into(bottleneck, bottleneck.get("dropped_packets", 0))
    to_pipe = _into(pipe, lost_in_pipe - (doubled or 0))
    held = bottleneck.get("waiting_packets", 0)
    before_faults = queue_drops + gate.get("dropped_mtu_packets", 0) + held
    before_errors = before_faults + fault_drops + held_by_faults - doubled_by_faults
    entered = [
        packets + before
        for packets, before in (
            (gate.get("packets"), 0),
            (to_bottleneck, gate_drops),
            (faults.get("packets"), before_faults),
            (errors.get("packets"), before_errors),
            (to_pipe, before_errors + error_drops),
        )
        if packets is not None
    ]
    return DirectionCounters(
        entered=max(entered, default=None),
        queue_drops=queue_drops,
        mtu_drops=gate.get("dropped_mtu_packets", 0),
        losses=fault_drops + error_drops + lost_in_pipe,
        losses_behind_errors=lost_in_pipe,
        waiting=held + held_by_faults + pipe.get("waiting_packets", 0),
        duplicates=None if pipe and doubled is None else (doubled or 0) + doubled_by_faults,
        corrupted_by_netem=pipe.get("corrupted_packets") if pipe else 0,
        hit_by_errors=errors.get("hit_packets", 0) - error_drops + faults.get("corrupted_packets", 0),
        marked=gate.get("marked_packets"),
    )


def _into(netem: Mapping[str, int], gone: int) -> int | None:
    """The frames that entered a netem: those that left it, are in it, or were dropped; None if there is no netem."""
    return netem["packets"] + netem["waiting_packets"] + gone if netem else None


_SHORTEST_FRAME_BYTES = 60
"""Network cards pad shorter frames to this length.

No hash covers the padding, so a bit that is flipped there is not seen.
"""


def marked_packets(way: OneWay, delivery: Delivery) -> int:
    """How many packets arrived intact with the mark CE and were sent without it (RFC 3168), by their first copies."""
    first = delivery.first_copies
    first = first[delivery.flipped_bit[first] == INTACT]
    before, after = way.near.ecn[delivery.sent[first]], way.far.ecn[delivery.delivered[first]]
    return int(np.count_nonzero((before != CE) & (after == CE)))


@dataclass(frozen=True, eq=False)
class CapturedFrames:
    """The captured frames of one direction, of the session and of the background.

    `session_missing` and `background_missing` are the rows of the near capture without a copy, `duplicated` counts the
    further copies and `corrupted` all copies with flipped bits. Up to `unseen` more copies may have been hit where it
    cannot be seen: in the padding of a short frame, or beyond the captured part. `marked` are the first copies that
    arrived intact with CE and were sent without it. The direction of the `undirected` frames of the near capture is not
    known. `unrecognised` is how many of the missing frames did arrive, damaged.
    """

    entered: int
    session_missing: NDArray[np.int64]
    background_missing: NDArray[np.int64]
    duplicated: int
    corrupted: int
    unseen: int
    undirected: int
    unrecognised: int = 0
    marked: int = 0

    @classmethod
    def of(cls, way: OneWay) -> CapturedFrames:
        """Count the session's packets and the frames of the background."""
        far, delivery = way.far, way.delivery
        parts = [delivery] if delivery.background is None else [delivery, delivery.background]
        delivered = np.concatenate([part.delivered for part in parts])
        is_hit = np.concatenate([part.flipped_bit for part in parts]) != INTACT
        wire_bytes = far.wire_bytes[delivered]
        hides = (far.is_cut[delivered] & delivery.was_cut) | (wire_bytes <= _SHORTEST_FRAME_BYTES)
        return cls(
            entered=sum(len(part.near) for part in parts),
            session_missing=delivery.lost,
            background_missing=delivery.background.lost if delivery.background else np.empty(0, np.int64),
            duplicated=len(delivered) - sum(len(part.first_copies) for part in parts),
            corrupted=int(np.count_nonzero(is_hit)),
            unseen=int(np.count_nonzero(hides & ~is_hit)),
            undirected=delivery.undirected,
            marked=sum(marked_packets(way, part) for part in parts),
        )

    @property
    def missing(self) -> int:
        """The number of frames without a copy."""
        return len(self.session_missing) + len(self.background_missing)

    def expected_missing(self, counters: DirectionCounters) -> int:
        """The number of missing frames according to the counters.

        Frames in = copies out - duplicates + not delivered. So each duplicate that did not leave belongs to a packet
        that the emulator counts as lost and that arrived once. Unrecognised frames did leave.
        """
        gone = max((counters.duplicates or 0) - self.duplicated, 0)
        dropped = counters.not_delivered - min(gone, counters.losses_behind_errors + counters.waiting)
        return dropped + self.unrecognised

    def uncounted(self, counters: DirectionCounters) -> int:
        """How many frames came after the counters were read, because the captures last a little longer."""
        return max(self.entered - counters.entered, 0) if counters.entered is not None else 0
