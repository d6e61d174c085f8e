"""Saratoga's packets as values, the same for both versions. How they look on the wire: `version0` and `version1`.

Offsets and sizes are in bytes of the file; a span is (first byte, byte after the last). `Fields` reads a datagram field
by field; every shortage is `Unreadable`. Timestamps of DATA, which a STATUS returns, are of type 0, which only their
author reads: nanoseconds of the sender's own clock.
"""

from __future__ import annotations

import hashlib
import math
import zlib
from dataclasses import dataclass
from enum import IntEnum
from io import BufferedReader

Span = tuple[int, int]

TIMESTAMP_BYTES = 16

LONGEST_NAME_BYTES = 1024


class Unreadable(ValueError):
    """A datagram is not a packet of the version in use; the text states what is wrong."""


class PacketType(IntEnum):
    """Five bits of the first octet. In version 0 a STATUS was called HOLESTOFILL."""

    BEACON = 0
    REQUEST = 1
    METADATA = 2
    DATA = 3
    STATUS = 4


class Action(IntEnum):
    """The request of a REQUEST (bits 24 to 31). Others exist and are refused here."""

    GET = 1
    PUT = 2


class Code(IntEnum):
    """The status code of a STATUS (bits 24 to 31)."""

    SUCCESS = 0x00
    UNSPECIFIED_ERROR = 0x01
    SENDER_LACKS_RESOURCES = 0x02
    RECEIVER_LACKS_RESOURCES = 0x03
    FILE_NOT_FOUND = 0x04
    ACCESS_DENIED = 0x05
    UNKNOWN_SESSION = 0x06
    NOT_DELETED = 0x07
    FILE_TOO_LONG = 0x08
    WRONG_DESCRIPTOR = 0x09
    UNSUPPORTED_PACKET_TYPE = 0x0A
    UNSUPPORTED_REQUEST = 0x0B
    TIMED_OUT = 0x0C
    DATA_FLAGS_CHANGED = 0x0D
    RECEIVER_NOT_INTERESTED = 0x0E
    FILE_IN_USE = 0x0F
    METADATA_REQUIRED = 0x10
    UNEXPECTED_STATUS = 0x11


@dataclass(frozen=True, kw_only=True)
class Beacon:
    """Announces a node. This endpoint does not wait for one."""

    endpoint: str


@dataclass(frozen=True, kw_only=True)
class Request:
    """Requests a transaction. `descriptor_bits` is the largest that its author understands."""

    session: int
    action: int
    name: str
    descriptor_bits: int


@dataclass(frozen=True, kw_only=True)
class Metadata:
    """Describes the file: its name, size and checksum. `digest` is empty where `checksum` is "none"."""

    session: int
    file_bytes: int
    name: str
    checksum: str
    digest: bytes
    descriptor_bits: int


@dataclass(frozen=True, kw_only=True)
class Data:
    """A piece of the file. `asks`: a STATUS is requested; `ends`: it is the last piece.

    `timestamp` is empty or 16 octets.
    """

    session: int
    offset: int
    payload: bytes
    asks: bool
    ends: bool
    timestamp: bytes
    descriptor_bits: int

    @property
    def end(self) -> int:
        """The byte after its last."""
        return self.offset + len(self.payload)


@dataclass(frozen=True, kw_only=True)
class Status:
    """The receiver's report of missing data, or either side's report on a transaction.

    `progress` is the lowest byte not yet here. `in_response_to` is the byte after the DATA that requested the STATUS
    or, if `voluntary`, after the furthest DATA received. `partial`: there are more holes than `holes`. `timestamp` is
    that of the DATA answered, or empty.
    """

    session: int
    code: int
    progress: int
    in_response_to: int
    holes: tuple[Span, ...]
    partial: bool
    voluntary: bool
    metadata_missing: bool
    timestamp: bytes
    descriptor_bits: int


Packet = Beacon | Request | Metadata | Data | Status


def session_id(name: str) -> int:
    """The 32 bits by which both sides of a transaction know it: CRC-32 of the file's name, as in version 0.

    Any number is allowed; this one is equal in repetitions of a run.
    """
    return zlib.crc32(name_octets(name))


def name_octets(name: str) -> bytes:
    """A file's name on the wire: its bytes in the file system."""
    return name.encode("utf-8", "surrogateescape")


def name_text(octets: bytes) -> str:
    """The inverse of `name_octets`."""
    return octets.decode("utf-8", "surrogateescape")


def code_name(code: int) -> str:
    """The name of a code, for messages."""
    return Code(code).name if code in Code.__members__.values() else f"code {code:#04x}"


class Fields:
    """Reads the fields of a datagram, one after the other."""

    def __init__(self, datagram: bytes, place: int = 0) -> None:
        self._datagram = datagram
        self._place = place

    def octets(self, count: int) -> bytes:
        """The next `count` octets."""
        begin, self._place = self._place, self._place + count
        if self._place > len(self._datagram):
            raise Unreadable(f"got {len(self._datagram)} bytes, expected {self._place} or more")
        return self._datagram[begin : self._place]

    def number(self, count: int) -> int:
        """An unsigned number of `count` octets."""
        return int.from_bytes(self.octets(count))

    def name(self) -> str:
        """Text up to a zero octet."""
        end = self._datagram.find(0, self._place)
        if end < 0 or end - self._place > LONGEST_NAME_BYTES:
            raise Unreadable(f"got a name without end, expected at most {LONGEST_NAME_BYTES} bytes and a zero")
        name = name_text(self._datagram[self._place : end])
        self._place = end + 1
        return name

    def rest(self) -> bytes:
        """All that is left."""
        begin, self._place = self._place, len(self._datagram)
        return self._datagram[begin:]

    def holes(self, offset_bytes: int) -> tuple[Span, ...]:
        """All that is left, as pairs of offsets."""
        left = len(self._datagram) - self._place
        if left % (2 * offset_bytes):
            raise Unreadable(f"got holes of {left} bytes, expected pairs of 2 x {offset_bytes}")
        holes = tuple((self.number(offset_bytes), self.number(offset_bytes)) for _ in range(left // (2 * offset_bytes)))
        if any(end <= start for start, end in holes):
            raise Unreadable("got a hole that ends before it begins")
        return holes


_LOCAL = bytes([0])


def timestamp(now_s: float) -> bytes:
    """The time of a clock that does not run below zero."""
    return _LOCAL + (math.ceil(1e9 * now_s) + 1).to_bytes(TIMESTAMP_BYTES - 1)  # read back, it is not before now


def made_at_s(stamp: bytes) -> float:
    """When a timestamp of ours was made; meaningless for any other timestamp."""
    return int.from_bytes(stamp[1:]) / 1e9


CODES = {"none": 0, "crc32": 1, "md5": 2, "sha1": 3}
"""Bits 28 to 31 of METADATA. The CRC-32 is that of IEEE 802.3, as the public implementations compute it."""

DIGEST_BYTES = {"none": 0, "crc32": 4, "md5": 16, "sha1": 20}

_BLOCK_BYTES = 1 << 20


def file_digest(file: BufferedReader, kind: str) -> bytes:
    """The checksum of a file, open at its begin, `DIGEST_BYTES[kind]` long."""
    if kind == "none":
        return b""
    if kind == "crc32":
        crc = 0
        while block := file.read(_BLOCK_BYTES):
            crc = zlib.crc32(block, crc)
        return crc.to_bytes(4)
    return hashlib.file_digest(file, lambda: hashlib.new(kind, usedforsecurity=False)).digest()
