"""Saratoga for scapy: version 1 (draft-wood-tsvwg-saratoga-20) and this project's reconstruction of version 0.

Importing this module binds the packets to UDP: version 1 by its port, 7542, and version 0 by that of the main
paper, 4000. A frame of either is dissected by the version that it begins with.

    from scapy.utils import rdpcap
    from tests.scapy_layers.saratoga import SaratogaStatus
    rdpcap("sender.pcap")[10][SaratogaStatus].holes      # [(1000, 2000)]

Version 0 was never published: `agents.saratoga.version0` says what this layout was made of.
"""

from __future__ import annotations

from typing import Any, ClassVar

from scapy.fields import (
    BitEnumField,
    BitField,
    ByteEnumField,
    ConditionalField,
    Field,
    IntField,
    StrField,
    StrFixedLenField,
    StrLenField,
)
from scapy.layers.inet import UDP
from scapy.packet import Packet, bind_layers

from owlt.captures.protocols.saratoga import ERRORS

VERSION_1_PORT, VERSION_0_PORT = 7542, 4000

TYPES = {0: "BEACON", 1: "REQUEST", 2: "METADATA", 3: "DATA", 4: "STATUS"}
DESCRIPTORS = {0: "16 bits", 1: "32 bits", 2: "64 bits", 3: "128 bits"}
TRANSFERS = {0: "file", 1: "directory", 2: "bundle", 3: "stream"}
WILLINGNESS = {0: "not capable", 1: "invalid", 2: "capable", 3: "willing"}
REQUESTS = {0: "no action", 1: "get", 2: "put", 3: "take", 4: "give", 5: "delete", 6: "getdir"}
CHECKSUMS = {0: "none", 1: "CRC-32", 2: "MD5", 3: "SHA-1"}


class OffsetField(Field[int, bytes]):
    """An unsigned number as long as another field of the packet, its descriptor, says: 2, 4, 8 or 16 octets."""

    __slots__ = ("_descriptor",)

    def __init__(self, name: str, default: int, descriptor: str = "descriptor") -> None:
        super().__init__(name, default)
        self._descriptor = descriptor

    def octets(self, pkt: Packet) -> int:
        """Its length in this packet."""
        return 2 << int(pkt.getfieldval(self._descriptor))

    def addfield(self, pkt: Packet, s: bytes, val: int | None) -> bytes:
        """Put the number behind `s`."""
        return s + int(val or 0).to_bytes(self.octets(pkt), "big")

    def getfield(self, pkt: Packet, s: bytes) -> tuple[bytes, int]:
        """Take the number from the begin of `s`. What is cut short is an error, so that scapy shows the rest raw."""
        octets = self.octets(pkt)
        if len(s) < octets:
            raise ValueError(f"{self.name}: got {len(s)} octets, expected {octets}")
        return s[octets:], int.from_bytes(s[:octets], "big")


class FixedOffsetField(OffsetField):
    """An unsigned number of 4 octets: the only offsets of version 0."""

    def octets(self, pkt: Packet) -> int:
        """Its length in any packet."""
        return 4


class HolesField(Field[list[tuple[int, int]], bytes]):
    """Pairs of offsets, first missing byte and the byte after the last, to the end of the packet."""

    __slots__ = ("_offset",)
    islist = 1

    def __init__(self, name: str, offset: OffsetField) -> None:
        super().__init__(name, [])
        self._offset = offset

    def addfield(self, pkt: Packet, s: bytes, val: list[tuple[int, int]] | None) -> bytes:
        """Put all pairs behind `s`."""
        for number in (number for hole in val or [] for number in hole):
            s = self._offset.addfield(pkt, s, number)
        return s

    def getfield(self, pkt: Packet, s: bytes) -> tuple[bytes, list[tuple[int, int]]]:
        """Take whole pairs from `s`; what does not make one is left."""
        holes = []
        while len(s) >= 2 * self._offset.octets(pkt):
            s, start = self._offset.getfield(pkt, s)
            s, end = self._offset.getfield(pkt, s)
            holes.append((start, end))
        return s, holes

    def i2repr(self, pkt: Packet | None, x: list[tuple[int, int]]) -> str:
        """As 1000-2000, 5000-6000."""
        return ", ".join(f"{start}-{end}" for start, end in x) or "none"


