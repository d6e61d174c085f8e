"""Bundles of version 6 and their custody (RFC 5050, CCSDS 734.2-B-1), and of version 7 (RFC 9171).

tshark dissects complete bundles only. Here the blocks at the beginning of a bundle suffice, so that captures cut to
their headers and bundles of which not every piece arrived are read too. The first number of a fill is its distance from
the last custody id of the fill before, as the figure in the annex of CCSDS 734.2-B-1 shows and as ION writes it.
Sections without a document are those of RFC 5050.
"""

from __future__ import annotations

from dataclasses import dataclass

from owlt.captures.protocols.reader import (
    CUT,
    FileVerdict,
    Packet,
    PacketContent,
    Reader,
    Unreadable,
    read_number,
    several,
    span,
)

VERSION = 6
VERSION_7, _FIRST_OCTET_7 = 7, 0x9F
"""A bundle of version 7 begins with a CBOR array of indefinite length (RFC 8949)."""
FRAGMENT, ADMINISTRATIVE = 1 << 0, 1 << 1
"""Bundle processing control flags: RFC 5050, section 4.2; RFC 9171, section 4.2.3."""
LAST_BLOCK, EID_REFERENCES = 1 << 3, 1 << 6
"""Block processing control flags: section 4.3."""
PAYLOAD_BLOCK, CUSTODY_TRANSFER_ENHANCEMENT_BLOCK = 1, 10
STATUS_REPORT, CUSTODY_SIGNAL, AGGREGATE_CUSTODY_SIGNAL = 1, 2, 4
RECORDS = {
    STATUS_REPORT: "status report",
    CUSTODY_SIGNAL: "custody signal",
    AGGREGATE_CUSTODY_SIGNAL: "aggregate custody signal",
}
REASONS = {
    0: "no additional information",
    3: "redundant reception",
    4: "depleted storage",
    5: "destination endpoint ID unintelligible",
    6: "no known route to destination",
    7: "no timely contact with next node",
    8: "block unintelligible",
}
"""Reason codes of custody signals: section 6.3."""
_REDUNDANT = 3
"""The reason of a signal that refuses custody because the bundle had come before."""
STATUSES = {1: "received", 2: "custody accepted", 4: "forwarded", 8: "delivered", 16: "deleted"}
DELETED = 16
REPORT_REASONS = REASONS | {
    1: "lifetime expired",
    2: "sent over a unidirectional link",
    3: "transmission cancelled",
}
"""Reason codes of a status report: section 6.1.1."""

_MOST_BLOCKS = 64
"""The most blocks of one bundle that are read."""
_MOST_RECORD_OCTETS = 65_536
_EID_NUMBERS = 2
"""Endpoint ids are offsets into the dictionary or, without one, node and service of ipn (RFC 6260)."""


class NotABundle(Unreadable):
    """The octets are not a bundle of version 6 or 7, or end before its primary block does."""


@dataclass(frozen=True)
class Payload:
    """The payload block: where in the bundle its content begins, and how many octets the content has."""

    begin: int
    byte_count: int


@dataclass(frozen=True)
class Bundle:
    """A bundle as far as its first octets show it.

    `source` are the two numbers of its endpoint id, or its octets in version 7, `custody_id` is that of the first
    Custody Transfer Enhancement Block. `payload` is None if none of the blocks that could be read is a payload block.
    """

    flags: int
    source: tuple[int, int] | tuple[bytes]
    created_s: int
    sequence: int
    fragment_offset: int
    custody_id: int | None
    payload: Payload | None


@dataclass(frozen=True)
class CustodySignal:
    """Whether custody of one bundle was accepted: section 6.1.2. `extent`: the offset and the length of the fragment
    that it is about, None for a whole bundle; `extent_end`: where in the record these end."""

    succeeded: bool
    reason: int
    extent: tuple[int, int] | None
    extent_end: int
    created_s: int
    sequence: int


@dataclass(frozen=True)
class AggregateCustodySignal:
    """Whether custody of many bundles was accepted: the first custody id and the count of each fill.

    `is_complete`: the fills end where the record ends.
    """

    succeeded: bool
    reason: int
    fills: tuple[tuple[int, int], ...]
    is_complete: bool


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


