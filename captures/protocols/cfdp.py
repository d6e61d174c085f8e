"""CFDP: CCSDS 727.0-B-5, section 5. PDUs of earlier issues, whose version is 0, have the same layout."""

from __future__ import annotations

from binascii import crc_hqx
from dataclasses import dataclass
from functools import partial
from struct import unpack_from

from owlt.captures.protocols.reader import CUT, Packet, PacketContent, Reader, Unreadable, each_unit, several, span

_EOF, _FINISHED, _ACK, _METADATA, _NAK, _PROMPT, _KEEP_ALIVE = 4, 5, 6, 7, 8, 9, 12
_NAMES = {
    _EOF: "EOF",
    _FINISHED: "Finished",
    _ACK: "ACK",
    _METADATA: "metadata",
    _NAK: "NAK",
    _PROMPT: "prompt",
    _KEEP_ALIVE: "keep alive",
}
_CONDITIONS = {
    1: "positive ACK limit reached",
    2: "keep alive limit reached",
    3: "invalid transmission mode",
    4: "filestore rejection",
    5: "file checksum failure",
    6: "file size error",
    7: "NAK limit reached",
    8: "inactivity detected",
    9: "invalid file structure",
    10: "check limit reached",
    11: "unsupported checksum type",
    14: "suspend request received",
    15: "cancel request received",
}
"""Condition codes: table 5-5; 0 is no error."""
_HARMLESS = (0, 11)
"""If the checksum's type is not supported, the file is delivered without a check (section 4.2.2)."""
_VERSIONS = (0, 1)
_SPACE_PACKET_BYTES, _UNSEGMENTED = 6, 0xC0
"""The primary header of a space packet (CCSDS 133.0-B), which begins with version 0 as earlier issues of CFDP do, and
ends with the number of octets after it minus one; its sequence flags if it contains a complete PDU."""
_FIXED_BYTES, _CRC_BYTES, _CHECKSUM_BYTES = 4, 2, 4
"""Lengths of the header before the entity ids, of the CRC after a PDU, and of the file's checksum in an EOF."""
_IS_DATA, _HAS_CRC, _IS_LARGE, _HAS_SEGMENT_METADATA = 0x10, 0x02, 0x01, 0x08
"""Bits of the first octet of the header, and of the fourth."""
_REJECTED = 1
"""The file status "discarded due to filestore rejection"."""


@dataclass(frozen=True, slots=True)
class _Pdu:
    """A PDU by its fixed header: section 5.1. `begin` and `end` are of its data field, without the CRC, in the
    datagram, `next` is behind the PDU; `word_bytes` is the size of what depends on the size of the file."""

    is_data: bool
    has_segment_metadata: bool
    word_bytes: int
    unit: object
    begin: int
    end: int
    next: int


