"""CFDP: CCSDS 727.0-B-5, section 5.

tshark (4.0) takes every offset for four octets and knows no segment metadata: of PDUs of large files, or with
metadata, only the name is reported.
"""

from __future__ import annotations

from struct import iter_unpack, unpack_from

from captures.protocols.readers.reader import (
    CUT,
    Fields,
    Packet,
    PacketContent,
    Reader,
    Unreadable,
    several,
    span,
)

_EOF, _FINISHED, _ACK, _METADATA, _NAK, _PROMPT, _KEEP_ALIVE = 4, 5, 6, 7, 8, 9, 12
_NAMES = {_EOF: "EOF", _FINISHED: "Finished", _METADATA: "metadata", _PROMPT: "prompt", _KEEP_ALIVE: "keep alive"}
_OFFSET_BYTES, _CRC_BYTES = 4, 2
_FIXED_BYTES = 4
"""Of the header, before the entity ids."""
_IS_DATA, _UNUSUAL_FLAGS, _SEGMENT_METADATA = 0x10, 0x03, 0x08
"""Bits of the first octet of the header, CRC and large file, and of the fourth."""
_EOF_BYTES, _FINISHED_BYTES, _ACK_BYTES, _NAK_BYTES, _METADATA_BYTES = 10, 2, 3, 9, 6
"""Of a directive without options: that of metadata up to the file names, that of a NAK up to the segment requests."""


class Cfdp(Reader):
    """Reads PDUs, one in a datagram."""

    LAYER, TITLE = "cfdp", "CFDP"
    NEEDS_TSHARK = False
    FIELDS = (
        "cfdp.pdu_type",
        "cfdp.res1",
        "cfdp.res3",
        "cfdp.crc_flag",
        "cfdp.data_length",
        "cfdp.entid_length",
        "cfdp.transeqnum_length",
        "cfdp.srcid",
        "cfdp.transeqnum",
        "cfdp.fdtype",
        "cfdp.offset",
        "cfdp.file_size",
        "cfdp.dir_code_ack",
        "cfdp.delivery_code",
        "cfdp.progress",
        "cfdp.nak_st_scope",
        "cfdp.nak_sp_scope",
        "cfdp.segment_requests",
    )

    def __init__(self) -> None:
        self._file_bytes: dict[object, int] = {}

    def fields(self, payload: bytes, datagram_bytes: int) -> Fields | None:
        """Those of a PDU of a small file without CRC, segment metadata and options, alone in its datagram."""
        if len(payload) < _FIXED_BYTES:
            return None
        flags, data_bytes, lengths = unpack_from(">BHB", payload)
        entity_bytes, sequence_bytes = (lengths >> 4 & 7) + 1, (lengths & 7) + 1
        sequence_at = _FIXED_BYTES + entity_bytes
        body = sequence_at + sequence_bytes + entity_bytes
        if flags & _UNUSUAL_FLAGS or lengths & _SEGMENT_METADATA or body + data_bytes != datagram_bytes:
            return None
        is_data = bool(flags & _IS_DATA)
        fields = _fields_of_data(payload, body, data_bytes) if is_data else _directive(payload[body:], data_bytes)
        if fields is None:
            return None
        return fields | {
            "cfdp.pdu_type": (int(is_data),),
            "cfdp.data_length": (data_bytes,),
            "cfdp.entid_length": (entity_bytes - 1,),
            "cfdp.transeqnum_length": (sequence_bytes - 1,),
            "cfdp.srcid": (int.from_bytes(payload[_FIXED_BYTES:sequence_at], "big"),),
            "cfdp.transeqnum": (int.from_bytes(payload[sequence_at : sequence_at + sequence_bytes], "big"),),
        }

    def read(self, packet: Packet) -> PacketContent:
        """The content of a PDU."""
        unit = packet.number("cfdp.srcid"), packet.number("cfdp.transeqnum")
        if packet.number("cfdp.pdu_type") == 1:
            return self._file_data(packet, unit)
        directive = packet.number("cfdp.fdtype")
        if directive == _ACK:
            return PacketContent(f"ACK of {_NAMES.get(packet.number('cfdp.dir_code_ack') or 0, 'nothing known')}")
        if directive == _NAK:
            return self._nak(packet, unit)
        if directive not in _NAMES:
            raise Unreadable(f"file directive {directive}")
        is_whole = len(packet.payload) >= _header_bytes(packet) + (packet.number("cfdp.data_length") or 0)
        file_bytes = packet.number("cfdp.file_size")
        if directive in (_EOF, _METADATA):
            if file_bytes is None or packet.number("cfdp.res1"):
                return PacketContent(_NAMES[directive])
            self._file_bytes[unit] = file_bytes
            return PacketContent(_NAMES[directive], f"file of {file_bytes} bytes" if is_whole else CUT)
        if directive == _FINISHED and packet.number("cfdp.delivery_code") == 0:
            return PacketContent("Finished", "all delivered", acknowledged_bytes=self._file_bytes.get(unit), unit=unit)
        if directive == _KEEP_ALIVE:
            return PacketContent("keep alive", f"progress {packet.number('cfdp.progress')}")
        return PacketContent(_NAMES[directive], "" if is_whole else CUT)

    def _file_data(self, packet: Packet, unit: object) -> PacketContent:
        crc_bytes = _CRC_BYTES if packet.number("cfdp.crc_flag") else 0
        byte_count = max((packet.number("cfdp.data_length") or 0) - _OFFSET_BYTES - crc_bytes, 0)
        offset = packet.number("cfdp.offset")
        data_at = _header_bytes(packet) + _OFFSET_BYTES
        if offset is None or len(packet.payload) < data_at:
            return PacketContent("data", CUT, byte_count=byte_count, unplaced=True, unit=unit)
        if packet.number("cfdp.res1") or packet.number("cfdp.res3"):
            return PacketContent("data", byte_count=byte_count, unplaced=True, unit=unit)
        return PacketContent("data", span(offset, byte_count), offset, byte_count, unit=unit, data_at=data_at)

    def _nak(self, packet: Packet, unit: object) -> PacketContent:
        start, end = packet.number("cfdp.nak_st_scope"), packet.number("cfdp.nak_sp_scope")
        is_whole = len(packet.payload) >= _header_bytes(packet) + (packet.number("cfdp.data_length") or 0)
        if start is None or end is None or packet.number("cfdp.res1"):
            return PacketContent("NAK")
        if not is_whole:
            return PacketContent("NAK", CUT)
        requests = packet.octets("cfdp.segment_requests")
        if len(requests) % 8:
            raise Unreadable(f"{len(requests)} octets of segment requests")
        holes = [hole for hole in iter_unpack(">II", requests) if hole != (0, 0)]
        missing_bytes = sum(last - first for first, last in holes)
        has_metadata_missing = len(holes) < len(requests) // 8
        detail = several(len(holes), "hole") + (", metadata missing" if has_metadata_missing else "")
        return PacketContent("NAK", detail, acknowledged_bytes=max(end - start - missing_bytes, 0), unit=unit)


