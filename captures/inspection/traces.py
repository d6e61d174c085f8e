"""The traces of a transfer over time, in each direction, from both captures or from one; the throughput in intervals of
time; and where in the file, or in the TCP stream that carries it, each packet's data belongs, and when it is
acknowledged.

Times are in ns since the session's first packet, at whichever port it was seen; two captures must have been taken with
one clock. `captures.matches` matches packets, `captures.protocols.messages` decodes them. Sections are those of RFC
9293.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from owlt.captures.frames.columns import Columns, by_time
from owlt.captures.frames.decoding import ACK, FIN, RST, SYN, TCP
from owlt.captures.frames.session import HOSTS, Host, Session, sent_by
from owlt.captures.matches.bottleneck import Link, Queue, queue_of
from owlt.captures.matches.delivery import INTACT, Crossing, OneWay, without
from owlt.captures.protocols.reader import Coverage

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


Integers = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class FileData:
    """The parts of the file, or of the TCP stream that carries it, in the order in which the sender sent them.

    In a capture at the receiver's port alone: as they came there, which "sent" then stands for. A row is `byte_count`
    bytes from `first_byte` on, of which `new_bytes` had not been sent before. `frame` is the number of the packet in
    the sender's capture, from 1; a packet that carries several parts has several rows. `unplaced_frames` carry data, or
    may, whose position is not known; they are not among the rows.
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
    """The receiver's messages that report received data, when they arrived at the sender; in a capture at the
    receiver's port alone, when they left it.

    `acknowledged_bytes` is the value in each message: all received bytes (TCP, Saratoga), or those that it claims (an
    LTP report, a custody signal).
    """

    arrived_ns: Integers
    frame: Integers
    wire_bytes: Integers
    acknowledged_bytes: Integers


def offsets_of(
    capture: Columns, from_sender: Integers, from_receiver: Integers, messages: Iterable[Message], first_ns: int
) -> tuple[FileData | None, Acknowledgements | None]:
    """The offsets in one capture, from the rows of each host's packets, at times since `first_ns`. If most of the
    sender's payload went over TCP, those of the connection with most data (RFC 9293), without the `messages`; else
    those of the messages.
    """
    payload_bytes, is_tcp = capture.payload_bytes[from_sender].astype(np.int64), capture.protocol[from_sender] == TCP
    if payload_bytes[is_tcp].sum() > payload_bytes[~is_tcp].sum():
        return _of_tcp(capture, from_sender[is_tcp], from_receiver, first_ns)
    return _of_messages(messages, first_ns)


def _of_tcp(
    capture: Columns, from_sender: Integers, from_receiver: Integers, first_ns: int
) -> tuple[FileData | None, Acknowledgements | None]:
    """Offsets and cumulative acknowledgements of the connection that carried most; the first data byte is byte 0."""
    all_sent = by_time(capture, from_sender)
    is_reset = capture.tcp_flags[all_sent] & RST > 0  # octets in it are no data of the stream: section 3.5.3
    all_payload_bytes = np.where(is_reset, 0, capture.payload_bytes[all_sent].astype(np.int64))
    if not all_payload_bytes.any():
        return None, None
    which = _connections(capture, all_sent)
    fullest = int(np.argmax(np.bincount(which, all_payload_bytes)))
    sent, payload_bytes = all_sent[which == fullest], all_payload_bytes[which == fullest]
    is_syn = capture.tcp_flags[sent] & SYN > 0
    has_data = payload_bytes > 0
    first_rows = sent[is_syn] if is_syn.any() else sent[has_data]
    base = int(capture.sequence[first_rows[0]]) + int(is_syn.any())
    rows, byte_count = sent[has_data], payload_bytes[has_data]
    first_byte = _unwrapped(capture.sequence[rows] + is_syn[has_data].astype(np.uint32), base)
    is_data = ~_are_keep_alives(first_byte, byte_count, capture.tcp_flags[rows])
    if not is_data.any():
        return None, None
    rows, first_byte, byte_count = rows[is_data], first_byte[is_data], byte_count[is_data]
    earlier = 0 if is_syn.any() else min(int(first_byte.min()), 0)
    data = _file_data(
        [
            capture.time_ns[rows] - first_ns,
            rows + 1,
            capture.wire_bytes[rows].astype(np.int64),
            first_byte - earlier,
            byte_count,
        ]
    )

    ports = int(_ports(capture, sent[:1])[0])
    source, destination = divmod(ports, 1 << 16)
    next_ones = all_sent[(which > fullest) & (_ports(capture, all_sent) == ports)]
    end_ns = int(capture.time_ns[next_ones].min(initial=np.iinfo(np.int64).max))
    replies = by_time(capture, from_receiver)
    acknowledges = (
        (capture.protocol[replies] == TCP)
        & (capture.time_ns[replies] >= capture.time_ns[sent[0]])
        & (capture.time_ns[replies] < end_ns)
        & (_ports(capture, replies) == destination << 16 | source)
        & (capture.tcp_flags[replies] & ACK > 0)
    )
    replies = replies[acknowledges]
    numbers = _unwrapped(capture.acknowledgment[replies], base) - earlier
    behind_the_last = int(data.end_byte.max(initial=0))
    return data, Acknowledgements(
        capture.time_ns[replies] - first_ns,
        replies + 1,
        capture.wire_bytes[replies].astype(np.int64),
        np.clip(numbers, 0, behind_the_last),
    )


