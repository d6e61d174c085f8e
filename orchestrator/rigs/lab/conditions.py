"""Conditions on the hosts of a lab rig that make a run doubtful, such as a clock that was set; and their free disk
space."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field

from owlt.orchestrator.hosts.host import Host, HostError
from owlt.orchestrator.rigs.lab.management import ReconnectingHost
from owlt.orchestrator.rigs.rig import HostConditions

CPU_BOUND = "CPU-bound"
"""How the sentence about busy processors begins."""
MOST_BUSY = 0.95
"""The share of one processor at which a host is a limit: a program with one thread cannot be faster when it keeps a
processor busy all the time."""
LEAST_S = 1.0
"""The shortest run that is examined: in a shorter one, starting the programs is a large part.

Only the analysis knows the duration of the session.
"""
UPTIME_RESOLUTION_NS = 10_000_000
"""The resolution of /proc/uptime (proc_uptime(5))."""
SLEW = 0.0005
"""How fast the kernel corrects a clock without setting it (adjtimex(2)), as a share of time."""
_SCRIPT = """read -r before </proc/uptime
clock=$(date +%s%N)
read -r after </proc/uptime
printf '%s\\n' "$before" "$clock" "$after"
stat --file-system --format='%a %S' "$1" || exit
shift
for port; do
  for counter in rx_dropped rx_missed_errors rx_fifo_errors tx_dropped; do
    read -r count <"/sys/class/net/$port/statistics/$counter" && echo "port $port $counter $count"
  done
done
exec grep '^cpu' /proc/stat"""


@dataclass(frozen=True)
class Reading:
    """A host at one moment. `error_ns`: by how much clock and uptime may belong to different moments."""

    clock_ns: int
    uptime_ns: int
    error_ns: int
    busy_ticks: int
    """The total of all its processors."""
    ticks: int
    processors: int
    free_bytes: int
    """The free space of the file system of the rig's directory."""
    drops: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """Frames that the cards of ports dropped or missed since they were set up, by port and counter."""


def parse_reading(text: str) -> Reading:
    """Parse the output of the host (proc_uptime(5), proc_stat(5))."""
    before, clock, after, space, *lines = text.splitlines()
    drops: dict[str, dict[str, int]] = {}
    while lines[0].startswith("port "):
        _, port, counter, count = lines.pop(0).split()
        drops.setdefault(port, {})[counter] = int(count)
    free_blocks, block_bytes = (int(word) for word in space.split())
    begin_ns, end_ns = (round(float(line.split()[0]) * 1e9) for line in (before, after))
    user, nice, system, idle, io_wait, irq, soft_irq, stolen = (int(word) for word in lines[0].split()[1:9])
    busy = user + nice + system + irq + soft_irq + stolen
    error_ns = (end_ns - begin_ns) // 2 + UPTIME_RESOLUTION_NS
    ticks, middle_ns = busy + idle + io_wait, (begin_ns + end_ns) // 2
    return Reading(int(clock), middle_ns, error_ns, busy, ticks, len(lines) - 1, free_blocks * block_bytes, drops)


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
            f"each second of the {lasted_ns / 1e9:.1f} s from the start of the programs to their end"
        )
    return sentences


def doubts_about_ports(drops: Mapping[str, Mapping[str, int]]) -> list[str]:
    """Sentences about the ports whose cards dropped or missed frames, by the role of the host at each."""
    sentences = []
    for role, counters in drops.items():
        if shown := ", ".join(f"{count} {counter}" for counter, count in counters.items() if count):
            sentences.append(
                f"the emulator's card at the {role}'s port dropped frames during the run ({shown}): the channel did "
                "not cause these losses, and the frames may be missing from the captures"
            )
    return sentences


def drops_between(begin: Reading, end: Reading) -> dict[str, dict[str, int]]:
    """The increase of each counter of drops, by port."""
    return {
        port: {counter: count - counters.get(counter, 0) for counter, count in end.drops.get(port, {}).items()}
        for port, counters in begin.drops.items()
    }


class LabConditions(HostConditions):
    """The conditions on hosts, read over SSH. `ports` are the emulator's, by the role of the host at each."""

    def __init__(self, hosts: Iterable[ReconnectingHost], ports: Mapping[str, str]) -> None:
        self._hosts = list(hosts)
        self._ports = ports
        self._begin: dict[str, Reading] = {}
        self._drops: dict[str, dict[str, int]] = {}
        self._taken = dict.fromkeys((host.role for host in self._hosts), 0)

    def begin(self) -> None:
        self._begin, self._drops = self._read(), {}

    def free_bytes(self) -> dict[str, int]:
        return {role: reading.free_bytes for role, reading in self._begin.items()}

    def port_drops(self) -> dict[str, dict[str, int]]:
        return self._drops

    def take_reconnections(self) -> dict[str, list[int]]:
        taken = {}
        for host in self._hosts:
            if times_ns := list(host.reconnected_at_ns[self._taken[host.role] :]):
                taken[host.role] = times_ns
                self._taken[host.role] += len(times_ns)
        return taken

    def doubts(self) -> list[str]:
        end = self._read()
        if "emulator" in self._begin and "emulator" in end:
            drops = drops_between(self._begin["emulator"], end["emulator"])
            self._drops = {role: drops[port] for role, port in self._ports.items() if port in drops}
        return [
            sentence
            for role, reading in self._begin.items()
            if role in end
            for sentence in doubts_between(role, reading, end[role])
        ] + doubts_about_ports(self._drops)

    def _read(self) -> dict[str, Reading]:
        """Read the hosts that can be reached: a run on one that cannot is aborted for another reason."""
        with ThreadPoolExecutor(len(self._hosts)) as at_once:
            readings = at_once.map(self._reading, self._hosts)
            return {host.role: reading for host, reading in zip(self._hosts, readings, strict=True) if reading}

    def _reading(self, host: Host) -> Reading | None:
        ports = self._ports.values() if host.role == "emulator" else ()
        with suppress(HostError):
            return parse_reading(host.check(["sh", "-c", _SCRIPT, "sh", host.base, *ports]).decode())
        return None
