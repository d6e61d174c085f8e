"""The traces of a transfer over time, in each direction, from both captures or from one; the throughput in intervals of
time.

Times are in ns since the session's first packet, at whichever port it was seen; two captures must have been taken with
one clock. Matching packets belongs to `captures.matches`, their messages to messages.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from owlt.captures.frames.columns import Columns, by_time
from owlt.captures.frames.session import HOSTS, Host, Session, sent_by
from owlt.captures.inspection.offsets import Acknowledgements, FileData, Integers, offsets_of
from owlt.captures.matches.bottleneck import Link, Queue, queue_of
from owlt.captures.matches.delivery import INTACT, Crossing, OneWay, without

if TYPE_CHECKING:
    from owlt.captures.protocols.messages import Message


Numbers = NDArray[np.float64]

MOST_INTERVALS = 1_000_000
_INTERVALS = 200
_PACKETS_AN_INTERVAL, _OF_THE_SLOWER = 10, 4
"""The least number of packets in an interval: with fewer, one packet more or less looks like a change of the rate."""
_PACE_PACKETS = 50

_NO_ROWS = np.empty(0, np.int64)


@dataclass(frozen=True, eq=False)
class Delays:
    """A row for each packet that was delivered, by the time that it was sent; of duplicates the first copy.

    `delay_ns` is from port to port, `waiting_ns` the same without propagation and the packet's own serialization, both
    as measured: a few ns below zero are due to the clock. None if the link is not known.
    """

    sent_ns: Integers
    delay_ns: Integers
    wire_bytes: Integers
    waiting_ns: Integers | None


@dataclass(frozen=True, eq=False)
class Way:
    """One direction: the session's packets at the port of the host that sent them, and at the other port. Where only
    one of these was seen, there is nothing of the other, nor of what became of packets between them.

    `sent_*` and `delivered_*` are the packets that the session's filter passes in either capture, in order of time:
    those that the run's summary counts. `lost_ns` and `damaged_ns` are when packets were sent that did not arrive, or
    arrived with a bit flipped, recognised or not; where captures are `cut`, those only that were hit in what is left.
    """

    sent_ns: Integers
    sent_bytes: Integers
    delivered_ns: Integers
    delivered_bytes: Integers
    lost_ns: Integers
    damaged_ns: Integers
    delays: Delays
    queue: Queue | None
    link: Link | None
    cut: bool
    seen_departing: bool = True
    seen_arriving: bool = True


@dataclass(frozen=True, eq=False)
class Traces:
    """All traces of a run. `data` and `acknowledgements` are None if the packets do not show them.

    `first_packet_ns` is the captures' time of the session's first packet, which is 0 in everything else; `length_ns` is
    until the last one was seen at either port.
    """

    first_packet_ns: int
    length_ns: int
    forward: Way
    reverse: Way
    data: FileData | None
    acknowledgements: Acknowledgements | None


def trace_run(
    crossing: Crossing,
    messages: Sequence[Message] = (),
    forward_link: Link | None = None,
    reverse_link: Link | None = None,
    unrecognised: tuple[Integers, Integers] = (_NO_ROWS, _NO_ROWS),
) -> Traces:
    """The traces of a run from its crossing (`match_captures`) and the messages of the sender's capture.

    `unrecognised` are the packets, rows of each host's capture, of which it is known that they arrived damaged although
    no copy was recognised (`captures.accounting`).
    """
    at_sender, at_receiver = crossing.captures
    forward, reverse = crossing.forward, crossing.reverse
    there, back = crossing.ways
    times_ns = np.concatenate(
        [
            *(at_sender.time_ns[rows] for rows in (forward.near, reverse.far)),
            *(at_receiver.time_ns[rows] for rows in (reverse.near, forward.far)),
        ]
    )
    first_ns, last_ns = _first_and_last(times_ns)
    came_intact = reverse.delivered[reverse.flipped_bit == INTACT]
    data, acknowledgements = offsets_of(at_sender, forward.near, came_intact, messages, first_ns)
    return Traces(
        first_packet_ns=first_ns,
        length_ns=last_ns - first_ns,
        forward=_way(there, forward_link, first_ns, unrecognised[0]),
        reverse=_way(back, reverse_link, first_ns, unrecognised[1]),
        data=data,
        acknowledgements=acknowledgements,
    )


def trace_one_side(capture: Columns, session: Session, seen_at: Host, messages: Sequence[Message] = ()) -> Traces:
    """The traces from the capture at that host's port alone, with its messages."""
    damaged = [message.frame - 1 for message in messages if message.is_damaged]
    whole = np.ones(len(capture), np.bool_)
    whole[damaged] = False
    of_sender, of_receiver = (sent_by(capture, session, host) for host in HOSTS)
    times_ns = capture.time_ns[of_sender | of_receiver]
    first_ns, last_ns = _first_and_last(times_ns)
    data, acknowledgements = offsets_of(
        capture, np.flatnonzero(of_sender & whole), np.flatnonzero(of_receiver & whole), messages, first_ns
    )
    return Traces(
        first_packet_ns=first_ns,
        length_ns=last_ns - first_ns,
        forward=_way_at_one_port(capture, np.flatnonzero(of_sender), seen_at == "sender", first_ns),
        reverse=_way_at_one_port(capture, np.flatnonzero(of_receiver), seen_at == "receiver", first_ns),
        data=data,
        acknowledgements=acknowledgements,
    )


