"""Traces of a run: what was sent, delivered, waiting, lost and acknowledged at each moment, as arrays and as CSV.

Times are in ns since the session's first packet, at whichever port it was seen; both captures must have been taken with
one clock. Which packet is which is matching.py's, what protocols write into them messages.py's.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from captures.frames.columns import Columns
from captures.matches.matching import INTACT, Delivery
from captures.protocols.coverage import Coverage

if TYPE_CHECKING:
    from captures.protocols.messages import Message

Integers = NDArray[np.int64]
Numbers = NDArray[np.float64]
Table = dict[str, NDArray[np.generic]]
"""Columns of equal length by their names, which end in units."""

MOST_INTERVALS = 1_000_000
_INTERVALS = 200
_PACKETS_AN_INTERVAL, _OF_THE_SLOWER = 10, 4
"""With fewer of a paced flow in an interval, one more or one less shows as a change of the rate."""
_PACE_PACKETS = 50
_TCP, _SYN, _ACK = 6, 0x02, 0x10  # RFC 9293, section 3.1
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
            raise ValueError(f"{self}: wanted a rate above 0 and nothing negative; None where there is no limit")

    def serialization_ns(self, wire_bytes: Integers) -> Integers:
        """How long the frames take to be sent at the rate."""
        taken_ns: Numbers = np.rint(8e9 * (wire_bytes + self.overhead_bytes) / self.rate_bps)
        return taken_ns.astype(np.int64)


@dataclass(frozen=True, eq=False)
class Delays:
    """A row for each packet that was delivered, by the time that it was sent; of duplicates the first copy.

    `delay_ns` is from port to port, `waiting_ns` what is left of it without propagation and the packet's own
    serialization, both as measured: a few ns below zero are the clock's. None where the link is not known.
    """

    sent_ns: Integers
    delay_ns: Integers
    wire_bytes: Integers
    waiting_ns: Integers | None


@dataclass(frozen=True, eq=False)
class Queue:
    """What of the session has entered the bottleneck and not left it, from each of these times until the next.

    A packet enters when it is seen at its host's port. It leaves, whole, one propagation delay, and a microsecond for
    the clocks, before it is seen at the other port. The packet being sent is counted, as in the emulator's limit.

    Of packets that never arrived only those are counted for which the bottleneck visibly took the time, while others
    waited: the rest may have found no room in the queue. So this is never more than there was; it is less by what was
    lost behind the bottleneck just before it fell idle.
    """

    time_ns: Integers
    packets: Integers
    wire_bytes: Integers


@dataclass(frozen=True, eq=False)
class Way:
    """One direction: the session's packets at the port of the host that sent them, and at the other port.

    `sent_*` and `delivered_*` are the packets that the session's filter passes in either capture, in order of time:
    those that the run's summary counts. `lost_ns` and `damaged_ns` are when packets were sent that did not arrive, or
    arrived with a bit flipped; where captures are `cut`, those only that were hit in what is left.
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


@dataclass(frozen=True, eq=False)
class FileData:
    """The parts of the file, or of the TCP stream that carries it, in the order in which the sender sent them.

    A row is `byte_count` bytes from `first_byte` on, of which `new_bytes` had not been sent before. `frame` is the
    number of the packet in the sender's capture, from 1; a packet that carries several parts has several rows.
    `unplaced_frames` carry data, or may, of which the packets do not say where it belongs; they are not among the rows.
    """

    sent_ns: Integers
    frame: Integers
    wire_bytes: Integers
    first_byte: Integers
    byte_count: Integers
    new_bytes: Integers
    unplaced_frames: int = 0

    @property
    def again(self) -> NDArray[np.bool_]:
        """The parts of which every byte had been sent before."""
        again: NDArray[np.bool_] = self.new_bytes == 0
        return again

    @property
    def end_byte(self) -> Integers:
        """The first byte behind each part."""
        return self.first_byte + self.byte_count


@dataclass(frozen=True, eq=False)
class Acknowledgements:
    """The receiver's messages that say what has arrived, when they arrived at the sender.

    `acknowledged_bytes` is what each message says by itself: all that has arrived (TCP, Saratoga), or what it claims
    (an LTP report, a custody signal).
    """

    arrived_ns: Integers
    frame: Integers
    wire_bytes: Integers
    acknowledged_bytes: Integers


