"""Bundles of version 6 and their custody (RFC 5050, CCSDS 734.2-B-1), and of version 7 (RFC 9171); the blocks belong to
bundle_blocks.py.

tshark dissects complete bundles only. Here the first octets of a bundle suffice, so that captures cut to their headers
and bundles of which not every piece arrived are read too.
"""

from __future__ import annotations

from dataclasses import dataclass

from owlt.captures.protocols.bundle_blocks import (
    ADMINISTRATIVE,
    AGGREGATE_CUSTODY_SIGNAL,
    CUSTODY_SIGNAL,
    DELETED,
    REASONS,
    RECORDS,
    REPORT_REASONS,
    STATUS_REPORT,
    STATUSES,
    VERSION,
    AggregateCustodySignal,
    Bundle,
    CustodySignal,
    NotABundle,
    is_begin_of_bundle,
    read_bundle,
    read_record,
)
from owlt.captures.protocols.reader import CUT, FileVerdict, Packet, PacketContent, Reader, Unreadable, several, span

_REDUNDANT = 3
"""The reason of a signal that refuses custody because the bundle had come before."""
_MOST_RECORD_OCTETS = 65_536


@dataclass(frozen=True)
class Placement:
    """Where a bundle's payload is in the bundle, where in the file, and of what application data unit it is."""

    payload_at: int
    payload_bytes: int
    file_offset: int
    unit: object

    def piece(self, begin: int, octets: int) -> tuple[int | None, int]:
        """First byte and byte count of the part of the file in so many octets of the bundle; None, 0 if there is
        none."""
        first = max(begin, self.payload_at)
        count = min(begin + octets, self.payload_at + self.payload_bytes) - first
        return (self.file_offset + first - self.payload_at, count) if count > 0 else (None, 0)


@dataclass(frozen=True)
class BundleStart:
    """The content at the beginning of a bundle; `placement` is None for signals, and if too little was captured."""

    content: PacketContent
    placement: Placement | None


