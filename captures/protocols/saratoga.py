"""Saratoga: the fields of a packet of version 1 (draft-wood-tsvwg-saratoga-20) or 0, and their meaning for the file.
Version 0 was never published: `agents.saratoga.version0` documents the source of this layout.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

from owlt.captures.protocols.reader import CUT, Packet, PacketContent, Reader, Unreadable, several, span

ERRORS = {
    0x00: "success",
    0x01: "unspecified error",
    0x02: "sender lacks resources",
    0x03: "receiver lacks resources",
    0x04: "file not found",
    0x05: "access denied",
    0x06: "unknown session",
    0x07: "not deleted",
    0x08: "file too long",
    0x09: "wrong descriptor",
    0x0A: "unsupported packet type",
    0x0B: "unsupported request",
    0x0C: "timed out",
    0x0D: "data flags changed",
    0x0E: "receiver not interested",
    0x0F: "file in use",
    0x10: "metadata required",
    0x11: "unexpected status",
}
"""Codes of a STATUS: section 4.5 of the draft."""
_STAMP_BYTES = 16
"""A timestamp: its type, then a time."""
_SHORT_OFFSET = 1
"""The descriptor of offsets of 4 octets, the only ones of version 0."""

_STREAM = 3
"""The transfer type in METADATA for data of unknown size."""
_HARMLESS = (0x10,)
"""A request for METADATA, after which the session continues."""


class NotSaratoga(Unreadable):
    """The octets are not a packet of Saratoga, or end before its fields do."""


@dataclass(frozen=True)
class SaratogaPacket:
    """A packet. `kind` is its type in lower case, "data", as in version 1; `fields` are by name, numbers, octets or
    pairs of numbers; `rest` is what stands behind them."""

    version: int
    kind: str
    fields: dict[str, Any]
    rest: bytes


def kind_of(octets: bytes) -> tuple[int, str]:
    """Version and kind of the packet that begins with these octets. Raises NotSaratoga."""
    version, kind = (octets[0] >> 5, octets[0] & 0x1F) if octets else (-1, -1)
    if version not in (0, 1) or not 0 <= kind < len(_KINDS):
        raise NotSaratoga(f"begins with {octets[:1].hex() or 'nothing'}")
    return version, _KINDS[kind]


def read_packet(octets: bytes) -> SaratogaPacket:
    """The packet that these octets are. Raises NotSaratoga."""
    version, kind = kind_of(octets)
    cursor = _Cursor(octets)
    _LAYOUTS[version, kind](cursor)
    return SaratogaPacket(version, kind, cursor.fields, octets[cursor.place :])


@cache
def _sizes(layout: str) -> tuple[tuple[str, int], ...]:
    """The name and the number of bits of each field."""
    return tuple((name, int(size)) for name, size in (field.split(":") for field in layout.split()))


class _Cursor:
    """Takes fields from octets, in their order, and keeps them by name. Raises NotSaratoga if the octets end."""

    def __init__(self, octets: bytes) -> None:
        self._octets = octets
        self.place = 0
        self.fields: dict[str, Any] = {}

    def bits(self, layout: str) -> None:
        """Fields of some bits each, the first in the highest: "version:3 type:5"."""
        sizes = _sizes(layout)
        left = sum(size for _, size in sizes)
        word = self._integer(left // 8, layout)
        for name, size in sizes:
            left -= size
            self.fields[name] = word >> left & (1 << size) - 1

    def integer(self, name: str, byte_count: int = 4) -> None:
        self.fields[name] = self._integer(byte_count, name)

    def offset(self, name: str, descriptor: int = _SHORT_OFFSET) -> None:
        """A number of 2, 4, 8 or 16 octets, as its descriptor says."""
        self.fields[name] = self._integer(2 << descriptor, name)

    def octets(self, name: str, byte_count: int) -> None:
        self.fields[name] = self._take(byte_count, name)

    def all(self, name: str) -> None:
        """All remaining octets."""
        self.fields[name] = self._take(len(self._octets) - self.place, name)

    def name(self, name: str) -> None:
        """Text that ends with a zero octet."""
        end = self._octets.find(0, self.place)
        if end < 0:
            raise NotSaratoga(f"{name}: no zero octet at its end")
        self.fields[name] = self._take(end - self.place, name)
        self.place += 1

    def holes(self, descriptor: int = _SHORT_OFFSET) -> None:
        """Pairs of offsets up to the end: the first missing byte and the byte after the last. Half a pair is left."""
        size = 2 << descriptor
        pairs = []
        while len(self._octets) - self.place >= 2 * size:
            pairs.append((self._integer(size, "holes"), self._integer(size, "holes")))
        self.fields["holes"] = pairs

    def _integer(self, byte_count: int, name: str) -> int:
        return int.from_bytes(self._take(byte_count, name), "big")

    def _take(self, byte_count: int, name: str) -> bytes:
        taken = self._octets[self.place : self.place + byte_count]
        if len(taken) < byte_count:
            raise NotSaratoga(f"{name}: expected {byte_count} octets, got {len(taken)}")
        self.place += byte_count
        return taken


def _beacon(cursor: _Cursor) -> None:
    cursor.bits(
        "version:3 type:5 descriptor:2 bundles:1 streams:1 sends:2 receives:2 "
        "udp_lite:1 has_free_space:1 free_space_descriptor:2 spare:12"
    )
    if cursor.fields["has_free_space"]:
        cursor.offset("free_space", cursor.fields["free_space_descriptor"])
    cursor.all("endpoint")


def _request(cursor: _Cursor) -> None:
    cursor.bits(
        "version:3 type:5 descriptor:2 bundles:1 streams:1 sends:2 receives:2 udp_lite:1 spare:7 request:8 session:32"
    )
    cursor.name("file_name")
    cursor.all("authentication")


def _metadata(cursor: _Cursor) -> None:
    cursor.bits(
        "version:3 type:5 descriptor:2 transfer:2 not_in_progress:1 udp_lite:1 spare:10 checksum_words:4 "
        "checksum_type:4 session:32"
    )
    cursor.octets("checksum", 4 * cursor.fields["checksum_words"])
    cursor.bits("entry:1 entry_spare:5 entry_kind:2 entry_descriptor:2 entry_spare_2:6")
    cursor.offset("file_bytes", cursor.fields["entry_descriptor"])
    cursor.integer("modified_s")
    cursor.integer("changed_s")
    cursor.name("file_name")


def _data(cursor: _Cursor) -> None:
    cursor.bits("version:3 type:5 descriptor:2 transfer:2 stamped:1 spare:2 asks:1 ends:1 spare_2:15 session:32")
    _stamp(cursor)
    cursor.offset("offset", cursor.fields["descriptor"])
    cursor.all("data")


def _status(cursor: _Cursor) -> None:
    cursor.bits(
        "version:3 type:5 descriptor:2 spare:2 stamped:1 metadata_missing:1 partial:1 voluntary:1 spare_2:8 error:8 "
        "session:32"
    )
    _stamp(cursor)
    descriptor = cursor.fields["descriptor"]
    cursor.offset("progress", descriptor)
    cursor.offset("in_response_to", descriptor)
    cursor.holes(descriptor)


def _stamp(cursor: _Cursor) -> None:
    if cursor.fields["stamped"]:
        cursor.octets("timestamp", _STAMP_BYTES)


def _beacon_0(cursor: _Cursor) -> None:
    cursor.bits("version:3 type:5 spare:8")
    cursor.all("endpoint")


def _request_0(cursor: _Cursor) -> None:
    cursor.bits("version:3 type:5 request:8 session:32")
    cursor.name("file_name")


def _metadata_0(cursor: _Cursor) -> None:
    cursor.bits("version:3 type:5 spare:8 session:32")
    cursor.offset("file_bytes")
    cursor.name("file_name")


def _data_0(cursor: _Cursor) -> None:
    cursor.bits("version:3 type:5 spare:7 asks:1 session:32")
    cursor.offset("offset")
    cursor.all("data")


def _holes_to_fill_0(cursor: _Cursor) -> None:
    cursor.bits("version:3 type:5 spare:5 metadata_missing:1 partial:1 voluntary:1 session:32")
    cursor.offset("progress")
    cursor.offset("in_response_to")
    cursor.holes()


_KINDS = ("beacon", "request", "metadata", "data", "status")
"""The kinds by the number of the type; version 0 calls the last one HOLESTOFILL."""
_LAYOUTS: dict[tuple[int, str], Callable[[_Cursor], None]] = {
    (1, "beacon"): _beacon,
    (1, "request"): _request,
    (1, "metadata"): _metadata,
    (1, "data"): _data,
    (1, "status"): _status,
    (0, "beacon"): _beacon_0,
    (0, "request"): _request_0,
    (0, "metadata"): _metadata_0,
    (0, "data"): _data_0,
    (0, "status"): _holes_to_fill_0,
}


class Saratoga(Reader):
    """Reads packets, one in a datagram."""

    TITLE = "Saratoga"

    def read(self, packet: Packet) -> PacketContent:
        """The content of a packet."""
        if packet.cut and not packet.payload:
            return PacketContent("packet", CUT, unplaced=True)
        _, kind = kind_of(packet.payload)
        try:
            read = read_packet(packet.payload)
        except NotSaratoga:
            if packet.cut:
                return PacketContent(kind, CUT, unplaced=kind == "data")
            raise
        if kind == "data":
            return _data_content(packet, read)
        if kind == "status":
            return _status_content(packet, read)
        if kind == "metadata":
            size, is_stream = read.fields["file_bytes"], read.fields.get("transfer") == _STREAM
            return PacketContent(kind, f"file of {size} bytes", file_bytes=None if is_stream else size)
        return PacketContent(kind, CUT if packet.cut else "")


def _data_content(packet: Packet, read: SaratogaPacket) -> PacketContent:
    fields = read.fields
    data_at = len(packet.payload) - len(fields["data"])
    count = packet.datagram_bytes - data_at
    detail = span(fields["offset"], count) + (", requests status" if fields["asks"] else "")
    return PacketContent("data", detail, fields["offset"], count, unit=fields["session"], data_at=data_at)


def _status_content(packet: Packet, read: SaratogaPacket) -> PacketContent:
    """All bytes before `in_response_to` have arrived except the holes; if the list continues, all before `progress`."""
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