class NameField(StrField):
    """Text that ends with a zero octet. One that has none does not end in this packet."""

    def addfield(self, pkt: Packet, s: bytes, val: bytes | None) -> bytes:
        """Put name and zero behind `s`."""
        return s + self.i2m(pkt, val) + b"\0"

    def getfield(self, pkt: Packet, s: bytes) -> tuple[bytes, bytes]:
        """Take the name from the begin of `s`."""
        name, zero, rest = s.partition(b"\0")
        if not zero:
            raise ValueError(f"{self.name}: got no zero at its end")
        return rest, name


def _version_1(kind: int) -> list[Any]:
    """Bits 0 to 9 of each packet of version 1."""
    return [
        BitField("version", 1, 3),
        BitEnumField("type", kind, 5, TYPES),
        BitEnumField("descriptor", 1, 2, DESCRIPTORS),
    ]


def _version_0(kind: int, *flags: Any) -> list[Any]:
    """The first two octets of each packet of version 0."""
    spare_bits = 8 - sum(flag.size for flag in flags)
    return [
        BitField("version", 0, 3),
        BitEnumField("type", kind, 5, {**TYPES, 4: "HOLESTOFILL"}),
        *([BitField("spare", 0, spare_bits)] if spare_bits else []),
        *flags,
    ]


def _stamp() -> Any:
    """16 octets if the flag says so: type, then a time."""
    return ConditionalField(StrFixedLenField("timestamp", bytes(16), 16), lambda pkt: pkt.stamped)


class Saratoga(Packet):
    """Any packet of Saratoga. Dissecting gives one of the other classes; this one itself for a type that is unknown."""

    name = "Saratoga"
    fields_desc: ClassVar[list[Any]] = [
        BitField("version", 1, 3),
        BitEnumField("type", 0, 5, TYPES),
        BitField("flags", 0, 24),
    ]

    @classmethod
    def dispatch_hook(cls, _pkt: bytes | None = None, *_: Any, **__: Any) -> type[Packet]:
        """The class for the version and type of the first octet."""
        if not _pkt:
            return cls
        return _CLASSES.get((_pkt[0] >> 5, _pkt[0] & 0x1F), Saratoga)

    def answers(self, other: Packet) -> bool:
        """Whether both are of one session."""
        return isinstance(other, Saratoga) and self.fields.get("session") == other.fields.get("session")


class SaratogaBeacon(Saratoga):
    """BEACON: someone is there, and what it can do."""

    name = "Saratoga BEACON"
    fields_desc: ClassVar[list[Any]] = [
        *_version_1(0),
        BitField("bundles", 0, 1),
        BitField("streams", 0, 1),
        BitEnumField("sends", 3, 2, WILLINGNESS),
        BitEnumField("receives", 3, 2, WILLINGNESS),
        BitField("udp_lite", 0, 1),
        BitField("has_free_space", 0, 1),
        BitEnumField("free_space_descriptor", 0, 2, DESCRIPTORS),
        BitField("spare", 0, 12),
        ConditionalField(OffsetField("free_space", 0, "free_space_descriptor"), lambda pkt: pkt.has_free_space),
        StrField("endpoint", b""),
    ]


class SaratogaRequest(Saratoga):
    """REQUEST: a transaction is asked for."""

    name = "Saratoga REQUEST"
    fields_desc: ClassVar[list[Any]] = [
        *_version_1(1),
        BitField("bundles", 0, 1),
        BitField("streams", 0, 1),
        BitEnumField("sends", 0, 2, WILLINGNESS),
        BitEnumField("receives", 0, 2, WILLINGNESS),
        BitField("udp_lite", 0, 1),
        BitField("spare", 0, 7),
        ByteEnumField("request", 1, REQUESTS),
        IntField("session", 0),
        NameField("file_name", b""),
        StrField("authentication", b""),
    ]


class SaratogaMetadata(Saratoga):
    """METADATA: name, size, times and checksum of what is sent. Times are seconds since 2000."""

    name = "Saratoga METADATA"
    fields_desc: ClassVar[list[Any]] = [
        *_version_1(2),
        BitEnumField("transfer", 0, 2, TRANSFERS),
        BitField("not_in_progress", 0, 1),
        BitField("udp_lite", 0, 1),
        BitField("spare", 0, 10),
        BitField("checksum_words", 0, 4),
        BitEnumField("checksum_type", 0, 4, CHECKSUMS),
        IntField("session", 0),
        StrLenField("checksum", b"", length_from=lambda pkt: 4 * pkt.checksum_words),
        BitField("entry", 1, 1),
        BitField("entry_spare", 0, 5),
        BitField("entry_kind", 0, 2),
        BitEnumField("entry_descriptor", 1, 2, DESCRIPTORS),
        BitField("entry_spare_2", 0, 6),
        OffsetField("file_bytes", 0, "entry_descriptor"),
        IntField("modified_s", 0),
        IntField("changed_s", 0),
        NameField("file_name", b""),
    ]