@dataclass(frozen=True, eq=False)
class Traces:
    """All traces of a run. `data` and `acknowledgements` are None where the packets do not say.

    `first_packet_ns` is the captures' time of the session's first packet, which is 0 in everything else; `length_ns` is
    until the last one was seen at either port.
    """

    first_packet_ns: int
    length_ns: int
    forward: Way
    reverse: Way
    data: FileData | None
    acknowledgements: Acknowledgements | None


@dataclass(frozen=True, eq=False)
class Throughput:
    """Bytes of Ethernet frames in each interval; the first begins with the session's first packet.

    All of an interval's packets are counted at the moment that they were captured, so the sum over the intervals is the
    sum over the packets. `new` are the sender's frames with data that had not been sent before, `again` those with data
    of which all had been; `acknowledging` the receiver's messages that say what has arrived, as they arrive at
    the sender. None where the packets do not say.
    """

    interval_ns: int
    forward_sent_bytes: Integers
    forward_delivered_bytes: Integers
    reverse_sent_bytes: Integers
    reverse_delivered_bytes: Integers
    new_bytes: Integers | None
    again_bytes: Integers | None
    acknowledging_bytes: Integers | None

    @property
    def start_ns(self) -> Integers:
        """When each interval begins."""
        return np.arange(len(self.forward_sent_bytes), dtype=np.int64) * self.interval_ns

    def bps(self, interval_bytes: Integers) -> Numbers:
        """Bytes in each interval as bit/s."""
        return 8e9 * interval_bytes / self.interval_ns


def trace_run(
    at_sender: Columns,
    at_receiver: Columns,
    deliveries: tuple[Delivery, Delivery],
    messages: Sequence[Message] = (),
    forward_link: Link | None = None,
    reverse_link: Link | None = None,
) -> Traces:
    """The traces of a run from its captures, their deliveries (`match_captures`) and the messages of the sender's one.

    Where most of the payload went over TCP, offsets and acknowledgements are those of its connection with most data
    (RFC 9293), and `messages` are not asked; else they are those of the messages.
    """
    forward, reverse = deliveries
    times_ns = np.concatenate(
        [
            *(at_sender.time_ns[rows] for rows in (forward.near, reverse.far)),
            *(at_receiver.time_ns[rows] for rows in (reverse.near, forward.far)),
        ]
    )
    first_ns, last_ns = (int(times_ns.min()), int(times_ns.max())) if len(times_ns) else (0, 0)
    data, acknowledgements = (
        _tcp_traces(at_sender, at_receiver, forward, reverse, first_ns)
        if _is_over_tcp(at_sender, forward.near)
        else _message_traces(messages, first_ns)
    )
    return Traces(
        first_packet_ns=first_ns,
        length_ns=last_ns - first_ns,
        forward=_way(at_sender, at_receiver, forward, forward_link, first_ns),
        reverse=_way(at_receiver, at_sender, reverse, reverse_link, first_ns),
        data=data,
        acknowledgements=acknowledgements,
    )


def choose_interval_ns(length_ns: int, shortest_ns: float = 0) -> int:
    """1, 2 or 5 times a power of ten, so that 80 to 200 intervals make the length; fewer, not under `shortest_ns`.

    Two intervals are always made of it, whatever the shortest.
    """
    wanted = max(length_ns / _INTERVALS, min(shortest_ns, length_ns / 2), 1)
    power = 10 ** int(np.floor(np.log10(wanted)))
    return int(next(step * power for step in (1, 2, 5, 10) if step * power >= wanted))