def read_bundle(octets: bytes) -> Bundle:
    """The bundle that begins with the first octet; blocks end at the first that is not complete. Raises NotABundle."""
    if octets[:1] == bytes([_FIRST_OCTET_7]):
        return _read_bundle_7(octets)
    if not octets or octets[0] != VERSION:
        raise NotABundle(f"begins with {octets[:1].hex() or 'nothing'}, expected 06 or 9f")
    numbers = _Numbers(octets, 1)
    flags = numbers.next()
    numbers.skip(1 + _EID_NUMBERS)  # the block's length and the destination
    source = numbers.next(), numbers.next()
    numbers.skip(2 * _EID_NUMBERS)  # where reports go, and the custodian
    created_s, sequence = numbers.next(), numbers.next()
    numbers.skip(1)  # the lifetime
    numbers.skip_octets(numbers.next())
    fragment_offset = 0
    if flags & FRAGMENT:
        fragment_offset = numbers.next()
        numbers.skip(1)  # the length of the application data unit
    custody_id, payload = _read_blocks(octets, numbers.place)
    return Bundle(flags, source, created_s, sequence, fragment_offset, custody_id, payload)


def is_begin_of_bundle(octets: bytes) -> bool:
    """Whether a bundle may begin with these octets."""
    return octets[:1] in (bytes([VERSION]), bytes([_FIRST_OCTET_7]))


def _read_bundle_7(octets: bytes) -> Bundle:
    """RFC 9171, sections 4.1 and 4.3. Its times are in ms. Raises NotABundle."""
    items = _Items(octets, 1)
    if items.array() < _LEAST_PRIMARY_ITEMS or items.number() != VERSION_7:
        raise NotABundle("no primary block of version 7")
    flags = items.number()
    items.skip(2)  # the type of its CRC, and the destination
    source_at = items.place
    items.skip()
    source = octets[source_at : items.place]
    items.skip()  # where reports go
    items.array()
    created_ms, sequence = items.number(), items.number()
    items.skip()  # the lifetime
    fragment_offset = items.number() if flags & FRAGMENT else 0
    primary = _Items(octets, 1)
    primary.skip()
    return Bundle(flags, (source,), created_ms, sequence, fragment_offset, None, _payload_7(primary))


def _payload_7(items: _Items) -> Payload | None:
    """The payload among the blocks that begin here; None if its beginning is missing."""
    try:
        for _ in range(_MOST_BLOCKS):
            begin = items.place
            if items.array() not in (5, 6):
                return None
            kind = items.number()
            items.skip(3)  # its number, its flags, and the type of its CRC
            if kind == PAYLOAD_BLOCK:
                byte_count = items.head(_BYTE_STRING)
                return Payload(items.place, byte_count)
            items.place = begin
            items.skip()
    except NotABundle:
        pass
    return None


def _read_blocks(octets: bytes, place: int) -> tuple[int | None, Payload | None]:
    """The first custody id and the payload among the blocks that begin here."""
    custody_id = None
    for _ in range(_MOST_BLOCKS):
        if place >= len(octets):
            break
        kind, numbers = octets[place], _Numbers(octets, place + 1)
        try:
            flags = numbers.next()
            if flags & EID_REFERENCES:
                numbers.skip(2 * numbers.next())
            content_bytes = numbers.next()
            if kind == PAYLOAD_BLOCK:
                return custody_id, Payload(numbers.place, content_bytes)
            content_end = numbers.place + content_bytes
            if kind == CUSTODY_TRANSFER_ENHANCEMENT_BLOCK:
                found_id = numbers.next()
                custody_id = found_id if custody_id is None else custody_id
                content_end = min(max(content_end, numbers.place), len(octets))
            numbers.skip_octets(content_end - numbers.place)
        except NotABundle:
            break
        if flags & LAST_BLOCK:
            break
        place = numbers.place
    return custody_id, None


