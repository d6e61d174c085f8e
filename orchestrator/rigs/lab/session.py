"""A session on a host of a lab rig: root's programs in namespaces that the host ends with their lease.

The host's part is `owlt-host`, beside this module, which the login user may run with sudo. Shell lines furnish the
session: its files, its view of the machine, its test interface. An sshd of the session's own, spoken to through the
management login, makes it a host. The output of the programs goes to files there, which are followed: a program goes on
when SSH is lost.
"""

from __future__ import annotations

import itertools
import re
import shlex
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import paramiko

from owlt.orchestrator.hosts.host import COMMAND_LIMIT_S, Completed, HostError
from owlt.orchestrator.hosts.printable import how_ended
from owlt.orchestrator.hosts.program import GROUP_COMMAND, OUTPUT_LIMIT_BYTES, Program, read_group
from owlt.orchestrator.rigs.enclosure import accounts_alone, base_of, enclosure
from owlt.orchestrator.rigs.lab.ssh_hosts import Login, ManagementHost, ReconnectingHost
from owlt.orchestrator.rigs.namespaces import SSHD_CONFIG, make_key

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


POLL_S = 0.25
"""How often the followers of a file, which end with the program, look whether it has ended: nothing waits for this."""
SSHD = "/usr/sbin/sshd"


class LabHost(ReconnectingHost):
    """A host as root, in its session: close it first. `sshd_config` is the path of the configuration of its sshd."""

    def __init__(self, management: ManagementHost, base: str, sshd_config: str, key: Path, known_hosts: Path) -> None:
        self._management = management
        self._sshd = [*ON_HOST, "enter", SSHD, "-i", "-f", sshd_config]
        self._programs = itertools.count(1)
        entry = management.entry
        self.reconnect_s = entry.lease_s
        super().__init__(Login(entry.role, entry.address, entry.port, "root", key, known_hosts), base)

    def _dial(self) -> paramiko.Channel:
        return self._management._session(f"exec {shlex.join(self._sshd)}")

    def _log_in(self, transport: paramiko.Transport) -> None:
        try:
            super()._log_in(transport)
        except (EOFError, paramiko.SSHException) as problem:
            channel = transport.sock
            channel.settimeout(COMMAND_LIMIT_S)
            text = channel.recv_stderr(4096).decode(errors="replace").strip()
            if channel.recv_exit_status() == CLOSED_STATUS:
                raise SessionEnded(f"{self._management.entry.name}: {text}") from problem
            raise HostError(f"{self._management.entry.name}: the session's sshd: {text or problem}") from problem

    def is_final(self, problem: HostError) -> bool:
        return isinstance(problem, SessionEnded) or super().is_final(problem)

    def start(
        self,
        command: Sequence[str],
        directory: str,
        logs: Path,
        news: threading.Condition | None = None,
        *,
        terminal: bool = False,
    ) -> Program:
        """Start a program. Without a terminal it outlasts the connection: its output is kept on the host."""
        if terminal:
            return super().start(command, directory, logs, news, terminal=True)
        try:
            session = FollowedSession(self._session, f"{self.base}/logs/{next(self._programs)}", directory, command)
            group = read_group(self.role, session)
        except ConnectionError as problem:
            raise HostError(str(problem)) from problem
        return Program(group, session, logs, news or threading.Condition(), self._signal_group, self._stopped_in)


class SessionEnded(HostError):
    """The session is over: its lease has ended, or the host was started again."""


# the lock is held until the supervising shell has ended (flock(1))
_START = """d=$1
mkdir -p "$d" && : >"$d/out" && : >"$d/err" && exec 9>"$d/lock" && flock 9 || exit 1
setsid sh -c "$2" sh "$@" </dev/null >/dev/null 2>&1 &
echo $!"""
_SUPERVISE = f"""d=$1 place=$3
shift 3
cd "$place" 2>>"$d/err" || {{ echo 1 >"$d/status"; exit; }}
setsid sh -c '{GROUP_COMMAND}; exec "$@"' sh "$@" </dev/null >>"$d/out" 2>>"$d/err" 9>&- &
wait $!
echo $? >"$d/status.new"
mv "$d/status.new" "$d/status\""""
_WAS_READ = "read"
_AWAIT_END = f"""status=$(flock -s "$1/lock" cat "$1/status") && [ -n "$status" ] || exit 1
sizes=$(stat --format=%s "$1/out" "$1/err") && echo $status $sizes || exit 1
read -r word && [ "$word" = {_WAS_READ} ] && exec rm -rf "$1\""""
"""Prints the exit status and how many bytes the program wrote to each file; removes the files when it reads that this
was read."""


