"""LTP: RFC 5326, section 3. A datagram carries one segment; of several, only the first is reported."""

from __future__ import annotations

from dataclasses import replace

from captures.protocols.readers.bundles import Custody, Placement
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

_RED, _CHECKPOINTS, _GREENS = 0, (1, 2, 3), (4, 7)
_REPORT, _REPORT_ACK, _CANCELS, _CANCEL_ACKS = 8, 9, (12, 14), (13, 15)
_ENDS_OF_BLOCK = (3, 7)
_BUNDLE_PROTOCOL = 1
"""The client service whose blocks are bundles (SANA registry of LTP client service ids)."""
_LEAST_OCTETS, _CANCEL_ACK_OCTETS = 5, (b"\x0d", b"\x0f")
_EVERYWHERE = 1 << 64
_IN_A_PIECE = 2
"""The client service whose data begin with a number of their own (CCSDS 734.1-B-1, section 7)."""
_ID_OCTETS, _NUMBER_OCTETS = 8, 4
"""Up to how many octets of a number are read here, in a session's id and behind it."""

_Block = tuple[int | None, int | None]
"""Engine id of the originator and session number."""


class Ltp(Reader):
    """Reads segments; with `names_bundles`, the first that begins a bundle is named as the bundle."""

    LAYER, TITLE = "ltp", "LTP"
    NEEDS_TSHARK = False
    FIELDS = (
        "ltp.version",
        "ltp.type",
        "ltp.session.orig",
        "ltp.session.number",
        "ltp.data.client.id",
        "ltp.data.offset",
        "ltp.data.length",
        "ltp.trl.extn.cnt",
        "ltp.rpt.lb",
        "ltp.rpt.ub",
        "ltp.rpt.clm.off",
        "ltp.rpt.clm.len",
    )

    def __init__(self, names_bundles: bool = False) -> None:
        self._names_bundles = names_bundles
        self._custody = Custody()
        self._blocks: dict[_Block, Placement | None] = {}
        """Those whose begin was read; None for a signal's, which carries nothing of the file."""

    def fields(self, payload: bytes, datagram_bytes: int) -> Fields | None:
        """Those of a segment without extensions, alone in its datagram."""
        if len(payload) < _LEAST_OCTETS:
            return None
        try:
            originator, place = _number(payload, 1, _ID_OCTETS)
            number, place = _number(payload, place, _ID_OCTETS)
            if payload[place]:  # how many extensions there are
                return None
            content = _content_fields(payload, place + 1, datagram_bytes)
        except IndexError:
            return None
        if content is None:
            return None
        return content | {
            "ltp.version": (payload[0] >> 4,),
            "ltp.type": (payload[0] & 15,),
            "ltp.session.orig": (originator,),
            "ltp.session.number": (number,),
        }

    def rescue(self, packet: Packet) -> PacketContent:
        """The acknowledgement of a cancellation may be shorter than tshark (4.0) takes any segment to be."""
        if len(packet.payload) == packet.datagram_bytes < _LEAST_OCTETS and packet.payload[:1] in _CANCEL_ACK_OCTETS:
            return PacketContent("cancel-ack")
        return super().rescue(packet)

    def ignorant(self) -> Ltp:
        """A reader without blocks."""
        return Ltp(self._names_bundles)

    def read(self, packet: Packet) -> PacketContent:
        """The content of a segment."""
        if packet.number("ltp.version") != 0:
            raise Unreadable(f"version {packet.number('ltp.version')}")
        kinds = packet.numbers("ltp.type")
        block = packet.number("ltp.session.orig"), packet.number("ltp.session.number")
        if len(kinds) > 1:
            return PacketContent(_name(kinds[0]), f"and {several(len(kinds) - 1, 'segment')} more", unplaced=True)
        if not kinds:
            raise Unreadable("a segment without a type")
        kind = kinds[0]
        if kind in (_RED, *_CHECKPOINTS, *_GREENS):
            return self._data(packet, kind, block)
        return self._report(packet, block) if kind == _REPORT else PacketContent(_name(kind))

    def _data(self, packet: Packet, kind: int, block: _Block) -> PacketContent:
        offset, length = packet.number("ltp.data.offset"), packet.number("ltp.data.length")
        if offset is None or length is None:
            if packet.cut:
                return PacketContent(_name(kind), CUT, unplaced=True)
            raise Unreadable("data without offset or length")
        data_at = packet.datagram_bytes - length
        if packet.number("ltp.trl.extn.cnt") or not 0 <= data_at <= len(packet.payload):
            return PacketContent(_name(kind), CUT if packet.cut else "", byte_count=length, unplaced=True)
        start = self._begin(packet, kind, block, data_at) if block not in self._blocks and offset == 0 else None
        if block not in self._blocks and packet.number("ltp.data.client.id") != _BUNDLE_PROTOCOL:
            self._blocks[block] = Placement(0, _EVERYWHERE, 0, block)
        content = self._piece(kind, block, offset, length, data_at)
        if start is None or not self._names_bundles:
            return content
        return replace(
            content, name=start.name, detail=start.detail or content.detail, acknowledged_bytes=start.acknowledged_bytes
        )

    def _begin(self, packet: Packet, kind: int, block: _Block, data_at: int) -> PacketContent | None:
        """What the bundle says with which a block begins; None if it is none of version 6."""
        if packet.number("ltp.data.client.id") != _BUNDLE_PROTOCOL:
            return None
        missing_octets = packet.datagram_bytes - len(packet.payload) + (kind not in _ENDS_OF_BLOCK)
        try:
            start = self._custody.begin(packet.payload[data_at:], missing_octets)
        except Unreadable:
            return None
        if not start.content.unplaced:
            self._blocks[block] = start.placement
        return start.content

    def _piece(self, kind: int, block: _Block, offset: int, length: int, data_at: int) -> PacketContent:
        """What part of the file a piece of a block is, by what is known of the block's begin."""
        ending = ", end of block" if kind in _ENDS_OF_BLOCK else ""
        if block not in self._blocks:
            detail = f"{span(offset, length)} of a block{ending}"
            return PacketContent(_name(kind), detail, byte_count=length, unplaced=True)
        placement = self._blocks[block]
        if placement is None:
            return PacketContent(_name(kind), f"{span(offset, length)} of a signal{ending}")
        first_byte, byte_count = placement.piece(offset, length)
        detail = (span(first_byte, byte_count) if first_byte is not None else "headers") + ending
        before = max(placement.payload_at - offset, 0)
        return PacketContent(_name(kind), detail, first_byte, byte_count, unit=placement.unit, data_at=data_at + before)

    def _report(self, packet: Packet, block: _Block) -> PacketContent:
        lower, upper = packet.number("ltp.rpt.lb"), packet.number("ltp.rpt.ub")
        if packet.cut or lower is None or upper is None:
            return PacketContent("report", CUT if packet.cut else "")
        claims = list(zip(packet.numbers("ltp.rpt.clm.off"), packet.numbers("ltp.rpt.clm.len"), strict=False))
        placement = self._blocks.get(block)
        claimed = sum(length for _, length in claims)
        detail = f"{several(len(claims), 'claim')} in {span(lower, upper - lower)}"
        if placement is None or claimed > upper - lower:
            return PacketContent("report", detail)
        pieces = [placement.piece(lower + offset, length) for offset, length in claims]
        return PacketContent(
            "report", detail, acknowledged_bytes=sum(count for _, count in pieces), unit=placement.unit
        )