class Cfdp(Reader):
    """Reads PDUs, of which a datagram may hold several."""

    TITLE = "CFDP"

    def __init__(self) -> None:
        self._file_bytes: dict[object, int] = {}

    def read(self, packet: Packet) -> list[PacketContent]:
        """The content of each PDU."""
        return each_unit(packet, partial(self._read, packet))

    def _read(self, packet: Packet, place: int) -> tuple[PacketContent, int]:
        """The content of the PDU that begins here, and the position of the next one."""
        pdu = _header(packet, place)
        if pdu is None:
            if not packet.cut:
                raise Unreadable("a truncated header")
            return PacketContent("PDU", CUT, unplaced=True), packet.datagram_bytes
        if pdu.is_data:
            return self._data(packet, pdu), pdu.next
        if len(packet.payload) <= pdu.begin < pdu.end:
            return PacketContent("PDU", CUT), pdu.next
        if pdu.begin == pdu.end:
            raise Unreadable("no file directive")
        code, fields = packet.payload[pdu.begin], packet.payload[pdu.begin + 1 : pdu.end]
        if code not in _NAMES:
            raise Unreadable(f"file directive {code}")
        is_whole = len(packet.payload) >= pdu.end
        try:
            return self._directive(code, fields, pdu, is_whole), pdu.next
        except IndexError as error:
            if is_whole:
                raise Unreadable(f"a truncated {_NAMES[code]}") from error
            return PacketContent(_NAMES[code], CUT), pdu.next

    def _data(self, packet: Packet, pdu: _Pdu) -> PacketContent:
        place = pdu.begin
        if pdu.has_segment_metadata:
            if len(packet.payload) <= place:
                return PacketContent("data", CUT, unplaced=True, unit=pdu.unit)
            place += 1 + (packet.payload[place] & 0x3F)
        data_at = place + pdu.word_bytes
        byte_count = pdu.end - data_at
        if byte_count < 0:
            raise Unreadable("file data without an offset")
        if len(packet.payload) < data_at:
            return PacketContent("data", CUT, byte_count=byte_count, unplaced=True, unit=pdu.unit)
        offset = int.from_bytes(packet.payload[place:data_at], "big")
        return PacketContent("data", span(offset, byte_count), offset, byte_count, unit=pdu.unit, data_at=data_at)

    def _directive(self, code: int, fields: bytes, pdu: _Pdu, is_whole: bool) -> PacketContent:
        """The content of a file directive: section 5.2. Raises IndexError if its fields end too early."""
        if code == _EOF:
            return self._eof(fields, pdu, is_whole)
        if code == _FINISHED:
            return self._finished(fields, pdu, is_whole)
        if code == _METADATA:
            return self._metadata(fields, pdu, is_whole)
        if code == _NAK:
            return _nak(fields, pdu, is_whole)
        if code == _KEEP_ALIVE:
            progress, end = _word(fields, 0, pdu)
            _require_end(fields, end, is_whole)
            return PacketContent("keep alive", f"progress {progress}")
        if code == _PROMPT:
            wants_keep_alive = fields[0] & 0x80
            _require_end(fields, 1, is_whole)
            return PacketContent("prompt", "for a keep alive" if wants_keep_alive else "")
        acknowledged, condition = fields[0] >> 4, fields[1] >> 4
        _require_end(fields, 2, is_whole)
        return PacketContent(f"ACK of {_NAMES.get(acknowledged, 'nothing known')}", _condition(condition))

    def _eof(self, fields: bytes, pdu: _Pdu, is_whole: bool) -> PacketContent:
        """An EOF states the size of the file or, if it cancels, the number of bytes sent."""
        condition = fields[0] >> 4
        size, end = _word(fields, 1 + _CHECKSUM_BYTES, pdu)
        _require_tlvs(fields, end, is_whole)
        if condition not in _HARMLESS:
            return PacketContent("EOF", f"cancelled: {_condition(condition)}", unit=pdu.unit, verdict="failed")
        self._file_bytes[pdu.unit] = size
        return PacketContent("EOF", f"file of {size} bytes" if is_whole else CUT, unit=pdu.unit, file_bytes=size)

    def _finished(self, fields: bytes, pdu: _Pdu, is_whole: bool) -> PacketContent:
        condition, is_incomplete, status = fields[0] >> 4, fields[0] >> 2 & 1, fields[0] & 3
        _require_tlvs(fields, 1, is_whole)
        completeness = "data incomplete" if is_incomplete else "all delivered"
        rejected = "file rejected" if status == _REJECTED else ""
        detail = ", ".join(filter(None, [_condition(condition), completeness, rejected]))
        if is_incomplete or rejected or condition not in _HARMLESS:
            return PacketContent("Finished", detail, unit=pdu.unit, verdict="failed")
        return PacketContent(
            "Finished",
            detail,
            acknowledged_bytes=self._file_bytes.get(pdu.unit),
            unit=pdu.unit,
            verdict="delivered",
        )

    def _metadata(self, fields: bytes, pdu: _Pdu, is_whole: bool) -> PacketContent:
        """A size of 0 may also mean an unbounded file: section 5.2.5."""
        size, place = _word(fields, 1, pdu)
        if size:
            self._file_bytes[pdu.unit] = size
        if is_whole:
            has_file = fields[place] > 0
            for _ in ("source", "destination"):
                place += 1 + fields[place]
            _require_tlvs(fields, place, is_whole)
            detail = f"file of {size} bytes" if has_file or size else "no file"
        return PacketContent("metadata", detail if is_whole else CUT, unit=pdu.unit, file_bytes=size or None)


