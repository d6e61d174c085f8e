"""The offset and drift of a host's clock against another during a block of runs, each with its error. Each reading, the
shortest of some round trips (RFC 5905, section 8), gives an interval for the offset. A clock with a constant drift
passes through all of them: the drifts for which a line does so are bounded by the pairs of readings.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Protocol

from owlt.orchestrator.hosts.host import Host
from owlt.results.record import HostClock

SHORTEST_NS = 1_000_000_000
"""The least time between readings that show a drift."""


@dataclass(frozen=True)
class ClockReading:
    """The host's clock was ahead of the reference clock by `ahead_ns`, at `at_ns` of the latter, within `error_ns`."""

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


ROUND_TRIPS = 5


@dataclass(frozen=True)
class Offset:
    """How far a clock is ahead, in ns, and by how much that may be wrong: half of the round trip."""

    ahead_ns: int
    error_ns: int

    def beyond(self, other: Offset) -> int:
        """How far it is ahead of another; 0 if the errors may be all of that."""
        difference_ns = self.ahead_ns - other.ahead_ns
        return difference_ns if abs(difference_ns) > self.error_ns + other.error_ns else 0


def clock_offset(host: Host) -> Offset:
    """The offset of a host's clock from this machine's. Raises HostError."""
    return min((_reading(host) for _ in range(ROUND_TRIPS)), key=lambda offset: offset.error_ns)


def _reading(host: Host) -> Offset:
    sent_ns = time.time_ns()
    shown_ns = int(host.check(["date", "+%s%N"]))
    returned_ns = time.time_ns()
    return Offset(shown_ns - (sent_ns + returned_ns) // 2, (returned_ns - sent_ns) // 2)


class HostClocks(Protocol):
    """The clocks of sender and receiver by the emulator's, where hosts are machines of their own."""

    def read(self) -> None:
        """Take a reading of each."""

    def clocks(self) -> dict[str, HostClock]:
        """The clock of each role, from all readings so far; {} before the first."""


class LabClocks(HostClocks):
    """The clocks of hosts by that of the emulator, read over the management network.

    This machine's clock is between them: it must not be set while a reading is taken.
    """

    def __init__(self, hosts: Iterable[Host], emulator: Host) -> None:
        self._hosts = list(hosts)
        self._emulator = emulator
        self._readings: dict[str, list[ClockReading]] = {host.role: [] for host in self._hosts}

    def read(self) -> None:
        reference = clock_offset(self._emulator)
        for host in self._hosts:
            offset = clock_offset(host)
            ahead_ns, error_ns = offset.ahead_ns - reference.ahead_ns, offset.error_ns + reference.error_ns
            at_ns = time.time_ns() + reference.ahead_ns
            self._readings[host.role].append(ClockReading(at_ns, ahead_ns, error_ns))

    def clocks(self) -> dict[str, HostClock]:
        return {role: clock_of(readings) for role, readings in self._readings.items() if readings}
