"""Pairing things that are seen at two points by their keys, in the order of time, where keys may repeat.

Packets of a protocol are often byte for byte the same (keep-alives, retransmissions with an IP
identification of 0), so a key alone does not tell which of several a copy belongs to. The delay of the packets
around it does, and the order of the channel: copies of equal packets arrive in the order in which these were sent, and
none before it was sent. A channel that keeps the order of all packets whose keys do not repeat keeps that of the others
too: what arrives between two of them was sent between these two, however much the delay has changed in a full queue,
and whatever the queue has dropped. Where keys do not repeat, which is nearly everywhere, nothing is sorted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Indices = NDArray[np.int64]
Keys = NDArray[np.uint64]
Times = NDArray[np.int64]

_NO_TIMES = np.empty(0, np.int64)
_NEVER = np.iinfo(np.int64).max
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
"""2^64 over the golden ratio: the high bits of a product with it depend on all bits of a key (Knuth, TAOCP 6.4)."""
_SPARE_BITS = 2
"""A table of four times as many places as keys: one key in ten meets another one in its place."""
_SHOWS_ORDER = 10
"""Packets whose keys do not repeat: if as many arrive in their order, the channel is taken to keep the order."""
_TRIED_DELAYS, _TRIED_GROUPS, _TRIED_ARRIVALS = 64, 64, 256
"""If no delay is known: the number of delays that are tried, on how many groups of equal packets and arrivals in
them."""


def pair_by_key(
    near_keys: Keys,
    near_times: Times,
    far_keys: Keys,
    far_times: Times,
    reference: tuple[Times, Times] = (_NO_TIMES, _NO_TIMES),
    least_delay_ns: int | None = None,
) -> tuple[Indices, Indices]:
    """Pairs (index of the near one, index of the far one) of equal keys; each far one is in at most one pair.

    Near ones that are in several pairs were duplicated. Of near and far ones that share a key it is found out by
    the delay of those around them which belong together; where that does not tell, or the channel keeps the order and
    duplicates nothing, they are paired in their order, and one is taken as duplicated only if more far than near ones
    have the key. Times are in ns and need not be sorted. `reference` are departures and arrivals of others that show
    the delay, too.

    Of keys that repeat no pair has a delay below `least_delay_ns` (0 where one clock gave all times), unless keys that
    do not repeat show such delays; a far one that could only have such a pair is in none. None: any delay may be.
    """
    if not len(near_keys) or not len(far_keys):
        return np.empty(0, np.int64), np.empty(0, np.int64)
    near, far, near_rest, far_rest = _pair_single(near_keys, far_keys)
    groups = _Groups.of(near_keys, near_times, far_keys, far_times, near_rest, far_rest)
    single = (groups.near_count == 1) & (groups.far_count == 1)
    near = np.concatenate([near, groups.near[groups.near_first[single]]])
    far = np.concatenate([far, groups.far[groups.far_first[single]]])
    duplicates = bool((groups.far_count > groups.near_count).any())
    groups = groups.only(~single)
    if not len(groups.near_count):
        return near, far
    departures, arrivals = (
        np.concatenate([reference[0], near_times[near]]),
        np.concatenate([reference[1], far_times[far]]),
    )
    if least_delay_ns is not None:
        least_delay_ns = min(least_delay_ns, int((arrivals - departures).min(initial=least_delay_ns)))
    around = DelayAround(arrivals, departures)
    several_near, several_far = groups.assigned(near_times, far_times, around, least_delay_ns, duplicates)
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
    is_equal = near_keys[candidate] == far_keys
    copies = np.bincount(candidate[is_equal], minlength=count)
    open_near = copies > 1
    open_near[crowded] = True
    open_near[repeated] = True
    paired = is_equal & ~open_near[candidate]
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

    def assigned(
        self,
        near_times: Times,
        far_times: Times,
        around: DelayAround,
        least_delay_ns: int | None,
        duplicates: bool,
    ) -> tuple[Indices, Indices]:
        """The pairs within the groups: every far one with a near one, unless all near ones were sent too late."""
        near = self.near[_spans(self.near_first, self.near_count)]
        far = self.far[_spans(self.far_first, self.far_count)]
        departures, arrivals = near_times[near], far_times[far]
        delays = around.at(arrivals, otherwise=0)
        if not around.is_known:
            delays += _likely_delay(departures, self.near_count, arrivals, self.far_count, least_delay_ns)
        latest = np.full(len(far), _NEVER) if least_delay_ns is None else arrivals - least_delay_ns
        earliest, before_next = around.departures_around(arrivals)
        bounds = Bounds(earliest, np.minimum(latest, before_next))
        may_repeat = duplicates or not around.keeps_order
        chosen = assign_in_order(departures, self.near_count, arrivals - delays, bounds, self.far_count, may_repeat)
        is_paired = chosen >= 0
        return near[chosen[is_paired]], far[is_paired]


def _spans(first: Indices, count: Indices) -> Indices:
    """first[0], first[0] + 1, ... up to `count[0]` of them, then those of the next span."""
    ends = np.cumsum(count)
    spans: Indices = np.arange(ends[-1]) + np.repeat(first - (ends - count), count)
    return spans


class Bounds(NamedTuple):
    """For each copy the time before which its packet was not sent, and the time after which it was not."""

    earliest: Times
    latest: Times


class DelayAround:
    """The delay of the last packet known to have arrived by a given time; whether the known ones kept their order."""

    def __init__(self, arrival_times: Times, departure_times: Times) -> None:
        order = np.argsort(arrival_times, kind="stable")
        self._arrivals = arrival_times[order]
        self._departures = departure_times[order]
        self._delays = self._arrivals - self._departures
        self.keeps_order = len(order) >= _SHOWS_ORDER and bool((np.diff(self._departures) >= 0).all())

    @property
    def is_known(self) -> bool:
        """Whether the delay of any packet is known."""
        return len(self._arrivals) > 0

    def at(self, times: Times, otherwise: Times | int) -> Times:
        """The delay at each of the times, or `otherwise` where no packet is known."""
        if not self.is_known:
            return np.full(times.shape, otherwise, np.int64)
        before = np.searchsorted(self._arrivals, times, "right") - 1
        return self._delays[np.maximum(before, 0)]

    def departures_around(self, times: Times) -> tuple[Times, Times]:
        """When the last packet was sent that arrived before each of the times, and the first that arrived after it, if
        the channel keeps the order; times without effect where there is none, or it does not."""
        if not self.keeps_order:
            return np.full(times.shape, -_NEVER), np.full(times.shape, _NEVER)
        sent = np.concatenate([[-_NEVER], self._departures, [_NEVER]])
        return (
            sent[np.searchsorted(self._arrivals, times, "left")],
            sent[np.searchsorted(self._arrivals, times, "right") + 1],
        )


def assign_in_order(
    departures: Times, near_count: Indices, wanted: Times, bounds: Bounds, far_count: Indices, may_repeat: bool = True
) -> Indices:
    """For each wanted time of a group the index of a departure of the same group that is not after the latest time of
    its bounds, nor before the earliest unless all others are after the latest; -1 where there is none.

    The groups lie one behind the other, `near_count` departures and `far_count` wanted times each; in a group all
    are in the order of time. Where every wanted time of a group is unmistakable, less than a quarter of the
    shortest gap away from a departure, that departure is taken, perhaps more than once if it `may_repeat`. Else it is
    the nearest one that does not run backwards, and none is taken twice unless some wanted time would be left without.
    """
    groups = np.arange(len(near_count))
    near_group, far_group = np.repeat(groups, near_count), np.repeat(groups, far_count)
    near_first, far_first = np.cumsum(near_count) - near_count, np.cumsum(far_count) - far_count
    first = _rank(departures, near_group, bounds.earliest, far_group, near_first, counts_equal=False)
    nearest = np.maximum(_nearest(departures, near_group, wanted, far_group, near_first), first)
    nearest = np.minimum(nearest, near_count[far_group] - 1)
    off = np.abs(wanted - departures[near_first[far_group] + nearest])
    clear = np.maximum.reduceat(off, far_first) < _shortest_gap(departures, near_group) // 4

    clear &= may_repeat
    last = _rank(departures, near_group, bounds.latest, far_group, near_first, counts_equal=True) - 1
    rank = np.arange(len(wanted)) - far_first[far_group]
    most = rank - _rising((rank - last)[::-1], groups[-1] - far_group[::-1])[::-1]
    has_one_each = np.minimum.reduceat(most, far_first) >= 0
    once = np.minimum(_rising(nearest - rank, far_group) + rank, most)
    again = np.minimum(np.where(clear[far_group], nearest, _rising(nearest, far_group)), last)
    chosen = np.where((has_one_each & ~clear)[far_group], once, again)
    return np.where(chosen >= 0, near_first[far_group] + chosen, -1)


def _nearest(departures: Times, near_group: Indices, wanted: Times, far_group: Indices, near_first: Indices) -> Indices:
    """For each wanted time the rank of the nearest departure of its group."""
    inner = np.flatnonzero(near_group[:-1] == near_group[1:])
    middles = departures[inner] + (departures[inner + 1] - departures[inner]) // 2
    first_middle = near_first - np.arange(len(near_first))
    return _rank(middles, near_group[inner], wanted, far_group, first_middle, counts_equal=False)


def _rank(
    marks: Times, mark_group: Indices, times: Times, time_group: Indices, first: Indices, counts_equal: bool
) -> Indices:
    """For each time how many marks of its group are before it, or equal to it if these are counted; `first` is the
    index of each group's first mark."""
    is_mark = np.arange(len(times) + len(marks)) >= len(times)
    tie = ~is_mark if counts_equal else is_mark
    order = np.lexsort((tie, np.concatenate([times, marks]), np.concatenate([time_group, mark_group])))
    marks_before = np.empty(len(order), np.int64)
    marks_before[order] = np.cumsum(is_mark[order])
    return marks_before[: len(times)] - first[time_group]


