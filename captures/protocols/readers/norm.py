"""NORM: RFC 5740, section 4.

tshark (4.0) tells the FEC fields of the original FEC schemes alone. Those of Reed-Solomon over GF(2^8) (FEC encoding
id 5, RFC 5510) and of the older small block codes (129, RFC 5445), which libnorm uses, are read here, and placed in the
file by the block partitioning of RFC 5052, section 9.1.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

from captures.protocols.readers.reader import CUT, Fields, Packet, PacketContent, Reader, Unreadable, span

_INFO, _DATA, _CMD, _NACK, _ACK = 1, 2, 3, 4, 5
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
_DATA_HEADER_BYTES, _ACK_HEADER_BYTES, _FTI = 16, 24, 64
_REED_SOLOMON, _SMALL_BLOCK = 5, 129
_VERSION, _FLAVOR_AT, _NACK_HEADER_BYTES = 1, 12, 24
_FLUSH, _EOT, _CC = 1, 2, 4
_EXTENSION_BYTES = {_FTI: (12, 16), 3: (12,), 128: (4,)}
"""Of the header extensions that are known here: FTI of either FEC scheme, congestion control feedback, rate."""


@dataclass(frozen=True)
class _Object:
    """The FEC object transmission information of an object: bytes of it, of a segment, segments of a block."""

    object_bytes: int
    segment_bytes: int
    block_segments: int

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

    LAYER, TITLE = "norm", "NORM"
    NEEDS_TSHARK = False
    FIELDS = (
        "norm.type",
        "norm.hlen",
        "norm.flavor",
        "norm.object_transport_id",
        "norm.ack.type",
        "norm.nack.flags",
    )

    def __init__(self) -> None:
        self._objects: dict[object, _Object] = {}

    def fields(self, payload: bytes, datagram_bytes: int) -> Fields | None:
        """Those of a message of an object that is no stream, with the header extensions that libnorm uses."""
        if len(payload) < _DATA_HEADER_BYTES or len(payload) < 4 * payload[1] or payload[0] >> 4 != _VERSION:
            return None
        kind, header_bytes = payload[0] & 15, 4 * payload[1]
        content = _usual_content(kind, payload[:header_bytes])
        if content is None:
            return None
        if kind == _NACK:
            flags = _flags_of_requests(payload[header_bytes:])
            if flags is None or len(payload) < datagram_bytes:
                return None
            content["norm.nack.flags"] = flags
        return content | {"norm.type": (kind,), "norm.hlen": (payload[1],)}

    def read(self, packet: Packet) -> PacketContent:
        """What a message says."""
        kind = packet.number("norm.type")
        if kind == _INFO:
            return self._info(packet)
        if kind == _DATA:
            return self._data(packet)
        if kind == _CMD:
            flavor = packet.number("norm.flavor")
            return PacketContent(_COMMANDS.get(flavor or 0, f"CMD {flavor}"))
        if kind == _NACK:
            asked = [word for flag, word in _NACK_ASKS.items() if any(f & flag for f in _nack_flags(packet))]
            return PacketContent("NACK", CUT if packet.cut else f"asks for {', '.join(asked)}" if asked else "")
        if kind == _ACK:
            return self._ack(packet)
        raise Unreadable(f"message type {kind}")

    def _info(self, packet: Packet) -> PacketContent:
        unit = packet.number("norm.object_transport_id")
        if len(packet.payload) >= _DATA_HEADER_BYTES:
            self._learn(packet, unit, packet.payload[13], _DATA_HEADER_BYTES)
        known = self._objects.get(unit)
        return PacketContent("INFO", f"object of {known.object_bytes} bytes" if known else "")

    def _data(self, packet: Packet) -> PacketContent:
        unit = packet.number("norm.object_transport_id")
        header_bytes = _header_bytes(packet)
        byte_count = max(packet.datagram_bytes - header_bytes, 0)
        if len(packet.payload) < header_bytes:
            return PacketContent("DATA", CUT, byte_count=byte_count, unplaced=True, unit=unit)
        flags, encoding = packet.payload[12], packet.payload[13]
        again = ", repair" if flags & _REPAIR else ""
        segment = _segment(packet.payload, encoding, _DATA_HEADER_BYTES)
        if segment is None or flags & _STREAM:
            return PacketContent("DATA", again.removeprefix(", "), byte_count=byte_count, unplaced=True, unit=unit)
        self._learn(packet, unit, encoding, _DATA_HEADER_BYTES + _segment_id(encoding).size)
        known = self._objects.get(unit)
        where = f"block {segment[0]} segment {segment[1]}{again}"
        if known is None:
            return PacketContent("DATA", where, byte_count=byte_count, unplaced=True, unit=unit)
        first_byte = known.place(*segment)
        if first_byte is None:
            return PacketContent("DATA (parity)", where, unit=unit)
        if first_byte + byte_count > known.object_bytes:
            raise Unreadable(f"{byte_count} bytes from {first_byte} of an object of {known.object_bytes}")
        return PacketContent(
            "DATA", span(first_byte, byte_count) + again, first_byte, byte_count, unit=unit, data_at=header_bytes
        )

    def _ack(self, packet: Packet) -> PacketContent:
        """An ACK of a FLUSH says that all is there up to the segment that the FLUSH named (section 4.3.2)."""
        kind = packet.number("norm.ack.type") or 0
        name = _ACKS.get(kind, f"ACK of {kind}")
        content = packet.payload[_header_bytes(packet) :]
        if kind != 2 or packet.cut or len(content) < 4:
            return PacketContent(name, CUT if packet.cut else "")
        unit = int.from_bytes(content[2:4], "big")
        segment = _segment(content, content[0], 4)
        known = self._objects.get(unit)
        place = known.place(*segment) if known and segment else None
        if known is None or place is None:
            return PacketContent(name, unit=unit)
        upto = min(place + known.segment_bytes, known.object_bytes)
        return PacketContent(name, f"everything received before byte {upto}", acknowledged_bytes=upto, unit=unit)

    def _learn(self, packet: Packet, unit: object, encoding: int, extensions_at: int) -> None:
        """Remember what a header extension says of an object."""
        layouts = {_REED_SOLOMON: ">HIHBB", _SMALL_BLOCK: ">HIHHHH"}
        layout = layouts.get(encoding)
        for extension in _extensions(packet.payload[extensions_at : _header_bytes(packet)]):
            if layout is None or extension[0] != _FTI or len(extension) < 2 + struct.calcsize(layout):
                continue
            high, low, *numbers = struct.unpack_from(layout, extension, 2)
            segment_bytes, block_segments = numbers[1:3] if encoding == _SMALL_BLOCK else numbers[:2]
            if segment_bytes and block_segments:
                self._objects[unit] = _Object(high << 32 | low, segment_bytes, block_segments)


def _usual_content(kind: int, header: bytes) -> dict[str, tuple[int, ...]] | None:
    """The fields of the header of a message; None if it is not as long as its kind needs, or has other extensions."""
    if kind in (_INFO, _DATA) and len(header) >= _DATA_HEADER_BYTES:
        encoding, is_stream = header[13], header[12] & _STREAM
        if encoding not in (_REED_SOLOMON, _SMALL_BLOCK) or is_stream:
            return None
        fixed_bytes = _DATA_HEADER_BYTES + (_segment_id(encoding).size if kind == _DATA else 0)
        fields = {"norm.object_transport_id": struct.unpack_from(">H", header, 14)}
    elif kind == _CMD and len(header) >= _DATA_HEADER_BYTES:
        fixed_bytes = _command_bytes(header)
        fields = {"norm.flavor": (header[_FLAVOR_AT],)}
    elif kind == _NACK:
        fixed_bytes, fields = _NACK_HEADER_BYTES, {}
    elif kind == _ACK and len(header) >= _ACK_HEADER_BYTES:
        fixed_bytes, fields = _ACK_HEADER_BYTES, {"norm.ack.type": (header[14],)}
    else:
        return None
    return fields if _has_known_extensions(header, fixed_bytes) else None


def _command_bytes(header: bytes) -> int:
    """How long the header of a command is without extensions; longer than any if the command is an unusual one."""
    if header[_FLAVOR_AT] == _FLUSH and header[13] in (_REED_SOLOMON, _SMALL_BLOCK):
        return _DATA_HEADER_BYTES + _segment_id(header[13]).size
    return {_EOT: _DATA_HEADER_BYTES, _CC: _NACK_HEADER_BYTES}.get(header[_FLAVOR_AT], len(header) + 1)


def _has_known_extensions(header: bytes, place: int) -> bool:
    """Whether a header that is complete ends with extensions of known types, of their own lengths, or with none."""
    while place < len(header):
        kind = header[place]
        size = 4 if kind >= 128 else 4 * header[place + 1]
        if size not in _EXTENSION_BYTES.get(kind, ()):
            return False
        place += size
    return place == len(header)


def _flags_of_requests(octets: bytes) -> tuple[int, ...] | None:
    """The flags of the repair requests of a NACK; None if they do not end where the octets end, or one has no item."""
    flags, place = [], 0
    while place < len(octets):
        if len(octets) < place + 8 or octets[place + 4] not in (_REED_SOLOMON, _SMALL_BLOCK):
            return None
        length = int.from_bytes(octets[place + 2 : place + 4], "big")
        if length < 4 + _segment_id(octets[place + 4]).size:
            return None
        flags.append(octets[place + 1])
        place += 4 + length
    return tuple(flags) if place == len(octets) else None


def _header_bytes(packet: Packet) -> int:
    return 4 * (packet.number("norm.hlen") or 0)


def _nack_flags(packet: Packet) -> list[int]:
    return packet.numbers("norm.nack.flags")


def _extensions(octets: bytes) -> Iterator[bytes]:
    """Header extensions whole: type, then a length in words if the type is below 128 (section 4.1)."""
    while len(octets) >= 4:
        size = 4 * octets[1] if octets[0] < 128 else 4
        if not size:
            return
        yield octets[:size]
        octets = octets[size:]


def _segment_id(encoding: int) -> struct.Struct:
    return struct.Struct(">IHH" if encoding == _SMALL_BLOCK else ">I")


def _segment(octets: bytes, encoding: int, at: int) -> tuple[int, int] | None:
    """Block and segment of the FEC payload id at a place; None if its scheme is not known, or it is cut."""
    if encoding not in (_REED_SOLOMON, _SMALL_BLOCK) or len(octets) < at + _segment_id(encoding).size:
        return None
    numbers = _segment_id(encoding).unpack_from(octets, at)
    return (numbers[0], numbers[2]) if encoding == _SMALL_BLOCK else (numbers[0] >> 8, numbers[0] & 0xFF)
