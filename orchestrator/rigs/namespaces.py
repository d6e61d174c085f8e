"""The three hosts as network namespaces of the kernel this runs on: the local rig, and the inside of a guest.

The emulator has its service. Commands on a host are processes that this one starts in the host's namespaces; the sshd
of a host is only for a user (`start_login`). What is raised is taken down again; what a killed process left is taken
down by the next one: the process that owns the rig holds a lock for as long as it lives, and its number is in the
locked file. The lock ends with the process, however that ends; the number stays if it was killed. This distinguishes a
rig that a killed process left from one that is in use, and from namespaces of the same names that owlt did not make.
The namespaces and their links are `orchestrator.rigs.network`'s.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import shlex
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import IO

from owlt import PACKAGE
from owlt.agents.contract import implementation
from owlt.emulator.service.client import EmulatorClient
from owlt.inputs.mistake import Mistake
from owlt.orchestrator.errors import Missing
from owlt.orchestrator.hosts.host import HostError
from owlt.orchestrator.hosts.near_host import NearHost
from owlt.orchestrator.rigs import rig
from owlt.orchestrator.rigs.enclosure import accounts_alone, base_of, enclosure
from owlt.orchestrator.rigs.guest import RESULTS_FILE, needed_paths
from owlt.orchestrator.rigs.killed_programs import KilledPrograms
from owlt.orchestrator.rigs.network import (
    ADDRESSES,
    ROLES,
    clear_with_programs,
    leftovers,
    make_network,
    namespace,
    namespace_file,
    renew,
    succeed,
    wait_until_bridged,
)
from owlt.orchestrator.rigs.rig import Rig, TestHost
from owlt.orchestrator.rigs.timed_waits import RECORDED_WAITS, WaitRecorder

OWNER_FILE = Path("/run/owlt-rig")
TAKING_DOWN_S = 10.0
"""How long an owner may take to take its rig down, after the process that started it was killed."""
TRYING_PERIOD_S = 0.05
READY_DEADLINE_S = 30.0
LOGIN_NAME, HOME_NAME = "login", "home"
"""The directory with the accounts of the hosts and an empty home, below the rig's directory."""
TOKEN_NAME = "emulator_token"
"""The file with the emulator's token, below the rig's directory."""


@contextmanager
def raised(directory: Path, logs: Path, third_party: Path) -> Iterator[Rig]:
    """Raise the rig, and take it down afterwards.

    `directory` holds the hosts' files, `logs` the output of its servers, `third_party`
    third-party implementations.

    Raises Missing without root or if another rig exists, HostError if a host does not start.
    """
    if os.geteuid() != 0:
        problem = "the local rig makes network namespaces, which needs root"
        raise Missing(Mistake(problem, fix="run as root, or use 'rig: virtual'"))
    with ExitStack() as down:
        down.enter_context(_own_rig())
        down.callback(clear_with_programs)
        make_network()
        _write_accounts(directory)
        token = _start_emulator(down, directory, logs)
        hosts = {role: _host(down, directory, logs, role) for role in ROLES}
        channel = EmulatorClient(f"http://{rig.EMULATOR_ADDRESS}:{rig.EMULATOR_PORT}/", token=token)
        channel.wait_until_ready(READY_DEADLINE_S)
        wait_until_bridged(READY_DEADLINE_S)
        killed_programs = KilledPrograms()
        down.callback(killed_programs.close)
        yield Rig(
            sender=TestHost(hosts["sender"], rig.SENDER_ADDRESS, rig.TEST_INTERFACE),
            receiver=TestHost(hosts["receiver"], rig.RECEIVER_ADDRESS, rig.TEST_INTERFACE),
            emulator=hosts["emulator"],
            channel=channel,
            sender_port=rig.SENDER_PORT,
            receiver_port=rig.RECEIVER_PORT,
            python=sys.executable,
            watch=str((PACKAGE / "agents").resolve() / "probes" / "watch.py"),
            third_party=str(third_party),
            killed_programs=killed_programs,
            forget=partial(_forget, [hosts["sender"], hosts["receiver"]]),
            wait_recorder=_wait_recorder(),
        )


def _wait_recorder() -> WaitRecorder | None:
    """That of this guest; None if its kernel has none, or this machine is no guest."""
    networks = {role: namespace_file(role) for role in implementation.ROLES}
    return WaitRecorder(networks) if RECORDED_WAITS.exists() else None


