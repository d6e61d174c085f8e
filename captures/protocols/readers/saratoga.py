"""Saratoga, versions 1 and 0; the packets' fields belong to saratoga_packets.py."""

from __future__ import annotations

from owlt.captures.protocols.readers.reader import (
    CUT,
    Packet,
    PacketContent,
    Reader,
    Unreadable,
    several,
    span,
)
from owlt.captures.protocols.readers.saratoga_packets import ERRORS, NotSaratoga, SaratogaPacket, kind_of, read_packet

_STREAM = 3
"""The transfer type in METADATA for data of unknown size."""
_HARMLESS = (0x10,)
"""A request for METADATA, after which the session continues."""


class Saratoga(Reader):
    """Reads packets, one in a datagram."""

    LAYER, TITLE = "", "Saratoga"
    FIELDS = ()
    NEEDS_TSHARK = False

    def read(self, packet: Packet) -> PacketContent:
        """The content of a packet."""
        if packet.cut and not packet.payload:
            return PacketContent("packet", CUT, unplaced=True)
        try:
            _, kind = kind_of(packet.payload)
        except NotSaratoga as error:
            raise Unreadable(str(error)) from error
        try:
            read = read_packet(packet.payload)
        except NotSaratoga as error:
            if packet.cut:
                return PacketContent(kind, CUT, unplaced=kind == "data")
            raise Unreadable(str(error)) from error
        if kind == "data":
            return _data(packet, read)
        if kind == "status":
            return _status(packet, read)
        if kind == "metadata":
            size, is_stream = read.fields["file_bytes"], read.fields.get("transfer") == _STREAM
            return PacketContent(kind, f"file of {size} bytes", file_bytes=None if is_stream else size)
        return PacketContent(kind, CUT if packet.cut else "")


def _data(packet: Packet, read: SaratogaPacket) -> PacketContent:
    fields = read.fields
    data_at = len(packet.payload) - len(fields["data"])
    count = packet.datagram_bytes - data_at
    detail = span(fields["offset"], count) + (", requests status" if fields["asks"] else "")
    return PacketContent("data", detail, fields["offset"], count, unit=fields["session"], data_at=data_at)


def _status(packet: Packet, read: SaratogaPacket) -> PacketContent:
    """All before `in_response_to` has come but the holes; of a list that does not end here, all before `progress`."""
    fields = read.fields
    if error := fields.get("error", 0):
        return PacketContent(
            "status", f"error: {ERRORS.get(error, error)}", verdict="" if error in _HARMLESS else "ended early"
        )
    progress, holes = fields["progress"], fields["holes"]
    if packet.cut:
        return PacketContent("status", CUT, acknowledged_bytes=progress, unit=fields["session"])
    if read.rest:
        raise Unreadable("half a hole at the end")
    missing = sum(max(end - start, 0) for start, end in holes)
    whole_list = max(fields["in_response_to"] - missing, progress)
    acknowledged = progress if fields["partial"] else whole_list
    missing_metadata = ", metadata missing" if fields["metadata_missing"] else ""
    detail = f"{several(len(holes), 'hole')}{missing_metadata}, everything received before byte {progress}"
    return PacketContent("status", detail, acknowledged_bytes=acknowledged, unit=fields["session"])
