"""Finding the packet of which a frame is a damaged copy: the one that differs from it in a single bit, or in few.

A single bit is what netem's `corrupt` hits in a frame, several what a bit error rate may, anywhere from the first
byte of the Ethernet header on, so the copy may have lost its address, its port or its protocol; nothing is asked
of it but its other bits.
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

_FEW = 1 / 32
"""Frames that differ in no more of their bits are one packet and its copy; packets with other contents differ in
about half of theirs."""

Flip = tuple[int, int, int]
"""Index of the packet, index of its copy, the first bit that was hit."""


def flipped_bit(packet: bytes, copy: bytes) -> int | None:
    """The one bit in which the two differ, counted from the most significant bit of the first byte.

    None if they differ in none or in several, or in length.
    """
    if len(packet) != len(copy):
        return None
    return _first_difference(packet, copy) if _difference(packet, copy).bit_count() == 1 else None


def find_damaged(
    packets: Sequence[bytes],
    sent_times: Sequence[int],
    copies: Sequence[bytes],
    wanted_times: Sequence[int],
) -> list[Flip]:
    """Each damaged copy with its packet; `sent_times` must be sorted.

    Copies that are one bit away from a packet are found first, then those that are few bits away from one that is
    left. Where a copy could be of several packets it is given to the one sent nearest to the copy's wanted time; no
    packet is given two copies. A single flip leaves all segments of a frame but one unhurt, so the packets are
    looked up by what is left of them.
    """
    found = _one_bit_away(packets, sent_times, copies, wanted_times)
    taken, known = {packet for packet, _, _ in found}, {copy for _, copy, _ in found}
    left = [number for number in range(len(packets)) if number not in taken]
    for copy_number in (number for number in range(len(copies)) if number not in known):
        nearest = _few_bits_away(packets, sent_times, left, copies[copy_number], wanted_times[copy_number])
        if nearest is not None:
            left.remove(nearest)
            found.append((nearest, copy_number, _first_difference(packets[nearest], copies[copy_number])))
    return found


def _few_bits_away(
    packets: Sequence[bytes], sent_times: Sequence[int], left: list[int], copy: bytes, wanted_time: int
) -> int | None:
    """The packet, of those left around the wanted time, that the copy is most like, if it is like it at all."""
    place = bisect_left(left, wanted_time, key=sent_times.__getitem__)
    around = [n for n in left[max(place - _NEIGHBOURS, 0) : place + _NEIGHBOURS] if len(packets[n]) == len(copy)]
    distances = {number: _difference(packets[number], copy).bit_count() for number in around}
    nearest = min(around, key=lambda n: (distances[n], abs(sent_times[n] - wanted_time)), default=None)
    return nearest if nearest is not None and distances[nearest] <= _FEW * 8 * len(copy) else None


def _difference(packet: bytes, copy: bytes) -> int:
    return int.from_bytes(packet, "big") ^ int.from_bytes(copy, "big")


def _first_difference(packet: bytes, copy: bytes) -> int:
    return 8 * len(packet) - _difference(packet, copy).bit_length()


def _one_bit_away(
    packets: Sequence[bytes],
    sent_times: Sequence[int],
    copies: Sequence[bytes],
    wanted_times: Sequence[int],
) -> list[Flip]:
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