def standing() -> Mistake | None:
    """Why no rig can be raised: another one stands. One that a killed process left is no reason; changes nothing."""
    if not leftovers():
        return None
    try:
        with owned() as owner:
            return None if owner.is_abandoned or not leftovers() else _exists()
    except RigInUse:
        return _exists()


def clear_abandoned() -> None:
    """Clear what a killed process left of a rig, if one did."""
    with suppress(RigInUse), owned(limit_s=0) as owner:
        if owner.is_abandoned:
            clear_with_programs()
            owner.end()


def _exists() -> Mistake:
    problem = f"a local rig already exists ({', '.join(leftovers())})"
    return Mistake(problem, fix="if it is not in use, run 'owlt rigs clear'")


@contextmanager
def _own_rig() -> Iterator[None]:
    """Own the rig of this kernel; what a killed owner left is cleared. Raises Missing if another rig exists."""
    try:
        with owned() as owner:
            if owner.is_abandoned:
                clear_with_programs()
            elif leftovers():
                raise Missing(_exists())
            owner.begin()
            try:
                yield
            finally:
                if not leftovers():
                    owner.end()
    except RigInUse:
        raise Missing(_exists()) from None


class RigInUse(Exception):
    """A living process owns the rig."""


class Ownership:
    """The locked file."""

    def __init__(self, file: IO[str]) -> None:
        self._file = file

    @property
    def is_abandoned(self) -> bool:
        """Whether the latest owner was killed before its rig was taken down."""
        self._file.seek(0)
        return bool(self._file.read())

    def begin(self) -> None:
        """Note that this process raises its rig."""
        self.end()
        self._file.write(f"{os.getpid()}\n")
        self._file.flush()

    def end(self) -> None:
        """Note that no rig stands."""
        self._file.seek(0)
        self._file.truncate()


@contextmanager
def owned(path: Path = OWNER_FILE, limit_s: float = TAKING_DOWN_S) -> Iterator[Ownership]:
    """Lock the file. Raises RigInUse if a living process has locked it for `limit_s`."""
    with path.open("a+") as file:
        end_s = time.monotonic() + limit_s
        while not _try_to_lock(file):
            if time.monotonic() > end_s:
                raise RigInUse
            time.sleep(TRYING_PERIOD_S)
        yield Ownership(file)


def _try_to_lock(file: IO[str]) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _forget(hosts: Sequence[NearHost]) -> None:
    """Give the hosts new network namespaces. Raises HostError."""
    with ExitStack() as used:
        descriptors = {host.role: os.open(namespace_file(host.role), os.O_RDONLY) for host in hosts}
        for descriptor in descriptors.values():
            used.callback(os.close, descriptor)
        renew(descriptors)
    for host in hosts:
        host.enter_network(namespace_file(host.role))
    wait_until_bridged(READY_DEADLINE_S)


def _host(down: ExitStack, directory: Path, logs: Path, role: str) -> NearHost:
    """Make the namespaces of a host beside its network: its name, and its view of this machine. Raises HostError."""
    (directory / role).mkdir(exist_ok=True)
    login = directory / LOGIN_NAME
    view = accounts_alone(login)
    if role != "emulator":
        results = RESULTS_FILE if RESULTS_FILE.exists() else None  # it exists in a guest
        view = enclosure(directory, role, login, needed_paths(), ADDRESSES, results)
    script = f"exec 3>&1 </dev/null >&2\n{_named(role)}{view}echo ready >&3\nexec cat <&3 3>&-\n"
    ours, theirs = socket.socketpair()
    down.callback(ours.close)
    with theirs, (logs / f"host-{role}.log").open("wb") as log:
        holder = _hold(down, _in_namespaces(role, script), log.fileno(), theirs.fileno())
    if not ours.recv(1):
        raise HostError(f"the {role}'s view of this machine cannot be made: {Path(log.name).read_text().strip()}")
    base = str(directory / role) if role == "emulator" else base_of(role)
    return down.enter_context(NearHost(role, base, str(login / HOME_NAME), holder))


def _in_namespaces(role: str, script: str) -> list[str]:
    """A shell in the network namespace of a host, and in UTS and mount namespaces of its own."""
    return ["ip", "netns", "exec", namespace(role), "unshare", "--uts", "sh", "-c", script]


