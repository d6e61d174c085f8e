"""What a reader of a protocol is given and what it gives: a packet's fields in, what the packet says out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from captures.session import Host


class Unreadable(ValueError):
    """The packet is not what its protocol says it must be. Readers raise nothing else."""


@dataclass(frozen=True)
class Packet:
    """A packet of the session.

    `payload` is what it carries behind its UDP or TCP header, as far as captured, `payload_bytes` how long that was
    on the wire; `datagram_bytes` is the length of the whole datagram of which this may be the first fragment.
    `fields` are tshark's, by name, as text; several values of one field stand in a row, with commas.
    """

    host: Host
    payload: bytes
    payload_bytes: int
    datagram_bytes: int
    fields: Mapping[str, str]

    @property
    def cut(self) -> bool:
        """Whether not all of it was captured, or not all of it is in this packet."""
        return len(self.payload) < self.datagram_bytes

    def numbers(self, name: str) -> list[int]:
        """All values of a field, in the packet's order."""
        return [_number(text) for text in self.fields[name].split(",") if text]

    def number(self, name: str) -> int | None:
        """The first value of a field, None where the packet has none."""
        numbers = self.numbers(name)
        return numbers[0] if numbers else None


def _number(text: str) -> int:
    if text in _TRUTHS:
        return _TRUTHS[text]
    try:
        return int(text, 0)
    except ValueError as error:
        raise Unreadable(f"got {text[:40]!r} for a number") from error


_TRUTHS = {"True": 1, "False": 0}
"""tshark writes them 1 and 0 up to version 4.0."""


@dataclass(frozen=True)
class Said:
    """What a packet says. `name`, `detail` and what follows them, up to `unplaced`, are as in Message.

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

    `FIELDS` are tshark's, `LAYER` is what tshark calls the protocol in `frame.protocols`, empty where it knows none,
    and `TITLE` what people call it.
    """

    FIELDS: ClassVar[tuple[str, ...]]
    LAYER: ClassVar[str]
    TITLE: ClassVar[str]

    @abstractmethod
    def read(self, packet: Packet) -> Said:
        """What a packet says. Raises Unreadable."""

    def rescue(self, packet: Packet) -> Said:
        """What a packet says that tshark could not read. Raises Unreadable, but where tshark is known to err."""
        raise Unreadable("tshark could not read it")

    def ignorant(self) -> Reader:
        """One that has read nothing yet, for packets that must teach this one nothing."""
        return type(self)()


CUT = "cut"
"""The detail of a message of which too little was captured to say more."""


def span(first_byte: int, byte_count: int) -> str:
    """A piece of a file for a detail: bytes 0-999."""
    return f"bytes {first_byte}-{first_byte + byte_count - 1}" if byte_count else "no bytes"


def several(count: int, singular: str, plural: str = "") -> str:
    """1 hole, 3 holes."""
    return f"{count} {singular if count == 1 else plural or singular + 's'}"
