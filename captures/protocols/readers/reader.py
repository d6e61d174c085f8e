"""The input and output of a protocol's reader: a packet's fields in, the packet's content out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from captures.session.session import Host


class Unreadable(ValueError):
    """The packet is not what its protocol says it must be. Readers raise nothing else."""


Fields = Mapping[str, str | bytes | tuple[int, ...]]
"""By tshark's names: the text that tshark has for a field, its values with commas between them; or, of fields that a
reader took from the octets itself, their numbers or octets. A field that the packet does not have is empty, or not
there."""


@dataclass(frozen=True, slots=True)
class Packet:
    """A packet of the session.

    `payload` is what it carries behind its UDP or TCP header, as far as captured, `payload_bytes` how long that was
    on the wire; `datagram_bytes` is the length of the whole datagram of which this may be the first fragment.
    """

    host: Host
    payload: bytes
    payload_bytes: int
    datagram_bytes: int
    fields: Fields

    @property
    def cut(self) -> bool:
        """Whether not all of it was captured, or not all of it is in this packet."""
        return len(self.payload) < self.datagram_bytes

    def numbers(self, name: str) -> list[int]:
        """All values of a field, in the packet's order."""
        values = self.fields.get(name, ())
        return [_number(text) for text in values.split(",") if text] if isinstance(values, str) else list(values)

    def number(self, name: str) -> int | None:
        """The first value of a field, None if the packet has none."""
        values = self.fields.get(name)
        if not values:
            return None
        return self.numbers(name)[0] if isinstance(values, str) else values[0]

    def text(self, name: str) -> str:
        """A field as tshark writes it."""
        return str(self.fields.get(name, ""))

    def octets(self, name: str) -> bytes:
        """The octets of a field of octets."""
        octets = self.fields.get(name, b"")
        return bytes.fromhex(octets.replace(",", "")) if isinstance(octets, str) else bytes(octets)


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
    """The content of a packet. `name`, `detail` and what follows them, up to `unplaced`, are as in Message.

    `unit` is what bytes are counted from the begin of: a transaction, a block, an object, a stream. Where the file's
    sender fills more than one, the packets do not say which place in the file that is. `data_at` is where in the
    datagram the file's bytes begin, so that they can be told apart in its fragments.
    """

    name: str
    detail: str = ""
    first_byte: int | None = None
    byte_count: int = 0
    acknowledged_bytes: int | None = None
    unplaced: bool = False
    unit: object = None
    data_at: int = 0


class Reader(ABC):
    """Reads the packets of one session in the capture's order, and may remember what it has read.

    `FIELDS` are tshark's, `LAYER` is what tshark calls the protocol in `frame.protocols`, empty if it knows none,
    and `TITLE` what people call it.
    """

    FIELDS: ClassVar[tuple[str, ...]]
    LAYER: ClassVar[str]
    TITLE: ClassVar[str]
    NEEDS_TSHARK: ClassVar[bool] = True
    """Whether tshark has to dissect all packets; else those alone of which `fields` knows nothing."""

    def fields(self, payload: bytes, datagram_bytes: int) -> Fields | None:
        """The FIELDS of a datagram as tshark has them; None if it is not one of the usual messages, whole and
        consistent, or too little of it was captured."""
        return None

    @abstractmethod
    def read(self, packet: Packet) -> PacketContent:
        """The content of a packet. Raises Unreadable."""

    def rescue(self, packet: Packet) -> PacketContent:
        """The content of a packet that tshark could not read. Raises Unreadable, unless tshark is known to be wrong."""
        raise Unreadable("tshark could not read it")

    def ignorant(self) -> Reader:
        """A reader without state, for packets that must not change this one's."""
        return type(self)()


CUT = "cut"
"""The detail of a message of which too little was captured to say more."""


def span(first_byte: int, byte_count: int) -> str:
    """A piece of a file for a detail: bytes 0-999."""
    return f"bytes {first_byte}-{first_byte + byte_count - 1}" if byte_count else "no bytes"


def several(count: int, singular: str, plural: str = "") -> str:
    """1 hole, 3 holes."""
    return f"{count} {singular if count == 1 else plural or singular + 's'}"
