"""Captures of any length whose every packet's fate is known, made by numpy: what the readers are timed on.

Ethernet, IPv4, UDP or TCP; unique payloads; ns, little-endian pcap. Checksums are left at zero.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from owlt.captures.frames.session import Session

START_NS = 1_700_000_000_000_000_000
DELAY_NS, STEP_NS, LATE_NS = 25_000_000, 20_000, 3_000_000
PORT = 5222
SESSION = Session(sender_address="10.77.0.1", receiver_address="10.77.0.2", udp_ports=(PORT,), tcp_ports=(PORT,))
DATA_BYTES, REPLY_BYTES, SEGMENT_BYTES = 1024, 32, 1448
LOSS, DUPLICATED, CORRUPTED, LATE = 0.01, 20, 50, 50
RETRANSMITTED = 666
IN_ONE_PIECE = 20_000
"""Records that are put together before they are written."""

_FILE_HEADER = struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 262_144, 1)
_UDP_BYTES = 42
_IDENTIFICATION, _SEQUENCE, _ACKNOWLEDGMENT = slice(18, 20), slice(38, 42), slice(42, 46)

Bytes = NDArray[np.uint8]
Numbers = NDArray[np.int64]


@dataclass(frozen=True)
class Fate:
    """What became of the packets of one host."""

    sent: int
    lost: int
    duplicated: int
    corrupted: int


def headers(forward: bool, protocol: int, payload_bytes: int) -> Bytes:
    """Ethernet, IPv4 and UDP, or TCP with the timestamp option."""
    ends = ["0a4d0001", "0a4d0002"] if forward else ["0a4d0002", "0a4d0001"]
    macs = [f"0200{end}" for end in reversed(ends)]
    ports = (40000, PORT) if forward else (PORT, 40000)
    if protocol == 17:
        carried = struct.pack("!HHHH", *ports, payload_bytes + 8, 0)
    else:
        carried = (
            struct.pack("!HHIIBBHHH", *ports, 0, 0, 8 << 4, 0x10, 65535, 0, 0) + bytes.fromhex("0101080a") + bytes(8)
        )
    length = 20 + len(carried) + payload_bytes
    ip = struct.pack("!BBHHHBBH", 0x45, 0, length, 0, 0x4000, 64, protocol, 0) + bytes.fromhex("".join(ends))
    return np.frombuffer(bytes.fromhex("".join(macs)) + b"\x08\x00" + ip + carried, np.uint8)


def frames(count: int, forward: bool, protocol: int, payload_bytes: int, seed: int) -> Bytes:
    """Frames, one a row, of equal length, each with another payload and identification."""
    head = headers(forward, protocol, payload_bytes)
    made = np.empty((count, len(head) + payload_bytes), np.uint8)
    made[:, : len(head)] = head
    made[:, _IDENTIFICATION] = big_endian(np.arange(count), ">u2")
    words = -(-payload_bytes // 8)
    if payload_bytes:
        random = np.random.default_rng(seed)
        rows = random.integers(0, 2**64, (count, words), np.uint64)
        made[:, len(head) :] = rows.view(np.uint8)[:, :payload_bytes]
    return made


def big_endian(numbers: Numbers, kind: str) -> Bytes:
    """The numbers as bytes, one a row."""
    fields = numbers.astype(kind)
    return fields.view(np.uint8).reshape(len(fields), fields.itemsize)


def record_headers(times_ns: Numbers, lengths: Numbers) -> Bytes:
    """The pcap record headers, one a row."""
    columns = [times_ns // 10**9, times_ns % 10**9, lengths, lengths]
    return np.column_stack(columns).astype("<u4").view(np.uint8)


def write(path: Path, times_ns: Numbers, rows: list[Bytes]) -> None:
    """A capture of the frames, in the order of their times."""
    order = np.argsort(times_ns, kind="stable").tolist()
    heads = record_headers(times_ns, np.array([len(row) for row in rows]))
    with path.open("wb") as file:
        file.write(_FILE_HEADER)
        for start in range(0, len(order), IN_ONE_PIECE):
            piece = [part for n in order[start : start + IN_ONE_PIECE] for part in (heads[n], rows[n])]
            file.write(b"".join(piece))


def write_session(directory: Path, count: int, seed: int = 1) -> tuple[Fate, Fate]:
    """`sender.pcap` and `receiver.pcap` of a session of so many UDP packets: nine of data for each reply.

    1 % are lost each way; of the data some copies come twice, some with a bit flipped, some late.
    """
    random = np.random.default_rng(seed)
    replies = count // 10
    data = frames(count - replies, True, 17, DATA_BYTES, seed)
    answers = frames(replies, False, 17, REPLY_BYTES, seed + 1)
    sent_ns = START_NS + STEP_NS * np.arange(count)
    is_reply = np.arange(count) % 10 == 9
    data_ns, answers_ns = sent_ns[~is_reply], sent_ns[is_reply]

    chosen = random.permutation(len(data))
    lost_data = int(LOSS * len(data))
    delivered = np.sort(chosen[lost_data:])
    twice, hit, late = np.split(
        chosen[lost_data : lost_data + DUPLICATED + CORRUPTED + LATE], [DUPLICATED, DUPLICATED + CORRUPTED]
    )
    data_rows = list(data)
    arrived = dict(zip(delivered.tolist(), (data_rows[n] for n in delivered), strict=True))
    for number in hit.tolist():
        bit = int(random.integers(8 * data.shape[1]))
        arrived[number] = data[number].copy()
        arrived[number][bit // 8] ^= 0x80 >> bit % 8
    arrival_ns = data_ns + DELAY_NS
    arrival_ns[late] += LATE_NS
    lost_answers = int(LOSS * replies)
    kept = np.sort(random.permutation(replies)[lost_answers:])

    answer_rows = list(answers)
    write(
        directory / "sender.pcap",
        np.concatenate([data_ns, answers_ns[kept] + DELAY_NS]),
        [*data_rows, *(answer_rows[n] for n in kept)],
    )
    write(
        directory / "receiver.pcap",
        np.concatenate([arrival_ns[delivered], arrival_ns[twice] + STEP_NS // 2, answers_ns]),
        [*arrived.values(), *(data_rows[n] for n in twice), *answer_rows],
    )
    return (
        Fate(len(data), lost_data, DUPLICATED, CORRUPTED),
        Fate(replies, lost_answers, 0, 0),
    )


def write_tcp(path: Path, count: int, seed: int = 3) -> None:
    """A sender's capture of TCP: two segments for each acknowledgment, some sent again half a second later."""
    acknowledgments = count // 3
    segments = count - acknowledgments
    first = segments - RETRANSMITTED
    data = frames(first, True, 6, SEGMENT_BYTES, seed)
    data[:, _SEQUENCE] = big_endian(1 + SEGMENT_BYTES * np.arange(first), ">u4")
    again = np.sort(np.random.default_rng(seed).permutation(first)[:RETRANSMITTED])
    repeated = data[again]
    repeated[:, _IDENTIFICATION] = big_endian(first + np.arange(RETRANSMITTED), ">u2")
    replies = frames(acknowledgments, False, 6, 0, seed)
    replies[:, _ACKNOWLEDGMENT] = big_endian(1 + 2 * SEGMENT_BYTES * np.arange(acknowledgments), ">u4")
    sent_ns = START_NS + STEP_NS * np.arange(first)
    write(
        path,
        np.concatenate([sent_ns, sent_ns[again] + 500_000_000, START_NS + 2 * STEP_NS * np.arange(acknowledgments)]),
        [*data, *repeated, *replies],
    )


def write_long(path: Path, count: int, wire_bytes: int = 1000) -> Iterator[int]:
    """A capture of so many data packets, piece by piece: the bytes written so far, time after time."""
    each = 100_000
    made = frames(each, True, 17, wire_bytes - _UDP_BYTES, 4)
    with path.open("wb") as file:
        file.write(_FILE_HEADER)
        for start in range(0, count, each):
            numbers = np.arange(start, min(start + each, count))
            made[: len(numbers), _UDP_BYTES : _UDP_BYTES + 8] = big_endian(numbers, ">u8")
            heads = record_headers(START_NS + STEP_NS * numbers, np.full(len(numbers), wire_bytes))
            file.write(np.hstack([heads, made[: len(numbers)]]).data)
            yield file.tell()