def throughput(traces: Traces, interval_ns: int | None = None) -> Throughput:
    """The bytes in each interval, of `interval_ns` or of `choose_interval_ns`.

    Raises ValueError where that would be none, or more than a million.
    """
    if interval_ns is None:
        interval_ns = choose_interval_ns(traces.length_ns, shortest_interval_ns(traces))
    if interval_ns < 1 or traces.length_ns // interval_ns >= MOST_INTERVALS:
        raise ValueError(
            f"an interval of {interval_ns} ns for a session of {traces.length_ns} ns: "
            f"wanted one that is at least {traces.length_ns // MOST_INTERVALS + 1} ns"
        )

    def counted(time_ns: Integers, wire_bytes: Integers) -> Integers:
        return _bytes_by_interval(time_ns, wire_bytes, interval_ns, traces.length_ns // interval_ns + 1)

    data, acknowledgements = traces.data, traces.acknowledgements
    frames = None if data is None else _frames_with_new(data)
    return Throughput(
        interval_ns=interval_ns,
        forward_sent_bytes=counted(traces.forward.sent_ns, traces.forward.sent_bytes),
        forward_delivered_bytes=counted(traces.forward.delivered_ns, traces.forward.delivered_bytes),
        reverse_sent_bytes=counted(traces.reverse.sent_ns, traces.reverse.sent_bytes),
        reverse_delivered_bytes=counted(traces.reverse.delivered_ns, traces.reverse.delivered_bytes),
        new_bytes=None if frames is None else counted(frames[0], frames[1] * frames[2]),
        again_bytes=None if frames is None else counted(frames[0], frames[1] * ~frames[2]),
        acknowledging_bytes=None if acknowledgements is None else counted(*_once(acknowledgements)),
    )


def shortest_interval_ns(traces: Traces) -> float:
    """How long an interval must be for the packets in it to tell a rate.

    Room for ten of the direction that delivered most packets and four of the other, if it has a pace, as far apart as
    they were delivered where they came close together (the median).
    """
    slower, fuller = sorted((way.delivered_ns for way in (traces.forward, traces.reverse)), key=len)
    shortest_ns = _PACKETS_AN_INTERVAL * float(np.median(np.diff(fuller))) if len(fuller) > 1 else 0.0
    if len(slower) < _PACE_PACKETS:
        return shortest_ns
    return max(shortest_ns, _OF_THE_SLOWER * float(np.median(np.diff(slower))))


def trace_rows(traces: Traces, interval_ns: int | None = None) -> dict[str, Table]:
    """Every trace that there is as a table, by name; times are in s since the session's first packet.

    throughput, data, acknowledgements, and each way delays_*, queue_*, losses_*. Raises ValueError as `throughput`.
    """
    tables = {"throughput": _throughput_table(throughput(traces, interval_ns))}
    if (data := traces.data) is not None:
        tables["data"] = {
            "time_s": data.sent_ns / 1e9,
            "frame": data.frame,
            "first_byte": data.first_byte,
            "byte_count": data.byte_count,
            "new_bytes": data.new_bytes,
        }
    if (said := traces.acknowledgements) is not None:
        tables["acknowledgements"] = {
            "time_s": said.arrived_ns / 1e9,
            "frame": said.frame,
            "acknowledged_bytes": said.acknowledged_bytes,
        }
    for name, way in (("forward", traces.forward), ("reverse", traces.reverse)):
        tables[f"delays_{name}"] = _delays_table(way.delays)
        if way.queue is not None:
            tables[f"queue_{name}"] = {
                "time_s": way.queue.time_ns / 1e9,
                "packets": way.queue.packets,
                "wire_bytes": way.queue.wire_bytes,
            }
        tables[f"losses_{name}"] = _losses_table(way)
    return tables


def _throughput_table(counted: Throughput) -> Table:
    table: Table = {"time_s": counted.start_ns / 1e9}
    for name in ("forward_sent", "forward_delivered", "reverse_sent", "reverse_delivered", "new", "again"):
        table |= _bytes_and_bps(counted, name)
    return table | _bytes_and_bps(counted, "acknowledging")


def _bytes_and_bps(counted: Throughput, name: str) -> Table:
    interval_bytes: Integers | None = getattr(counted, f"{name}_bytes")
    if interval_bytes is None:
        return {}
    return {f"{name}_bytes": interval_bytes, f"{name}_bps": counted.bps(interval_bytes)}


def _delays_table(delays: Delays) -> Table:
    table: Table = {
        "time_s": delays.sent_ns / 1e9,
        "delay_ns": delays.delay_ns,
        "wire_bytes": delays.wire_bytes,
    }
    return table if delays.waiting_ns is None else table | {"waiting_ns": delays.waiting_ns}


def _losses_table(way: Way) -> Table:
    """When packets were sent that were lost or damaged."""
    time_ns = np.concatenate([way.lost_ns, way.damaged_ns])
    order = np.argsort(time_ns, kind="stable")
    what = np.repeat(["lost", "damaged"], [len(way.lost_ns), len(way.damaged_ns)])
    return {"time_s": time_ns[order] / 1e9, "what": what[order]}


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


def _once(said: Acknowledgements) -> tuple[Integers, Integers]:
    """When each frame with acknowledgements arrived, and its bytes: once, however many it carries."""
    first = np.unique(said.frame, return_index=True)[1]
    return said.arrived_ns[first], said.wire_bytes[first]


def _way(near: Columns, far: Columns, delivery: Delivery, link: Link | None, first_ns: int) -> Way:
    sent, delivered = _by_time(near, delivery.near), _by_time(far, delivery.far)
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
    damaged = np.unique(delivery.sent[delivery.flipped_bit != INTACT])
    return Way(
        sent_ns=near.time_ns[sent] - first_ns,
        sent_bytes=_lengths(near, sent),
        delivered_ns=far.time_ns[delivered] - first_ns,
        delivered_bytes=_lengths(far, delivered),
        lost_ns=np.sort(near.time_ns[delivery.lost] - first_ns),
        damaged_ns=np.sort(near.time_ns[damaged] - first_ns),
        delays=delays,
        queue=None if link is None else _queue(near, sent, first_sent, delays.delay_ns, link, first_ns),
        link=link,
        cut=bool(near.is_cut[sent].any() or far.is_cut[delivered].any()),
    )


def _by_time(capture: Columns, rows: Integers) -> Integers:
    return rows[np.argsort(capture.time_ns[rows], kind="stable")]


def _lengths(capture: Columns, rows: Integers) -> Integers:
    return capture.wire_bytes[rows].astype(np.int64)


def _queue(near: Columns, sent: Integers, arrived: Integers, delay_ns: Integers, link: Link, first_ns: int) -> Queue:
    """The queue of the packets `sent`, of which those that `arrived` were so long under way."""
    entered_ns, wire_bytes = near.time_ns[sent] - first_ns, _lengths(near, sent)
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
    """When each packet left the bottleneck, `_NEVER` where that cannot be known.

    A lost packet went through it if the next one that arrived, which was waiting by then, began to be sent as much
    later as the lost one takes; otherwise it cannot be told from one that found no room.
    """
    left_ns = left_ns.copy()
    arrived = left_ns != _NEVER
    places = np.arange(len(left_ns))
    begun_ns = np.where(arrived, left_ns - serialization_ns, _NEVER)
    next_begun_ns = np.minimum.accumulate(begun_ns[::-1])[::-1]
    next_arrived = np.minimum.accumulate(np.where(arrived, places, len(places))[::-1])[::-1]
    left_before_ns = np.maximum.accumulate(np.where(arrived, left_ns, entered_ns))
    free_ns = 0
    for lost in np.flatnonzero(~arrived & (next_arrived < len(places))).tolist():
        free_ns = max(free_ns, int(left_before_ns[lost]))
        ends_ns = free_ns + int(serialization_ns[lost])
        next_entered_ns = int(entered_ns[next_arrived[lost]])
        with_it, without_it = max(ends_ns, next_entered_ns), max(free_ns, next_entered_ns)
        if with_it > without_it and 2 * int(next_begun_ns[lost]) >= with_it + without_it:
            left_ns[lost] = free_ns = ends_ns
    return left_ns


def _is_over_tcp(capture: Columns, rows: Integers) -> bool:
    payload_bytes, is_tcp = capture.payload_bytes[rows].astype(np.int64), capture.protocol[rows] == _TCP
    return bool(payload_bytes[is_tcp].sum() > payload_bytes[~is_tcp].sum())


def _tcp_traces(
    at_sender: Columns, at_receiver: Columns, forward: Delivery, reverse: Delivery, first_ns: int
) -> tuple[FileData, Acknowledgements]:
    """Offsets and cumulative acknowledgements of the connection that carried most; the first data byte is byte 0."""
    sent = _by_time(at_sender, forward.near[at_sender.protocol[forward.near] == _TCP])
    ports, payload_bytes = _ports(at_sender, sent), at_sender.payload_bytes[sent].astype(np.int64)
    connections, which = np.unique(ports, return_inverse=True)
    fullest = int(np.argmax(np.bincount(which, payload_bytes)))
    sent, payload_bytes = sent[which == fullest], payload_bytes[which == fullest]
    is_syn = at_sender.tcp_flags[sent] & _SYN > 0
    has_data = payload_bytes > 0
    first_rows = sent[is_syn] if is_syn.any() else sent[has_data]
    base = int(at_sender.sequence[first_rows[0]]) + int(is_syn.any())
    rows = sent[has_data]
    first_byte = _unwrapped(at_sender.sequence[rows] + is_syn[has_data].astype(np.uint32), base)
    earlier = 0 if is_syn.any() else min(int(first_byte.min()), 0)
    data = _file_data(
        [
            at_sender.time_ns[rows] - first_ns,
            rows + 1,
            _lengths(at_sender, rows),
            first_byte - earlier,
            payload_bytes[has_data],
        ]
    )

    intact = reverse.flipped_bit == INTACT
    said, arrived = reverse.sent[intact], reverse.delivered[intact]
    source, destination = divmod(int(connections[fullest]), 1 << 16)
    acknowledges = (
        (at_receiver.protocol[said] == _TCP)
        & (_ports(at_receiver, said) == destination << 16 | source)
        & (at_receiver.tcp_flags[said] & _ACK > 0)
    )
    said, arrived = said[acknowledges], arrived[acknowledges]
    order = np.argsort(at_receiver.time_ns[said], kind="stable")
    numbers = np.empty(len(said), np.int64)
    numbers[order] = _unwrapped(at_receiver.acknowledgment[said[order]], base) - earlier
    by_arrival = np.argsort(at_sender.time_ns[arrived], kind="stable")
    arrived, numbers = arrived[by_arrival], numbers[by_arrival]
    behind_the_last = int(data.end_byte.max(initial=0))
    return data, Acknowledgements(
        at_sender.time_ns[arrived] - first_ns,
        arrived + 1,
        _lengths(at_sender, arrived),
        np.clip(numbers, 0, behind_the_last),
    )


def _ports(capture: Columns, rows: Integers) -> Integers:
    return capture.source_port[rows].astype(np.int64) << 16 | capture.destination_port[rows]


def _unwrapped(numbers: NDArray[np.uint32], base: int) -> Integers:
    """Sequence numbers of 32 bits as distances from `base`: each is within 2^31 of the one before (RFC 9293, 3.4)."""
    distances: Integers = numbers.astype(np.int64) - base
    steps = distances - np.concatenate([[0], distances[:-1]])
    return np.cumsum((steps + 2**31) % 2**32 - 2**31)


def _message_traces(messages: Iterable[Message], first_ns: int) -> tuple[FileData | None, Acknowledgements | None]:
    ordered = sorted(messages, key=lambda message: message.time_ns)
    parts = [
        (message.time_ns - first_ns, message.frame, message.wire_bytes, message.first_byte, message.byte_count)
        for message in ordered
        if message.host == "sender" and message.first_byte is not None and message.byte_count > 0
    ]
    said = [
        (message.time_ns - first_ns, message.frame, message.wire_bytes, message.acknowledged_bytes)
        for message in ordered
        if message.host == "receiver" and message.acknowledged_bytes is not None
    ]
    unplaced = {message.frame for message in ordered if message.host == "sender" and message.unplaced}
    return (
        _file_data(np.array(parts, np.int64).T, len(unplaced)) if parts else None,
        Acknowledgements(*np.array(said, np.int64).T) if said else None,
    )


def _file_data(rows: Integers | Sequence[Integers], unplaced_frames: int = 0) -> FileData:
    sent_ns, frame, wire_bytes, first_byte, byte_count = rows
    new_bytes = _new_bytes(first_byte, byte_count)
    return FileData(sent_ns, frame, wire_bytes, first_byte, byte_count, new_bytes, unplaced_frames)


def _new_bytes(first_byte: Integers, byte_count: Integers) -> Integers:
    """How many bytes of each part are in none of the parts before it."""
    coverage = Coverage()
    begin = first_byte - min(int(first_byte.min(initial=0)), 0)
    parts = zip(begin.tolist(), (begin + byte_count).tolist(), strict=True)
    return np.array([coverage.add(first, end) for first, end in parts], np.int64)
