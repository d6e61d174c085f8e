"""Self-delimiting numeric values (RFC 6256): seven bits in each byte, whose first bit is set in all but the last."""

LARGEST = 2**64 - 1
"""What is written and read here; the RFC itself sets no bound."""

_MOST_BYTES = 10


class NoNumber(ValueError):
    """The bytes end before the number does, or it is beyond LARGEST."""


def encode(number: int) -> bytes:
    """The shortest form. Raises ValueError for a number that is negative or beyond LARGEST."""
    if 0 <= number < 0x80:
        return bytes((number,))
    if not 0 <= number <= LARGEST:
        raise ValueError(f"got {number}, wanted 0 to {LARGEST}")
    groups = [number & 0x7F]
    while number := number >> 7:
        groups.append(number & 0x7F | 0x80)
    return bytes(reversed(groups))


def decode(octets: bytes, place: int) -> tuple[int, int]:
    """The number that begins at `place`, and the place behind it. Zeros in front of a number are taken.

    Raises:
        NoNumber: the number has no end, or is beyond LARGEST.
    """
    number = 0
    for at in range(place, min(place + _MOST_BYTES, len(octets))):
        octet = octets[at]
        number = number << 7 | octet & 0x7F
        if octet < 0x80:
            if number > LARGEST:
                break
            return number, at + 1
    raise NoNumber(f"no number of at most 64 bits at byte {place}")
