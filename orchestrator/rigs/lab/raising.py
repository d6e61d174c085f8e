"""The lab rig, raised: a session on each host, the interfaces set up, the leases renewed; and taken down again.

During runs, the free disk space of the hosts is read, and conditions that make a run doubtful, such as a clock that was
set.
"""

from __future__ import annotations

import ipaddress
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from owlt.emulator.faults import EmulatorError
from owlt.orchestrator.hosts.host import Host, HostError
from owlt.orchestrator.hosts.host_clock import LabClocks, clock_offset
from owlt.orchestrator.profiles.inventory import LabHostEntry, LabRig, LabRole, TestHostEntry
from owlt.orchestrator.rigs.killed_programs import KilledPrograms, for_memory
from owlt.orchestrator.rigs.lab.emulator import LabEmulator
from owlt.orchestrator.rigs.lab.interfaces import Interface, find_interface, forget, set_up
from owlt.orchestrator.rigs.lab.session import (
    SSHD_CONFIG_FILE,
    LabHost,
    base_on_host,
    close_session,
    furnishing,
    make_keys,
    open_session,
    renew_session,
)
from owlt.orchestrator.rigs.lab.ssh_hosts import ManagementHost, ReconnectingHost
from owlt.orchestrator.rigs.rig import HostConditions, Rig, TestHost

RENEWALS = 6
"""How often a lease is renewed in its time."""
READY_DEADLINE_S = 30.0
_NEEDED = r"from owlt.orchestrator.rigs.guest import needed_paths; print(*needed_paths(), sep='\n')"


def raising(lab: LabRig) -> Callable[[Path, Path, Path], AbstractContextManager[Rig]]:
    """What raises this rig. Third-party implementations are where the inventory says, on the hosts."""
    return partial(_raised, lab)


@contextmanager
def _raised(lab: LabRig, directory: Path, logs: Path, third_party: Path) -> Iterator[Rig]:
    """Open the sessions, connect to their hosts, and close them afterwards.

    Raises HostError, EmulatorError, or Missing without a token.
    """
    directory.mkdir(parents=True, exist_ok=True)
    lease_s = lab.emulator.lease_s
    channel = LabEmulator(lab.emulator, longest_s=lease_s)
    channel.wait_until_ready(READY_DEADLINE_S)
    with ExitStack() as down:
        lease = channel.lease("owlt", lease_s)
        down.callback(channel.give_back)
        keeper = LabEmulator(lab.emulator, longest_s=lease_s)  # a client serves one thread
        keeper.adopt(lease)
        _keep(down, lease_s, lambda: keeper.renew(lease_s))
        management = {entry.role: down.enter_context(ManagementHost(entry)) for entry in lab.hosts}
        for host in management.values():
            close_session(host)  # of a worker that was killed: who has the emulator's lease has the hosts
        ends = {
            entry.role: find_interface(management[entry.role], entry.test_interface)
            for entry in (lab.sender, lab.receiver)
        }
        ports = [
            find_interface(management["emulator"], port).name
            for port in (lab.emulator.sender_port, lab.emulator.receiver_port)
        ]
        hosts = {
            entry.role: _host_in_session(down, directory, lab, entry, management[entry.role], ends)
            for entry in lab.hosts
        }
        killed = LabKilledPrograms([hosts["sender"], hosts["receiver"]])
        yield Rig(
            sender=_test_host(hosts["sender"], lab.sender, ends["sender"]),
            receiver=_test_host(
                hosts["receiver"],
                lab.receiver,
                ends["receiver"],
                clock_offset(hosts["receiver"]).beyond(clock_offset(hosts["emulator"])),
            ),
            emulator=hosts["emulator"],
            channel=channel,
            sender_port=ports[0],
            receiver_port=ports[1],
            python=lab.sender.python,
            watch=_watch(hosts["receiver"], lab.receiver.python),
            third_party=lab.sender.third_party,
            killed_programs=killed,
            conditions=LabConditions(hosts.values(), {"sender": ports[0], "receiver": ports[1]}),
            clocks=LabClocks((hosts["sender"], hosts["receiver"]), hosts["emulator"]),
            has_machines=True,
            versions=_versions(hosts),
            forget=partial(_forget, lab, hosts, ends),
        )


def _host_in_session(
    down: ExitStack,
    directory: Path,
    lab: LabRig,
    entry: LabHostEntry,
    management: ManagementHost,
    ends: Mapping[LabRole, Interface],
) -> LabHost:
    """Open the session of a host and connect to its sshd."""
    keys = make_keys(directory / f"keys-{entry.role}", entry.address)
    lines, interface, needed = "", None, []
    if isinstance(entry, TestHostEntry):
        interface = ends[entry.role].name
        lines = set_up(*_path_of(entry, lab, ends))
        needed = [*_needed_paths(management, entry.python), entry.third_party]
    down.callback(_close, management)
    names = {"sender": _address(lab.sender), "receiver": _address(lab.receiver)}
    open_session(management, furnishing(entry.role, keys, needed, names, lines), entry.lease_s, interface)
    _keep(down, entry.lease_s, partial(renew_session, management, entry.lease_s))
    return down.enter_context(
        LabHost(management, base_on_host(entry.role), SSHD_CONFIG_FILE, keys.user_key, keys.known_hosts)
    )


