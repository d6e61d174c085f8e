"""A direction's bottleneck, as its packets show it: the emulator's link, the queue before it, and overdue packets.

A packet is overdue while it is in the emulator and should have left it: for so long the emulator's machine was late. It
is due one propagation delay after its last bit could have entered the link: when it had come, and the packet before it
had left the bottleneck. So the effect of a late packet on those behind it is counted once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from owlt.captures.frames.columns import Columns
from owlt.captures.matches.delivery import Crossing, Delivery

Integers = NDArray[np.int64]

Intervals = tuple[Integers, Integers]
"""Beginnings and ends."""

TOLERANCE_NS = 500_000
"""The time after which a packet counts as overdue. A quiet machine, also a guest on it, takes 0.1 to 0.4 ms."""

_NEVER = np.iinfo(np.int64).max
_SAME_MOMENT_NS = 1_000
"""The software between the bottleneck and the port takes some hundred ns, in which the next packet may take the place
of the one that left."""


@dataclass(frozen=True)
class Link:
    """One direction of the channel as it was from the first packet to the last: propagation delay and bit rate.

    A direction that changes, that has no limit, or whose delay varies from packet to packet has no Link.
    """

    delay_ns: int
    rate_bps: float
    overhead_bytes: int = 0
    """The bytes per frame that count for the rate in addition to its own."""

    def __post_init__(self) -> None:
        if not (self.delay_ns >= 0 and self.rate_bps > 0 and self.overhead_bytes >= 0):
            raise ValueError(f"{self}: expected a rate above 0 and nothing negative; None if there is no limit")

    def serialization_ns(self, wire_bytes: Integers) -> Integers:
        """How long the frames take to be sent at the rate."""
        taken_ns: NDArray[np.float64] = np.rint(8e9 * (wire_bytes + self.overhead_bytes) / self.rate_bps)
        return taken_ns.astype(np.int64)


@dataclass(frozen=True, eq=False)
class Queue:
    """The session's packets that have entered the bottleneck and not left it, from each of these times until the next.

    A packet enters when it is seen at its host's port. It leaves, whole, one propagation delay, and a microsecond for
    the clocks, before it is seen at the other port. The packet being sent is counted, as in the emulator's limit.

    Of packets that never arrived only those are counted for which the bottleneck visibly took the time, while others
    waited: the rest may have found no room in the queue. So this is a lower bound: it omits packets lost after the
    bottleneck just before it became idle, or with different lengths between two that arrived.
    """

    time_ns: Integers
    packets: Integers
    wire_bytes: Integers


def queue_of(near: Columns, sent: Integers, arrived: Integers, delay_ns: Integers, link: Link, first_ns: int) -> Queue:
    """The queue of the packets `sent` (rows of the capture, by time), of which those that `arrived` were so long under
    way. Times are since `first_ns`."""
    entered_ns, wire_bytes = near.time_ns[sent] - first_ns, near.wire_bytes[sent].astype(np.int64)
    left_ns = np.full(len(sent), _NEVER, np.int64)
    place = np.zeros(len(near), np.int64)
    place[sent] = np.arange(len(sent))
    places = place[arrived]
    left_ns[places] = entered_ns[places] + np.maximum(delay_ns - link.delay_ns - _SAME_MOMENT_NS, 0)
    left_ns = _with_lost(entered_ns, link.serialization_ns(wire_bytes), left_ns)

    counted = left_ns != _NEVER
    times_ns = np.concatenate([left_ns[counted], entered_ns[counted]])
    order = np.argsort(times_ns, kind="stable")
    entering = np.repeat([-1, 1], np.count_nonzero(counted))[order]
    packets = np.cumsum(entering)
    waiting_bytes = np.cumsum(entering * np.tile(wire_bytes[counted], 2)[order])
    last_of_its_time = np.append(np.diff(times_ns[order]) > 0, True)[: len(order)]
    return Queue(times_ns[order][last_of_its_time], packets[last_of_its_time], waiting_bytes[last_of_its_time])


def _with_lost(entered_ns: Integers, serialization_ns: Integers, left_ns: Integers) -> Integers:
    """When each packet left the bottleneck, `_NEVER` if that cannot be known.

    Between two packets that arrived, the link sent some of those lost between them if the second one waited although
    nothing else was left to send. Which ones is known only if they explain the time completely (`_sent_between`).
    """
    left_ns = left_ns.copy()
    arrived, lost = np.flatnonzero(left_ns != _NEVER), np.flatnonzero(left_ns == _NEVER)
    begun_ns = left_ns[arrived] - serialization_ns[arrived]
    waited = begun_ns > entered_ns[arrived]
    free_ns = np.append(-_NEVER, np.maximum.accumulate(left_ns[arrived]))
    next_arrived = np.searchsorted(arrived, lost)
    for between in np.split(lost, np.flatnonzero(np.diff(next_arrived)) + 1):
        index = int(np.searchsorted(arrived, between[0])) if len(between) else len(arrived)
        if index < len(arrived) and waited[index]:
            sent = _sent_between(entered_ns, serialization_ns, between, int(free_ns[index]), int(begun_ns[index]))
            for place, ends_ns in sent:
                left_ns[place] = ends_ns
    return left_ns


def _sent_between(
    entered_ns: Integers, serialization_ns: Integers, lost: Integers, free_ns: int, until_ns: int
) -> list[tuple[int, int]]:
    """The lost packets that the link sent from `free_ns` until `until_ns`, each with when it was done with it.

    They are the last of the lost ones: others would have been in the queue for longer. They are known if they fill the
    time exactly, and if no others of different lengths would fill it as well; otherwise there are none.
    """
    sent: list[tuple[int, int]] = []
    start_ns, ends_ns, tolerance_ns = free_ns, until_ns, 0
    for place in lost[::-1].tolist():
        took_ns = int(serialization_ns[place])
        tolerance_ns = max(2 * _SAME_MOMENT_NS, took_ns // 50)
        begun_ns = ends_ns - took_ns
        if begun_ns < max(free_ns, int(entered_ns[place])) - tolerance_ns:
            break
        sent.append((place, ends_ns))
        start_ns, ends_ns = max(free_ns, int(entered_ns[place])), begun_ns
    is_complete = abs(ends_ns - start_ns) <= tolerance_ns
    is_unique = len(sent) == len(lost) or len(set(serialization_ns[lost].tolist())) == 1
    return sent if is_complete and is_unique else []


def overdue_ns(crossing: Crossing, links: tuple[Link | None, Link | None], first_ns: int, last_ns: int) -> int | None:
    """How much of the time from `first_ns` to `last_ns` some packet was overdue in the emulator.

    The captures were taken with one clock; links are forward and reverse. None if a link is None: it is not known when
    its packets are due.
    """
    forward, reverse = links
    if forward is None or reverse is None:
        return None
    late = [_late(way.near, way.delivery, link) for way, link in zip(crossing.ways, (forward, reverse), strict=True)]
    return _covered_ns(late, first_ns, last_ns)


def _late(near: Columns, delivery: Delivery, link: Link) -> Intervals:
    """When each packet of a host became overdue, and when it arrived; only those that did.

    A packet that was lost is taken to have used the link, so that the next is never thought to be due too early.
    """
    parts = [delivery] if delivery.background is None else [delivery, delivery.background]
    entered = np.unique(np.concatenate([rows for part in parts for rows in (part.near, part.sent)]))
    copies = np.zeros(len(near), np.int64)
    left_ns = np.zeros(len(near), np.int64)
    for part in parts:
        np.add.at(copies, part.sent, 1)
        first = part.first_copies
        left_ns[part.sent[first]] = near.time_ns[part.sent[first]] + part.delay_ns[first] - link.delay_ns
    busy_ns = np.cumsum(
        link.serialization_ns(near.wire_bytes[entered].astype(np.int64)) * np.maximum(copies[entered], 1)
    )
    arrived = np.flatnonzero(copies[entered])
    rows = entered[arrived]
    taken_ns = np.diff(busy_ns[arrived], prepend=0)
    before_ns = np.concatenate([near.time_ns[rows[:1]], left_ns[rows[:-1]]])
    due_ns = np.maximum(near.time_ns[rows], before_ns) + taken_ns
    late = left_ns[rows] > due_ns + TOLERANCE_NS
    return (due_ns[late] + TOLERANCE_NS + link.delay_ns, left_ns[rows][late] + link.delay_ns)


def _covered_ns(late: Sequence[Intervals], first_ns: int, last_ns: int) -> int:
    """How much of a span the intervals cover together."""
    begins, ends = (np.clip(np.concatenate(side), first_ns, last_ns) for side in zip(*late, strict=True))
    order = np.argsort(begins, kind="stable")
    begins, ends = begins[order], ends[order]
    if not len(begins):
        return 0
    reached = np.concatenate([begins[:1], np.maximum.accumulate(ends)[:-1]])
    return int(np.maximum(ends - np.maximum(begins, reached), 0).sum())
