"""The pcapng format: its packets block by block in bounded memory, and its information about the capture.

Format: draft-ietf-opsawg-pcapng. Sections, interface descriptions, packets of all three sorts, interface statistics
and comments are read; every other block is skipped.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Generator, Iterator
from contextlib import closing
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from owlt.captures.files.blocks import (
    BLOCK_BYTES,
    LONGEST_FRAME_BYTES,
    MARGIN_BYTES,
    STEPS,
    Block,
    NotACapture,
    ReadLength,
    follow,
    follow_alike,
    gather,
    next_steps,
    refuse_link_type,
)
from owlt.results.plain_files import open_capture

_RESOLUTION, _OFFSET = 9, 14
"""Codes of options of an interface description."""
_LATEST_NS = 2**63 - 1


@dataclass
class Interface:
    """An interface description, where it ends in the file, and how many packets the file reports as dropped at it."""

    known_at: int
    link_type: int
    snaplen_bytes: int
    tick_ns: Fraction = Fraction(1000)
    offset_ns: int = 0
    reported_dropped: int | None = None
    missed: int | None = None

    @property
    def dropped(self) -> int | None:
        """The dropped packets according to its statistics, or according to its packets if they report more."""
        counts = [number for number in (self.reported_dropped, self.missed) if number is not None]
        return max(counts, default=None)

    def time_ns(self, ticks: NDArray[np.uint64]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """The times, rounded down, and which of them 64 bits of ns can hold; the others (after 2262) are 0."""
        if abs(self.offset_ns) > _LATEST_NS // 2:
            return np.zeros(len(ticks), np.int64), np.zeros(len(ticks), np.bool_)
        numerator, denominator = self.tick_ns.numerator, self.tick_ns.denominator
        latest = (_LATEST_NS - max(self.offset_ns, 0)) * denominator // numerator
        is_held = ticks <= np.uint64(min(latest, 2**64 - 1))
        held = np.where(is_held, ticks, np.uint64(0))
        if denominator == 1:
            since = held * np.uint64(numerator)
        elif numerator == 1 and denominator < 2**64:
            since = held // np.uint64(denominator)
        else:
            since = np.array([tick * numerator // denominator for tick in held.tolist()], np.uint64)
        return np.where(is_held, since.astype(np.int64) + self.offset_ns, 0), is_held


def described_interface(
    known_at: int, link_type: int, snaplen_bytes: int, options: dict[int, bytes], order: str
) -> Interface:
    tick_ns, offset_ns = Fraction(1000), 0
    if len(options.get(_RESOLUTION, b"")) == 1:
        resolution = options[_RESOLUTION][0]
        tick_ns = Fraction(10**9, (2 if resolution & 0x80 else 10) ** (resolution & 0x7F))
    if len(options.get(_OFFSET, b"")) == 8:
        offset_ns = struct.unpack(order + "q", options[_OFFSET])[0] * 10**9
    return Interface(known_at, link_type, snaplen_bytes, tick_ns, offset_ns)


@dataclass(frozen=True, eq=False)
class PacketBlocks:
    """The packet blocks of a buffer, one element a block: the words of their headers, and `room`, the bytes that a
    block has for frame and options. `interface` is its number in the file."""

    file_offset: NDArray[np.int64]
    kind: NDArray[np.uint32]
    length: NDArray[np.int64]
    length_again: NDArray[np.uint32]
    interface: NDArray[np.int64]
    ticks: NDArray[np.uint64]
    starts: NDArray[np.int64]
    captured_bytes: NDArray[np.int64]
    wire_bytes: NDArray[np.int64]
    room: NDArray[np.int64]
    missed: NDArray[np.int64]
    is_big: NDArray[np.bool_]

    def sound(self, interfaces: list[Interface]) -> int:
        """How many blocks there are before the first damaged one."""
        fits = (self.captured_bytes <= np.minimum(self.room, LONGEST_FRAME_BYTES)) & (self.length_again == self.length)
        fits &= self.length % 4 == 0
        is_sound = fits & self._has_interface(interfaces)
        return len(is_sound) if is_sound.all() else int(is_sound.argmin())

    def _has_interface(self, interfaces: list[Interface]) -> NDArray[np.bool_]:
        known_at = np.array([interface.known_at for interface in interfaces] or [2**63 - 1])
        described: NDArray[np.bool_] = known_at[np.minimum(self.interface, len(known_at) - 1)] <= self.file_offset
        return described & (self.interface < len(interfaces))

    def damage(self, row: int, interfaces: list[Interface]) -> str:
        """What is wrong with a damaged block."""
        place = self.file_offset[row]
        if self.length_again[row] != self.length[row]:
            return unequal_lengths(place, self.length[row], self.length_again[row])
        if not self._has_interface(interfaces)[row]:
            return f"the packet at byte {place} is from an interface that the file does not describe: it cannot be read"
        claimed = self.captured_bytes[row]
        return f"the packet at byte {place} claims {claimed} bytes: the file is damaged from there on"


def unequal_lengths(place: int, length: int, again: int) -> str:
    """The damage of a block whose two lengths differ."""
    return (
        f"the block at byte {place} claims {length} bytes at its start and {again} at its end: "
        f"the file is damaged from there on"
    )


MAGIC = b"\n\r\r\n"
MOST_INTERFACES = 4096
"""The most interfaces in one file; more must be damage."""
LONGEST_BLOCK_BYTES = BLOCK_BYTES // 2
"""The longest block that is read; skipped ones may have any length."""
FEW, ALONE = 4, 64
"""After a run of at most FEW packets, ALONE blocks are read singly: a search for a run costs as much as 20 blocks."""
COMMENTS_BYTES = 1 << 20
"""Comments are kept until they reach this total length."""

_SECTION, _INTERFACE, _OLD_PACKET, _SIMPLE_PACKET, _STATISTICS, _PACKET = 0x0A0D0D0A, 1, 2, 3, 5, 6
_LEAST_BYTES = {_SECTION: 28, _INTERFACE: 20, _OLD_PACKET: 32, _SIMPLE_PACKET: 16, _STATISTICS: 24, _PACKET: 32}
_NEVER_NUMBERED = (4, 10)
"""Blocks with names and secrets. tshark numbers some of the other blocks that are skipped as frames."""
_PACKETS = (_PACKET, _SIMPLE_PACKET, _OLD_PACKET)
_OPTIONS_AT = {_SECTION: 24, _INTERFACE: 16, _STATISTICS: 20}
_PACKET_HEADER_BYTES, _SIMPLE_HEADER_BYTES = 28, 12
_FRAME_BYTES = 12
"""The length of a block without a body: type, total length, and total length again."""
_BYTE_ORDER = {b"\x4d\x3c\x2b\x1a": "<", b"\x1a\x2b\x3c\x4d": ">"}

_COMMENT, _IF_DROPPED, _OS_DROPPED, _PACKET_DROPPED = 1, 5, 7, 4


@dataclass(frozen=True)
class _Section:
    """Where a section begins in the file, its byte order, and the number of its first interface in the file."""

    file_offset: int
    byte_order: str
    first_interface: int


class _Damaged(Exception):
    """The damage of the block at the end of the readable part."""


def read_pcapng_blocks(path: Path) -> Iterator[Block]:
    """The packets of the file in blocks of at most `BLOCK_BYTES`: at least one block, which may be empty.

    Raises NotACapture, OSError.
    """
    return _Reader(path).blocks()


def read_pcapng_snaplen(path: Path) -> int:
    """The smallest snapshot length of the interfaces that are described at the start of the file."""
    reader = _Reader(path)
    with closing(reader.blocks()) as blocks:
        next(blocks)
    lengths = [interface.snaplen_bytes for interface in reader.interfaces if interface.snaplen_bytes]
    return min(lengths, default=LONGEST_FRAME_BYTES)


class _Reader:
    """The state of reading a file: sections (the last one before this buffer, and this buffer's), interfaces of all
    sections, comments that are in no block yet."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._sections: list[_Section] = []
        self.interfaces: list[Interface] = []
        self._comments: list[str] = []
        self._comments_bytes = 0
        self._other_records = 0

    def blocks(self) -> Generator[Block, None, None]:
        buffer = np.zeros(BLOCK_BYTES + MARGIN_BYTES, np.uint8)
        offset, filled = 0, 0
        with open_capture(self._path) as file:
            file_bytes = file.seek(0, os.SEEK_END)
            file.seek(0)
            while True:
                filled += (got := file.readinto(buffer.data[filled:BLOCK_BYTES]) or 0)
                packets, end, damage = self._walk(buffer, filled, offset, file_bytes)
                left_bytes = file_bytes - offset - end
                if not got and not damage and left_bytes > 0:
                    damage = f"the block at byte {offset + end} is incomplete: {left_bytes} bytes of it are there"
                if len(packets) or damage or not got:
                    block = self._block(buffer, offset, packets, damage)
                    yield block
                    if block.damage or not got:
                        return
                if end <= filled:
                    buffer[: filled - end] = buffer[end:filled].copy()
                else:
                    file.seek(offset + end)
                offset, filled = offset + end, max(filled - end, 0)

    def _walk(
        self, data: NDArray[np.uint8], filled: int, offset: int, file_bytes: int
    ) -> tuple[NDArray[np.int64], int, str]:
        """Where the packets begin, where the last complete block ends (a skipped one possibly after the buffer), and
        what is wrong there. Blocks that are no packets are read."""
        view = data.data[:filled]
        runs: list[NDArray[np.int64]] = []
        position, steps, damage, alone = 0, STEPS, "", 0
        try:
            while True:
                ends, alone = [position], alone - 1
                if alone < 0 and filled - position >= _FRAME_BYTES and self._head(view, position)[0] == _PACKET:
                    ends = self._follow_packets(data, view, position, steps)
                    runs.append(np.array(ends[:-1], np.int64))
                    alone = ALONE if len(ends) <= FEW else 0
                position = ends[-1]
                if len(ends) > steps:
                    alike, position = follow_alike(data, ends, filled, 0)
                    runs.append(alike)
                    steps = next_steps(steps, len(alike))
                    continue
                if filled - position < _FRAME_BYTES:
                    break
                kind, following = self._head(view, position)[0], self._end_of_block(view, position, offset)
                if following > (filled if kind in _LEAST_BYTES else file_bytes - offset):
                    break
                if kind in _PACKETS:
                    runs.append(np.array([position]))
                elif kind in _LEAST_BYTES:
                    self._read_block(view, position, offset)
                elif kind not in _NEVER_NUMBERED:
                    self._other_records += 1
                position, steps = following, STEPS
        except _Damaged as error:
            damage = str(error)
        return np.concatenate([np.zeros(0, np.int64), *runs]), position, damage

    def _follow_packets(self, data: NDArray[np.uint8], view: memoryview, start: int, most: int) -> list[int]:
        """`start` and the ends of up to `most` whole packets that follow each other from there on."""
        read_length: ReadLength = struct.Struct(self._byte_order + "4xI").unpack_from
        ends = follow(view, start, read_length, 0, most)
        if len(ends) > 1 and ends[-1] > len(view):
            ends.pop()
        kind, length = gather(data, np.array(ends[:-1], np.int64), 8).view(self._byte_order + "u4").T
        is_packet = (kind == _PACKET) & (length >= _LEAST_BYTES[_PACKET])
        return ends if is_packet.all() else ends[: 1 + int(is_packet.argmin())]

    @property
    def _byte_order(self) -> str:
        return self._sections[-1].byte_order if self._sections else "<"

    def _head(self, view: memoryview, position: int) -> tuple[int, int]:
        """Type and total length of a block."""
        head: tuple[int, int] = struct.unpack_from(self._byte_order + "II", view, position)
        return head

    def _end_of_block(self, view: memoryview, position: int, offset: int) -> int:
        """The end of a block, if its length is possible."""
        kind, length = self._head(view, position)
        if kind == _SECTION:
            order = _BYTE_ORDER.get(bytes(view[position + 8 : position + 12]), "")
            if not order:
                raise _Damaged(f"the section at byte {offset + position} has an invalid byte order: it cannot be read")
            length = struct.unpack_from(order + "I", view, position + 4)[0]
        elif not self._sections:
            raise NotACapture(f"{self._path}: begins with {bytes(view[:4]).hex()}, expected a section header")
        if (
            length % 4
            or length < _LEAST_BYTES.get(kind, _FRAME_BYTES)
            or (kind in _LEAST_BYTES and length > LONGEST_BLOCK_BYTES)
        ):
            raise _Damaged(
                f"the block at byte {offset + position} claims {length} bytes: the file is damaged from there on"
            )
        return position + length

    def _read_block(self, view: memoryview, position: int, offset: int) -> None:
        """Take in a section header, an interface description or interface statistics."""
        kind = self._head(view, position)[0]
        if kind == _SECTION:
            order = _BYTE_ORDER[bytes(view[position + 8 : position + 12])]
            self._sections.append(_Section(offset + position, order, len(self.interfaces)))
        section = self._sections[-1]
        order = section.byte_order
        length = struct.unpack_from(order + "I", view, position + 4)[0]
        again = struct.unpack_from(order + "I", view, position + length - 4)[0]
        if again != length:
            raise _Damaged(unequal_lengths(offset + position, length, again))
        options = list(_options(view[position + _OPTIONS_AT[kind] : position + length - 4], order))
        self._keep_comments(options)
        if kind == _INTERFACE:
            if len(self.interfaces) == MOST_INTERFACES:
                raise _Damaged(
                    f"the block at byte {offset + position} describes more than {MOST_INTERFACES} interfaces"
                )
            link_type, snaplen_bytes = struct.unpack_from(order + "HxxI", view, position + 8)
            self.interfaces.append(
                described_interface(
                    offset + position + length, link_type, snaplen_bytes, dict(reversed(options)), order
                )
            )
        elif kind == _STATISTICS:
            number = section.first_interface + struct.unpack_from(order + "I", view, position + 8)[0]
            drops = [
                struct.unpack(order + "Q", value)[0]
                for code, value in options
                if code in (_IF_DROPPED, _OS_DROPPED) and len(value) == 8
            ]
            if drops and number < len(self.interfaces):
                self.interfaces[number].reported_dropped = sum(drops)

    def _keep_comments(self, options: list[tuple[int, bytes]]) -> None:
        for code, value in options:
            if code == _COMMENT and self._comments_bytes + len(value) <= COMMENTS_BYTES:
                self._comments_bytes += len(value)
                self._comments.append(value.decode("utf-8", "replace").rstrip("\0"))

    def _block(self, data: NDArray[np.uint8], offset: int, positions: NDArray[np.int64], damage: str) -> Block:
        if not self._sections:
            raise NotACapture(f"{self._path}: {damage or 'no section header'}, expected a pcapng file")
        packets = self._packets(data, offset, positions)
        sound = packets.sound(self.interfaces)
        if sound < len(positions):
            damage = packets.damage(sound, self.interfaces)
            packets = self._packets(data, offset, positions[:sound])
        time_ns, link_types = np.zeros(sound, np.int64), np.zeros(sound, np.int64)
        has_time = np.zeros(sound, np.bool_)
        for number in np.unique(packets.interface).tolist():
            rows = np.flatnonzero(packets.interface == number)
            interface = self.interfaces[number]
            refuse_link_type(self._path, interface.link_type)
            link_types[rows] = interface.link_type
            time_ns[rows], has_time[rows] = interface.time_ns(packets.ticks[rows])
        is_simple = packets.kind == _SIMPLE_PACKET
        time_ns[is_simple], has_time[is_simple] = 0, False
        self._read_packet_options(data, packets)
        comments, self._comments = tuple(self._comments), []
        self._sections = self._sections[-1:]
        drops = [interface.dropped for interface in self.interfaces if interface.dropped is not None]
        return Block(
            data=data,
            file_offset=offset,
            starts=packets.starts,
            captured_bytes=packets.captured_bytes,
            wire_bytes=packets.wire_bytes,
            time_ns=time_ns,
            link_types=link_types,
            untimed_frames=int(np.count_nonzero(~has_time)),
            other_records=self._other_records,
            comments=comments,
            dropped=sum(drops) if drops else None,
            damage=damage,
        )

    def _packets(self, data: NDArray[np.uint8], offset: int, positions: NDArray[np.int64]) -> PacketBlocks:
        at = np.searchsorted([section.file_offset for section in self._sections], positions + offset) - 1
        first_interface = np.array([section.first_interface for section in self._sections])[at]
        is_big = np.array([section.byte_order == ">" for section in self._sections])[at]
        words = gather(data, positions, _PACKET_HEADER_BYTES).view("<u4")
        words[is_big] = words[is_big].byteswap()
        kind, length = words[:, 0], words[:, 1].astype(np.int64)
        again = gather(data, positions + length - 4, 4).view("<u4")[:, 0]
        again[is_big] = again[is_big].byteswap()
        interface, captured_bytes, wire_bytes = words.T[[2, 5, 6]].astype(np.int64)
        header_bytes = np.full(len(positions), _PACKET_HEADER_BYTES)
        missed = np.zeros(len(positions), np.int64)

        old = np.flatnonzero(kind == _OLD_PACKET)
        if len(old):
            halves = interface[old] & 0xFFFF, interface[old] >> 16
            interface[old] = np.where(is_big[old], halves[1], halves[0])
            missed[old] = np.where(is_big[old], halves[0], halves[1])
        simple = np.flatnonzero(kind == _SIMPLE_PACKET)
        if len(simple):
            header_bytes[simple], wire_bytes[simple] = _SIMPLE_HEADER_BYTES, words[simple, 2]
            interface[simple] = 0
            snaplens = np.array([known.snaplen_bytes or LONGEST_FRAME_BYTES for known in self.interfaces] or [0])
            snaplen_bytes = snaplens[np.minimum(first_interface[simple], len(snaplens) - 1)]
            captured_bytes[simple] = np.minimum(wire_bytes[simple], snaplen_bytes)
        return PacketBlocks(
            offset + positions,
            kind,
            length,
            again,
            interface + first_interface,
            words[:, 3].astype(np.uint64) << np.uint64(32) | words[:, 4],
            positions + header_bytes,
            captured_bytes,
            wire_bytes,
            length - header_bytes - 4,
            np.where(missed == 0xFFFF, 0, missed),
            is_big,
        )

    def _read_packet_options(self, data: NDArray[np.uint8], packets: PacketBlocks) -> None:
        """Comments, and how many packets were missed before each."""
        options_at = packets.starts + (packets.captured_bytes + 3) // 4 * 4
        ends = packets.starts + packets.room
        has_options = (ends - options_at >= 4) & (packets.kind != _SIMPLE_PACKET)
        for row in np.flatnonzero(has_options).tolist():
            order = ">" if packets.is_big[row] else "<"
            options = list(_options(data.data[options_at[row] : ends[row]], order))
            self._keep_comments(options)
            for code, value in options:
                if code == _PACKET_DROPPED and packets.kind[row] == _PACKET and len(value) == 8:
                    packets.missed[row] += min(struct.unpack(order + "Q", value)[0], 2**32)
                    self._add_missed(int(packets.interface[row]), 0)
        for row in np.flatnonzero(packets.missed).tolist():
            self._add_missed(int(packets.interface[row]), int(packets.missed[row]))

    def _add_missed(self, interface: int, packets: int) -> None:
        self.interfaces[interface].missed = (self.interfaces[interface].missed or 0) + packets


def _options(data: memoryview, order: str) -> Iterator[tuple[int, bytes]]:
    """Code and value of each option."""
    position = 0
    while position + 4 <= len(data):
        code, length = struct.unpack_from(order + "HH", data, position)
        if code == 0 or position + 4 + length > len(data):
            return
        yield code, bytes(data[position + 4 : position + 4 + length])
        position += 4 + (length + 3) // 4 * 4
