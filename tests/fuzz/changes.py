"""Ways to spoil a packet, as values: hypothesis draws them, a seed chooses them, and a fuzzer's bytes spell them."""

from __future__ import annotations

import random
from enum import IntEnum
from typing import NamedTuple

EXTREMES = (
    b"",
    b"\x00",
    b"\x7f",
    b"\x80",
    b"\xff",
    b"\xff\xff",
    b"\x7f\xff",
    bytes(4),
    b"\x7f\xff\xff\xff",
    b"\x80\x00\x00\x00",
    b"\xff\xff\xff\xff",
    bytes(8),
    b"\x7f" + b"\xff" * 7,
    b"\xff" * 8,
    b"\xff" * 16,
    b"\x81" + b"\xff" * 8 + b"\x7f",  # SDNV of 2^64 - 1
    b"\x90\x80\x80\x80\x00",  # SDNV of 2^32
    b"\x87\xff\xff\xff\x7f",  # SDNV of 2^31 - 1
    b"\x80" * 9 + b"\x01",  # SDNV of 1 with zeros in front
    b"\xff" * 12,  # SDNV without end
)
"""What lengths, counts and offsets are when they are as large, as small or as wrong as they can be."""


class Kind(IntEnum):
    """What is done at a place."""

    FLIP = 0
    CUT = 1
    REMOVE = 2
    REPEAT = 3
    OVERWRITE = 4
    INSERT = 5


class Change(NamedTuple):
    """One way to spoil any packet. `place` counts modulo its length; `amount` is a mask, a length or an extreme."""

    kind: Kind
    place: int
    amount: int

    @classmethod
    def read(cls, octets: bytes) -> Change:
        """From four bytes, whatever they are."""
        return cls(Kind(octets[0] % len(Kind)), int.from_bytes(octets[1:3]), octets[3])


def changed(octets: bytes, change: Change) -> bytes:
    """What becomes of a packet."""
    kind, place, amount = change.kind, change.place % (len(octets) + 1), change.amount
    before, behind = octets[:place], octets[place:]
    match kind:
        case Kind.FLIP:
            return before + bytes([behind[0] ^ (amount or 1)]) + behind[1:] if behind else octets
        case Kind.CUT:
            return before
        case Kind.REMOVE:
            return before + behind[amount:]
        case Kind.REPEAT:
            return before + behind[:amount] + behind
        case Kind.OVERWRITE:
            extreme = EXTREMES[amount % len(EXTREMES)]
            return before + extreme + behind[len(extreme) :]
        case Kind.INSERT:
            return before + EXTREMES[amount % len(EXTREMES)] + behind


def changed_at_random(octets: bytes, chance: random.Random) -> bytes:
    """With one to four changes."""
    for _ in range(chance.randint(1, 4)):
        octets = changed(octets, Change.read(chance.randbytes(4)))
    return octets
