"""Bundles of version 6 and their custody: RFC 5050, CCSDS 734.2-B-1; read by the scapy layer custody_layer.py.

What tshark knows of bundles it tells of whole ones only. Here the first octets of a bundle do, so that captures cut to
their headers and bundles of which not every piece arrived are read too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from captures.protocols.reading import CUT, Packet, Reader, Said, Unreadable, several, span

if TYPE_CHECKING:  # scapy is slow to load, and most captures hold no bundle
    from captures.protocols.custody_layer import AggregateCustodySignal, CustodySignal, PayloadBlock, PrimaryBlock

_REDUNDANT = 3
"""The reason of a signal that refuses custody because the bundle had come before."""
_REST_OF_SIGNAL_OCTETS = 5
"""Of a custody signal of zeros, behind its fragment's offset and length."""
_MOST_RECORD_OCTETS = 65_536


@dataclass(frozen=True)
class Placement:
    """Where a bundle's payload is in the bundle, where in the file, and of what application data unit it is."""

    payload_at: int
    payload_bytes: int
    file_offset: int
    unit: object

    def piece(self, begin: int, octets: int) -> tuple[int | None, int]:
        """First byte and byte count of what so many octets of the bundle carry of the file; None, 0 if nothing."""
        first = max(begin, self.payload_at)
        count = min(begin + octets, self.payload_at + self.payload_bytes) - first
        return (self.file_offset + first - self.payload_at, count) if count > 0 else (None, 0)


@dataclass(frozen=True)
class Begun:
    """What the begin of a bundle says; `placement` is None for signals, and where too little of it was captured."""

    said: Said
    placement: Placement | None


class Custody:
    """Reads the begin of each bundle of one session, and remembers how large those were that signals are about."""

    def __init__(self) -> None:
        self._bytes_of_custody_id: dict[int, int] = {}
        self._bytes_of_bundle: dict[object, int] = {}

    def begin(self, octets: bytes, missing_octets: int) -> Begun:
        """What a bundle is by its first octets, behind which so many were not captured. Raises Unreadable."""
        from captures.protocols import custody_layer as layer

        try:
            bundle = layer.dissect(octets)
        except layer.NotABundle as error:
            if missing_octets and octets[:1] == bytes([layer.VERSION]):
                return Begun(Said("bundle", CUT, unplaced=True), None)
            raise Unreadable(str(error)) from error
        if bundle.flags & layer.ADMINISTRATIVE:
            return Begun(self._record(octets, missing_octets), None)
        return self._data(octets, bundle, missing_octets > 0)

    def _data(self, octets: bytes, bundle: PrimaryBlock, is_cut: bool) -> Begun:
        from captures.protocols import custody_layer as layer

        if layer.PayloadBlock not in bundle:
            if not is_cut:
                raise Unreadable("a bundle without a payload")
            return Begun(Said("data bundle", CUT, unplaced=True), None)
        block = bundle[layer.PayloadBlock]
        payload_at = _payload_at(octets, block)
        offset = bundle.fragment_offset or 0
        unit = (bundle.source_scheme, bundle.source_ssp, bundle.created_s, bundle.sequence)
        if layer.CustodyTransferEnhancementBlock in bundle:
            enhancement = bundle[layer.CustodyTransferEnhancementBlock]
            self._bytes_of_custody_id[enhancement.custody_id] = block.payload_bytes
        self._bytes_of_bundle[unit[2:]] = block.payload_bytes
        said = Said(
            "data bundle", span(offset, block.payload_bytes), offset, block.payload_bytes, unit=unit, data_at=payload_at
        )
        return Begun(said, Placement(payload_at, block.payload_bytes, offset, unit))

    def _record(self, octets: bytes, missing_octets: int) -> Said:
        """An administrative record. Of one that is cut, what was captured: the rest is filled up with zeros."""
        from captures.protocols import custody_layer as layer

        filled_up = octets + bytes(min(missing_octets, _MOST_RECORD_OCTETS))
        bundle = layer.dissect(filled_up)
        if layer.PayloadBlock not in bundle:
            if not missing_octets:
                raise Unreadable("a bundle without a payload")
            return Said("administrative bundle", CUT)
        block = bundle[layer.PayloadBlock]
        captured = len(octets) - _payload_at(filled_up, block)
        is_whole = captured >= block.payload_bytes
        if captured <= 0 or not block.payload.original:
            return Said("administrative bundle", "" if is_whole else CUT)
        if isinstance(block.payload, layer.CustodySignal):
            return self._signal(block.payload, captured, is_whole)
        if isinstance(block.payload, layer.AggregateCustodySignal):
            if is_whole and block.payload.payload:
                raise Unreadable("fills of an aggregate custody signal that do not end")
            return self._aggregate(block.payload, is_whole)
        kind = block.payload.original[0] >> 4
        if is_whole and kind in (layer.CUSTODY_SIGNAL, layer.AGGREGATE_CUSTODY_SIGNAL):
            raise Unreadable(f"a {layer.RECORDS[kind]} that does not read as one")
        return Said(layer.RECORDS.get(kind, "administrative bundle"), "" if is_whole else CUT)

    def _signal(self, signal: CustodySignal, captured: int, is_whole: bool) -> Said:
        from captures.protocols import custody_layer as layer

        if not signal.succeeded and signal.reason != _REDUNDANT:
            return Said("custody signal", f"refused: {layer.REASONS.get(signal.reason, signal.reason)}")
        if signal.for_fragment:
            begin = layer.CustodySignal(
                for_fragment=1, fragment_offset=signal.fragment_offset, fragment_bytes=signal.fragment_bytes
            )
            if captured < len(bytes(begin)) - _REST_OF_SIGNAL_OCTETS:
                return Said("custody signal", CUT)
            detail = span(signal.fragment_offset, signal.fragment_bytes)
            return Said("custody signal", detail, acknowledged_bytes=signal.fragment_bytes)
        if not is_whole:
            return Said("custody signal", CUT)
        known = self._bytes_of_bundle.get((signal.created_s, signal.sequence))
        return Said("custody signal", f"bundle {signal.created_s}.{signal.sequence}", acknowledged_bytes=known)

    def _aggregate(self, record: AggregateCustodySignal, is_whole: bool) -> Said:
        from captures.protocols import custody_layer as layer

        name = "aggregate custody signal"
        if not is_whole:
            return Said(name, CUT)
        bundles = sum(count for _, count in record.fills)
        detail = f"{several(bundles, 'bundle')} in {several(len(record.fills), 'fill')}"
        if not record.succeeded and record.reason != _REDUNDANT:
            return Said(name, f"{detail}, refused: {layer.REASONS.get(record.reason, record.reason)}")
        if bundles > len(self._bytes_of_custody_id):
            return Said(name, detail)
        known = [
            self._bytes_of_custody_id.get(custody_id)
            for first, count in record.fills
            for custody_id in range(first, first + count)
        ]
        sizes = [size for size in known if size is not None]
        return Said(name, detail, acknowledged_bytes=sum(sizes) if len(sizes) == bundles else None)


class Bundles(Reader):
    """Reads bundles that are carried one in a datagram: RFC 7122."""

    LAYER, TITLE = "", "bundle"
    FIELDS = ()

    def __init__(self) -> None:
        self._custody = Custody()

    def read(self, packet: Packet) -> Said:
        """What a bundle says."""
        return self._custody.begin(packet.payload, packet.datagram_bytes - len(packet.payload)).said


def _payload_at(octets: bytes, block: PayloadBlock) -> int:
    """Where in the bundle its payload begins."""
    return len(octets) - len(block.original) + len(block.self_build())
