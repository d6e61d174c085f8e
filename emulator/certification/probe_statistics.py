"""The results of probes as numbers: delays, rates, shares, runs. Nothing is judged here.

A probe may have been delivered several times; its first copy decides its delay.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from owlt.emulator.certification.probing import ProbeResult

Numbers = NDArray[np.int64]


@dataclass(frozen=True)
class Count:
    """A number of events out of a number of trials."""

    hits: int
    trials: int

    @property
    def share(self) -> float:
        """The share of events; 0 without trials."""
        return self.hits / self.trials if self.trials else 0.0

    def __add__(self, other: Count) -> Count:
        return Count(self.hits + other.hits, self.trials + other.trials)


def first_copies(result: ProbeResult) -> Numbers:
    """Return the indices, among all copies, of the first copy of each delivered probe, in order of arrival."""
    return np.sort(np.unique(result.copy_number, return_index=True)[1])


def one_way_delays_ns(result: ProbeResult) -> Numbers:
    """Return how long each delivered probe took, in the order of their arrival."""
    first = first_copies(result)
    delays_ns: Numbers = result.delivered_ns[first] - result.sent_ns[result.copy_number[first]]
    return delays_ns


def rate_bps(result: ProbeResult, overhead_bytes: int) -> float | None:
    """Return the rate of a link that was never idle: the slope of the best line through bits and arrivals. Probes
    between two others took their transmission time even if they were lost afterwards. None with fewer than two.
    """
    first = first_copies(result)
    bits = 8.0 * np.cumsum(result.lengths_bytes + overhead_bytes)[result.copy_number[first]]
    if len(bits) < 2:
        return None
    times_ns = (result.delivered_ns[first] - result.delivered_ns[first[0]]).astype(float)
    bits -= bits.mean()
    ns_a_bit = float(bits @ times_ns / (bits @ bits))
    return 1e9 / ns_a_bit if ns_a_bit > 0 else None


def lost(result: ProbeResult) -> Count:
    """Return how many probes never arrived."""
    sent = len(result.lengths_bytes)
    return Count(sent - len(first_copies(result)), sent)


def lost_apart(result: ProbeResult, apart: int) -> Count:
    """Return how many probes never arrived, of every `apart`-th probe."""
    chosen = np.arange(0, len(result.lengths_bytes), apart)
    return Count(int(np.isin(chosen, lost_packets(result)).sum()), len(chosen))


def damaged(result: ProbeResult) -> Count:
    """Return how many of the probes that arrived were damaged. Probes are counted, not copies: copies of a probe may
    have the same damage."""
    flipped_bits = result.flipped_bits[first_copies(result)]
    return Count(int((flipped_bits > 0).sum()), len(flipped_bits))


def flipped(result: ProbeResult) -> Count:
    """Return how many of the bits that arrived were flipped."""
    first = first_copies(result)
    return Count(int(result.flipped_bits[first].sum()), 8 * int(result.copy_length_bytes[first].sum()))


def duplicated(result: ProbeResult) -> Count:
    """Return how many of the probes that arrived did so more than once."""
    copies = np.unique(result.copy_number, return_counts=True)[1]
    return Count(int((copies > 1).sum()), len(copies))


def reordered(result: ProbeResult, among: int | None = None) -> Count:
    """Return how many probes, of all that arrived or of the first `among` sent, came after a later one (RFC 4737)."""
    numbers = result.copy_number[first_copies(result)]
    late = numbers < np.maximum.accumulate(numbers) if len(numbers) else np.zeros(0, bool)
    counted = numbers < (len(result.lengths_bytes) if among is None else among)
    return Count(int((late & counted).sum()), int(counted.sum()))


def hit_packets(result: ProbeResult) -> Numbers:
    """Return the numbers of the probes of which a copy was damaged."""
    return np.unique(result.copy_number[result.flipped_bits > 0])


def lost_packets(result: ProbeResult) -> Numbers:
    """Return the numbers of the probes that never arrived."""
    return np.setdiff1d(np.arange(len(result.lengths_bytes)), result.copy_number)


def hit_bits(result: ProbeResult) -> Numbers:
    """Return the numbers of the flipped bits, counted along all that was sent."""
    first_bit = 8 * (np.cumsum(result.lengths_bytes) - result.lengths_bytes)
    return np.unique(first_bit[result.copy_number[result.flip_copy]] + result.flip_position)


def loss_bursts(result: ProbeResult) -> Numbers:
    """Return the lengths of the runs of lost probes, without a run that may have continued after the last probe."""
    arrived = np.zeros(len(result.lengths_bytes), bool)
    arrived[result.copy_number] = True
    edges = np.flatnonzero(np.diff(np.concatenate(([True], arrived)).astype(np.int8)))
    return np.diff(edges)[::2]


def whole_bursts(result: ProbeResult) -> Numbers:
    """Return the lengths of the runs of lost probes, without those at the beginning and the end."""
    lost = np.ones(len(result.lengths_bytes), bool)
    lost[result.copy_number] = False
    edges = np.flatnonzero(np.diff(lost.astype(np.int8)))
    edges = edges[1:] if lost[0] else edges
    return np.diff(edges)[::2]


def queue_by_count(result: ProbeResult, bursts: int, serialization_ns: int) -> float:
    """Return the capacity of a queue in packets from bursts of equal length that overflowed it, if nothing else was
    lost. Each packet that left while its burst still arrived made room for one more.
    """
    sent_ns = result.sent_ns.reshape(bursts, -1)
    left = (sent_ns[:, -1] - sent_ns[:, 0]) // serialization_ns
    return (len(first_copies(result)) - int(left.sum())) / bursts


def queue_by_wait(result: ProbeResult, bursts: int, serialization_ns: int) -> float | None:
    """Return the capacity if packets are lost, from the difference between the largest and the least delay. A packet
    that found the queue empty and one that found its last place must have arrived, and a burst must have arrived before
    its first packet left: None if not, or if too few arrived.
    """
    delays_ns = one_way_delays_ns(result)
    sent_ns = result.sent_ns.reshape(bursts, -1)
    if len(delays_ns) < 3 or (sent_ns[:, -1] - sent_ns[:, 0]).max() > serialization_ns / 2:
        return None
    return int(delays_ns.max() - delays_ns.min()) / serialization_ns + 1
