"""NORM: RFC 5740, section 4.

Segments are placed in the file by the block partitioning of RFC 5052, section 9.1, if the FEC scheme is Reed-Solomon
over GF(2^8) (FEC encoding id 5) or GF(2^m) (2; RFC 5510), or the older small block codes (129, RFC 5445): those of
libnorm.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

from owlt.captures.protocols.reader import CUT, Packet, PacketContent, Reader, Unreadable, span

_INFO, _DATA, _CMD, _NACK, _ACK, _REPORT = 1, 2, 3, 4, 5, 6
_COMMANDS = {
    1: "CMD FLUSH",
    2: "CMD EOT",
    3: "CMD SQUELCH",
    4: "CMD CC",
    5: "CMD REPAIR_ADV",
    6: "CMD ACK_REQ",
    7: "CMD APPLICATION",
}
_ACKS = {1: "ACK of CC", 2: "ACK of FLUSH"}
_NACK_ASKS = {1: "segments", 2: "blocks", 4: "INFO", 8: "objects"}
_REPAIR, _STREAM = 0x01, 0x20
_VERSION = 1
_FTI = 64
"""The header extension with the FEC object transmission information."""
_HEADER_BYTES = {_INFO: 16, _DATA: 16, _CMD: 16, _NACK: 24, _ACK: 24, _REPORT: 8}
"""The length of each type's header, without FEC payload id and extensions."""
_FLAVOR_AT = 12
_STREAM_HEADER_BYTES = 8
_SMALL_FIELD, _REED_SOLOMON, _SMALL_BLOCK = 2, 5, 129
_SCHEMES = (_SMALL_FIELD, _REED_SOLOMON, _SMALL_BLOCK)


