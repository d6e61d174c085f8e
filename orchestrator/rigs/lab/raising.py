"""The lab rig, raised: a session on each host, the interfaces set up, the leases renewed; and taken down again.

A session is root's programs on a host in namespaces that the host ends with their lease. The host's part of it is
`owlt-host`, beside this module, which the login user may run with sudo. Shell lines furnish the session: its files, its
view of the machine, its test interface.
"""

from __future__ import annotations

import ipaddress
import re
import shlex
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from owlt.emulator.faults import EmulatorError
from owlt.orchestrator.hosts.host import Completed, Host, HostError
from owlt.orchestrator.hosts.host_clock import LabClocks, clock_offset
from owlt.orchestrator.hosts.printable import how_ended
from owlt.orchestrator.hosts.program import OUTPUT_LIMIT_BYTES
from owlt.orchestrator.profiles.inventory import LabHostEntry, LabRig, LabRole, TestHostEntry
from owlt.orchestrator.rigs.enclosure import accounts_alone, base_of, enclosure
from owlt.orchestrator.rigs.killed_programs import KilledPrograms, for_memory
from owlt.orchestrator.rigs.lab.conditions import LabConditions
from owlt.orchestrator.rigs.lab.emulator import LabEmulator
from owlt.orchestrator.rigs.lab.interfaces import Interface, find_interface, forget, set_up
from owlt.orchestrator.rigs.lab.lab_host import LabHost
from owlt.orchestrator.rigs.lab.management import ManagementHost
from owlt.orchestrator.rigs.namespaces import SSHD_CONFIG, make_key
from owlt.orchestrator.rigs.rig import Rig, TestHost

OWLT_HOST = "/usr/local/sbin/owlt-host"
"""The program on the host, as sudo's rule names it."""
SOURCE = Path(__file__).parent / "owlt-host"
VERSION = "owlt-host 1"
SUDO_RULE = f"{{user}} ALL=(root) NOPASSWD: {OWLT_HOST}"
"""The line of /etc/sudoers.d/owlt."""
CLOSED_STATUS = 69
"""The exit status of `owlt-host enter` if its session has ended."""
ON_HOST = ["sudo", "-n", OWLT_HOST]


def open_session(host: ManagementHost, setup: str, lease_s: int, interface: str | None) -> None:
    """Make the session; `setup` are shell lines that furnish it. Raises HostError, also if there is one already."""
    command = [*ON_HOST, "open", str(lease_s), *([interface] if interface else [])]
    _accept(host, "open", host.run_with_input(command, setup.encode()))


def renew_session(host: ManagementHost, lease_s: int) -> None:
    """Let the session end so many seconds from now. Raises HostError if it has ended."""
    _accept(host, "renew", host.run([*ON_HOST, "renew", str(lease_s)]))


def close_session(host: ManagementHost) -> None:
    """End all programs of the session, if there is one. Raises HostError."""
    _accept(host, "close", host.run([*ON_HOST, "close"]))


def session_seconds_left(host: ManagementHost) -> int | None:
    """How long the session's lease lasts; None if none is open. Raises HostError."""
    done = host.run([*ON_HOST, "status"])
    _accept(host, "status", done)
    state = re.match(rb"open (-?\d+)", done.stdout)
    return int(state[1]) if state else None


def _accept(host: ManagementHost, verb: str, done: Completed) -> None:
    if done.exit_status != 0:
        text = (done.stderr or done.stdout).decode(errors="replace").strip()
        raise HostError(f"{host.entry.name}: owlt-host {verb} {how_ended(done.exit_status)}: {text}")


FILES = Path("/var/lib/owlt/rig")
"""Where `owlt-host` keeps a session's files, and removes them at its end."""
LOGIN = FILES / "login"
SSHD_CONFIG_FILE = str(LOGIN / "sshd_config")
LOGS_BYTES = 4 * OUTPUT_LIMIT_BYTES
"""The space for output on a host; a program that fills it gets an error."""


@dataclass(frozen=True)
class Keys:
    """The keys of one session's sshd, made for it alone. `user_key` and `known_hosts` are files here."""

    user_key: Path
    known_hosts: Path
    user_public: str
    host_private: str


def make_keys(directory: Path, address: str) -> Keys:
    """New keys in a directory of this machine. Raises HostError."""
    directory.mkdir(mode=0o700)
    user_key, host_key = directory / "user_key", directory / "host_key"
    for path in (user_key, host_key):
        make_key(path)
    known_hosts = directory / "known_hosts"
    known_hosts.write_text(f"{address} {host_key.with_suffix('.pub').read_text().strip()}\n")
    host_private = host_key.read_text()
    host_key.unlink()
    return Keys(user_key, known_hosts, user_key.with_suffix(".pub").read_text(), host_private)


def base_on_host(role: str) -> str:
    """The directory of the rig on a host, as its session sees it."""
    return str(FILES / role) if role == "emulator" else base_of(role)


def furnishing(role: str, keys: Keys, needed: list[str], names: Mapping[str, str], interface_lines: str) -> str:
    """The shell lines; `needed` are paths that stay visible, `names` the test addresses by role, `interface_lines` come
    last.
    """
    view = accounts_alone(LOGIN) if role == "emulator" else enclosure(FILES, role, LOGIN, needed, names)
    logs = f"{base_on_host(role)}/logs"
    return f"""set -e
exec 2>&1
umask 077
mkdir -p {LOGIN}/home {FILES}/{role}/logs
chmod 755 {FILES.parent} {FILES} {FILES}/{role} {LOGIN}
cat >{LOGIN}/host_key <<'END'
{keys.host_private.strip()}
END
cat >{LOGIN}/user_key.pub <<'END'
{keys.user_public.strip()}
END
cat >{SSHD_CONFIG_FILE} <<'END'
{SSHD_CONFIG.format(login=LOGIN)}END
{{ echo root:x:0:0:root:{LOGIN}/home:/bin/sh; grep -v '^root:' /etc/passwd; }} >{LOGIN}/passwd
echo 'root:*:20000:0:99999:7:::' >{LOGIN}/shadow
chmod 644 {LOGIN}/passwd
umask 022
mkdir -p /run/sshd
mount --make-rprivate /
{view}
mount -t tmpfs -o size={LOGS_BYTES},mode=755 owlt-logs {shlex.quote(logs)}
{interface_lines}"""


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
