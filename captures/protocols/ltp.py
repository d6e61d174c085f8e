"""LTP: RFC 5326, section 3. A datagram carries one segment; of one that carries several the first is told."""

from __future__ import annotations

from dataclasses import replace

from captures.protocols.bundles import Custody, Placement
from captures.protocols.reading import CUT, Packet, Reader, Said, Unreadable, several, span

_RED, _CHECKPOINTS, _GREENS = 0, (1, 2, 3), (4, 7)
_REPORT, _REPORT_ACK, _CANCELS, _CANCEL_ACKS = 8, 9, (12, 14), (13, 15)
_ENDS_OF_BLOCK = (3, 7)
_BUNDLE_PROTOCOL = 1
"""The client service whose blocks are bundles (SANA registry of LTP client service ids)."""
_LEAST_OCTETS, _CANCEL_ACK_OCTETS = 5, (b"\x0d", b"\x0f")
_EVERYWHERE = 1 << 64

_Block = tuple[str, str]
"""Engine id of the originator and session number."""


class Ltp(Reader):
    """Reads segments; with `names_bundles`, the first that begins a bundle is named as the bundle."""

    LAYER, TITLE = "ltp", "LTP"
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

    def rescue(self, packet: Packet) -> Said:
        """The acknowledgement of a cancellation may be shorter than tshark (4.0) takes any segment to be."""
        if len(packet.payload) == packet.datagram_bytes < _LEAST_OCTETS and packet.payload[:1] in _CANCEL_ACK_OCTETS:
            return Said("cancel-ack")
        return super().rescue(packet)

    def ignorant(self) -> Ltp:
        """One that knows of no block."""
        return Ltp(self._names_bundles)

    def read(self, packet: Packet) -> Said:
        """What a segment says."""
        if packet.number("ltp.version") != 0:
            raise Unreadable(f"version {packet.number('ltp.version')}")
        kinds = packet.numbers("ltp.type")
        block = packet.fields["ltp.session.orig"], packet.fields["ltp.session.number"]
        if len(kinds) > 1:
            return Said(_name(kinds[0]), f"and {several(len(kinds) - 1, 'segment')} more", unplaced=True)
        if not kinds:
            raise Unreadable("a segment without a type")
        kind = kinds[0]
        if kind in (_RED, *_CHECKPOINTS, *_GREENS):
            return self._data(packet, kind, block)
        return self._report(packet, block) if kind == _REPORT else Said(_name(kind))

    def _data(self, packet: Packet, kind: int, block: _Block) -> Said:
        offset, length = packet.number("ltp.data.offset"), packet.number("ltp.data.length")
        if offset is None or length is None:
            if packet.cut:
                return Said(_name(kind), CUT, unplaced=True)
            raise Unreadable("data without offset or length")
        data_at = packet.datagram_bytes - length
        if packet.number("ltp.trl.extn.cnt") or not 0 <= data_at <= len(packet.payload):
            return Said(_name(kind), CUT if packet.cut else "", byte_count=length, unplaced=True)
        begun = self._begin(packet, kind, block, data_at) if block not in self._blocks and offset == 0 else None
        if block not in self._blocks and packet.number("ltp.data.client.id") != _BUNDLE_PROTOCOL:
            self._blocks[block] = Placement(0, _EVERYWHERE, 0, block)
        said = self._piece(kind, block, offset, length, data_at)
        if begun is None or not self._names_bundles:
            return said
        return replace(
            said, name=begun.name, detail=begun.detail or said.detail, acknowledged_bytes=begun.acknowledged_bytes
        )

    def _begin(self, packet: Packet, kind: int, block: _Block, data_at: int) -> Said | None:
        """What the bundle says with which a block begins; None where it is none of version 6."""
        if packet.number("ltp.data.client.id") != _BUNDLE_PROTOCOL:
            return None
        missing_octets = packet.datagram_bytes - len(packet.payload) + (kind not in _ENDS_OF_BLOCK)
        try:
            begun = self._custody.begin(packet.payload[data_at:], missing_octets)
        except Unreadable:
            return None
        if not begun.said.unplaced:
            self._blocks[block] = begun.placement
        return begun.said

    def _piece(self, kind: int, block: _Block, offset: int, length: int, data_at: int) -> Said:
        """What part of the file a piece of a block is, by what is known of the block's begin."""
        ending = ", end of block" if kind in _ENDS_OF_BLOCK else ""
        if block not in self._blocks:
            detail = f"{span(offset, length)} of a block{ending}"
            return Said(_name(kind), detail, byte_count=length, unplaced=True)
        placement = self._blocks[block]
        if placement is None:
            return Said(_name(kind), f"{span(offset, length)} of a signal{ending}")
        first_byte, byte_count = placement.piece(offset, length)
        detail = (span(first_byte, byte_count) if first_byte is not None else "headers") + ending
        before = max(placement.payload_at - offset, 0)
        return Said(_name(kind), detail, first_byte, byte_count, unit=placement.unit, data_at=data_at + before)

    def _report(self, packet: Packet, block: _Block) -> Said:
        lower, upper = packet.number("ltp.rpt.lb"), packet.number("ltp.rpt.ub")
        if packet.cut or lower is None or upper is None:
            return Said("report", CUT if packet.cut else "")
        claims = list(zip(packet.numbers("ltp.rpt.clm.off"), packet.numbers("ltp.rpt.clm.len"), strict=False))
        placement = self._blocks.get(block)
        claimed = sum(length for _, length in claims)
        detail = f"{several(len(claims), 'claim')} in {span(lower, upper - lower)}"
        if placement is None or claimed > upper - lower:
            return Said("report", detail)
        pieces = [placement.piece(lower + offset, length) for offset, length in claims]
        return Said("report", detail, acknowledged_bytes=sum(count for _, count in pieces), unit=placement.unit)


def _name(kind: int) -> str:
    names = {_RED: "red data", _REPORT: "report", _REPORT_ACK: "report-ack"}
    names |= dict.fromkeys(_CHECKPOINTS, "checkpoint") | dict.fromkeys(_GREENS, "green data")
    names |= dict.fromkeys(_CANCELS, "cancel") | dict.fromkeys(_CANCEL_ACKS, "cancel-ack")
    if kind not in names:
        raise Unreadable(f"segment type {kind}")
    return names[kind]
