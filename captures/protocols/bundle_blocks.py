"""The blocks and custody signals at the beginning of a bundle: version 6 (RFC 5050, CCSDS 734.2-B-1), and the blocks of
version 7 (RFC 9171).

A fill of an aggregate custody signal begins so many custody ids behind the last of the fill before, as the annex's
figure has it and as ION writes it. What a session's bundles mean together belongs to bundles.py.
"""

from __future__ import annotations

from dataclasses import dataclass

from owlt.captures.protocols.reader import Unreadable, read_number

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
_EID_NUMBERS = 2
"""Endpoint ids are offsets into the dictionary or, without one, node and service of ipn (RFC 6260)."""


class NotABundle(Unreadable):
    """The octets are not a bundle of version 6, or end before its primary block does."""


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
