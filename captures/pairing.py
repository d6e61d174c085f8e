"""Pairing things that are seen at two points by their keys, in the order of time, where keys may repeat.

Packets of a protocol are often byte for byte the same (keep-alives, retransmissions with an IP
identification of 0), so a key alone does not tell which of several a copy belongs to; the delay of the
packets around it does.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Indices = NDArray[np.int64]


def pair_by_key(
    near_keys: NDArray[np.uint64],
    near_times: NDArray[np.int64],
    far_keys: NDArray[np.uint64],
    far_times: NDArray[np.int64],
) -> tuple[Indices, Indices]:
    """Pairs (index of the near one, index of the far one) of equal keys; each far one is in at most one pair.

    Near ones that are in several pairs were duplicated: more far than near ones have their key. Times are in
    ns and need not be sorted.
    """
    near_order, far_order = np.lexsort((near_times, near_keys)), np.lexsort((far_times, far_keys))
    keys, near_first, near_count = np.unique(near_keys[near_order], return_index=True, return_counts=True)
    far_first = np.searchsorted(far_keys[far_order], keys, "left")
    far_count = np.searchsorted(far_keys[far_order], keys, "right") - far_first

    single = (near_count == 1) & (far_count == 1)
    near, far = near_order[near_first[single]], far_order[far_first[single]]
    delays = DelayAround(far_times[far], near_times[near])
    pairs = [(near, far)]
    for group in np.flatnonzero(~single & (far_count > 0)).tolist():
        near = near_order[near_first[group] : near_first[group] + near_count[group]]
        far = far_order[far_first[group] : far_first[group] + far_count[group]]
        sent_about = far_times[far] - delays.at(far_times[far], otherwise=far_times[far[0]] - near_times[near[0]])
        pairs.append((near[assign_in_order(near_times[near], sent_about)], far))
    return np.concatenate([near for near, _ in pairs]), np.concatenate([far for _, far in pairs])


class DelayAround:
    """The delay of the last packet known to have arrived by a given time."""

    def __init__(self, arrival_times: NDArray[np.int64], departure_times: NDArray[np.int64]) -> None:
        order = np.argsort(arrival_times, kind="stable")
        self._arrivals = arrival_times[order]
        self._delays = self._arrivals - departure_times[order]

    def at(self, times: NDArray[np.int64], otherwise: int) -> NDArray[np.int64]:
        """The delay at each of the times, or `otherwise` where no packet is known."""
        if not len(self._arrivals):
            return np.full(len(times), otherwise, np.int64)
        before = np.searchsorted(self._arrivals, times, "right") - 1
        return self._delays[np.maximum(before, 0)]


def assign_in_order(departures: NDArray[np.int64], wanted: NDArray[np.int64]) -> Indices:
    """For each wanted time the index of the nearest departure, never running backwards; both sorted.

    No departure is taken twice, unless there are fewer of them than wanted times.
    """
    midpoints = (departures[:-1] + departures[1:]) // 2
    nearest = np.searchsorted(midpoints, wanted)
    spare = len(departures) - len(wanted)
    if spare < 0:
        return np.maximum.accumulate(nearest)
    rank = np.arange(len(wanted))
    return np.minimum(np.maximum.accumulate(nearest - rank) + rank, spare + rank)