def _connections(capture: Columns, rows: Integers) -> Integers:
    """The number of the connection of each row; the rows are sorted by time, and connections of the same ports are
    numbered by time. A SYN starts a new connection if its sequence number differs from that of the SYN before it."""
    order = np.argsort(_ports(capture, rows), kind="stable")
    ports, sequence = _ports(capture, rows[order]), capture.sequence[rows[order]]
    begins = np.append(True, np.diff(ports) != 0)[: len(rows)]
    of_syns = np.flatnonzero(capture.tcp_flags[rows[order]] & SYN > 0)
    is_again = np.append(False, (np.diff(ports[of_syns]) == 0) & (np.diff(sequence[of_syns].astype(np.int64)) == 0))
    begins[of_syns[~is_again[: len(of_syns)]]] = True
    numbers = np.empty(len(rows), np.int64)
    numbers[order] = np.cumsum(begins) - 1
    return numbers


def _are_keep_alives(
    first_byte: Integers, byte_count: Integers, flags: NDArray[np.unsignedinteger]
) -> NDArray[np.bool_]:
    """The keep-alives, by tshark's rule: segments of one octet just before the end of the data (section 3.8.4)."""
    ends = np.maximum.accumulate(first_byte + byte_count)
    furthest = np.concatenate([[0], ends[:-1]])
    are_alone: NDArray[np.bool_] = (byte_count == 1) & (first_byte == furthest - 1) & (flags & (SYN | FIN) == 0)
    return are_alone


def _ports(capture: Columns, rows: Integers) -> Integers:
    return capture.source_port[rows].astype(np.int64) << 16 | capture.destination_port[rows]


def _unwrapped(numbers: NDArray[np.uint32], base: int) -> Integers:
    """Sequence numbers of 32 bits as distances from `base`: each is within 2^31 of the one before (RFC 9293, 3.4)."""
    distances: Integers = numbers.astype(np.int64) - base
    steps = distances - np.concatenate([[0], distances[:-1]])
    return np.cumsum((steps + 2**31) % 2**32 - 2**31)


def _of_messages(messages: Iterable[Message], first_ns: int) -> tuple[FileData | None, Acknowledgements | None]:
    ordered = sorted(messages, key=lambda message: message.time_ns)
    parts = [
        (message.time_ns - first_ns, message.frame, message.wire_bytes, first_byte, byte_count)
        for message in ordered
        if message.host == "sender"
        for first_byte, byte_count in message.placed_pieces
        if byte_count > 0
    ]
    replies = [
        (message.time_ns - first_ns, message.frame, message.wire_bytes, message.acknowledged_bytes)
        for message in ordered
        if message.host == "receiver" and message.acknowledged_bytes is not None
    ]
    unplaced = {message.frame for message in ordered if message.host == "sender" and message.unplaced}
    return (
        _file_data(np.array(parts, np.int64).T, len(unplaced)) if parts else None,
        Acknowledgements(*np.array(replies, np.int64).T) if replies else None,
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
