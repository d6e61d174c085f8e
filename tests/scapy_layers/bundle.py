"""Bundles of version 6 and their custody for scapy: RFC 5050, and the aggregate signals of CCSDS 734.2-B-1.

The primary block with all blocks that follow it, the Custody Transfer Enhancement Block, and the two administrative
records by which custody is signalled. A fill of an aggregate begins so many custody ids behind the last of the fill
before, as the annex's figure has it and as ION writes it; `fills` holds the custody ids themselves.

    from tests.scapy_layers.bundle import AggregateCustodySignal, dissect
    dissect(udp_payload)[AggregateCustodySignal].fills      # [(1, 40), (42, 3)]: first id, how many
"""

from __future__ import annotations

from typing import Any, ClassVar

from scapy.fields import BitEnumField, BitField, ByteField, ConditionalField, Field, StrLenField
from scapy.packet import NoPayload, Packet, Raw

VERSION = 6
FRAGMENT, ADMINISTRATIVE, CUSTODY, SINGLETON = 1 << 0, 1 << 1, 1 << 3, 1 << 4
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
"""Blocks of one bundle that are looked at: scapy goes one call deeper with each."""


class NotABundle(ValueError):
    """The octets are not a bundle of version 6, or end before its primary block does."""


def dissect(octets: bytes) -> PrimaryBlock:
    """The bundle that begins with the first octet. What ends too early behind the primary block is left raw.

    Raises NotABundle, and nothing else whatever the octets.
    """
    if not octets or octets[0] != VERSION:
        raise NotABundle(f"begins with {octets[:1].hex() or 'nothing'}, expected version 06")
    return PrimaryBlock(octets)


class SdnvField(Field[int, bytes]):
    """A self-delimiting numeric value: seven bits an octet, the highest bit set in all but the last (section 4.1)."""

    def addfield(self, pkt: Packet | None, s: bytes, val: int | None) -> bytes:
        """Put the number behind `s`."""
        value = int(val or 0)
        octets = [value & 0x7F]
        while value := value >> 7:
            octets.append(0x80 | value & 0x7F)
        return s + bytes(reversed(octets))

    def getfield(self, pkt: Packet | None, s: bytes) -> tuple[bytes, int]:
        """Take the number from the begin of `s`."""
        value = 0
        for place, octet in enumerate(s[:_MOST_SDNV_OCTETS], 1):
            value = value << 7 | octet & 0x7F
            if not octet & 0x80:
                return s[place:], value
        raise NotABundle(f"{self.name}: no end of a number in {s[:_MOST_SDNV_OCTETS].hex() or 'nothing'}")


class SdnvLengthField(SdnvField):
    """The length of a field that follows, counted when the packet is built."""

    __slots__ = ("_of",)

    def __init__(self, name: str, of: str) -> None:
        super().__init__(name, None)
        self._of = of

    def addfield(self, pkt: Packet | None, s: bytes, val: int | None) -> bytes:
        """Put the length behind `s`."""
        if val is None and pkt is not None:
            val = len(pkt.getfieldval(self._of))
        return super().addfield(pkt, s, val)


class OctetsField(StrLenField):
    """So many octets as another field says; fewer are an error."""

    __slots__ = ("_length",)

    def __init__(self, name: str, length: str) -> None:
        super().__init__(name, b"", length_from=lambda pkt: int(pkt.getfieldval(length)))
        self._length = length

    def getfield(self, pkt: Packet, s: bytes) -> tuple[bytes, bytes]:
        """Take them from the begin of `s`."""
        wanted = int(pkt.getfieldval(self._length))
        if wanted > len(s):
            raise NotABundle(f"{self.name}: got {len(s)} octets, expected {wanted}")
        return s[wanted:], s[:wanted]


class FillsField(Field[list[tuple[int, int]], bytes]):
    """Runs of custody ids, first and how many, to the end of the record."""

    __slots__ = ("_number",)
    islist = 1

    def __init__(self, name: str) -> None:
        super().__init__(name, [])
        self._number = SdnvField("fill", 0)

    def addfield(self, pkt: Packet | None, s: bytes, val: list[tuple[int, int]] | None) -> bytes:
        """Put all fills behind `s`."""
        last = 0
        for first, count in val or []:
            s = self._number.addfield(pkt, s, first - last)
            s = self._number.addfield(pkt, s, count)
            last = first + count - 1
        return s

    def getfield(self, pkt: Packet | None, s: bytes) -> tuple[bytes, list[tuple[int, int]]]:
        """Take whole fills from `s`; what does not make one is left."""
        fills: list[tuple[int, int]] = []
        last = 0
        while s:
            try:
                rest, step = self._number.getfield(pkt, s)
                rest, count = self._number.getfield(pkt, rest)
            except NotABundle:
                break
            if not count:
                break
            fills.append((last + step, count))
            last += step + count - 1
            s = rest
        return s, fills

    def i2repr(self, pkt: Packet | None, x: list[tuple[int, int]]) -> str:
        """As 1-40, 42-44."""
        return ", ".join(f"{first}-{first + count - 1}" for first, count in x) or "none"


