"""How far the clock of a host is ahead of this machine's, by the shortest of some round trips (RFC 5905, section 8);
and by that, of the emulator's."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass

from owlt.orchestrator.hosts.host import Host
from owlt.orchestrator.hosts.host_clock import ClockReading, clock_of
from owlt.orchestrator.rigs.rig import HostClocks
from owlt.results.record import HostClock

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
