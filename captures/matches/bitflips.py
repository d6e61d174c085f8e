"""Finding the packet of which a frame is a damaged copy: the one that differs from it in a single bit, or in few.

A single bit is what netem's `corrupt` hits in a frame, several what a bit error rate may, anywhere from the first
byte of the Ethernet header on, so the copy may have lost its address, its port or its protocol; nothing is asked
of it but its other bits.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from owlt.captures.frames.checksums import has_right_checksums
from owlt.captures.matches.delivery import INTACT

_SEGMENTS = (slice(0, 34), slice(34, 42), slice(42, 98), slice(98, None))
"""Ethernet and IPv4 header; UDP header, or TCP ports and sequence number; start and rest of the payload.
Protocols number their packets near the start, which tells apart those that carry the same further on."""

NEIGHBOURS = 64
"""How many candidates on either side of the wanted time are compared, should that many be alike."""

_FEW = 1 / 32
"""Frames that differ in no more of their bits are one packet and its copy; packets with other contents differ in
about half of theirs."""

MAY_CANCEL = 2
"""So many flips leave the Internet checksum right one time in 32; three or four do one time in 300 (RFC 1071: it is a
sum), so of more flips than this a right checksum says first that the frame is another packet."""

Flip = tuple[int, int, int]
"""Index of the packet, index of its copy, the first bit that was hit, or INTACT."""


def flipped_bit(packet: bytes, copy: bytes) -> int | None:
    """The one bit in which the two differ, counted from the most significant bit of the first byte.

    None if they differ in none or in several, or in length.
    """
    if len(packet) != len(copy):
        return None
    return _first_difference(packet, copy) if _difference(packet, copy).bit_count() == 1 else None


def find_one_bit_away(
    packets: Sequence[bytes],
    sent_times: Sequence[int],
    copies: Sequence[bytes],
    arrival_times: Sequence[int],
    delays: Sequence[int],
    least_delay: int | None = None,
) -> list[Flip]:
    """Each copy with one flipped bit and its packet; `sent_times` must be sorted.

    Where a copy could be of several packets it is given to the one sent nearest to its delay before it arrived; no
    packet is given two copies, and none a copy that arrived less than `least_delay` after it was sent (None: any). A
    single flip leaves all segments of a frame but one unhurt, so the packets are looked up by what is left of them.
    """
    alike: dict[tuple[int, ...], list[int]] = defaultdict(list)
    for number, packet in enumerate(packets):
        for key in _rests(packet):
            alike[key].append(number)

    flips: list[Flip] = []
    for copy_number, (copy, arrival, delay) in enumerate(zip(copies, arrival_times, delays, strict=True)):
        wanted_time = arrival - delay
        candidates: dict[int, slice] = {}
        for key, segment in zip(_rests(copy), _SEGMENTS, strict=True):
            numbers = alike.get(key, [])
            place = bisect_left(numbers, wanted_time, key=sent_times.__getitem__)
            candidates |= dict.fromkeys(numbers[max(place - NEIGHBOURS, 0) : place + NEIGHBOURS], segment)
        for number in sorted(candidates, key=lambda n: abs(sent_times[n] - wanted_time)):
            if least_delay is not None and arrival - sent_times[number] < least_delay:
                continue
            segment = candidates[number]
            if differing_bits(packets[number][segment], copy[segment]) != 1:
                continue
            bit = flipped_bit(packets[number], copy)
            if bit is not None:
                flips.append((number, copy_number, bit))
                for key in _rests(packets[number]):
                    del alike[key][bisect_left(alike[key], number)]
                break
    return flips


def differing_bits(packet: bytes, copy: bytes) -> int:
    """In how many bits two frames of equal length differ."""
    return _difference(packet, copy).bit_count()


def is_unmistakable(packet: bytes, copy: bytes, others: Sequence[bytes]) -> bool:
    """Whether the copy can hardly be of any other packet than this one, although its checksums are right.

    Were it of one that was never seen as sent, that one would be less than half as far from this packet as any of the
    `others` is (frames sent about then; those of another length do not count). False where all of these equal the
    packet.
    """
    others = [other for other in others if len(other) == len(packet)]
    if not others:
        return False
    apart = np.bitwise_count(_as_rows(others) ^ _as_rows([packet])).sum(axis=1, dtype=np.int64)
    unlike = apart[apart > 0]
    return bool(len(unlike)) and 2 * differing_bits(packet, copy) < int(unlike.min())


def find_few_bits_away(
    packets: Sequence[bytes],
    sent_times: Sequence[int],
    copies: Sequence[bytes],
    arrival_times: Sequence[int],
    delays: Sequence[int],
    least_delay: int | None = None,
    may_cancel: int = MAY_CANCEL,
) -> list[Flip]:
    """Each copy with few flipped bits, or none, and its packet; `sent_times` and `arrival_times` must be sorted.

    A copy is given to the packet that it is most like, of those of its length that no copy was found of yet and
    that were sent about its delay ago: what `delays` has for it, or what the copy before it took; and no less than
    `least_delay` ago (None: at any time). A frame whose
    checksums are right, although it differs from that packet in more than `may_cancel` of the bits that they cover,
    is another packet, which was never seen as sent.
    """
    by_length: dict[int, _Alike] = {}
    for length in {len(copy) for copy in copies}:
        numbers = [number for number, packet in enumerate(packets) if len(packet) == length]
        by_length[length] = _Alike(numbers, [packets[n] for n in numbers], [sent_times[n] for n in numbers])

    flips: list[Flip] = []
    delay_before: int | None = None
    for copy_number, (copy, arrival, delay) in enumerate(zip(copies, arrival_times, delays, strict=True)):
        wanted = [arrival - delay] if delay_before is None else [arrival - delay, arrival - delay_before]
        latest = None if least_delay is None else arrival - least_delay
        number = by_length[len(copy)].take(copy, wanted, latest, may_cancel)
        if number is not None:
            flips.append((number, copy_number, _first_difference(packets[number], copy)))
            delay_before = arrival - sent_times[number]
    return flips


class _Alike:
    """Packets of one length, of which each can be taken once."""

    def __init__(self, numbers: list[int], packets: list[bytes], sent_times: list[int]) -> None:
        self._numbers, self._packets = numbers, packets
        self._sent_times = np.array(sent_times, np.int64)
        self._rows = _as_rows(packets)
        self._taken = np.zeros(len(numbers), np.bool_)

    def take(self, copy: bytes, wanted_times: Sequence[int], latest: int | None, may_cancel: int) -> int | None:
        """The number of the packet that the copy is of, which is taken by that, or None."""
        around = self._around(wanted_times, latest)
        if not len(around):
            return None
        distances = np.bitwise_count(self._rows[around] ^ _as_rows([copy])[0]).sum(axis=1, dtype=np.int64)
        off = np.abs(self._sent_times[around] - wanted_times[-1])
        nearest = np.lexsort((off, distances))[0]
        place = int(around[nearest])
        if distances[nearest] > _FEW * 8 * len(copy) or _is_another(self._packets[place], copy, may_cancel):
            return None
        self._taken[place] = True
        return self._numbers[place]

    def _around(self, wanted_times: Sequence[int], latest: int | None) -> NDArray[np.int64]:
        wanted = np.zeros(len(self._taken), np.bool_)
        for place in np.searchsorted(self._sent_times, np.array(wanted_times, np.int64)).tolist():
            wanted[max(place - NEIGHBOURS, 0) : place + NEIGHBOURS] = True
        if latest is not None:
            wanted[np.searchsorted(self._sent_times, latest, "right") :] = False
        return np.flatnonzero(wanted & ~self._taken)


def _as_rows(frames: Sequence[bytes]) -> NDArray[np.uint64]:
    """Frames of one length as rows of 64-bit words, filled up with zeros."""
    if not frames:
        return np.empty((0, 0), np.uint64)
    width = -(-len(frames[0]) // 8) * 8
    return np.frombuffer(b"".join(frame.ljust(width, b"\0") for frame in frames), np.uint64).reshape(len(frames), -1)


def _is_another(packet: bytes, copy: bytes, may_cancel: int) -> bool:
    """Whether what differs can be no damage, since a checksum that covers it is right."""
    difference = _difference(packet, copy).to_bytes(len(copy), "big")
    return any(
        is_right and sum(byte.bit_count() for byte in difference[covered]) > may_cancel
        for covered, is_right in has_right_checksums(copy, like=packet)
    )


def _difference(packet: bytes, copy: bytes) -> int:
    return int.from_bytes(packet, "big") ^ int.from_bytes(copy, "big")


def _first_difference(packet: bytes, copy: bytes) -> int:
    """INTACT if there is none."""
    return INTACT if packet == copy else 8 * len(packet) - _difference(packet, copy).bit_length()


def _rests(frame: bytes) -> Iterator[tuple[int, ...]]:
    """For each segment: its number, the frame's length, and hashes of the other segments."""
    hashes = [hash(frame[segment]) for segment in _SEGMENTS]
    for number in range(len(_SEGMENTS)):
        yield number, len(frame), *hashes[:number], *hashes[number + 1 :]
