"""The lab rig, raised: a session on each host, the interfaces set up, the leases renewed; and taken down again."""

from __future__ import annotations

import ipaddress
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path

from owlt.emulator.faults import EmulatorError
from owlt.orchestrator.hosts.host import Host, HostError
from owlt.orchestrator.hosts.host_clock import LabClocks, clock_offset
from owlt.orchestrator.profiles.inventory import LabHostEntry, LabRig, LabRole, TestHostEntry
from owlt.orchestrator.rigs.killed_programs import KilledPrograms, for_memory
from owlt.orchestrator.rigs.lab.conditions import LabConditions
from owlt.orchestrator.rigs.lab.emulator import LabEmulator
from owlt.orchestrator.rigs.lab.interfaces import Interface, find_interface, forget, set_up
from owlt.orchestrator.rigs.lab.management import ManagementHost
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
from owlt.orchestrator.rigs.rig import Rig, TestHost

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