def _path_of(entry: TestHostEntry, lab: LabRig, ends: Mapping[LabRole, Interface]) -> tuple[str, str, str, str]:
    """The test interface of a host, its address, and the address and the MAC address of the other host."""
    peer = lab.receiver if entry.role == "sender" else lab.sender
    return ends[entry.role].name, entry.test_address, _address(peer), ends[peer.role].mac


def _forget(lab: LabRig, hosts: Mapping[LabRole, LabHost], ends: Mapping[LabRole, Interface]) -> None:
    """Remove what programs left in the network namespaces of both sessions. Raises HostError."""

    def on(entry: TestHostEntry) -> None:
        hosts[entry.role].check(["sh", "-c", forget(*_path_of(entry, lab, ends))])

    with ThreadPoolExecutor(2) as at_once:
        list(at_once.map(on, (lab.sender, lab.receiver)))


def _needed_paths(host: Host, python: str) -> list[str]:
    """The paths of owlt and its Python on a host, which must be visible in its session."""
    found = host.run([python, "-P", "-c", _NEEDED])
    return found.stdout.decode().splitlines() if found.exit_status == 0 else [str(Path(python).parents[1])]


def _close(management: ManagementHost) -> None:
    """Close a session; one on a host that cannot be reached ends with its lease."""
    management.reconnect_s = 0
    with suppress(HostError):
        close_session(management)


def _keep(down: ExitStack, lease_s: float, renew: Callable[[], object]) -> None:
    """Renew a lease until the rig is taken down. One that cannot be renewed ends: a session and what runs in it, or the
    emulator's lease and its channel.
    """
    over = threading.Event()

    def renewing() -> None:
        while not over.wait(lease_s / RENEWALS):
            with suppress(HostError, EmulatorError):
                renew()

    threading.Thread(target=renewing, daemon=True).start()
    down.callback(over.set)


def _address(entry: TestHostEntry) -> str:
    return str(ipaddress.IPv4Interface(entry.test_address).ip)


def _test_host(host: LabHost, entry: TestHostEntry, interface: Interface, clock_offset_ns: int = 0) -> TestHost:
    return TestHost(host, _address(entry), interface.name, clock_offset_ns)


def _watch(host: Host, python: str) -> str:
    """The path of the probe on the host, which its owlt comes with."""
    command = [python, "-c", "import owlt.agents.probes.watch as watch; print(watch.__file__)"]
    return host.check(command).decode().strip()


def _versions(hosts: Mapping[LabRole, LabHost]) -> dict[str, str]:
    """The kernels of the hosts."""
    kernels = {role: host.check(["uname", "-r"]).decode().strip() for role, host in hosts.items()}
    return {"kernel": kernels["emulator"], **{f"kernel of the {role}": text for role, text in kernels.items()}}


class LabKilledPrograms(KilledPrograms):
    """The programs that the kernels of the hosts killed because memory ran out."""

    def __init__(self, hosts: list[LabHost]) -> None:
        self._hosts = hosts
        self._counts = {host.role: self._count(host) for host in hosts}

    def take(self) -> list[str]:
        """Return the sentences, and forget them. The log of a host is read only if its kernel counts a new kill."""
        sentences = []
        with ThreadPoolExecutor(len(self._hosts)) as at_once:
            counts = list(at_once.map(self._count, self._hosts))
        for host, count in zip(self._hosts, counts, strict=True):
            new = count - self._counts[host.role]
            self._counts[host.role] = count
            if new > 0 and (sentence := for_memory("\n".join(self._killed(host)[-new:]))):
                sentences.append(f"on the {host.role}, {sentence}")
        return sentences

    def close(self) -> None:
        """It holds nothing."""

    def _count(self, host: LabHost) -> int:
        """How many processes the kernel has killed for memory, each of which it logs.

        From `oom_kill` in /proc/vmstat; of a kernel without CONFIG_VM_EVENT_COUNTERS, from its log.
        """
        counted = host.check(["sed", "-n", "s/^oom_kill //p", "/proc/vmstat"])
        return int(counted) if counted else len(self._killed(host))

    def _killed(self, host: LabHost) -> list[str]:
        log = host.run(["dmesg", "--notime"]).stdout.decode(errors="replace")
        return re.findall(r"^.*Killed process \d+ .*$", log, re.MULTILINE)


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
    """Parse what the script of the conditions prints (proc_uptime(5), proc_stat(5))."""
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
