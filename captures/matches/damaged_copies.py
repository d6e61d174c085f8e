"""Finding the damaged copies of packets among the frames that are no intact copy.

A damaged copy differs from its packet in a single bit, or in few. netem's `corrupt` hits a single bit of a frame, and a
bit error rate may hit several, anywhere from the first byte of the Ethernet header on. So its address, port or protocol
may be damaged: only its other bits are compared.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from owlt.captures.files.blocks import LONGEST_FRAME_BYTES
from owlt.captures.frames.checksums import has_right_checksums
from owlt.captures.frames.columns import Columns, Rows, by_time
from owlt.captures.matches.by_key import DelayAround, pair_by_key
from owlt.captures.matches.delivery import INTACT, without
from owlt.captures.matches.directions import NO_PAIRS, Direction, Pairs, frame_key, padded_bytes

_MOST_AT_ONCE = 16_384
_MARGIN = 4_096
"""The number of damaged copies that are searched at a time, among the packets sent meanwhile and this many before and
after."""
_NEAR = 256
"""The number for copies of packets that have one already: then all packets are candidates, not only the lost ones."""
_MOST_BYTES_AT_ONCE = 64 << 20

_SEGMENTS = (slice(0, 34), slice(34, 42), slice(42, 98), slice(98, None))
"""Ethernet and IPv4 header; UDP header, or TCP ports and sequence number; start and rest of the payload.
Protocols number their packets near the start, which tells apart those that carry the same further on."""

NEIGHBOURS = 64
"""How many candidates on either side of the wanted time are compared, should that many be alike."""

_FEW = 1 / 32
"""Frames that differ in no more of their bits are one packet and its copy; packets with other contents differ in
about half of theirs."""

MAY_CANCEL = 2
"""This number of flips leaves the Internet checksum correct one time in 32; three or four do so one time in 300 (RFC
1071: it is a sum). So with more flips than this, a correct checksum rather shows that the frame is another packet."""

Flip = tuple[int, int, int]
"""Index of the packet, index of its copy, the first bit that was hit, or INTACT."""

_Find = Callable[
    [Sequence[bytes], Sequence[int], Sequence[bytes], Sequence[int], Sequence[int], int | None], list[Flip]
]


def with_damaged(direction: Direction, pairs: Pairs, explained: Rows) -> Pairs:
    """The pairs with those of damaged copies. Of packets equal in every byte an intact copy and a damaged one say the
    same, so which is whose is found out once both are known. Then other packets than before may be those without a
    copy, so copies are sought once more."""
    for _ in range(2):
        damaged = _pair_damaged(direction, pairs, explained)
        if not len(damaged.sent):
            break
        pairs = _in_order(direction, pairs + damaged)
    return pairs


def _in_order(direction: Direction, pairs: Pairs) -> Pairs:
    """The pairs, where those of equal packets are made anew of all their copies."""
    near_capture, far_capture = direction.near_capture, direction.far_capture
    is_shared = direction.kinds[pairs.sent] >= 0
    shared, reference = pairs.only(is_shared), pairs.only(~is_shared)
    if not len(shared.sent):
        return pairs
    near = direction.near.all[direction.kinds[direction.near.all] >= 0]
    sent, copy = pair_by_key(
        direction.kinds[near].astype(np.uint64),
        near_capture.time_ns[near],
        direction.kinds[shared.sent].astype(np.uint64),
        far_capture.time_ns[shared.delivered],
        reference=(near_capture.time_ns[reference.sent], far_capture.time_ns[reference.delivered]),
        least_delay_ns=direction.least_delay_ns,
    )
    return reference + Pairs(near[sent], shared.delivered[copy], shared.flipped_bit[copy])


def _pair_damaged(direction: Direction, pairs: Pairs, explained: Rows) -> Pairs:
    """The damaged copies: sought among all frames of the far capture that are neither paired nor `explained`,
    of any content.

    First the intact ones among them, whose direction is not known: the only packet of a session that shows the
    Ethernet address of its side may have lost it. Then those with one bit hit, then those with few, then those of them
    whose checksums are right; at last second copies of packets that have one, where headers alone would not do to tell
    packets that are alike.
    """
    near, far_capture = direction.near.all, direction.far_capture
    lost = without(near, pairs.sent)
    others = without(without(np.arange(len(far_capture)), pairs.delivered), explained)
    equal = direction.intact(lost, others, frame_key, pairs)
    lost, others = without(lost, equal.sent), without(others, equal.delivered)
    one = _flipped(direction, lost, others, pairs + equal, find_one_bit_away, _MARGIN)
    lost, others = without(lost, one.sent), without(others, one.delivered)
    few = _flipped(direction, lost, others, pairs + equal + one, find_few_bits_away, _MARGIN)
    flipped = equal + one + few
    lost, others = without(lost, few.sent), without(others, few.delivered)
    flipped += _cancelling(direction, lost, others, pairs + flipped)
    others = without(others, flipped.delivered)
    again = _flipped(direction, near, others, pairs + flipped, find_one_bit_away, _NEAR)
    others = without(others, again.delivered)
    uncut = others[far_capture.captured_bytes[others] == far_capture.wire_bytes[others]]
    flipped += again
    return flipped + _flipped(direction, near, uncut, pairs + flipped, partial(find_few_bits_away, may_cancel=0), _NEAR)


def _cancelling(direction: Direction, lost: Rows, others: Rows, reference: Pairs) -> Pairs:
    """Copies with few bits hit that left the checksums right, of packets that are like no other sent about then."""
    any_may = partial(find_few_bits_away, may_cancel=8 * LONGEST_FRAME_BYTES)
    pairs = _flipped(direction, lost, others, reference, any_may, _MARGIN)
    if not len(pairs.sent):
        return pairs
    near_capture = direction.near_capture
    near = by_time(near_capture, direction.near.all)
    places = np.searchsorted(near_capture.time_ns[near], near_capture.time_ns[pairs.sent])
    kept = np.zeros(len(pairs.sent), np.bool_)
    for number, (row, place) in enumerate(zip(pairs.sent.tolist(), places.tolist(), strict=True)):
        around = near[max(place - NEIGHBOURS, 0) : place + NEIGHBOURS]
        around = around[padded_bytes(near_capture, around) == padded_bytes(near_capture, np.array([row]))]
        (packet,) = direction.near_frames(pairs.sent[number : number + 1])
        (copy,) = direction.far_frames(pairs.delivered[number : number + 1])
        kept[number] = is_unmistakable(packet, copy, direction.near_frames(around))
    return pairs.only(kept)


def _flipped(direction: Direction, packets: Rows, copies: Rows, reference: Pairs, find: _Find, margin: int) -> Pairs:
    """The pairs that `find` makes of the packets and copies, each in one at most."""
    near_capture, far_capture = direction.near_capture, direction.far_capture
    packets, copies = _of_equal_lengths(near_capture, packets, far_capture, copies)
    if not len(copies):
        return NO_PAIRS
    departures, arrivals = near_capture.time_ns[packets], far_capture.time_ns[copies]
    reference = direction.certain(reference)
    least_delay_ns = direction.least_delay_of(reference)
    around = DelayAround(far_capture.time_ns[reference.delivered], near_capture.time_ns[reference.sent])
    delays = around.at(arrivals, otherwise=arrivals[0] - departures[0])
    places = np.searchsorted(departures, arrivals - delays)
    by_place = np.argsort(places, kind="stable")
    copies, arrivals, delays = copies[by_place], arrivals[by_place], delays[by_place]
    is_left = np.ones(len(packets), np.bool_)
    pairs = NO_PAIRS
    longest = int(far_capture.captured_bytes[copies].max())
    for some, there in _portions(places[by_place], len(packets), longest, margin):
        numbers = there.start + np.flatnonzero(is_left[there])
        flips = find(
            direction.near_frames(packets[numbers]),
            departures[numbers].tolist(),
            direction.far_frames(copies[some]),
            arrivals[some].tolist(),
            delays[some].tolist(),
            least_delay_ns,
        )
        packet, copy, bit = np.array(flips, np.int64).reshape(-1, 3).T
        is_left[numbers[packet]] = False
        pairs += Pairs(packets[numbers[packet]], copies[some][copy], bit)
    return pairs


def _of_equal_lengths(near_capture: Columns, near: Rows, far_capture: Columns, far: Rows) -> tuple[Rows, Rows]:
    """The near and the far rows whose length some of the others have, in the order of time."""
    near_lengths, far_lengths = padded_bytes(near_capture, near), padded_bytes(far_capture, far)
    near, far = near[np.isin(near_lengths, far_lengths)], far[np.isin(far_lengths, near_lengths)]
    return by_time(near_capture, near), by_time(far_capture, far)


def _portions(
    places: NDArray[np.int64], packets: int, longest_bytes: int, margin: int
) -> Iterator[tuple[slice, slice]]:
    """Some copies at once, by the places where they belong among the packets, with the packets around there."""
    most = max(min(_MOST_AT_ONCE, _MOST_BYTES_AT_ONCE // max(longest_bytes, 1)), 1)
    start = 0
    while start < len(places):
        end = min(start + most, int(np.searchsorted(places, places[start] + most, "right")))
        yield (
            slice(start, end),
            slice(max(int(places[start]) - margin, 0), min(int(places[end - 1]) + margin, packets)),
        )
        start = end


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
