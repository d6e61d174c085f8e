"""A bundle and its bytes: the primary block, the payload, the block that custody in aggregates needs, and a check.

RFC 5050, section 4.5; endpoint ids compressed as RFC 6260 says, which leaves the dictionary empty; the Custody Transfer
Enhancement Block of CCSDS 734.2-B-1. Bundles with a dictionary are not read. Other modules interpret bundles.

Version 6 has no check of its own, and relies on what carries it. The check here is a block of a private type with the
CRC-32C of all bytes of the bundle, itself counted as zeros, as the blocks of version 7 have it (RFC 9171, section
4.2.1).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import IntEnum, IntFlag
from typing import NamedTuple, Self

import fastcrc

from owlt.agents.ltp import sdnv


class Malformed(Exception):
    """The bytes are not a bundle, or not one that this endpoint knows how to read."""


class Damaged(Malformed):
    """The bytes are a bundle whose own check shows that they were damaged."""


class Fields:
    """Reads fields from bytes, one after the other. Reading raises Malformed."""

    def __init__(self, octets: bytes) -> None:
        self._octets = octets
        self._place = 0

    @property
    def at_end(self) -> bool:
        """Whether nothing is left."""
        return self._place == len(self._octets)

    @property
    def place(self) -> int:
        """How many bytes have been read."""
        return self._place

    def number(self) -> int:
        """A self-delimiting numeric value (SDNV)."""
        try:
            value, self._place = sdnv.decode(self._octets, self._place)
        except sdnv.NoNumber as error:
            raise Malformed(str(error)) from error
        return value

    def octet(self) -> int:
        """One byte, as a number."""
        return self.octets(1)[0]

    def octets(self, count: int) -> bytes:
        """So many bytes."""
        end = self._place + count
        if end > len(self._octets):
            raise Malformed(f"{count} bytes wanted at byte {self._place} of {len(self._octets)}")
        taken = self._octets[self._place : end]
        self._place = end
        return taken

    def rest(self) -> bytes:
        """All that is left."""
        return self.octets(len(self._octets) - self._place)


_IPN = re.compile(rb"ipn:(0|[1-9][0-9]{0,18})\.(0|[1-9][0-9]{0,18})")


class Eid(NamedTuple):
    """`ipn:node.service`. Service 0 is the node's administrative endpoint; 0.0 stands for dtn:none."""

    node: int
    service: int

    @classmethod
    def from_text(cls, text: bytes) -> Self:
        """From `ipn:1.1`, as extension blocks and administrative records hold it. Raises Malformed."""
        match = _IPN.fullmatch(text)
        if not match:
            raise Malformed(f"got {text[:40]!r}, expected an endpoint id such as ipn:1.1")
        return cls(int(match[1]), int(match[2]))

    def text(self) -> bytes:
        """`ipn:1.1`"""
        return b"ipn:%d.%d" % self


NONE = Eid(0, 0)


VERSION = 6
LIFETIME_S = 30 * 24 * 3600
"""Lifetime of every bundle: longer than any transfer, so that none expires."""


class Flag(IntFlag):
    """Bundle processing control flags that are used here."""

    FRAGMENT = 1 << 0
    ADMINISTRATIVE = 1 << 1
    CUSTODY = 1 << 3
    SINGLETON = 1 << 4
    REPORT_DELETION = 1 << 18


class BlockType(IntEnum):
    """Types of blocks that can be processed."""

    PAYLOAD = 1
    CUSTODY_TRANSFER_ENHANCEMENT = 10
    CHECK = 200
    """A type for private use: 192 to 255 (RFC 5050, section 4.3)."""


class BlockFlag(IntFlag):
    """Block processing control flags (section 4.3).

    Two concern copies of its bundle, which are not made here: the block is in every fragment (1), a node that cannot
    process the block drops it (16).
    """

    REPORT_IF_NOT_PROCESSED = 1 << 1
    DELETE_BUNDLE_IF_NOT_PROCESSED = 1 << 2
    LAST = 1 << 3
    DISCARD_IF_NOT_PROCESSED = 1 << 4
    EID_REFERENCES = 1 << 6


_CHECK_BYTES = 4
_NOTHING = BlockFlag(0)
_WHEN_NOT_PROCESSED = BlockFlag.REPORT_IF_NOT_PROCESSED | BlockFlag.DELETE_BUNDLE_IF_NOT_PROCESSED


class Timestamp(NamedTuple):
    """When a bundle was made: seconds since 2000 UTC, and a sequence number that makes the timestamp unique at its
    source."""

    dtn_s: int
    sequence: int


class Fragment(NamedTuple):
    """Where a fragment's payload belongs in its application data unit, and the whole unit's length; bytes."""

    offset: int
    adu_bytes: int


class CustodyId(NamedTuple):
    """The content of a Custody Transfer Enhancement Block: a custodian's own number for a bundle."""

    number: int
    custodian: Eid


