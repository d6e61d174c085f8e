"""CFDP: CCSDS 727.0-B-5, section 5.

tshark (4.0) takes every offset for four octets and knows no segment metadata: of PDUs of large files, or with
metadata, only the name is told.
"""

from __future__ import annotations

from struct import iter_unpack

from captures.protocols.reading import CUT, Packet, Reader, Said, Unreadable, several, span

_EOF, _FINISHED, _ACK, _METADATA, _NAK, _PROMPT, _KEEP_ALIVE = 4, 5, 6, 7, 8, 9, 12
_NAMES = {_EOF: "EOF", _FINISHED: "Finished", _METADATA: "metadata", _PROMPT: "prompt", _KEEP_ALIVE: "keep alive"}
_OFFSET_BYTES, _CRC_BYTES = 4, 2


class Cfdp(Reader):
    """Reads PDUs, one in a datagram."""

    LAYER, TITLE = "cfdp", "CFDP"
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

    def read(self, packet: Packet) -> Said:
        """What a PDU says."""
        unit = packet.fields["cfdp.srcid"], packet.fields["cfdp.transeqnum"]
        if packet.number("cfdp.pdu_type") == 1:
            return self._file_data(packet, unit)
        directive = packet.number("cfdp.fdtype")
        if directive == _ACK:
            return Said(f"ACK of {_NAMES.get(packet.number('cfdp.dir_code_ack') or 0, 'nothing known')}")
        if directive == _NAK:
            return self._nak(packet, unit)
        if directive not in _NAMES:
            raise Unreadable(f"file directive {directive}")
        is_whole = len(packet.payload) >= _header_bytes(packet) + (packet.number("cfdp.data_length") or 0)
        file_bytes = packet.number("cfdp.file_size")
        if directive in (_EOF, _METADATA):
            if file_bytes is None or packet.number("cfdp.res1"):
                return Said(_NAMES[directive])
            self._file_bytes[unit] = file_bytes
            return Said(_NAMES[directive], f"file of {file_bytes} bytes" if is_whole else CUT)
        if directive == _FINISHED and packet.number("cfdp.delivery_code") == 0:
            return Said("Finished", "all delivered", acknowledged_bytes=self._file_bytes.get(unit), unit=unit)
        if directive == _KEEP_ALIVE:
            return Said("keep alive", f"progress {packet.number('cfdp.progress')}")
        return Said(_NAMES[directive], "" if is_whole else CUT)

    def _file_data(self, packet: Packet, unit: object) -> Said:
        crc_bytes = _CRC_BYTES if packet.number("cfdp.crc_flag") else 0
        byte_count = max((packet.number("cfdp.data_length") or 0) - _OFFSET_BYTES - crc_bytes, 0)
        offset = packet.number("cfdp.offset")
        data_at = _header_bytes(packet) + _OFFSET_BYTES
        if offset is None or len(packet.payload) < data_at:
            return Said("data", CUT, byte_count=byte_count, unplaced=True, unit=unit)
        if packet.number("cfdp.res1") or packet.number("cfdp.res3"):
            return Said("data", byte_count=byte_count, unplaced=True, unit=unit)
        return Said("data", span(offset, byte_count), offset, byte_count, unit=unit, data_at=data_at)

    def _nak(self, packet: Packet, unit: object) -> Said:
        start, end = packet.number("cfdp.nak_st_scope"), packet.number("cfdp.nak_sp_scope")
        is_whole = len(packet.payload) >= _header_bytes(packet) + (packet.number("cfdp.data_length") or 0)
        if start is None or end is None or packet.number("cfdp.res1"):
            return Said("NAK")
        if not is_whole:
            return Said("NAK", CUT)
        requests = bytes.fromhex(packet.fields["cfdp.segment_requests"].replace(",", ""))
        if len(requests) % 8:
            raise Unreadable(f"{len(requests)} octets of segment requests")
        holes = [hole for hole in iter_unpack(">II", requests) if hole != (0, 0)]
        missing_bytes = sum(last - first for first, last in holes)
        has_metadata_missing = len(holes) < len(requests) // 8
        detail = several(len(holes), "hole") + (", metadata missing" if has_metadata_missing else "")
        return Said("NAK", detail, acknowledged_bytes=max(end - start - missing_bytes, 0), unit=unit)


def _header_bytes(packet: Packet) -> int:
    """Of the fixed PDU header: section 5.1."""
    entity_bytes = (packet.number("cfdp.entid_length") or 0) + 1
    return 4 + 2 * entity_bytes + (packet.number("cfdp.transeqnum_length") or 0) + 1
