"""Where in the file, or in the TCP stream that carries it, each packet's data belongs; and when it is acknowledged."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from owlt.captures.frames.columns import Columns, by_time
from owlt.captures.frames.decoding import ACK, FIN, RST, SYN, TCP
from owlt.captures.protocols.reader import Coverage

if TYPE_CHECKING:
    from owlt.captures.protocols.messages import Message

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
