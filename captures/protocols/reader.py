"""The interface of all readers of protocols: a packet's octets or fields as input, the packet's contents as output.

Also here: which bytes of a file, or of a stream, have been carried already.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar, Literal

from owlt.captures.frames.session import Host


class Unreadable(ValueError):
    """The packet violates its protocol. Readers raise no other exception."""


Fields = Mapping[str, str]
"""The text of each field by tshark's name for it, with commas between several values.

A field that the packet does not have is empty or missing.
"""
NO_FIELDS: Fields = MappingProxyType({})
FileVerdict = Literal["", "delivered", "failed", "ended early"]


@dataclass(frozen=True, slots=True)
class Packet:
    """A packet of the session.

    `payload` is what it carries behind its transport's header, as far as captured, `payload_bytes` how long that was
    on the wire; `datagram_bytes` is the length of the whole datagram of which this may be the first fragment.
    """

    host: Host
    payload: bytes
    payload_bytes: int
    datagram_bytes: int
    fields: Fields
    frame: int = 0
    """Its number in the capture, from 1."""

    @property
    def cut(self) -> bool:
        """Whether not all of it was captured, or not all of it is in this packet."""
        return len(self.payload) < self.datagram_bytes

    def numbers(self, name: str) -> list[int]:
        """All values of a field, in the packet's order."""
        return [_number(text) for text in self.fields.get(name, "").split(",") if text]

    def number(self, name: str) -> int | None:
        """The first value of a field, None if the packet has none."""
        text = self.fields.get(name, "")
        return int(text) if text.isdecimal() else next(iter(self.numbers(name)), None)

    def text(self, name: str) -> str:
        """A field as tshark writes it."""
        return self.fields.get(name, "")


def _number(text: str) -> int:
    if text in _TRUTHS:
        return _TRUTHS[text]
    try:
        return int(text, 0)
    except ValueError as error:
        raise Unreadable(f"got {text[:40]!r} for a number") from error


_TRUTHS = {"True": 1, "False": 0}
"""tshark writes them 1 and 0 up to version 4.0."""


@dataclass(frozen=True, slots=True)
class PacketContent:
    """The content of a packet, or of one of its protocol data units. `name`, `detail` and what follows them, up to
    `unplaced`, are as in Message, and so is `verdict`.

    `unit` is the unit in which bytes are counted: a transaction, a block, an object, a stream. If the file's sender
    fills more than one, the position in the file is not known. `data_at` is where in the datagram the file's bytes
    begin, so that they can be told apart in its fragments. `file_bytes` is the size of the file that it states.
    `parity_bytes` is how many bytes of the file it can restore, whichever they are.
    """

    name: str
    detail: str = ""
    first_byte: int | None = None
    byte_count: int = 0
    acknowledged_bytes: int | None = None
    unplaced: bool = False
    unit: object = None
    data_at: int = 0
    file_bytes: int | None = None
    parity_bytes: int = 0
    verdict: FileVerdict = ""


class Reader(ABC):
    """Reads the packets of one session in the capture's order, and may remember what it has read.

    `FIELDS` are tshark's fields, `LAYER` is tshark's name of the protocol in `frame.protocols`, empty if it has none,
    and `TITLE` its usual name.
    """

    TITLE: ClassVar[str]
    LAYER: ClassVar[str] = ""
    FIELDS: ClassVar[tuple[str, ...]] = ()
    NEEDS_TSHARK: ClassVar[bool] = False
    """Whether tshark has to dissect the packets; else `read` takes all from their octets."""

    @abstractmethod
    def read(self, packet: Packet) -> PacketContent | list[PacketContent]:
        """The content of a packet; the contents of several protocol data units in one. Raises Unreadable."""

    def ignorant(self) -> Reader:
        """A reader without state, for packets that must not change the state of this one."""
        return type(self)()


def each_unit(packet: Packet, read: Callable[[int], tuple[PacketContent, int]]) -> list[PacketContent]:
    """The contents of the protocol data units of a datagram, in order.

    `read` takes the position of a unit in the datagram, and returns its content and the position of its end. Raises
    Unreadable, also if other octets follow the last unit.
    """
    contents: list[PacketContent] = []
    place = 0
    while place < packet.datagram_bytes or not contents:
        if contents and place >= len(packet.payload):
            contents.append(PacketContent("rest of the datagram", CUT, unplaced=True))
            break
        content, place = read(place)
        contents.append(content)
    return contents


RETRANSMISSION, REPEATED = "retransmission", "UDP repeat"
"""The names of messages that carry again what their host sent before."""
CUT = "cut"
"""The detail of a message of which too little was captured to say more."""


def span(first_byte: int, byte_count: int) -> str:
    """A piece of a file for a detail: bytes 0-999."""
    return f"bytes {first_byte}-{first_byte + byte_count - 1}" if byte_count else "no bytes"


def several(count: int, singular: str, plural: str = "") -> str:
    """1 hole, 3 holes."""
    return f"{count} {singular if count == 1 else plural or singular + 's'}"


def read_number(octets: bytes, place: int) -> tuple[int, int]:
    """The self-delimiting number (SDNV) at a place, and where it ends: seven bits an octet, the highest bit set in all
    but the last (RFC 6256). Raises IndexError if the octets end within it, Unreadable if it has more than 64 bits."""
    octet = octets[place]
    if octet < 0x80:
        return octet, place + 1
    value = octet & 0x7F
    for following in range(place + 1, place + _MOST_NUMBER_OCTETS):
        octet = octets[following]
        value = value << 7 | octet & 0x7F
        if octet < 0x80:
            return value, following + 1
    raise Unreadable(f"no end of the number at octet {place}")


_MOST_NUMBER_OCTETS = 10
"""The most octets of a number of 64 bits."""


class Coverage:
    """The bytes from 0 on: those before `furthest` are covered, except for the holes, which are in ascending order."""

    def __init__(self) -> None:
        self.furthest = 0
        self.holes: list[tuple[int, int]] = []

    def add_all(self, pieces: Iterable[tuple[int, int]]) -> int:
        """Cover pieces, each by its first byte and its number of bytes. How many of the bytes were not covered."""
        return sum(self.add(first, first + count) for first, count in pieces)

    def add(self, first: int, end: int) -> int:
        """Cover the bytes from `first` (0 or more) to before `end`. How many of them were not covered."""
        begin = bisect_right(self.holes, first, key=lambda hole: hole[1])
        after = bisect_left(self.holes, end, key=lambda hole: hole[0])
        met = self.holes[begin:after]
        new = sum(min(stop, end) - max(start, first) for start, stop in met)
        left = [(start, first) for start, _ in met if start < first] + [(end, stop) for _, stop in met if stop > end]
        self.holes[begin:after] = left
        if first > self.furthest:
            self.holes.append((self.furthest, first))
        new += max(end - max(first, self.furthest), 0)
        self.furthest = max(self.furthest, end)
        return new