def _name(kind: int) -> str:
    names = {_RED: "red data", _REPORT: "report", _REPORT_ACK: "report-ack"}
    names |= dict.fromkeys(_CHECKPOINTS, "checkpoint") | dict.fromkeys(_GREENS, "green data")
    names |= dict.fromkeys(_CANCELS, "cancel") | dict.fromkeys(_CANCEL_ACKS, "cancel-ack")
    if kind not in names:
        raise Unreadable(f"segment type {kind}")
    return names[kind]


def _content_fields(payload: bytes, place: int, datagram_bytes: int) -> dict[str, tuple[int, ...]] | None:
    """The fields behind the header, if they end where the datagram does. Raises IndexError if the octets end before."""
    kind = payload[0] & 15
    if kind == _REPORT:
        return _report_fields(payload, place, datagram_bytes)
    if kind == _REPORT_ACK:
        return {} if _number(payload, place, _NUMBER_OCTETS)[1] == datagram_bytes else None
    if kind in _CANCELS:
        return {} if place + 1 == datagram_bytes == len(payload) else None
    if kind in _CANCEL_ACKS:
        return {} if place == datagram_bytes else None
    if kind not in (_RED, *_CHECKPOINTS, *_GREENS):
        return None
    client, place = _number(payload, place, _NUMBER_OCTETS)
    offset, place = _number(payload, place, _NUMBER_OCTETS)
    length, place = _number(payload, place, _NUMBER_OCTETS)
    if kind in _CHECKPOINTS:
        _, place = _number(payload, place, _NUMBER_OCTETS)
        _, place = _number(payload, place, _NUMBER_OCTETS)
    if client == _IN_A_PIECE or not length or place + length != datagram_bytes:
        return None
    return {"ltp.data.client.id": (client,), "ltp.data.offset": (offset,), "ltp.data.length": (length,)}


def _report_fields(payload: bytes, place: int, datagram_bytes: int) -> dict[str, tuple[int, ...]] | None:
    numbers = []
    while place < datagram_bytes:
        number, place = _number(payload, place, _NUMBER_OCTETS)
        numbers.append(number)
    if len(numbers) < 5 or len(numbers) != 5 + 2 * numbers[4]:
        return None
    _, _, upper, lower, _, *claims = numbers
    return {
        "ltp.rpt.ub": (upper,),
        "ltp.rpt.lb": (lower,),
        "ltp.rpt.clm.off": tuple(claims[::2]),
        "ltp.rpt.clm.len": tuple(claims[1::2]),
    }


def _number(octets: bytes, place: int, most_octets: int) -> tuple[int, int]:
    """The self-delimiting number at a place, and where it ends: seven bits an octet, the highest bit set in all but the
    last. Raises IndexError if it does not end."""
    octet = octets[place]
    if octet < 0x80:
        return octet, place + 1
    value = octet & 0x7F
    for following in range(place + 1, place + most_octets):
        octet = octets[following]
        value = value << 7 | octet & 0x7F
        if octet < 0x80:
            return value, following + 1
    raise IndexError(f"no end of the number at octet {place}")