class SaratogaData(Saratoga):
    """DATA: a piece of the file."""

    name = "Saratoga DATA"
    fields_desc: ClassVar[list[Any]] = [
        *_version_1(3),
        BitEnumField("transfer", 0, 2, TRANSFERS),
        BitField("stamped", 0, 1),
        BitField("spare", 0, 2),
        BitField("asks", 0, 1),
        BitField("ends", 0, 1),
        BitField("spare_2", 0, 15),
        IntField("session", 0),
        _stamp(),
        OffsetField("offset", 0),
        StrField("data", b""),
    ]


class SaratogaStatus(Saratoga):
    """STATUS: what the receiver lacks, or a word on the transaction."""

    name = "Saratoga STATUS"
    fields_desc: ClassVar[list[Any]] = [
        *_version_1(4),
        BitField("spare", 0, 2),
        BitField("stamped", 0, 1),
        BitField("metadata_missing", 0, 1),
        BitField("partial", 0, 1),
        BitField("voluntary", 0, 1),
        BitField("spare_2", 0, 8),
        ByteEnumField("error", 0, ERRORS),
        IntField("session", 0),
        _stamp(),
        OffsetField("progress", 0),
        OffsetField("in_response_to", 0),
        HolesField("holes", OffsetField("hole", 0)),
    ]


class Saratoga0Beacon(Saratoga):
    """BEACON of version 0."""

    name = "Saratoga 0 BEACON"
    fields_desc: ClassVar[list[Any]] = [*_version_0(0), StrField("endpoint", b"")]


class Saratoga0Request(Saratoga):
    """REQUEST of version 0: a get."""

    name = "Saratoga 0 REQUEST"
    fields_desc: ClassVar[list[Any]] = [
        *_version_0(1, BitEnumField("request", 1, 8, REQUESTS)),
        IntField("session", 0),
        NameField("file_name", b""),
    ]


class Saratoga0Metadata(Saratoga):
    """METADATA of version 0."""

    name = "Saratoga 0 METADATA"
    fields_desc: ClassVar[list[Any]] = [
        *_version_0(2),
        IntField("session", 0),
        FixedOffsetField("file_bytes", 0),
        NameField("file_name", b""),
    ]


class Saratoga0Data(Saratoga):
    """DATA of version 0."""

    name = "Saratoga 0 DATA"
    fields_desc: ClassVar[list[Any]] = [
        *_version_0(3, BitField("asks", 0, 1)),
        IntField("session", 0),
        FixedOffsetField("offset", 0),
        StrField("data", b""),
    ]


class Saratoga0HolesToFill(Saratoga):
    """HOLESTOFILL of version 0, which became STATUS."""

    name = "Saratoga 0 HOLESTOFILL"
    fields_desc: ClassVar[list[Any]] = [
        *_version_0(4, BitField("metadata_missing", 0, 1), BitField("partial", 0, 1), BitField("voluntary", 0, 1)),
        IntField("session", 0),
        FixedOffsetField("progress", 0),
        FixedOffsetField("in_response_to", 0),
        HolesField("holes", FixedOffsetField("hole", 0)),
    ]


_CLASSES: dict[tuple[int, int], type[Saratoga]] = {
    (1, 0): SaratogaBeacon,
    (1, 1): SaratogaRequest,
    (1, 2): SaratogaMetadata,
    (1, 3): SaratogaData,
    (1, 4): SaratogaStatus,
    (0, 0): Saratoga0Beacon,
    (0, 1): Saratoga0Request,
    (0, 2): Saratoga0Metadata,
    (0, 3): Saratoga0Data,
    (0, 4): Saratoga0HolesToFill,
}
"""By version and type."""

for _port in (VERSION_1_PORT, VERSION_0_PORT):
    bind_layers(UDP, Saratoga, sport=_port)
    bind_layers(UDP, Saratoga, dport=_port)
    bind_layers(UDP, Saratoga, sport=_port, dport=_port)