def read_record(record: bytes) -> CustodySignal | AggregateCustodySignal | None:
    """The custody signal that is the payload of an administrative bundle; None if it is none, or not complete."""
    if len(record) < 2:
        return None
    succeeded, reason = bool(record[1] & 0x80), record[1] & 0x7F
    if record[0] >> 4 == AGGREGATE_CUSTODY_SIGNAL:
        fills, end = _read_fills(record, 2)
        return AggregateCustodySignal(succeeded, reason, tuple(fills), is_complete=end == len(record))
    if record[0] >> 4 != CUSTODY_SIGNAL:
        return None
    numbers = _Numbers(record, 2)
    try:
        extent = (numbers.next(), numbers.next()) if record[0] & 0x01 else None
        extent_end = numbers.place
        numbers.skip(2)  # the time of the signal
        created_s, sequence = numbers.next(), numbers.next()
        numbers.skip_octets(numbers.next())  # the source's endpoint id
    except NotABundle:
        return None
    return CustodySignal(succeeded, reason, extent, extent_end, created_s, sequence)


def _read_fills(record: bytes, place: int) -> tuple[list[tuple[int, int]], int]:
    """The complete fills that begin here, and where they end."""
    fills: list[tuple[int, int]] = []
    last = 0
    numbers = _Numbers(record, place)
    while numbers.place < len(record):
        try:
            step, count = numbers.next(), numbers.next()
        except NotABundle:
            break
        if not count:
            break
        fills.append((last + step, count))
        last += step + count - 1
        place = numbers.place
    return fills, place


_UNSIGNED, _BYTE_STRING, _TEXT, _ARRAY, _MAP, _TAG = 0, 2, 3, 4, 5, 6
"""Major types of CBOR: RFC 8949, section 3.1."""
_LEAST_PRIMARY_ITEMS = 8
_DEEPEST = 16
"""The largest depth of nested items that are read."""


class _Items:
    """CBOR items of definite length, from a position on. Each method raises NotABundle if the octets end too early or
    are not such an item."""

    def __init__(self, octets: bytes, place: int) -> None:
        self._octets = octets
        self.place = place

    def _head(self) -> tuple[int, int]:
        """The major type and the argument of an item, which its content follows."""
        octets, place = self._octets, self.place
        if place >= len(octets):
            raise NotABundle(f"no item at octet {place}")
        kind, argument = octets[place] >> 5, octets[place] & 0x1F
        size = 1 << argument - 24 if argument >= 24 else 0
        if argument > 27 or place + 1 + size > len(octets):
            raise NotABundle(f"no item that can be read at octet {place}")
        self.place = place + 1 + size
        return kind, int.from_bytes(octets[place + 1 : self.place], "big") if size else argument

    def head(self, kind: int) -> int:
        """The argument of an item of this major type."""
        found, argument = self._head()
        if found != kind:
            raise NotABundle(f"an item of major type {found} before octet {self.place}, expected {kind}")
        return argument

    def number(self) -> int:
        return self.head(_UNSIGNED)

    def array(self) -> int:
        """The number of items of an array."""
        return self.head(_ARRAY)

    def skip(self, count: int = 1, depth: int = 0) -> None:
        """Skip `count` items."""
        if depth > _DEEPEST:
            raise NotABundle(f"items within items at octet {self.place}")
        for _ in range(count):
            kind, argument = self._head()
            if kind in (_BYTE_STRING, _TEXT):
                self.place += argument
            elif kind in (_ARRAY, _MAP, _TAG):
                self.skip({_ARRAY: argument, _MAP: 2 * argument, _TAG: 1}[kind], depth + 1)
            if self.place > len(self._octets):
                raise NotABundle(f"an item that ends at octet {self.place}")


class _Numbers:
    """Self-delimiting numeric values (section 4.1) from a place on. Each method raises NotABundle if the octets end too
    early."""

    def __init__(self, octets: bytes, place: int) -> None:
        self._octets = octets
        self.place = place

    def next(self) -> int:
        try:
            value, self.place = read_number(self._octets, self.place)
        except (IndexError, Unreadable) as error:
            raise NotABundle(f"no end of the number at octet {self.place}") from error
        return value

    def skip(self, count: int) -> None:
        if count > len(self._octets) - self.place:  # a number has at least one octet
            raise NotABundle(f"{count} numbers in {len(self._octets) - self.place} octets")
        for _ in range(count):
            self.next()

    def skip_octets(self, count: int) -> None:
        if count > len(self._octets) - self.place:
            raise NotABundle(f"expected {count} octets, got {len(self._octets) - self.place}")
        self.place += count
