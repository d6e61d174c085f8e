"""A bundle and its bytes: the primary block, the payload, and the block that custody in aggregates needs.

RFC 5050, section 4.5; endpoint ids compressed as RFC 6260 says, which leaves the dictionary empty; the Custody
Transfer Enhancement Block of CCSDS 734.2-B-1. Bundles with a dictionary are not read. What a bundle means is
left to others.
"""

from dataclasses import dataclass
from enum import IntEnum, IntFlag
from typing import NamedTuple

from agents.bundle.eid import NONE, Eid
from agents.bundle.fields import Fields, Malformed
from agents.ltp import sdnv

VERSION = 6
LIFETIME_S = 30 * 24 * 3600
"""Of every bundle: longer than any transfer, so that none expires on its way."""


class Flag(IntFlag):
    """Bundle processing control flags that are used here."""

    FRAGMENT = 1 << 0
    ADMINISTRATIVE = 1 << 1
    CUSTODY = 1 << 3
    SINGLETON = 1 << 4


class BlockType(IntEnum):
    """Types of blocks that are read; others are passed over."""

    PAYLOAD = 1
    CUSTODY_TRANSFER_ENHANCEMENT = 10


class BlockFlag(IntFlag):
    """Block processing control flags that are used here."""

    LAST = 1 << 3
    EID_REFERENCES = 1 << 6


class Timestamp(NamedTuple):
    """When a bundle was made: seconds since 2000 UTC, and a number that makes it its source's only one."""

    dtn_s: int
    sequence: int


class Fragment(NamedTuple):
    """Where a fragment's payload belongs in its application data unit, and the whole unit's length; bytes."""

    offset: int
    adu_bytes: int


class CustodyId(NamedTuple):
    """What a Custody Transfer Enhancement Block says: a custodian's own number of a bundle."""

    number: int
    custodian: Eid


@dataclass(frozen=True, kw_only=True)
class Bundle:
    """A bundle as its sender means it. With a `custodian`, custody transfer is asked for."""

    source: Eid
    destination: Eid
    created: Timestamp
    payload: bytes
    custodian: Eid = NONE
    custody_id: CustodyId | None = None
    fragment: Fragment | None = None
    administrative: bool = False

    def encode(self) -> bytes:
        """The bytes on the wire."""
        blocks = [_primary_block(self)]
        if self.custody_id is not None:
            said = sdnv.encode(self.custody_id.number) + self.custody_id.custodian.text()
            blocks.append(_block(BlockType.CUSTODY_TRANSFER_ENHANCEMENT, BlockFlag(0), said))
        blocks.append(_block(BlockType.PAYLOAD, BlockFlag.LAST, self.payload))
        return b"".join(blocks)


def decode(octets: bytes) -> Bundle:
    """The bundle that the bytes are, all of them.

    Raises:
        Malformed: they are not, or the bundle has a dictionary.
    """
    fields = Fields(octets)
    if (version := fields.octet()) != VERSION:
        raise Malformed(f"version {version}, wanted {VERSION}")
    flags = fields.number()
    primary = Fields(fields.octets(fields.number()))
    destination, source, _report_to, custodian = (Eid(primary.number(), primary.number()) for _ in range(4))
    created = Timestamp(primary.number(), primary.number())
    _lifetime_s = primary.number()
    if primary.number() != 0:
        raise Malformed("a dictionary; wanted compressed endpoint ids")
    fragment = Fragment(primary.number(), primary.number()) if flags & Flag.FRAGMENT else None
    if not primary.at_end:
        raise Malformed("a primary block longer than its fields")
    payload, custody_id = _other_blocks(fields)
    if fragment and fragment.offset + len(payload) > fragment.adu_bytes:
        raise Malformed("a fragment beyond its application data unit")
    return Bundle(
        source=source,
        destination=destination,
        created=created,
        payload=payload,
        custodian=custodian if flags & Flag.CUSTODY else NONE,
        custody_id=custody_id,
        fragment=fragment,
        administrative=bool(flags & Flag.ADMINISTRATIVE),
    )


def _other_blocks(fields: Fields) -> tuple[bytes, CustodyId | None]:
    payload: bytes | None = None
    custody_id: CustodyId | None = None
    last = False
    while not last:
        kind = fields.octet()
        flags = fields.number()
        if flags & BlockFlag.EID_REFERENCES:
            for _ in range(2 * fields.number()):
                fields.number()
        content = fields.octets(fields.number())
        last = bool(flags & BlockFlag.LAST)
        if kind == BlockType.PAYLOAD and payload is None:
            payload = content
        elif kind == BlockType.PAYLOAD:
            raise Malformed("two payloads")
        elif kind == BlockType.CUSTODY_TRANSFER_ENHANCEMENT:
            said = Fields(content)
            custody_id = CustodyId(said.number(), Eid.from_text(said.rest()))
    if payload is None:
        raise Malformed("no payload")
    if not fields.at_end:
        raise Malformed("bytes behind the last block")
    return payload, custody_id


def _primary_block(bundle: Bundle) -> bytes:
    flags = Flag.SINGLETON
    flags |= Flag.FRAGMENT if bundle.fragment else Flag(0)
    flags |= Flag.ADMINISTRATIVE if bundle.administrative else Flag(0)
    flags |= Flag.CUSTODY if bundle.custodian != NONE else Flag(0)
    dictionary_bytes = 0
    values = [
        *bundle.destination,
        *bundle.source,
        *NONE,  # report-to
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