def _eid(name: str) -> list[Any]:
    """An endpoint id: offsets into the dictionary or, with none, node and service of ipn (RFC 6260)."""
    return [SdnvField(f"{name}_scheme", 0), SdnvField(f"{name}_ssp", 0)]


class PrimaryBlock(Packet):
    """The first block of a bundle (section 4.5.1). `block_bytes` is what follows it in this block."""

    name = "Bundle"
    fields_desc: ClassVar[list[Any]] = [
        ByteField("version", VERSION),
        SdnvField("flags", SINGLETON),
        SdnvField("block_bytes", None),
        *_eid("destination"),
        *_eid("source"),
        *_eid("report_to"),
        *_eid("custodian"),
        SdnvField("created_s", 0),
        SdnvField("sequence", 0),
        SdnvField("lifetime_s", 0),
        SdnvLengthField("dictionary_bytes", of="dictionary"),
        OctetsField("dictionary", length="dictionary_bytes"),
        ConditionalField(SdnvField("fragment_offset", 0), lambda pkt: bool(pkt.flags & FRAGMENT)),
        ConditionalField(SdnvField("adu_bytes", 0), lambda pkt: bool(pkt.flags & FRAGMENT)),
    ]

    def post_build(self, pkt: bytes, pay: bytes) -> bytes:
        """Count the block's length where none was given."""
        if self.getfieldval("block_bytes") is None:
            number = SdnvField("block_bytes", 0)
            rest, _ = number.getfield(self, pkt[1:])
            head = pkt[: len(pkt) - len(rest)]
            body = number.getfield(self, rest)[0]
            pkt = number.addfield(self, head, len(body)) + body
        return pkt + pay

    def guess_payload_class(self, payload: bytes) -> type[Packet]:
        """The class of the block behind this."""
        return _block_class(self, payload)


class _Block(Packet):
    """Any block but the primary (section 4.5.2)."""

    def guess_payload_class(self, payload: bytes) -> type[Packet]:
        """The class of the block behind this, if it is not the last."""
        return NoPayload if self.getfieldval("flags") & LAST_BLOCK else _block_class(self, payload)

    def extract_padding(self, s: bytes) -> tuple[bytes, bytes | None]:
        """What is behind the last block is not of the bundle."""
        return (b"", s) if self.getfieldval("flags") & LAST_BLOCK else (s, None)


