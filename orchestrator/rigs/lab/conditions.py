"""What on the hosts of a lab rig makes the times of a run doubtful: a clock that was set, processors that were busy."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass

from orchestrator.hosts.host import Host, HostError
from orchestrator.rigs.rig import HostConditions

CPU_BOUND = "CPU-bound"
"""How the sentence about busy processors begins."""
MOST_BUSY = 0.95
"""Of one processor: a program with one thread cannot be faster when it keeps a processor busy all the time."""
LEAST_S = 1.0
"""Of a shorter run, starting the programs is a large part."""
UPTIME_RESOLUTION_NS = 10_000_000
"""Of /proc/uptime (proc_uptime(5))."""
SLEW = 0.0005
"""How fast the kernel corrects a clock without setting it (adjtimex(2)), as a share of time."""
_SCRIPT = """read -r before </proc/uptime
clock=$(date +%s%N)
read -r after </proc/uptime
printf '%s\\n' "$before" "$clock" "$after"
exec grep '^cpu' /proc/stat"""
_READ = ["sh", "-c", _SCRIPT]


@dataclass(frozen=True)
class Reading:
    """A host at one moment. `error_ns`: by how much clock and uptime may belong to different moments."""

    clock_ns: int
    uptime_ns: int
    error_ns: int
    busy_ticks: int
    """Of all its processors together."""
    ticks: int
    processors: int


def parse_reading(text: str) -> Reading:
    """What the host printed (proc_uptime(5), proc_stat(5))."""
    before, clock, after, *lines = text.splitlines()
    begin_ns, end_ns = (round(float(line.split()[0]) * 1e9) for line in (before, after))
    user, nice, system, idle, io_wait, irq, soft_irq, stolen = (int(word) for word in lines[0].split()[1:9])
    busy = user + nice + system + irq + soft_irq + stolen
    error_ns = (end_ns - begin_ns) // 2 + UPTIME_RESOLUTION_NS
    return Reading(int(clock), (begin_ns + end_ns) // 2, error_ns, busy, busy + idle + io_wait, len(lines) - 1)


def doubts_between(role: str, begin: Reading, end: Reading) -> list[str]:
    """Sentences about what a host did between two moments."""
    lasted_ns = end.uptime_ns - begin.uptime_ns
    step_ns = end.clock_ns - begin.clock_ns - lasted_ns
    sentences = []
    if abs(step_ns) > begin.error_ns + end.error_ns + SLEW * lasted_ns:
        wrong = "times in the captures" if role == "emulator" else "times that its programs noted"
        sentences.append(f"the clock of the {role} was set by {step_ns / 1e9:+.2f} s during the run: {wrong} are wrong")
    share = (end.busy_ticks - begin.busy_ticks) / max(end.ticks - begin.ticks, 1)
    busy = share * begin.processors
    if busy >= MOST_BUSY and lasted_ns >= LEAST_S * 1e9:
        number = "its processor was" if begin.processors == 1 else f"its {begin.processors} processors were"
        sentences.append(
            f"{CPU_BOUND}: the {role} may have limited the run, not the channel: {number} busy for {busy:.2f} s in "
            "each second of it"
        )
    return sentences


class LabConditions(HostConditions):
    """The conditions on hosts, read over SSH."""

    def __init__(self, hosts: Iterable[Host]) -> None:
        self._hosts = list(hosts)
        self._begin: dict[str, Reading] = {}

    def begin(self) -> None:
        self._begin = self._read()

    def doubts(self) -> list[str]:
        end = self._read()
        return [
            sentence
            for role, reading in self._begin.items()
            if role in end
            for sentence in doubts_between(role, reading, end[role])
        ]

    def _read(self) -> dict[str, Reading]:
        """Of the hosts that can be reached: a run on one that cannot is aborted for another reason."""
        with ThreadPoolExecutor(len(self._hosts)) as at_once:
            readings = at_once.map(_reading, self._hosts)
            return {host.role: reading for host, reading in zip(self._hosts, readings, strict=True) if reading}


def _reading(host: Host) -> Reading | None:
    with suppress(HostError):
        return parse_reading(host.check(_READ).decode())
    return None
