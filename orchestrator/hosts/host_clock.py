"""How the clock of a host stood to another's during a block of runs: offset and drift, each with its error.

Each reading says that the offset lies in an interval. A clock with a constant drift passes through all of them: the
drifts for which a line does so are bounded by the pairs of readings.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations

from owlt.results.record import HostClock

SHORTEST_NS = 1_000_000_000
"""Readings that are less apart say nothing of a drift."""


@dataclass(frozen=True)
class ClockReading:
    """At `at_ns` of the reference clock, the host's was ahead by `ahead_ns`, to `error_ns`."""

    at_ns: int
    ahead_ns: int
    error_ns: int


def clock_of(readings: Sequence[ClockReading]) -> HostClock:
    """Offset and drift from readings in the order of time, of which there is at least one."""
    last, span_ns = readings[-1], readings[-1].at_ns - readings[0].at_ns
    known = HostClock(last.at_ns, last.ahead_ns, last.error_ns, len(readings), span_ns)
    if span_ns < SHORTEST_NS:
        return known
    least, most = _drifts(readings)
    if least > most:
        return known
    return replace(known, drift_ppm=(least + most) / 2 * 1e6, drift_error_ppm=(most - least) / 2 * 1e6)


def _drifts(readings: Sequence[ClockReading]) -> tuple[float, float]:
    """The least and the largest drift, in ns per ns, of a line through the intervals of all readings."""
    least, most = float("-inf"), float("inf")
    for first, second in combinations(readings, 2):
        apart_ns = second.at_ns - first.at_ns
        if apart_ns <= 0:
            continue
        gained_ns, error_ns = second.ahead_ns - first.ahead_ns, first.error_ns + second.error_ns
        least = max(least, (gained_ns - error_ns) / apart_ns)
        most = min(most, (gained_ns + error_ns) / apart_ns)
    return least, most