@dataclass(frozen=True, kw_only=True)
class Bundle:
    """A bundle. With a `custodian`, custody transfer is requested; `checked` bundles carry a CRC, which decoding has
    verified. `not_processed` has the requests of its blocks of unknown types.
    """

    source: Eid
    destination: Eid
    created: Timestamp
    payload: bytes
    custodian: Eid = NONE
    custody_id: CustodyId | None = None
    fragment: Fragment | None = None
    administrative: bool = False
    report_to: Eid = NONE
    reports_deletion: bool = False
    checked: bool = False
    not_processed: BlockFlag = _NOTHING

    @property
    def aggregate_id(self) -> int | None:
        """The number by which custody can be signalled in an aggregate.

        None if the bundle's custodian gave none: custody is then signalled for this bundle alone (CCSDS 734.2-B-1).
        """
        if self.custody_id is None or self.custody_id.custodian != self.custodian:
            return None
        return self.custody_id.number

    def encode(self) -> bytes:
        """The bytes on the wire. Blocks of unknown types are not written."""
        blocks = [_primary_block(self)]
        if self.custody_id is not None:
            content = sdnv.encode(self.custody_id.number) + self.custody_id.custodian.text()
            blocks.append(_block(BlockType.CUSTODY_TRANSFER_ENHANCEMENT, BlockFlag(0), content))
        if self.checked:
            blocks.append(_block(BlockType.CHECK, BlockFlag.DISCARD_IF_NOT_PROCESSED, bytes(_CHECK_BYTES)))
        check_at = sum(map(len, blocks)) - _CHECK_BYTES
        blocks.append(_block(BlockType.PAYLOAD, BlockFlag.LAST, self.payload))
        octets = b"".join(blocks)
        if not self.checked:
            return octets
        return octets[:check_at] + _check(octets, check_at) + octets[check_at + _CHECK_BYTES :]


@dataclass
class _Blocks:
    """The blocks after the primary block."""

    payload: bytes | None = None
    custody_id: CustodyId | None = None
    checked: bool = False
    not_processed: BlockFlag = _NOTHING


def decode(octets: bytes) -> Bundle:
    """The bundle that all the bytes encode.

    Raises:
        Damaged: its check shows that they were damaged.
        Malformed: they are no bundle, or the bundle has a dictionary.
    """
    fields = Fields(octets)
    if (version := fields.octet()) != VERSION:
        raise Malformed(f"version {version}, expected {VERSION}")
    flags = fields.number()
    primary = Fields(fields.octets(fields.number()))
    destination, source, report_to, custodian = (Eid(primary.number(), primary.number()) for _ in range(4))
    created = Timestamp(primary.number(), primary.number())
    _lifetime_s = primary.number()
    if primary.number() != 0:
        raise Malformed("a dictionary; expected compressed endpoint ids")
    fragment = Fragment(primary.number(), primary.number()) if flags & Flag.FRAGMENT else None
    if not primary.at_end:
        raise Malformed("a primary block longer than its fields")
    blocks = _other_blocks(fields, octets)
    if blocks.payload is None:
        raise Malformed("no payload")
    if fragment and fragment.offset + len(blocks.payload) > fragment.adu_bytes:
        raise Malformed("a fragment beyond its application data unit")
    return Bundle(
        source=source,
        destination=destination,
        created=created,
        payload=blocks.payload,
        custodian=custodian if flags & Flag.CUSTODY else NONE,
        custody_id=blocks.custody_id,
        fragment=fragment,
        administrative=bool(flags & Flag.ADMINISTRATIVE),
        report_to=report_to,
        reports_deletion=bool(flags & Flag.REPORT_DELETION),
        checked=blocks.checked,
        not_processed=blocks.not_processed,
    )


def _other_blocks(fields: Fields, octets: bytes) -> _Blocks:
    blocks = _Blocks()
    last = False
    while not last:
        kind = fields.octet()
        flags = fields.number()
        if flags & BlockFlag.EID_REFERENCES:
            for _ in range(2 * fields.number()):
                fields.number()
        content = fields.octets(fields.number())
        last = bool(flags & BlockFlag.LAST)
        if kind == BlockType.PAYLOAD and blocks.payload is None:
            blocks.payload = content
        elif kind == BlockType.PAYLOAD:
            raise Malformed("two payloads")
        elif kind == BlockType.CUSTODY_TRANSFER_ENHANCEMENT:
            blocks.custody_id = _custody_id(content)
        elif kind == BlockType.CHECK:
            if content != _check(octets, fields.place - len(content)):
                raise Damaged("a check of other bytes")
            blocks.checked = True
        else:
            blocks.not_processed |= BlockFlag(flags & _WHEN_NOT_PROCESSED)
    if not fields.at_end:
        raise Malformed("bytes behind the last block")
    return blocks


def _custody_id(content: bytes) -> CustodyId | None:
    """None if the custodian has another scheme: such an id belongs to no node here."""
    fields = Fields(content)
    number = fields.number()
    try:
        return CustodyId(number, Eid.from_text(fields.rest()))
    except Malformed:
        return None


def _check(octets: bytes, place: int) -> bytes:
    """The correct value of the check at an offset of a bundle."""
    zeroed = octets[:place] + bytes(_CHECK_BYTES) + octets[place + _CHECK_BYTES :]
    return fastcrc.crc32.iscsi(zeroed).to_bytes(_CHECK_BYTES)


def _primary_block(bundle: Bundle) -> bytes:
    flags = Flag.SINGLETON
    flags |= Flag.FRAGMENT if bundle.fragment else Flag(0)
    flags |= Flag.ADMINISTRATIVE if bundle.administrative else Flag(0)
    flags |= Flag.CUSTODY if bundle.custodian != NONE else Flag(0)
    flags |= Flag.REPORT_DELETION if bundle.reports_deletion else Flag(0)
    dictionary_bytes = 0
    values = [
        *bundle.destination,
        *bundle.source,
        *bundle.report_to,
        *bundle.custodian,
        *bundle.created,
        LIFETIME_S,
        dictionary_bytes,
        *(bundle.fragment or ()),
    ]
    fields = b"".join(map(sdnv.encode, values))
    return bytes([VERSION]) + sdnv.encode(flags) + sdnv.encode(len(fields)) + fields


def _block(kind: BlockType, flags: BlockFlag, content: bytes) -> bytes:
    return bytes([kind]) + sdnv.encode(flags) + sdnv.encode(len(content)) + content