def _way_at_one_port(capture: Columns, rows: Integers, is_departing: bool, first_ns: int) -> Way:
    rows, none = by_time(capture, rows), np.zeros(0, np.int64)
    times_and_lengths = capture.time_ns[rows] - first_ns, _lengths(capture, rows)
    sent_ns, sent_bytes = times_and_lengths if is_departing else (none, none)
    delivered_ns, delivered_bytes = (none, none) if is_departing else times_and_lengths
    return Way(
        sent_ns=sent_ns,
        sent_bytes=sent_bytes,
        delivered_ns=delivered_ns,
        delivered_bytes=delivered_bytes,
        lost_ns=none,
        damaged_ns=none,
        delays=Delays(none, none, none, None),
        queue=None,
        link=None,
        cut=bool(capture.is_cut[rows].any()),
        seen_departing=is_departing,
        seen_arriving=not is_departing,
    )


def _way(way: OneWay, link: Link | None, first_ns: int, unrecognised: Integers) -> Way:
    near, far, delivery = way.near, way.far, way.delivery
    sent, delivered = by_time(near, delivery.near), by_time(far, delivery.far)
    firsts = delivery.first_copies
    firsts = firsts[np.argsort(near.time_ns[delivery.sent[firsts]], kind="stable")]
    first_sent = delivery.sent[firsts]
    delays = Delays(
        sent_ns=near.time_ns[first_sent] - first_ns,
        delay_ns=delivery.delay_ns[firsts],
        wire_bytes=_lengths(near, first_sent),
        waiting_ns=None
        if link is None
        else delivery.delay_ns[firsts] - link.delay_ns - link.serialization_ns(_lengths(near, first_sent)),
    )
    damaged = np.unique(np.concatenate([delivery.sent[delivery.flipped_bit != INTACT], unrecognised]))
    return Way(
        sent_ns=near.time_ns[sent] - first_ns,
        sent_bytes=_lengths(near, sent),
        delivered_ns=far.time_ns[delivered] - first_ns,
        delivered_bytes=_lengths(far, delivered),
        lost_ns=np.sort(near.time_ns[without(delivery.lost, unrecognised)] - first_ns),
        damaged_ns=np.sort(near.time_ns[damaged] - first_ns),
        delays=delays,
        queue=None if link is None else queue_of(near, sent, first_sent, delays.delay_ns, link, first_ns),
        link=link,
        cut=delivery.was_cut and bool(near.is_cut[sent].any() or far.is_cut[delivered].any()),
    )


def _first_and_last(times_ns: Integers) -> tuple[int, int]:
    return (int(times_ns.min()), int(times_ns.max())) if len(times_ns) else (0, 0)


def _lengths(capture: Columns, rows: Integers) -> Integers:
    return capture.wire_bytes[rows].astype(np.int64)


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

    There are always two intervals, even if these are shorter than `shortest_ns`.
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
    """Each frame with data: when it was sent, its bytes, whether any of its data was new."""
    _, first, which = np.unique(data.frame, return_index=True, return_inverse=True)
    has_new = np.zeros(len(first), np.bool_)
    np.logical_or.at(has_new, which, data.new_bytes > 0)
    return data.sent_ns[first], data.wire_bytes[first], has_new


def _once(acknowledgements: Acknowledgements) -> tuple[Integers, Integers]:
    """When each frame with acknowledgements arrived, and its bytes, once for each frame."""
    first = np.unique(acknowledgements.frame, return_index=True)[1]
    return acknowledgements.arrived_ns[first], acknowledgements.wire_bytes[first]