def _likely_delay(
    departures: Times, near_count: Indices, arrivals: Times, far_count: Indices, least_delay_ns: int | None
) -> int:
    """The delay of a channel of which nothing is known but groups as those of `assign_in_order`: of the delays that the
    first arrival of a small group may have had, the least one by which the arrivals of many groups come about as close
    to departures as by any."""
    groups = np.argsort(near_count * far_count, kind="stable")[:_TRIED_GROUPS]
    near_first, far_first = np.cumsum(near_count) - near_count, np.cumsum(far_count) - far_count
    first, count = near_first[groups[0]], min(int(near_count[groups[0]]), _TRIED_DELAYS)
    possible = np.sort(arrivals[far_first[groups[0]]] - departures[first : first + count])
    if least_delay_ns is not None:
        possible = possible[possible >= least_delay_ns]
    if not len(possible):
        return int(arrivals[0] - departures[0])
    near, far = _spans(near_first[groups], near_count[groups]), _spans(far_first[groups], far_count[groups])
    near_group = np.repeat(np.arange(len(groups)), near_count[groups])
    far_group = np.repeat(np.arange(len(groups)), far_count[groups])
    far, far_group = far[:_TRIED_ARRIVALS], far_group[:_TRIED_ARRIVALS]
    ranks = np.cumsum(near_count[groups]) - near_count[groups]
    off = np.empty(len(possible))
    for number, delay_ns in enumerate(possible.tolist()):
        wanted = arrivals[far] - delay_ns
        nearest = _nearest(departures[near], near_group, wanted, far_group, ranks)
        off[number] = np.abs(wanted - departures[near][ranks[far_group] + nearest]).sum(dtype=np.float64)
    slack = len(far) * float(_shortest_gap(departures[near], near_group).min()) / 4
    return int(possible[np.argmax(off <= off.min() + slack)])


def _shortest_gap(departures: Times, group: Indices) -> Times:
    """The shortest time between two departures of each group; practically infinite if there is only one."""
    gaps = np.diff(departures, append=departures[-1:])
    last = np.append(group[1:] != group[:-1], True)
    gaps[last] = _NEVER
    return np.minimum.reduceat(gaps, np.flatnonzero(np.append(True, last[:-1])))


def _rising(values: Indices, group: Indices) -> Indices:
    """The running maximum within each group."""
    step = np.int64(2) * (np.abs(values).max(initial=0) + 1)
    rising: Indices = np.maximum.accumulate(values + group * step) - group * step
    return rising