class FollowedSession:
    """Input and output of a program without a terminal, for `Program`.

    `open_channel` runs a shell line on the host, over a new connection if the last was lost; it raises HostError if the
    host cannot be reached any more.
    """

    def __init__(
        self, open_channel: Callable[[str], paramiko.Channel], logs: str, directory: str, command: Sequence[str]
    ) -> None:
        self._open = open_channel
        self._logs = logs
        self.exit_status = -1
        self.status_event = threading.Event()
        line = shlex.join(["sh", "-c", _START, "sh", logs, _SUPERVISE, directory, *command])
        channel = open_channel(f"exec {line}")
        answer = channel.makefile().read().decode().strip()
        if not answer.isdecimal():
            raise HostError(f"could not start {shlex.join(command)!r}: {channel.makefile_stderr().read().decode()}")
        self._pid = answer
        self._streams = {name: _Stream(self._follow(name)) for name in ("out", "err")}
        threading.Thread(target=self._await_end, daemon=True).start()

    def _follow(self, name: str) -> Callable[[int], paramiko.Channel]:
        def follow(first_byte: int) -> paramiko.Channel:
            tail = ["tail", "-s", str(POLL_S), "-c", f"+{first_byte + 1}", f"--pid={self._pid}", "-f"]
            return self._open(f"exec {shlex.join([*tail, f'{self._logs}/{name}'])}")

        return follow

    def _await_end(self) -> None:
        channel = None
        try:
            self.exit_status, channel = self._read_end()
        finally:
            self.status_event.set()
            self._remove_logs(channel)

    def _read_end(self) -> tuple[int, paramiko.Channel | None]:
        """The exit status, once the output was read, and the channel that waits for this; -1 and None if the host does
        not have it, or cannot be reached any more.
        """
        line = f"exec {shlex.join(['sh', '-c', _AWAIT_END, 'sh', self._logs])}"
        while True:
            try:
                channel = self._open(line)
                answer = channel.makefile().readline().split()
            except (HostError, OSError):
                return -1, None
            if len(answer) == 1 + len(self._streams):
                for stream, written_bytes in zip(self._streams.values(), answer[1:], strict=True):
                    stream.end_at(int(written_bytes))
                for stream in self._streams.values():
                    stream.was_read.wait(5)
                return int(answer[0]), channel
            channel.status_event.wait()
            if channel.exit_status >= 0:
                return -1, None

    def _remove_logs(self, channel: paramiko.Channel | None) -> None:
        """Remove the files on the host; what is left is removed with the session."""
        with suppress(HostError, OSError, EOFError, paramiko.SSHException):
            if channel is not None:
                channel.sendall(f"{_WAS_READ}\n".encode())
            else:
                self._open(f"exec {shlex.join(['rm', '-rf', self._logs])}").close()

    def recv(self, nbytes: int, /) -> bytes:
        """Some of its output; nothing once it has ended."""
        return self._streams["out"].read(nbytes)

    def recv_stderr(self, nbytes: int, /) -> bytes:
        """Some of its errors; nothing once it has ended."""
        return self._streams["err"].read(nbytes)

    def sendall(self, s: bytes, /) -> None:
        """It has no terminal. Raises OSError."""
        raise OSError("a program without a terminal cannot be typed to")

    def settimeout(self, timeout: float | None, /) -> None:
        """How long `recv` waits before it raises TimeoutError; None: forever."""
        self._streams["out"].settimeout(timeout)

    def exit_status_ready(self) -> bool:
        """Whether it has ended."""
        return self.status_event.is_set()

    def close(self) -> None:
        """Follow no more."""
        for stream in self._streams.values():
            stream.close()


class _Stream:
    """One file, followed from the first `read` to its end, over as many connections as that takes."""

    def __init__(self, follow: Callable[[int], paramiko.Channel]) -> None:
        self._follow = follow
        self._channel: paramiko.Channel | None = None
        self._timeout_s: float | None = None
        self._read_bytes = 0
        self._written_bytes: int | None = None
        self._closed = False
        self.was_read = threading.Event()

    def read(self, nbytes: int) -> bytes:
        """The next bytes; nothing at the end, or if the host cannot be reached any more."""
        while not (self.was_read.is_set() or self._closed or self._is_complete()):
            if self._channel is None:
                try:
                    self._channel = self._follow(self._read_bytes)
                except HostError:
                    break
                self._channel.settimeout(self._timeout_s)
                continue
            chunk: bytes = self._channel.recv(nbytes)
            if chunk:
                self._read_bytes += len(chunk)
                return chunk
            if not self._is_complete():
                self._channel.status_event.wait()
            if self._channel.exit_status >= 0:
                break
            self._channel = None
        self.was_read.set()
        return b""

    def _is_complete(self) -> bool:
        return self._written_bytes is not None and self._read_bytes >= self._written_bytes

    def end_at(self, written_bytes: int) -> None:
        """The program ended after it had written this many bytes: stop reading there."""
        self._written_bytes = written_bytes
        if self._is_complete():
            with suppress(OSError, EOFError, paramiko.SSHException):
                self._close_channel()

    def settimeout(self, timeout: float | None) -> None:
        """How long `read` waits."""
        self._timeout_s = timeout
        if self._channel is not None:
            self._channel.settimeout(timeout)

    def close(self) -> None:
        """End it."""
        self._closed = True
        self._close_channel()

    def _close_channel(self) -> None:
        if channel := self._channel:
            channel.close()