class ReferencesField(Field[list[int], bytes]):
    """Endpoint ids that a block refers to, two numbers each, with their count before them."""

    __slots__ = ("_number",)
    islist = 1

    def __init__(self, name: str) -> None:
        super().__init__(name, [])
        self._number = SdnvField("reference", 0)

    def addfield(self, pkt: Packet | None, s: bytes, val: list[int] | None) -> bytes:
        """Put count and numbers behind `s`."""
        s = self._number.addfield(pkt, s, len(val or []) // 2)
        for number in val or []:
            s = self._number.addfield(pkt, s, number)
        return s

    def getfield(self, pkt: Packet | None, s: bytes) -> tuple[bytes, list[int]]:
        """Take count and numbers from the begin of `s`."""
        s, count = self._number.getfield(pkt, s)
        if 2 * count > len(s):
            raise NotABundle(f"{self.name}: {count} endpoint ids in {len(s)} octets")
        numbers = []
        for _ in range(2 * count):
            s, number = self._number.getfield(pkt, s)
            numbers.append(number)
        return s, numbers


def _block_fields(kind: int) -> list[Any]:
    return [
        ByteField("type", kind),
        SdnvField("flags", 0),
        ConditionalField(ReferencesField("references"), lambda pkt: bool(pkt.flags & EID_REFERENCES)),
    ]


class ExtensionBlock(_Block):
    """A block of a type that is none of the others."""

    name = "Bundle extension block"
    fields_desc: ClassVar[list[Any]] = [
        *_block_fields(0),
        SdnvLengthField("content_bytes", of="content"),
        OctetsField("content", length="content_bytes"),
    ]


class CustodyTransferEnhancementBlock(_Block):
    """A custodian's own number of the bundle: CCSDS 734.2-B-1, annex on aggregate custody signals."""

    name = "Custody Transfer Enhancement Block"
    fields_desc: ClassVar[list[Any]] = [
        *_block_fields(CUSTODY_TRANSFER_ENHANCEMENT_BLOCK),
        SdnvField("content_bytes", None),
        SdnvField("custody_id", 0),
        StrLenField("custodian", b"", length_from=lambda pkt: pkt.custodian_bytes()),
    ]

    def custodian_bytes(self) -> int:
        """What the custody id leaves of the block's content."""
        number = SdnvField("custody_id", 0).addfield(self, b"", self.getfieldval("custody_id"))
        return max(int(self.getfieldval("content_bytes") or 0) - len(number), 0)

    def post_build(self, pkt: bytes, pay: bytes) -> bytes:
        """Count the content's length where none was given."""
        if self.getfieldval("content_bytes") is None:
            number = SdnvField("", 0)
            content = number.addfield(self, b"", self.getfieldval("custody_id")) + self.getfieldval("custodian")
            head = pkt[: len(pkt) - len(content) - 1]  # behind the length that stands there as one zero
            pkt = number.addfield(self, head, len(content)) + content
        return pkt + pay


class PayloadBlock(_Block):
    """What the bundle carries. In an administrative bundle that is a record, which is dissected too."""

    name = "Bundle payload block"
    fields_desc: ClassVar[list[Any]] = [*_block_fields(PAYLOAD_BLOCK), SdnvField("payload_bytes", None)]

    def post_build(self, pkt: bytes, pay: bytes) -> bytes:
        """Count the payload's length where none was given."""
        if self.getfieldval("payload_bytes") is None:
            pkt = SdnvField("", 0).addfield(self, pkt[:-1], len(pay))
        return pkt + pay

    def guess_payload_class(self, payload: bytes) -> type[Packet]:
        """The record's class in an administrative bundle."""
        block: Packet | None = self
        while block is not None and not isinstance(block, PrimaryBlock):
            block = block.underlayer
        if block is None or not block.flags & ADMINISTRATIVE:
            return Raw
        return {
            CUSTODY_SIGNAL: CustodySignal,
            AGGREGATE_CUSTODY_SIGNAL: AggregateCustodySignal,
        }.get(payload[0] >> 4, Raw)

    def extract_padding(self, s: bytes) -> tuple[bytes, bytes | None]:
        """What is behind the payload is not of it."""
        length = int(self.getfieldval("payload_bytes") or 0)
        return s[:length], s[length:] or None


def _block_class(block: Packet, octets: bytes) -> type[Packet]:
    depth, above = 0, block.underlayer
    while above is not None:
        depth, above = depth + 1, above.underlayer
    if depth >= _MOST_BLOCKS:
        return Raw
    return {
        PAYLOAD_BLOCK: PayloadBlock,
        CUSTODY_TRANSFER_ENHANCEMENT_BLOCK: CustodyTransferEnhancementBlock,
    }.get(octets[0], ExtensionBlock)


class CustodySignal(Packet):
    """Whether custody of one bundle was accepted (section 6.1.2). `for_fragment` says that it was a fragment."""

    name = "Custody signal"
    fields_desc: ClassVar[list[Any]] = [
        BitEnumField("record", CUSTODY_SIGNAL, 4, RECORDS),
        BitField("record_spare", 0, 3),
        BitField("for_fragment", 0, 1),
        BitField("succeeded", 1, 1),
        BitEnumField("reason", 0, 7, REASONS),
        ConditionalField(SdnvField("fragment_offset", 0), lambda pkt: bool(pkt.for_fragment)),
        ConditionalField(SdnvField("fragment_bytes", 0), lambda pkt: bool(pkt.for_fragment)),
        SdnvField("signalled_s", 0),
        SdnvField("signalled_ns", 0),
        SdnvField("created_s", 0),
        SdnvField("sequence", 0),
        SdnvLengthField("source_bytes", of="source"),
        OctetsField("source", length="source_bytes"),
    ]


class AggregateCustodySignal(Packet):
    """Whether custody of many bundles was accepted: their custody ids in fills."""

    name = "Aggregate custody signal"
    fields_desc: ClassVar[list[Any]] = [
        BitEnumField("record", AGGREGATE_CUSTODY_SIGNAL, 4, RECORDS),
        BitField("record_spare", 0, 4),
        BitField("succeeded", 1, 1),
        BitEnumField("reason", 0, 7, REASONS),
        FillsField("fills"),
    ]
