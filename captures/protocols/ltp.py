"""Reads LTP segments (RFC 5326, section 3) and finds which bytes of the file each of them carries.

The positions of blocks whose first bytes were seen are kept, because later segments have only an offset in the block.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from owlt.captures.protocols.bundles import Custody, NotABundle, Placement
from owlt.captures.protocols.reader import (
    CUT,
    FileVerdict,
    Packet,
    PacketContent,
    Reader,
    Unreadable,
    each_unit,
    read_number,
    several,
    span,
)

_RED, _CHECKPOINTS, _GREENS = 0, (1, 2, 3), (4, 7)
_DATA = (_RED, *_CHECKPOINTS, *_GREENS)
_REPORT, _REPORT_ACK, _CANCELS, _CANCEL_ACKS = 8, 9, (12, 14), (13, 15)
_ENDS_OF_BLOCK = (3, 7)
_NAMES = {_RED: "red data", _REPORT: "report", _REPORT_ACK: "report-ack"}
_NAMES |= dict.fromkeys(_CHECKPOINTS, "checkpoint") | dict.fromkeys(_GREENS, "green data")
_NAMES |= dict.fromkeys(_CANCELS, "cancel") | dict.fromkeys(_CANCEL_ACKS, "cancel-ack")
_REASONS = {
    0: "client cancelled",
    1: "unreachable client service",
    2: "retransmission limit exceeded",
    3: "miscolored segment",
    4: "system error",
    5: "retransmission cycle limit exceeded",
}
"""Reasons of a cancellation: section 3.2.4."""
_BUNDLE_PROTOCOL = 1
"""The client service whose blocks are bundles (SANA registry of LTP client service ids)."""
_EVERYWHERE = 1 << 64

_Block = tuple[int | None, int | None]
"""Engine id of the originator and session number."""


class Ltp(Reader):
    """Reads segments; a datagram may contain several. With `names_bundles`, a segment with the beginning of a bundle
    has the bundle's name."""

    TITLE = "LTP"

    def __init__(self, names_bundles: bool = False) -> None:
        self._names_bundles = names_bundles
        self._custody = Custody()
        self._blocks: dict[_Block, Placement | None] = {}
        """The blocks whose first bytes were read; None for the block of a signal, which carries no part of the file."""
        self._carries_bundles: set[_Block] = set()

    def ignorant(self) -> Ltp:
        """A reader that has seen no blocks."""
        return Ltp(self._names_bundles)

    def read(self, packet: Packet) -> list[PacketContent]:
        """The content of each segment."""
        return each_unit(packet, partial(self._segment, packet))

    def _segment(self, packet: Packet, begin: int) -> tuple[PacketContent, int]:
        """The content of the segment that begins here, and the position of the next one; for a cut segment, the
        datagram's end."""
        octets = packet.payload
        if not octets and packet.cut:
            return PacketContent("segment", CUT, unplaced=True), packet.datagram_bytes
        if not octets:
            raise Unreadable("no segment")
        version, kind = octets[begin] >> 4, octets[begin] & 15
        if version:
            raise Unreadable(f"version {version}")
        if kind not in _NAMES:
            raise Unreadable(f"segment type {kind}")
        try:
            originator, place = read_number(octets, begin + 1)
            number, place = read_number(octets, place)
            extensions, place = octets[place], place + 1
            place = _behind_extensions(octets, place, extensions >> 4)
            content, place = self._content(packet, kind, (originator, number), place)
            if place > packet.datagram_bytes:
                raise Unreadable(f"a segment of {place - begin} octets in a datagram of {packet.datagram_bytes}")
        except IndexError as error:
            if not packet.cut:
                raise Unreadable(f"a truncated segment: {error}") from error
            return PacketContent(_NAMES[kind], CUT, unplaced=kind in _DATA), packet.datagram_bytes
        try:
            place = _behind_extensions(octets, place, extensions & 15)
        except IndexError as error:
            if not packet.cut:
                raise Unreadable("a truncated list of extensions") from error
            place = max(place, len(octets))  # what follows is the rest of them, or another segment
        if place > packet.datagram_bytes:
            raise Unreadable("a truncated list of extensions")
        return content, place

    def _content(self, packet: Packet, kind: int, block: _Block, place: int) -> tuple[PacketContent, int]:
        """The content after the header of a segment, and the position of its end. Raises IndexError, Unreadable."""
        octets = packet.payload
        if kind in _DATA:
            return self._data(packet, kind, block, place)
        if kind == _REPORT:
            return self._report(octets, block, place)
        if kind == _REPORT_ACK:
            return PacketContent(_NAMES[kind]), read_number(octets, place)[1]
        if kind in _CANCELS:
            reason = _REASONS.get(octets[place], f"reason {octets[place]}")
            verdict: FileVerdict = "" if block in self._carries_bundles else "ended early"
            return PacketContent("cancel", reason, unit=self._unit(block), verdict=verdict), place + 1
        return PacketContent("cancel-ack"), place

    def _unit(self, block: _Block) -> object:
        placement = self._blocks.get(block)
        return placement.unit if placement else None

    def _data(self, packet: Packet, kind: int, block: _Block, place: int) -> tuple[PacketContent, int]:
        client, place = read_number(packet.payload, place)
        offset, place = read_number(packet.payload, place)
        length, place = read_number(packet.payload, place)
        if kind in _CHECKPOINTS:
            _, place = read_number(packet.payload, place)
            _, place = read_number(packet.payload, place)
        end = place + length
        if end > packet.datagram_bytes:
            raise Unreadable(f"{length} octets of data in a datagram of {packet.datagram_bytes}")
        start = None
        if block not in self._blocks and offset == 0 and client == _BUNDLE_PROTOCOL:
            missing_octets = max(end - len(packet.payload), 0) + (kind not in _ENDS_OF_BLOCK)
            start = self._begin(packet.payload[place:end], block, missing_octets)
        if block not in self._blocks and client != _BUNDLE_PROTOCOL:
            self._place_as_file(block)
        if client == _BUNDLE_PROTOCOL and self._unit(block) != block:
            self._carries_bundles.add(block)
        content = self._piece(kind, block, offset, length, place)
        if start is not None and self._names_bundles:
            content = replace(
                content,
                name=start.name,
                detail=start.detail or content.detail,
                acknowledged_bytes=start.acknowledged_bytes,
            )
        return content, end

    def _begin(self, octets: bytes, block: _Block, missing_octets: int) -> PacketContent | None:
        """The content of the bundle at the beginning of a block; None if there is no bundle. A block that begins with
        something else is the file, whichever client service it names."""
        try:
            start = self._custody.begin(octets, missing_octets)
        except NotABundle:
            self._place_as_file(block)
            return None
        except Unreadable:
            return None
        if not start.content.unplaced:
            self._blocks[block] = start.placement
        return start.content

    def _place_as_file(self, block: _Block) -> None:
        self._blocks[block] = Placement(0, _EVERYWHERE, 0, block)

    def _piece(self, kind: int, block: _Block, offset: int, length: int, data_at: int) -> PacketContent:
        """The part of the file in a piece of a block, according to the first bytes of the block."""
        ending = ", end of block" if kind in _ENDS_OF_BLOCK else ""
        if block not in self._blocks:
            detail = f"{span(offset, length)} of a block{ending}"
            return PacketContent(_NAMES[kind], detail, byte_count=length, unplaced=True)
        placement = self._blocks[block]
        if placement is None:
            return PacketContent(_NAMES[kind], f"{span(offset, length)} of a signal{ending}")
        first_byte, byte_count = placement.piece(offset, length)
        detail = ("headers" if length and first_byte is None else span(first_byte or 0, byte_count)) + ending
        before = max(placement.payload_at - offset, 0)
        is_size_known = kind in _ENDS_OF_BLOCK and placement.unit == block
        return PacketContent(
            _NAMES[kind],
            detail,
            first_byte,
            byte_count,
            unit=placement.unit,
            data_at=data_at + before,
            file_bytes=offset + length if is_size_known else None,
        )

    def _report(self, octets: bytes, block: _Block, place: int) -> tuple[PacketContent, int]:
        numbers = []
        for _ in range(5):
            number, place = read_number(octets, place)
            numbers.append(number)
        _, _, upper, lower, claim_count = numbers
        claims = []
        for _ in range(claim_count):
            offset, place = read_number(octets, place)
            length, place = read_number(octets, place)
            claims.append((offset, length))
        if upper < lower:
            raise Unreadable(f"a report from {lower} to {upper}")
        placement = self._blocks.get(block)
        detail = f"{several(len(claims), 'claim')} in {span(lower, upper - lower)}"
        if placement is None or sum(length for _, length in claims) > upper - lower:
            return PacketContent("report", detail), place
        pieces = [placement.piece(lower + offset, length) for offset, length in claims]
        acknowledged_bytes = sum(count for _, count in pieces)
        return PacketContent("report", detail, acknowledged_bytes=acknowledged_bytes, unit=placement.unit), place


def _behind_extensions(octets: bytes, place: int, count: int) -> int:
    """The position after `count` extensions: type, length, value (section 3.1.4). Raises IndexError."""
    for _ in range(count):
        length, place = read_number(octets, place + 1)
        place += length
    return place
