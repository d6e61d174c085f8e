"""Bytes in intervals of time: the throughput each way, and of what it is made."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from owlt.captures.traces.offsets import Acknowledgements, FileData
from owlt.captures.traces.tracing import Traces, Way

Integers = NDArray[np.int64]
Numbers = NDArray[np.float64]

MOST_INTERVALS = 1_000_000
_INTERVALS = 200
_PACKETS_AN_INTERVAL, _OF_THE_SLOWER = 10, 4
"""With fewer of a paced flow in an interval, one more or one less shows as a change of the rate."""
_PACE_PACKETS = 50


@dataclass(frozen=True, eq=False)
class Throughput:
    """Bytes of Ethernet frames in each interval; the first begins with the session's first packet.

    All of an interval's packets are counted at the moment that they were captured, so the sum over the intervals is the
    sum over the packets. `new` are the sender's frames with data that had not been sent before, `again` those with data
    of which all had been; `acknowledging` the receiver's messages that say what has arrived, as they arrive at
    the sender: of one capture alone, all as seen there. None if the packets do not say, or were not seen.
    """

    interval_ns: int
    count: int
    forward_sent_bytes: Integers | None
    forward_delivered_bytes: Integers | None
    reverse_sent_bytes: Integers | None
    reverse_delivered_bytes: Integers | None
    new_bytes: Integers | None
    again_bytes: Integers | None
    acknowledging_bytes: Integers | None

    @property
    def start_ns(self) -> Integers:
        """When each interval begins."""
        return np.arange(self.count, dtype=np.int64) * self.interval_ns

    def bps(self, interval_bytes: Integers) -> Numbers:
        """Bytes in each interval as bit/s."""
        return 8e9 * interval_bytes / self.interval_ns


def choose_interval_ns(length_ns: int, shortest_ns: float = 0) -> int:
    """1, 2 or 5 times a power of ten, so that 80 to 200 intervals make the length; fewer, not under `shortest_ns`.

    Two intervals are always made of it, whatever the shortest.
    """
    wanted = max(length_ns / _INTERVALS, min(shortest_ns, length_ns / 2), 1)
    power = 10 ** int(np.floor(np.log10(wanted)))
    return int(next(step * power for step in (1, 2, 5, 10) if step * power >= wanted))


def throughput(traces: Traces, interval_ns: int | None = None) -> Throughput:
    """The bytes in each interval, of `interval_ns` or of `choose_interval_ns`.

    Raises ValueError if that would be none, or more than a million.
    """
    if interval_ns is None:
        interval_ns = choose_interval_ns(traces.length_ns, shortest_interval_ns(traces))
    if interval_ns < 1 or traces.length_ns // interval_ns >= MOST_INTERVALS:
        raise ValueError(
            f"interval: expected at least {traces.length_ns // MOST_INTERVALS + 1} ns for a session of "
            f"{traces.length_ns} ns, got {interval_ns} ns"
        )

    count = traces.length_ns // interval_ns + 1

    def counted(time_ns: Integers, wire_bytes: Integers) -> Integers:
        return _bytes_by_interval(time_ns, wire_bytes, interval_ns, count)

    def departing(way: Way) -> Integers | None:
        return counted(way.sent_ns, way.sent_bytes) if way.seen_departing else None

    def arriving(way: Way) -> Integers | None:
        return counted(way.delivered_ns, way.delivered_bytes) if way.seen_arriving else None

    data, acknowledgements = traces.data, traces.acknowledgements
    frames = None if data is None else _frames_with_new(data)
    return Throughput(
        interval_ns=interval_ns,
        count=count,
        forward_sent_bytes=departing(traces.forward),
        forward_delivered_bytes=arriving(traces.forward),
        reverse_sent_bytes=departing(traces.reverse),
        reverse_delivered_bytes=arriving(traces.reverse),
        new_bytes=None if frames is None else counted(frames[0], frames[1] * frames[2]),
        again_bytes=None if frames is None else counted(frames[0], frames[1] * ~frames[2]),
        acknowledging_bytes=None if acknowledgements is None else counted(*_once(acknowledgements)),
    )


def shortest_interval_ns(traces: Traces) -> float:
    """How long an interval must be for the packets in it to tell a rate.

    Room for ten of the direction that delivered most packets and four of the other, if it has a pace, as far apart as
    they were delivered, or seen, where they came close together (the median).
    """
    ways = (traces.forward, traces.reverse)
    slower, fuller = sorted((way.delivered_ns if way.seen_arriving else way.sent_ns for way in ways), key=len)
    shortest_ns = _PACKETS_AN_INTERVAL * float(np.median(np.diff(fuller))) if len(fuller) > 1 else 0.0
    if len(slower) < _PACE_PACKETS:
        return shortest_ns
    return max(shortest_ns, _OF_THE_SLOWER * float(np.median(np.diff(slower))))


def _bytes_by_interval(time_ns: Integers, wire_bytes: Integers, interval_ns: int, count: int) -> Integers:
    sums = np.zeros(count, np.int64)
    np.add.at(sums, time_ns // interval_ns, wire_bytes)
    return sums


def _frames_with_new(data: FileData) -> tuple[Integers, Integers, NDArray[np.bool_]]:
    """Of each frame with data: when it was sent, its bytes, whether any of its data was new."""
    _, first, which = np.unique(data.frame, return_index=True, return_inverse=True)
    has_new = np.zeros(len(first), np.bool_)
    np.logical_or.at(has_new, which, data.new_bytes > 0)
    return data.sent_ns[first], data.wire_bytes[first], has_new


def _once(acknowledgements: Acknowledgements) -> tuple[Integers, Integers]:
    """When each frame with acknowledgements arrived, and its bytes: once, however many it carries."""
    first = np.unique(acknowledgements.frame, return_index=True)[1]
    return acknowledgements.arrived_ns[first], acknowledgements.wire_bytes[first]
