"""Finding the damaged copies of packets among the frames that are no intact copy.

bitflips.py decides whether a frame is a packet with some bits flipped; this module decides which frames it compares.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from owlt.captures.files.blocks import LONGEST_FRAME_BYTES
from owlt.captures.frames.columns import Columns, by_time
from owlt.captures.matches.bitflips import (
    NEIGHBOURS,
    Flip,
    find_few_bits_away,
    find_one_bit_away,
    is_unmistakable,
)
from owlt.captures.matches.crossing import NO_PAIRS, Crossing, Pairs, frame_key, padded_bytes
from owlt.captures.matches.delivery import Rows, without
from owlt.captures.matches.pairing import DelayAround, pair_by_key

_MOST_AT_ONCE = 16_384
_MARGIN = 4_096
"""Damaged copies are sought so many at a time, among the packets sent meanwhile and so many before and after."""
_NEAR = 256
"""The same for copies of packets that have one already: then all packets are candidates, not the lost ones only."""
_MOST_BYTES_AT_ONCE = 64 << 20
_Find = Callable[
    [Sequence[bytes], Sequence[int], Sequence[bytes], Sequence[int], Sequence[int], int | None], list[Flip]
]


def with_damaged(crossing: Crossing, pairs: Pairs, explained: Rows) -> Pairs:
    """The pairs with those of damaged copies. Of packets equal in every byte an intact copy and a damaged one say the
    same, so which is whose is found out once both are known. Then other packets than before may be those without a
    copy, so copies are sought once more."""
    for _ in range(2):
        damaged = _pair_damaged(crossing, pairs, explained)
        if not len(damaged.sent):
            break
        pairs = _in_order(crossing, pairs + damaged)
    return pairs


def _in_order(crossing: Crossing, pairs: Pairs) -> Pairs:
    """The pairs, where those of equal packets are made anew of all their copies."""
    near_capture, far_capture = crossing.near_capture, crossing.far_capture
    is_shared = crossing.kinds[pairs.sent] >= 0
    shared, reference = pairs.only(is_shared), pairs.only(~is_shared)
    if not len(shared.sent):
        return pairs
    near = crossing.near.all[crossing.kinds[crossing.near.all] >= 0]
    sent, copy = pair_by_key(
        crossing.kinds[near].astype(np.uint64),
        near_capture.time_ns[near],
        crossing.kinds[shared.sent].astype(np.uint64),
        far_capture.time_ns[shared.delivered],
        reference=(near_capture.time_ns[reference.sent], far_capture.time_ns[reference.delivered]),
        least_delay_ns=crossing.least_delay_ns,
    )
    return reference + Pairs(near[sent], shared.delivered[copy], shared.flipped_bit[copy])


def _pair_damaged(crossing: Crossing, pairs: Pairs, explained: Rows) -> Pairs:
    """The damaged copies: sought among all frames of the far capture that are neither paired nor `explained`,
    of any content.

    First the intact ones among them, whose direction could not be told: the only packet of a session that shows the
    Ethernet address of its side may have lost it. Then those with one bit hit, then those with few, then those of them
    whose checksums are right; at last second copies of packets that have one, where headers alone would not do to tell
    packets that are alike.
    """
    near, far_capture = crossing.near.all, crossing.far_capture
    lost = without(near, pairs.sent)
    others = without(without(np.arange(len(far_capture)), pairs.delivered), explained)
    equal = crossing.intact(lost, others, frame_key, pairs)
    lost, others = without(lost, equal.sent), without(others, equal.delivered)
    one = _flipped(crossing, lost, others, pairs + equal, find_one_bit_away, _MARGIN)
    lost, others = without(lost, one.sent), without(others, one.delivered)
    few = _flipped(crossing, lost, others, pairs + equal + one, find_few_bits_away, _MARGIN)
    flipped = equal + one + few
    lost, others = without(lost, few.sent), without(others, few.delivered)
    flipped += _cancelling(crossing, lost, others, pairs + flipped)
    others = without(others, flipped.delivered)
    again = _flipped(crossing, near, others, pairs + flipped, find_one_bit_away, _NEAR)
    others = without(others, again.delivered)
    uncut = others[far_capture.captured_bytes[others] == far_capture.wire_bytes[others]]
    flipped += again
    return flipped + _flipped(crossing, near, uncut, pairs + flipped, partial(find_few_bits_away, may_cancel=0), _NEAR)


def _cancelling(crossing: Crossing, lost: Rows, others: Rows, reference: Pairs) -> Pairs:
    """Copies with few bits hit that left the checksums right, of packets that are like no other sent about then."""
    any_may = partial(find_few_bits_away, may_cancel=8 * LONGEST_FRAME_BYTES)
    pairs = _flipped(crossing, lost, others, reference, any_may, _MARGIN)
    if not len(pairs.sent):
        return pairs
    near_capture = crossing.near_capture
    near = by_time(near_capture, crossing.near.all)
    places = np.searchsorted(near_capture.time_ns[near], near_capture.time_ns[pairs.sent])
    kept = np.zeros(len(pairs.sent), np.bool_)
    for number, (row, place) in enumerate(zip(pairs.sent.tolist(), places.tolist(), strict=True)):
        around = near[max(place - NEIGHBOURS, 0) : place + NEIGHBOURS]
        around = around[padded_bytes(near_capture, around) == padded_bytes(near_capture, np.array([row]))]
        (packet,) = crossing.near_frames(pairs.sent[number : number + 1])
        (copy,) = crossing.far_frames(pairs.delivered[number : number + 1])
        kept[number] = is_unmistakable(packet, copy, crossing.near_frames(around))
    return pairs.only(kept)


def _flipped(crossing: Crossing, packets: Rows, copies: Rows, reference: Pairs, find: _Find, margin: int) -> Pairs:
    """The pairs that `find` makes of the packets and copies, each in one at most."""
    near_capture, far_capture = crossing.near_capture, crossing.far_capture
    packets, copies = _of_equal_lengths(near_capture, packets, far_capture, copies)
    if not len(copies):
        return NO_PAIRS
    departures, arrivals = near_capture.time_ns[packets], far_capture.time_ns[copies]
    reference = crossing.certain(reference)
    least_delay_ns = crossing.least_delay_of(reference)
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
            crossing.near_frames(packets[numbers]),
            departures[numbers].tolist(),
            crossing.far_frames(copies[some]),
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
