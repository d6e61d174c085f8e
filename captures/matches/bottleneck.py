"""What waited at a direction's bottleneck, as its packets show: the emulator's link, and the queue before it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from owlt.captures.frames.columns import Columns

Integers = NDArray[np.int64]

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
    """What each frame takes of the rate beyond its own bytes."""

    def __post_init__(self) -> None:
        if not (self.delay_ns >= 0 and self.rate_bps > 0 and self.overhead_bytes >= 0):
            raise ValueError(f"{self}: expected a rate above 0 and nothing negative; None if there is no limit")

    def serialization_ns(self, wire_bytes: Integers) -> Integers:
        """How long the frames take to be sent at the rate."""
        taken_ns: NDArray[np.float64] = np.rint(8e9 * (wire_bytes + self.overhead_bytes) / self.rate_bps)
        return taken_ns.astype(np.int64)


@dataclass(frozen=True, eq=False)
class Queue:
    """What of the session has entered the bottleneck and not left it, from each of these times until the next.

    A packet enters when it is seen at its host's port. It leaves, whole, one propagation delay, and a microsecond for
    the clocks, before it is seen at the other port. The packet being sent is counted, as in the emulator's limit.

    Of packets that never arrived only those are counted for which the bottleneck visibly took the time, while others
    waited: the rest may have found no room in the queue. So this is never more than there was; it is less by packets
    lost behind the bottleneck just before it fell idle, or of different lengths between two that arrived.
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
