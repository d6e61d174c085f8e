"""Finding the packet of which a frame is a damaged copy: the one that differs from it in a single bit.

That is what netem's `corrupt` does to a frame, anywhere from the first byte of the Ethernet header on, so
the copy may have lost its address, its port or its protocol; nothing is asked of it but its other bits.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Sequence

_SEGMENTS = (slice(0, 34), slice(34, 42), slice(42, 98), slice(98, None))
"""Ethernet and IPv4 header; UDP header, or TCP ports and sequence number; start and rest of the payload.
Protocols number their packets near the start, which tells apart those that carry the same further on."""

_NEIGHBOURS = 64
"""How many candidates on either side of the wanted time are compared, should that many be alike."""

Flip = tuple[int, int, int]
"""Index of the packet, index of its copy, the bit that was hit."""


def flipped_bit(packet: bytes, copy: bytes) -> int | None:
    """The one bit in which the two differ, counted from the most significant bit of the first byte.

    None if they differ in none or in several, or in length.
    """
    if len(packet) != len(copy):
        return None
    difference = int.from_bytes(packet, "big") ^ int.from_bytes(copy, "big")
    if difference.bit_count() != 1:
        return None
    return 8 * len(packet) - difference.bit_length()


def find_flipped(
    packets: Sequence[bytes],
    sent_times: Sequence[int],
    copies: Sequence[bytes],
    wanted_times: Sequence[int],
) -> list[Flip]:
    """Each copy that is one bit away from a packet, with that packet; `sent_times` must be sorted.

    Where a copy could be of several packets it is given to the one sent nearest to the copy's wanted time;
    no packet is given two copies. A flip leaves all segments of a frame but one unhurt, so the packets are
    looked up by what is left of them.
    """
    alike: dict[tuple[int, int], list[int]] = defaultdict(list)
    for number, packet in enumerate(packets):
        for key in _rests(packet):
            alike[key].append(number)

    found: list[Flip] = []
    for copy_number, (copy, wanted_time) in enumerate(zip(copies, wanted_times, strict=True)):
        candidates: set[int] = set()
        for key in _rests(copy):
            numbers = alike.get(key, [])
            place = bisect_left(numbers, wanted_time, key=sent_times.__getitem__)
            candidates.update(numbers[max(place - _NEIGHBOURS, 0) : place + _NEIGHBOURS])
        for number in sorted(candidates, key=lambda n: abs(sent_times[n] - wanted_time)):
            bit = flipped_bit(packets[number], copy)
            if bit is not None:
                found.append((number, copy_number, bit))
                for key in _rests(packets[number]):
                    del alike[key][bisect_left(alike[key], number)]
                break
    return found


def _rests(frame: bytes) -> Iterator[tuple[int, int]]:
    """For each segment: its number and a hash of all of the frame but that segment."""
    for number, segment in enumerate(_SEGMENTS):
        start, end, _ = segment.indices(len(frame))
        yield number, hash((len(frame), frame[:start], frame[end:]))
