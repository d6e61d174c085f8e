"""Administrative records: custody signals for one bundle or for many at once, and status reports.

RFC 5050, sections 6.1.1 (status reports, which are only written) and 6.1.2 (custody signals); CCSDS 734.2-B-1, annex on
Aggregate Custody Signals. A fill's start is counted from the last number of the fill before, as the annex's figure has
it, and as ION writes it.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum, IntFlag
from itertools import chain
from typing import NamedTuple

from owlt.agents.bundle.blocks import Eid, Fields, Malformed, Timestamp
from owlt.agents.ltp import sdnv

LARGEST_CUSTODY_ID = 2**31 - 1
_SUCCEEDED = 0x80
_FOR_A_FRAGMENT = 0x01


class RecordType(IntEnum):
    """Type of an administrative record: the upper half of its first byte."""

    STATUS_REPORT = 1
    CUSTODY_SIGNAL = 2
    AGGREGATE_CUSTODY_SIGNAL = 4


class Status(IntEnum):
    """The status byte of a signal, success or failure with a reason: the values that are used here."""

    ACCEPTED = _SUCCEEDED
    REDUNDANT = 3
    """Custody was not accepted because it had been accepted before."""


class Happened(IntFlag):
    """The events that a status report can state: those that are used here."""

    RECEIVED = 0x01
    DELETED = 0x10


BLOCK_UNINTELLIGIBLE = 8
"""Reason code of a status report."""


class DtnTime(NamedTuple):
    """Seconds since 2000 UTC, and ns."""

    seconds: int
    nanoseconds: int


class Extent(NamedTuple):
    """Identifies a fragment by its payload's offset and length, in bytes."""

    offset: int
    length: int


@dataclass(frozen=True, kw_only=True)
class CustodySignal:
    """Whether custody of one bundle was accepted. `extent` identifies a fragment; None for a whole bundle."""

    status: int
    source: Eid
    created: Timestamp
    extent: Extent | None
    signalled: DtnTime

    def encode(self) -> bytes:
        """The payload of an administrative bundle."""
        first = _first_byte(RecordType.CUSTODY_SIGNAL, self.extent)
        return bytes([first, self.status]) + _subject(self.extent, [self.signalled], self.created, self.source)


@dataclass(frozen=True, kw_only=True)
class StatusReport:
    """A report on one bundle with a block that could not be processed. All of its events have the same time."""

    happened: Happened
    source: Eid
    created: Timestamp
    extent: Extent | None
    time: DtnTime

    def encode(self) -> bytes:
        """The payload of an administrative bundle."""
        head = bytes([_first_byte(RecordType.STATUS_REPORT, self.extent), self.happened, BLOCK_UNINTELLIGIBLE])
        return head + _subject(self.extent, [self.time for _ in self.happened], self.created, self.source)


def _first_byte(kind: RecordType, extent: Extent | None) -> int:
    return kind << 4 | (_FOR_A_FRAGMENT if extent else 0)


def _subject(extent: Extent | None, times: Iterable[DtnTime], created: Timestamp, source: Eid) -> bytes:
    """The end of a custody signal and of a status report: which bundle it is about, with the times in between."""
    text = source.text()
    numbers = [*(extent or ()), *chain.from_iterable(times), *created, len(text)]
    return b"".join(map(sdnv.encode, numbers)) + text


class Fill(NamedTuple):
    """Custody ids without a gap: `first`, and `length` of them."""

    first: int
    length: int

    @property
    def last(self) -> int:
        return self.first + self.length - 1


@dataclass(frozen=True)
class AggregateCustodySignal:
    """Whether custody of many bundles was accepted: disjoint fills of custody ids, in rising order, at least one."""

    status: int
    fills: tuple[Fill, ...]

    def encode(self) -> bytes:
        """The payload of an administrative bundle."""
        return bytes([RecordType.AGGREGATE_CUSTODY_SIGNAL << 4, self.status]) + b"".join(_encoded(self.fills))


def decode_record(octets: bytes) -> CustodySignal | AggregateCustodySignal:
    """The custody signal in an administrative bundle's payload. Raises Malformed."""
    fields = Fields(octets)
    first, status = fields.octet(), fields.octet()
    if first >> 4 == RecordType.CUSTODY_SIGNAL:
        return _custody_signal(fields, status, bool(first & _FOR_A_FRAGMENT))
    if first >> 4 == RecordType.AGGREGATE_CUSTODY_SIGNAL:
        return AggregateCustodySignal(status, _fills(fields))
    raise Malformed(f"an administrative record of type {first >> 4}")


def _custody_signal(fields: Fields, status: int, for_a_fragment: bool) -> CustodySignal:
    extent = Extent(fields.number(), fields.number()) if for_a_fragment else None
    signalled = DtnTime(fields.number(), fields.number())
    created = Timestamp(fields.number(), fields.number())
    source = Eid.from_text(fields.octets(fields.number()))
    if not fields.at_end:
        raise Malformed("a custody signal longer than its fields")
    return CustodySignal(status=status, source=source, created=created, extent=extent, signalled=signalled)


def _fills(fields: Fields) -> tuple[Fill, ...]:
    fills: list[Fill] = []
    last = 0
    while not fields.at_end or not fills:
        fill = Fill(last + fields.number(), fields.number())
        if fill.length == 0 or fill.last > LARGEST_CUSTODY_ID or (fills and fill.first == last):
            raise Malformed(f"a fill of {fill.length} custody ids from {fill.first}")
        fills.append(fill)
        last = fill.last
    return tuple(fills)


def first_fills(fills: list[Fill], record_bytes: int) -> list[Fill]:
    """The first fills that fit into an aggregate of `record_bytes`, at least one."""
    left_bytes = record_bytes - 2
    for place, encoded in enumerate(_encoded(fills)):
        left_bytes -= len(encoded)
        if left_bytes < 0 and place > 0:
            return fills[:place]
    return fills[:]


def _encoded(fills: Iterable[Fill]) -> Iterable[bytes]:
    last = 0
    for fill in fills:
        yield sdnv.encode(fill.first - last) + sdnv.encode(fill.length)
        last = fill.last