def _header_bytes(packet: Packet) -> int:
    """Of the fixed PDU header: section 5.1."""
    entity_bytes = (packet.number("cfdp.entid_length") or 0) + 1
    return 4 + 2 * entity_bytes + (packet.number("cfdp.transeqnum_length") or 0) + 1


def _fields_of_data(payload: bytes, body: int, data_bytes: int) -> dict[str, tuple[int, ...] | bytes] | None:
    if data_bytes < _OFFSET_BYTES or len(payload) < body + _OFFSET_BYTES:
        return None
    return {"cfdp.offset": unpack_from(">I", payload, body)}


def _directive(body: bytes, data_bytes: int) -> dict[str, tuple[int, ...] | bytes] | None:
    """The fields of a file directive that was captured to its end; None if it has options."""
    if not body or len(body) != data_bytes:
        return None
    fields: dict[str, tuple[int, ...] | bytes] = {"cfdp.fdtype": (body[0],)}
    if body[0] == _EOF and data_bytes == _EOF_BYTES:
        return fields | {"cfdp.file_size": unpack_from(">I", body, 6)}
    if body[0] == _FINISHED and data_bytes == _FINISHED_BYTES:
        return fields | {"cfdp.delivery_code": (body[1] >> 2 & 1,)}
    if body[0] == _ACK and data_bytes == _ACK_BYTES:
        return fields | {"cfdp.dir_code_ack": (body[1] >> 4,)}
    if body[0] == _NAK and data_bytes >= _NAK_BYTES:
        start, end = unpack_from(">II", body, 1)
        requests = body[_NAK_BYTES:]
        return fields | {"cfdp.nak_st_scope": (start,), "cfdp.nak_sp_scope": (end,), "cfdp.segment_requests": requests}
    if body[0] == _METADATA and _ends_with_names(body):
        return fields | {"cfdp.file_size": unpack_from(">I", body, 2)}
    return None


def _ends_with_names(metadata: bytes) -> bool:
    """Whether nothing is behind the names of a file at the source, which is not empty, and at the destination."""
    if len(metadata) <= _METADATA_BYTES or not metadata[_METADATA_BYTES]:
        return False
    second_at = _METADATA_BYTES + 1 + metadata[_METADATA_BYTES]
    return second_at < len(metadata) and second_at + 1 + metadata[second_at] == len(metadata)
