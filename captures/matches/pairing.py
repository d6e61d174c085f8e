"""Pairing things that are seen at two points by their keys, in the order of time, where keys may repeat.

Packets of a protocol are often byte for byte the same (keep-alives, retransmissions with an IP
identification of 0), so a key alone does not tell which of several a copy belongs to; the delay of the
packets around it does. Where keys do not repeat, which is nearly everywhere, nothing is sorted.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Indices = NDArray[np.int64]
Keys = NDArray[np.uint64]
Times = NDArray[np.int64]

_NO_TIMES = np.empty(0, np.int64)
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
"""2^64 over the golden ratio: the high bits of a product with it depend on all bits of a key (Knuth, TAOCP 6.4)."""
_SPARE_BITS = 2
"""A table of four times as many places as keys: one key in ten meets another one in its place."""


def pair_by_key(
    near_keys: Keys,
    near_times: Times,
    far_keys: Keys,
    far_times: Times,
    known: tuple[Times, Times] = (_NO_TIMES, _NO_TIMES),
) -> tuple[Indices, Indices]:
    """Pairs (index of the near one, index of the far one) of equal keys; each far one is in at most one pair.

    Near ones that are in several pairs were duplicated. Of near and far ones that share a key it is found out by
    the delay of those around them which belong together; where that does not tell, they are paired in their order,
    and one is taken as duplicated only if more far than near ones have the key. Times are in ns and need not be
    sorted. `known` are departures and arrivals of others that show the delay, too.
    """
    if not len(near_keys) or not len(far_keys):
        return np.empty(0, np.int64), np.empty(0, np.int64)
    near, far, near_rest, far_rest = _pair_single(near_keys, far_keys)
    groups = _Groups.of(near_keys, near_times, far_keys, far_times, near_rest, far_rest)
    single = (groups.near_count == 1) & (groups.far_count == 1)
    near = np.concatenate([near, groups.near[groups.near_first[single]]])
    far = np.concatenate([far, groups.far[groups.far_first[single]]])
    groups = groups.only(~single)
    if not len(groups.near_count):
        return near, far
    departures, arrivals = np.concatenate([known[0], near_times[near]]), np.concatenate([known[1], far_times[far]])
    around = DelayAround(arrivals, departures)
    several_near, several_far = groups.assigned(near_times, far_times, around)
    return np.concatenate([near, several_near]), np.concatenate([far, several_far])


def _pair_single(near_keys: Keys, far_keys: Keys) -> tuple[Indices, Indices, Indices, Indices]:
    """The pairs of keys that are there once at each point and alone in their place of a hash table; then the near
    and the far ones that have to be looked at more closely. A near one in neither is at one point only."""
    count = len(near_keys)
    bits = count.bit_length() + _SPARE_BITS
    table = np.zeros(1 << bits, np.int32 if count < 2**31 else np.int64)
    places = _places(near_keys, bits)
    table[places] = np.arange(count, dtype=table.dtype)
    owner = table[places]
    crowded = np.flatnonzero(owner != np.arange(count, dtype=table.dtype))
    crowding = owner[crowded]
    repeated = crowding[near_keys[crowding] == near_keys[crowded]]

    candidate = table[_places(far_keys, bits)]
    found = near_keys[candidate] == far_keys
    copies = np.bincount(candidate[found], minlength=count)
    open_near = copies > 1
    open_near[crowded] = True
    open_near[repeated] = True
    paired = found & ~open_near[candidate]
    return (
        candidate[paired].astype(np.int64),
        np.flatnonzero(paired),
        np.flatnonzero(open_near),
        np.flatnonzero(~paired),
    )


def _places(keys: Keys, bits: int) -> Indices:
    return (keys * _GOLDEN >> np.uint64(64 - bits)).view(np.int64)


@dataclass(frozen=True, eq=False)
class _Groups:
    """Near and far ones by shared key: group by group and within one by time; `first` and `count` of each group."""

    near: Indices
    near_first: Indices
    near_count: Indices
    far: Indices
    far_first: Indices
    far_count: Indices

    @classmethod
    def of(
        cls, near_keys: Keys, near_times: Times, far_keys: Keys, far_times: Times, near: Indices, far: Indices
    ) -> _Groups:
        """The keys that some of the near and some of the far ones have."""
        near = near[np.lexsort((near_times[near], near_keys[near]))]
        far = far[np.lexsort((far_times[far], far_keys[far]))]
        keys, near_first, near_count = np.unique(near_keys[near], return_index=True, return_counts=True)
        far_sorted = far_keys[far]
        far_first = np.searchsorted(far_sorted, keys, "left")
        far_count = np.searchsorted(far_sorted, keys, "right") - far_first
        return cls(near, near_first, near_count, far, far_first, far_count).only(far_count > 0)

    def only(self, kept: NDArray[np.bool_]) -> _Groups:
        return _Groups(
            self.near,
            self.near_first[kept],
            self.near_count[kept],
            self.far,
            self.far_first[kept],
            self.far_count[kept],
        )

    def assigned(self, near_times: Times, far_times: Times, around: DelayAround) -> tuple[Indices, Indices]:
        """The pairs within the groups: every far one with a near one."""
        near = self.near[_spans(self.near_first, self.near_count)]
        far = self.far[_spans(self.far_first, self.far_count)]
        alone = far_times[self.far[self.far_first]] - near_times[self.near[self.near_first]]
        wanted = far_times[far] - around.at(far_times[far], otherwise=np.repeat(alone, self.far_count))
        chosen = assign_in_order(near_times[near], self.near_count, wanted, self.far_count)
        return near[chosen], far


def _spans(first: Indices, count: Indices) -> Indices:
    """first[0], first[0] + 1, ... up to `count[0]` of them, then those of the next span."""
    ends = np.cumsum(count)
    spans: Indices = np.arange(ends[-1]) + np.repeat(first - (ends - count), count)
    return spans


class DelayAround:
    """The delay of the last packet known to have arrived by a given time."""

    def __init__(self, arrival_times: Times, departure_times: Times) -> None:
        order = np.argsort(arrival_times, kind="stable")
        self._arrivals = arrival_times[order]
        self._delays = self._arrivals - departure_times[order]

    def at(self, times: Times, otherwise: Times | int) -> Times:
        """The delay at each of the times, or `otherwise` where no packet is known."""
        if not len(self._arrivals):
            return np.broadcast_to(np.asarray(otherwise, np.int64), times.shape)
        before = np.searchsorted(self._arrivals, times, "right") - 1
        return self._delays[np.maximum(before, 0)]


def assign_in_order(departures: Times, near_count: Indices, wanted: Times, far_count: Indices) -> Indices:
    """For each wanted time of a group the index of a departure of the same group.

    The groups lie one behind the other, `near_count` departures and `far_count` wanted times each; in a group both
    are in the order of time. Where every wanted time of a group is unmistakable, less than a quarter of the
    shortest gap away from a departure, that departure is taken, perhaps more than once. Else it is the nearest one
    that does not run backwards, and none is taken twice unless there are fewer of them than wanted times.
    """
    groups = np.arange(len(near_count))
    near_group, far_group = np.repeat(groups, near_count), np.repeat(groups, far_count)
    near_first = np.cumsum(near_count) - near_count
    nearest = _nearest(departures, near_group, wanted, far_group, near_first)
    off = np.abs(wanted - departures[near_first[far_group] + nearest])
    far_first = np.cumsum(far_count) - far_count
    clear = np.maximum.reduceat(off, far_first) < _shortest_gap(departures, near_group) // 4

    rank = np.arange(len(wanted)) - far_first[far_group]
    spare = (near_count - far_count)[far_group]
    once = np.minimum(_rising(nearest - rank, far_group) + rank, spare + rank)
    chosen = np.where(clear[far_group], nearest, np.where(spare < 0, _rising(nearest, far_group), once))
    return near_first[far_group] + chosen


def _nearest(departures: Times, near_group: Indices, wanted: Times, far_group: Indices, near_first: Indices) -> Indices:
    """For each wanted time the rank of the nearest departure of its group."""
    inner = np.flatnonzero(near_group[:-1] == near_group[1:])
    middles = departures[inner] + (departures[inner + 1] - departures[inner]) // 2
    times = np.concatenate([wanted, middles])
    is_middle = np.arange(len(times)) >= len(wanted)
    order = np.lexsort((is_middle, times, np.concatenate([far_group, near_group[inner]])))
    middles_before = np.empty(len(times), np.int64)
    middles_before[order] = np.cumsum(is_middle[order])
    return middles_before[: len(wanted)] - (near_first - np.arange(len(near_first)))[far_group]


def _shortest_gap(departures: Times, group: Indices) -> Times:
    """Of each group the shortest time between two departures; as good as no end where there is only one."""
    gaps = np.diff(departures, append=departures[-1:])
    last = np.append(group[1:] != group[:-1], True)
    gaps[last] = np.iinfo(np.int64).max
    return np.minimum.reduceat(gaps, np.flatnonzero(np.append(True, last[:-1])))


def _rising(values: Indices, group: Indices) -> Indices:
    """The running maximum within each group."""
    step = np.int64(2) * (np.abs(values).max(initial=0) + 1)
    rising: Indices = np.maximum.accumulate(values + group * step) - group * step
    return rising