def _header(packet: Packet, place: int) -> _Pdu | None:
    """The header that begins here; None if it is cut. Raises Unreadable, also if the CRC is wrong."""
    octets = packet.payload
    if len(octets) < place + _FIXED_BYTES:
        return None
    flags, data_bytes, lengths = unpack_from(">BHB", octets, place)
    entity_bytes, sequence_bytes = (lengths >> 4 & 7) + 1, (lengths & 7) + 1
    sequence_at = place + _FIXED_BYTES + entity_bytes
    begin = sequence_at + sequence_bytes + entity_bytes
    behind = begin + data_bytes
    end = behind - _CRC_BYTES if flags & _HAS_CRC else behind
    is_as_long_as_a_space_packet = int.from_bytes(octets[4:6], "big") + 1 + _SPACE_PACKET_BYTES == packet.datagram_bytes
    if flags >> 5 == 0 and octets[2] & _UNSEGMENTED == _UNSEGMENTED and is_as_long_as_a_space_packet:
        raise Unreadable("a space packet")
    if flags >> 5 not in _VERSIONS:
        raise Unreadable(f"version {flags >> 5}")
    if behind > packet.datagram_bytes or end < begin:
        raise Unreadable(f"{data_bytes} octets of data in a datagram of {packet.datagram_bytes}")
    if len(octets) < begin:
        return None
    if flags & _HAS_CRC and len(octets) >= behind and crc_hqx(octets[place:behind], 0xFFFF):
        raise Unreadable("a wrong CRC")
    return _Pdu(
        is_data=bool(flags & _IS_DATA),
        has_segment_metadata=bool(flags & _IS_DATA and lengths & _HAS_SEGMENT_METADATA),
        word_bytes=8 if flags & _IS_LARGE else 4,
        unit=(
            int.from_bytes(octets[place + _FIXED_BYTES : sequence_at], "big"),
            int.from_bytes(octets[sequence_at : sequence_at + sequence_bytes], "big"),
        ),
        begin=begin,
        end=end,
        next=behind,
    )


def _nak(fields: bytes, pdu: _Pdu, is_whole: bool) -> PacketContent:
    start, place = _word(fields, 0, pdu)
    end, place = _word(fields, place, pdu)
    if not is_whole:
        return PacketContent("NAK", CUT)
    requests = []
    while place < len(fields):
        first, place = _word(fields, place, pdu)
        last, place = _word(fields, place, pdu)
        if last < first:
            raise Unreadable(f"a segment request from {first} to {last}")
        requests.append((first, last))
    holes = [request for request in requests if request != (0, 0)]
    missing_bytes = sum(last - first for first, last in holes)
    detail = several(len(holes), "hole") + (", metadata missing" if len(holes) < len(requests) else "")
    return PacketContent("NAK", detail, acknowledged_bytes=max(end - start - missing_bytes, 0), unit=pdu.unit)


def _word(fields: bytes, place: int, pdu: _Pdu) -> tuple[int, int]:
    """A number whose length depends on the large file flag, and the position of its end. Raises IndexError."""
    end = place + pdu.word_bytes
    if end > len(fields):
        raise IndexError(f"{len(fields)} octets, expected {end}")
    return int.from_bytes(fields[place:end], "big"), end


def _require_end(fields: bytes, place: int, is_whole: bool) -> None:
    if is_whole and place != len(fields):
        raise Unreadable(f"{len(fields) - place} octets behind the last field")


def _require_tlvs(fields: bytes, place: int, is_whole: bool) -> None:
    """Raise Unreadable unless only complete options follow (type, length, value: section 5.4)."""
    while is_whole and place < len(fields):
        place += 2 + fields[place + 1]
        if place > len(fields):
            raise Unreadable("a truncated option")


def _condition(code: int) -> str:
    return _CONDITIONS.get(code, f"condition {code}") if code else ""