def _named(role: str) -> str:
    return f"echo {role} >/proc/sys/kernel/hostname\n"


def _write_accounts(directory: Path) -> None:
    """The accounts of the hosts, written before the first is made.

    root has an empty home and a plain shell in them: start-up files of a user's shell would run before every
    command, and differ from machine to machine. As an ordinary user's guest sees the machine, its own shadow
    file cannot be read, and root would count as locked.
    """
    login = directory / LOGIN_NAME
    (login / HOME_NAME).mkdir(parents=True, exist_ok=True)
    accounts = [line for line in Path("/etc/passwd").read_text().splitlines() if not line.startswith("root:")]
    accounts.insert(0, f"root:x:0:0:root:{login / HOME_NAME}:/bin/sh")
    (login / "passwd").write_text("\n".join(accounts) + "\n")
    (login / "shadow").write_text("root:*:20000:0:99999:7:::\n")


SSHD_CONFIG = """\
HostKey {login}/host_key
AuthorizedKeysFile {login}/user_key.pub
PidFile none
StrictModes no
UsePAM no
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin prohibit-password
MaxSessions 200
MaxStartups 200
UseDNS no
PrintMotd no
PrintLastLog no
LoginGraceTime 0
ClientAliveInterval 0
Ciphers aes128-gcm@openssh.com
Subsystem sftp internal-sftp
"""


def make_login(directory: Path) -> None:
    """What `start_login` needs beside the accounts: one host key and one user key, for this rig alone, and the
    known_hosts file. Raises HostError."""
    login = directory / LOGIN_NAME
    for path in (login / "host_key", directory / "user_key"):
        make_key(path)
    shutil.copy(directory / "user_key.pub", login)
    shown = (login / "host_key.pub").read_text().strip()
    (directory / "known_hosts").write_text("".join(f"{role} {shown}\n" for role in ROLES))
    (login / "sshd_config").write_text(SSHD_CONFIG.format(login=login))
    Path("/run/sshd").mkdir(exist_ok=True)


def make_key(path: Path) -> None:
    """Make a key without a passphrase, and its public part beside it. Raises HostError."""
    succeed(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", str(path)], "")


def start_login(directory: Path, logs: Path, role: str, link: socket.socket) -> None:
    """Start an sshd of a host of a raised rig, for one connection of a user, who sees the whole machine."""
    login = directory / LOGIN_NAME
    sshd = ["/usr/sbin/sshd", "-i", "-e", "-f", str(login / "sshd_config")]
    script = f"exec 3>&1 </dev/null >&2\n{_named(role)}{accounts_alone(login)}exec {shlex.join(sshd)} <&3 >&3\n"
    with (logs / "sshd-by-hand.log").open("ab") as log:
        subprocess.Popen(
            _in_namespaces(role, script),
            stdin=link.fileno(),
            stdout=link.fileno(),
            stderr=log,
            start_new_session=True,
        )


def _start_emulator(down: ExitStack, directory: Path, logs: Path) -> str:
    """Start the emulator service. Returns its token: anyone with a shell on this machine can reach the service."""
    token = secrets.token_hex()
    token_file = directory / TOKEN_NAME
    token_file.touch(mode=0o600)
    token_file.write_text(token)
    listen = f"{rig.EMULATOR_ADDRESS}:{rig.EMULATOR_PORT}"
    service = [sys.executable, "-m", "owlt.emulator", "--listen", listen, "--token-file", str(token_file)]
    service += ["--sender-port", rig.SENDER_PORT, "--receiver-port", rig.RECEIVER_PORT]
    log = down.enter_context((logs / "emulator.log").open("wb"))
    _hold(down, ["ip", "netns", "exec", namespace("emulator"), *service], log.fileno())
    return token


def _hold(down: ExitStack, command: list[str], log: int, link: int | None = None) -> int:
    """Start a program that lasts as long as the rig, in a process group of its own; `link` is its input and output.
    Returns its pid.
    """
    stdin, stdout = (subprocess.DEVNULL, log) if link is None else (link, link)
    program = subprocess.Popen(command, stdin=stdin, stdout=stdout, stderr=log, start_new_session=True)
    down.callback(_end, program)
    return program.pid


def _end(program: subprocess.Popen[bytes]) -> None:
    program.terminate()
    try:
        program.wait(5)
    except subprocess.TimeoutExpired:
        program.kill()
        program.wait()
