"""Self-delimiting numeric values (RFC 6256): seven bits in each byte, whose first bit is set in all but the last."""

from functools import lru_cache

LARGEST = 2**64 - 1
"""The largest number that is written and read here; the RFC itself sets no bound."""

_MOST_BYTES = 10


class NoNumber(ValueError):
    """The bytes end before the number does, or it is beyond LARGEST."""


@lru_cache(maxsize=4096)
def encode(number: int) -> bytes:
    """The shortest form. Raises ValueError for a number that is negative or beyond LARGEST.

    Most numbers of a segment are those of the segment before: hence the cache.
    """
    if 0 <= number < 0x80:
        return bytes((number,))
    if not 0 <= number <= LARGEST:
        raise ValueError(f"got {number}, expected 0 to {LARGEST}")
    groups = [number & 0x7F]
    while number := number >> 7:
        groups.append(number & 0x7F | 0x80)
    return bytes(reversed(groups))


def decode(octets: bytes, place: int) -> tuple[int, int]:
    """The number that begins at `place`, and the position after it. Leading zeros are accepted.

    Raises:
        NoNumber: the number has no end, or is beyond LARGEST.
    """
    if place < len(octets) and (octet := octets[place]) < 0x80:
        return octet, place + 1
    number, end = 0, place
    for octet in octets[place : place + _MOST_BYTES]:
        number, end = number << 7 | octet & 0x7F, end + 1
        if octet < 0x80:
            if number > LARGEST:
                break
            return number, end
    raise NoNumber(f"no number of at most 64 bits at byte {place}")
