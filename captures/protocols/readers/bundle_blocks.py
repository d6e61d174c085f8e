"""The blocks and custody signals at the beginning of a bundle of version 6: RFC 5050, CCSDS 734.2-B-1.

A fill of an aggregate custody signal begins so many custody ids behind the last of the fill before, as the annex's
figure has it and as ION writes it. What a session's bundles mean together belongs to bundles.py.
"""

from __future__ import annotations

from dataclasses import dataclass

VERSION = 6
FRAGMENT, ADMINISTRATIVE = 1 << 0, 1 << 1
"""Bundle processing control flags: RFC 5050, section 4.2."""
LAST_BLOCK, EID_REFERENCES = 1 << 3, 1 << 6
"""Block processing control flags: section 4.3."""
PAYLOAD_BLOCK, CUSTODY_TRANSFER_ENHANCEMENT_BLOCK = 1, 10
CUSTODY_SIGNAL, AGGREGATE_CUSTODY_SIGNAL = 2, 4
RECORDS = {1: "status report", CUSTODY_SIGNAL: "custody signal", AGGREGATE_CUSTODY_SIGNAL: "aggregate custody signal"}
REASONS = {
    0: "no additional information",
    3: "redundant reception",
    4: "depleted storage",
    5: "destination endpoint ID unintelligible",
    6: "no known route to destination",
    7: "no timely contact with next node",
    8: "block unintelligible",
}
"""Section 6.3."""

_MOST_SDNV_OCTETS = 10
"""Of a number of 64 bits."""
_MOST_BLOCKS = 64
"""Blocks of one bundle that are read."""
_EID_NUMBERS = 2
"""Endpoint ids are offsets into the dictionary or, without one, node and service of ipn (RFC 6260)."""


class NotABundle(ValueError):
    """The octets are not a bundle of version 6, or end before its primary block does."""


@dataclass(frozen=True)
class Payload:
    """The payload block: where in the bundle its content begins, and how many octets the content has."""

    begin: int
    byte_count: int


@dataclass(frozen=True)
class Bundle:
    """A bundle as far as its first octets show it.

    `source` are the two numbers of its endpoint id, `custody_id` is that of the first Custody Transfer Enhancement
    Block. `payload` is None if none of the blocks that could be read is a payload block.
    """

    flags: int
    source: tuple[int, int]
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
    if not octets or octets[0] != VERSION:
        raise NotABundle(f"begins with {octets[:1].hex() or 'nothing'}, expected version 06")
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


class _Numbers:
    """Self-delimiting numeric values from a place on: seven bits an octet, the highest bit set in all but the last
    (section 4.1). Each method raises NotABundle if the octets end too early."""

    def __init__(self, octets: bytes, place: int) -> None:
        self._octets = octets
        self.place = place

    def next(self) -> int:
        value = 0
        for place in range(self.place, min(self.place + _MOST_SDNV_OCTETS, len(self._octets))):
            octet = self._octets[place]
            value = value << 7 | octet & 0x7F
            if not octet & 0x80:
                self.place = place + 1
                return value
        raise NotABundle(f"no end of the number at octet {self.place}")

    def skip(self, count: int) -> None:
        if count > len(self._octets) - self.place:  # a number has at least one octet
            raise NotABundle(f"{count} numbers in {len(self._octets) - self.place} octets")
        for _ in range(count):
            self.next()

    def skip_octets(self, count: int) -> None:
        if count > len(self._octets) - self.place:
            raise NotABundle(f"expected {count} octets, got {len(self._octets) - self.place}")
        self.place += count