@dataclass(frozen=True)
class _Object:
    """The FEC object transmission information of an object: its bytes, the bytes of a segment, the segments of a block,
    and the number of bits of the segment in its FEC payload id, if the scheme does not fix it."""

    object_bytes: int
    segment_bytes: int
    block_segments: int
    segment_bits: int = 8

    def blocks(self) -> tuple[int, int, int]:
        """How many blocks are of the larger size; the larger and the smaller size, in segments (RFC 5052, 9.1)."""
        segments = -(-self.object_bytes // self.segment_bytes)
        blocks = max(-(-segments // self.block_segments), 1)
        smaller, larger_blocks = divmod(segments, blocks)
        return larger_blocks, smaller + bool(larger_blocks), smaller

    def place(self, block: int, segment: int) -> int | None:
        """The first byte of a segment of the file; None if it is one of parity."""
        larger_blocks, larger, smaller = self.blocks()
        if segment >= (larger if block < larger_blocks else smaller):
            return None
        before = min(block, larger_blocks) * larger + max(block - larger_blocks, 0) * smaller
        return (before + segment) * self.segment_bytes


class Norm(Reader):
    """Reads messages, one in a datagram."""

    TITLE = "NORM"

    def __init__(self) -> None:
        self._objects: dict[object, _Object] = {}

    def read(self, packet: Packet) -> PacketContent:
        """The content of a message."""
        octets = packet.payload
        if len(octets) < 2:
            if packet.cut:
                return PacketContent("message", CUT, unplaced=True)
            raise Unreadable("no header")
        version, kind, header_bytes = octets[0] >> 4, octets[0] & 15, 4 * octets[1]
        if version != _VERSION or kind not in _HEADER_BYTES:
            raise Unreadable(f"version {version}, type {kind}")
        if not _HEADER_BYTES[kind] <= header_bytes <= packet.datagram_bytes:
            raise Unreadable(f"a header of {header_bytes} octets in a datagram of {packet.datagram_bytes}")
        if kind in (_INFO, _DATA):
            return self._object_message(packet, kind, header_bytes)
        if kind == _CMD:
            if len(octets) <= _FLAVOR_AT:
                return PacketContent("CMD", CUT)
            return PacketContent(_COMMANDS.get(octets[_FLAVOR_AT], f"CMD {octets[_FLAVOR_AT]}"))
        if kind == _NACK:
            return _nack(packet, header_bytes)
        return self._ack(packet, header_bytes) if kind == _ACK else PacketContent("REPORT")

    def _object_message(self, packet: Packet, kind: int, header_bytes: int) -> PacketContent:
        byte_count = packet.datagram_bytes - header_bytes
        if len(packet.payload) < min(header_bytes, _HEADER_BYTES[kind]):
            return PacketContent("DATA" if kind == _DATA else "INFO", CUT, unplaced=kind == _DATA)
        flags, encoding = packet.payload[12:14]
        unit = int.from_bytes(packet.payload[14:16], "big")
        if kind == _INFO and flags & _STREAM:
            return PacketContent("INFO", "of a stream")
        if kind == _INFO:
            self._learn(packet, unit, encoding, _HEADER_BYTES[_INFO], header_bytes)
            known = self._objects.get(unit)
            detail = f"object of {known.object_bytes} bytes" if known else ""
            return PacketContent("INFO", detail, unit=unit, file_bytes=known.object_bytes if known else None)
        if len(packet.payload) < header_bytes:
            return PacketContent("DATA", CUT, byte_count=byte_count, unplaced=True, unit=unit)
        again = ", repair" if flags & _REPAIR else ""
        if flags & _STREAM:
            return self._stream(packet, header_bytes, again.removeprefix(", "), unit)
        self._learn(packet, unit, encoding, _HEADER_BYTES[_DATA] + _id_bytes(encoding), header_bytes)
        known = self._objects.get(unit)
        segment = _segment(packet.payload, encoding, _HEADER_BYTES[_DATA], known)
        if segment is None:
            return PacketContent("DATA", again.removeprefix(", "), byte_count=byte_count, unplaced=True, unit=unit)
        where = f"block {segment[0]} segment {segment[1]}{again}"
        if known is None:
            return PacketContent("DATA", where, byte_count=byte_count, unplaced=True, unit=unit)
        first_byte = known.place(*segment)
        if first_byte is None:
            return PacketContent(
                "DATA (parity)", where, unit=unit, file_bytes=known.object_bytes, parity_bytes=known.segment_bytes
            )
        if first_byte + byte_count > known.object_bytes:
            raise Unreadable(f"{byte_count} bytes from {first_byte} of an object of {known.object_bytes}")
        return PacketContent(
            "DATA",
            span(first_byte, byte_count) + again,
            first_byte,
            byte_count,
            unit=unit,
            data_at=header_bytes,
            file_bytes=known.object_bytes,
        )

    def _stream(self, packet: Packet, header_bytes: int, detail: str, unit: int) -> PacketContent:
        """A segment of a stream begins with its number of bytes (section 4.2.1), unless it is parity."""
        header = packet.payload[header_bytes : header_bytes + _STREAM_HEADER_BYTES]
        byte_count = int.from_bytes(header[:2], "big") if len(header) == _STREAM_HEADER_BYTES else 0
        is_possible = byte_count <= packet.datagram_bytes - header_bytes - _STREAM_HEADER_BYTES
        return PacketContent("DATA", detail, byte_count=byte_count if is_possible else 0, unplaced=True, unit=unit)

    def _ack(self, packet: Packet, header_bytes: int) -> PacketContent:
        """An ACK of a FLUSH confirms all data up to the segment in the FLUSH (section 4.3.2)."""
        if len(packet.payload) < 15:
            return PacketContent("ACK", CUT)
        kind = packet.payload[14]
        name = _ACKS.get(kind, f"ACK of {kind}")
        content = packet.payload[header_bytes:]
        if kind != 2 or packet.cut or len(content) < 4:
            return PacketContent(name, CUT if packet.cut else "")
        unit = int.from_bytes(content[2:4], "big")
        known = self._objects.get(unit)
        segment = _segment(content, content[0], 4, known)
        place = known.place(*segment) if known and segment else None
        if known is None or place is None:
            return PacketContent(name, unit=unit)
        upto = min(place + known.segment_bytes, known.object_bytes)
        return PacketContent(name, f"everything received before byte {upto}", acknowledged_bytes=upto, unit=unit)

    def _learn(self, packet: Packet, unit: object, encoding: int, extensions_at: int, header_bytes: int) -> None:
        """Remember the values of a header extension about an object."""
        for extension in _extensions(packet.payload[extensions_at:header_bytes]):
            if extension[0] != _FTI:
                continue
            known = _object(encoding, extension[2:])
            if known is not None and known.segment_bytes and known.block_segments:
                self._objects[unit] = known


def _object(encoding: int, information: bytes) -> _Object | None:
    """The values in the FEC object transmission information of a scheme; None for unknown schemes."""
    layouts = {_SMALL_FIELD: ">HIBBHHH", _REED_SOLOMON: ">HIHBB", _SMALL_BLOCK: ">HIHHHH"}
    layout = layouts.get(encoding)
    if layout is None or len(information) < struct.calcsize(layout):
        return None
    high, low, *numbers = struct.unpack_from(layout, information)
    if encoding == _REED_SOLOMON:
        return _Object(high << 32 | low, numbers[0], numbers[1])
    if encoding == _SMALL_BLOCK:
        return _Object(high << 32 | low, numbers[1], numbers[2])
    return _Object(high << 32 | low, numbers[2], numbers[3], numbers[0])


def _nack(packet: Packet, header_bytes: int) -> PacketContent:
    """The repair requests: section 4.3.1. Raises Unreadable if they do not end at the end of the message."""
    if packet.cut:
        return PacketContent("NACK", CUT)
    flags, place = 0, header_bytes
    while place < len(packet.payload):
        flags |= packet.payload[place + 1] if place + 4 <= len(packet.payload) else 0
        place += 4 + int.from_bytes(packet.payload[place + 2 : place + 4], "big")
    if place != len(packet.payload):
        raise Unreadable("repair requests beyond the end of the message")
    asked = [word for flag, word in _NACK_ASKS.items() if flags & flag]
    return PacketContent("NACK", f"asks for {', '.join(asked)}" if asked else "")


def _extensions(octets: bytes) -> Iterator[bytes]:
    """The complete header extensions: type, then a length in words if the type is below 128 (section 4.1)."""
    while len(octets) >= 4:
        size = 4 * octets[1] if octets[0] < 128 else 4
        if not size:
            return
        yield octets[:size]
        octets = octets[size:]


def _id_bytes(encoding: int) -> int:
    """The length of the FEC payload id of the known schemes."""
    return 8 if encoding == _SMALL_BLOCK else 4


def _segment(octets: bytes, encoding: int, at: int, known: _Object | None) -> tuple[int, int] | None:
    """Block and segment of the FEC payload id at a place; None if its scheme is not known, or it is cut."""
    if encoding not in _SCHEMES or len(octets) < at + _id_bytes(encoding):
        return None
    if encoding == _SMALL_BLOCK:
        block, _, segment = struct.unpack_from(">IHH", octets, at)
        return block, segment
    if encoding == _SMALL_FIELD and known is None:
        return None
    bits = known.segment_bits if known is not None and encoding == _SMALL_FIELD else 8
    number = int.from_bytes(octets[at : at + 4], "big")
    return number >> bits, number & (1 << bits) - 1