class Custody:
    """Reads the beginning of each bundle of one session, and remembers the sizes of bundles, to which signals refer."""

    def __init__(self) -> None:
        self._bytes_of_custody_id: dict[int, int] = {}
        self._bytes_of_bundle: dict[object, int] = {}

    def begin(self, octets: bytes, missing_octets: int) -> BundleStart:
        """The content of a bundle's first octets, after which so many were not captured. Raises Unreadable."""
        try:
            bundle = read_bundle(octets)
        except NotABundle:
            if missing_octets and (not octets or is_begin_of_bundle(octets)):
                return BundleStart(PacketContent("bundle", CUT, unplaced=True), None)
            raise
        if bundle.flags & ADMINISTRATIVE and octets[0] != VERSION:
            return BundleStart(PacketContent("administrative bundle"), None)
        if bundle.flags & ADMINISTRATIVE:
            return BundleStart(self._record(octets, missing_octets), None)
        return self._data(bundle, missing_octets > 0)

    def _data(self, bundle: Bundle, is_cut: bool) -> BundleStart:
        payload = bundle.payload
        if payload is None:
            if not is_cut:
                raise Unreadable("a bundle without a payload")
            return BundleStart(PacketContent("data bundle", CUT, unplaced=True), None)
        offset, count = bundle.fragment_offset, payload.byte_count
        unit = (*bundle.source, bundle.created_s, bundle.sequence)
        if bundle.custody_id is not None:
            self._bytes_of_custody_id[bundle.custody_id] = count
        self._bytes_of_bundle[unit[2:]] = count
        content = PacketContent("data bundle", span(offset, count), offset, count, unit=unit, data_at=payload.begin)
        return BundleStart(content, Placement(payload.begin, count, offset, unit))

    def _record(self, octets: bytes, missing_octets: int) -> PacketContent:
        """An administrative record. Of one that is cut, what was captured: the rest is filled up with zeros."""
        filled_up = octets + bytes(min(missing_octets, _MOST_RECORD_OCTETS))
        payload = read_bundle(filled_up).payload
        if payload is None:
            if not missing_octets:
                raise Unreadable("a bundle without a payload")
            return PacketContent("administrative bundle", CUT)
        content = filled_up[payload.begin : payload.begin + payload.byte_count]
        captured = len(octets) - payload.begin
        is_whole = captured >= payload.byte_count
        if captured <= 0 or not content:
            return PacketContent("administrative bundle", "" if is_whole else CUT)
        record = read_record(content)
        if isinstance(record, CustodySignal):
            return self._signal(record, captured, is_whole)
        if isinstance(record, AggregateCustodySignal):
            if is_whole and not record.is_complete:
                raise Unreadable("truncated fills of an aggregate custody signal")
            return self._aggregate(record, is_whole)
        kind = content[0] >> 4
        if kind == STATUS_REPORT and is_whole and len(content) > 2:
            return _status_report(content[1], content[2])
        if is_whole and kind in (CUSTODY_SIGNAL, AGGREGATE_CUSTODY_SIGNAL):
            raise Unreadable(f"a {RECORDS[kind]} that does not read as one")
        return PacketContent(RECORDS.get(kind, "administrative bundle"), "" if is_whole else CUT)

    def _signal(self, signal: CustodySignal, captured: int, is_whole: bool) -> PacketContent:
        if not signal.succeeded and signal.reason != _REDUNDANT:
            return PacketContent("custody signal", f"refused: {REASONS.get(signal.reason, signal.reason)}")
        if signal.extent is not None:
            if captured < signal.extent_end:
                return PacketContent("custody signal", CUT)
            return PacketContent("custody signal", span(*signal.extent), acknowledged_bytes=signal.extent[1])
        if not is_whole:
            return PacketContent("custody signal", CUT)
        bundle_bytes = self._bytes_of_bundle.get((signal.created_s, signal.sequence))
        return PacketContent(
            "custody signal", f"bundle {signal.created_s}.{signal.sequence}", acknowledged_bytes=bundle_bytes
        )

    def _aggregate(self, record: AggregateCustodySignal, is_whole: bool) -> PacketContent:
        name = "aggregate custody signal"
        if not is_whole:
            return PacketContent(name, CUT)
        bundles = sum(count for _, count in record.fills)
        detail = f"{several(bundles, 'bundle')} in {several(len(record.fills), 'fill')}"
        if not record.succeeded and record.reason != _REDUNDANT:
            return PacketContent(name, f"{detail}, refused: {REASONS.get(record.reason, record.reason)}")
        if bundles > len(self._bytes_of_custody_id):
            return PacketContent(name, detail)
        sizes = [
            self._bytes_of_custody_id.get(custody_id)
            for first, count in record.fills
            for custody_id in range(first, first + count)
        ]
        known_sizes = [size for size in sizes if size is not None]
        return PacketContent(name, detail, acknowledged_bytes=sum(known_sizes) if len(known_sizes) == bundles else None)


def _status_report(statuses: int, reason: int) -> PacketContent:
    """The content of a status report on a bundle: RFC 5050, section 6.1.1."""
    happened = ", ".join(word for flag, word in STATUSES.items() if statuses & flag)
    why = REPORT_REASONS.get(reason, f"reason {reason}") if reason else ""
    verdict: FileVerdict = "ended early" if statuses & DELETED else ""
    return PacketContent("status report", ": ".join(filter(None, [happened, why])), verdict=verdict)


class Bundles(Reader):
    """Reads bundles that are carried one in a datagram: RFC 7122."""

    TITLE = "bundle"

    def __init__(self) -> None:
        self._custody = Custody()

    def read(self, packet: Packet) -> PacketContent:
        """The content of a bundle."""
        return self._custody.begin(packet.payload, packet.datagram_bytes - len(packet.payload)).content
