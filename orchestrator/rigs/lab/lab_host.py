"""A host of a lab rig as root, in its session: an sshd of the session's own, spoken to through the management login.

The output of its programs goes to files there, which are followed: a program goes on when SSH is lost.
"""

from __future__ import annotations

import itertools
import shlex
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

import paramiko

from owlt.orchestrator.hosts.host import COMMAND_LIMIT_S, HostError
from owlt.orchestrator.hosts.program import GROUP_COMMAND, Program, read_group
from owlt.orchestrator.hosts.ssh_host import Login
from owlt.orchestrator.rigs.lab.management import ManagementHost, ReconnectingHost
from owlt.orchestrator.rigs.lab.session import CLOSED_STATUS, ON_HOST

POLL_S = 0.25
"""How often the followers of a file, which end with the program, look whether it has ended: nothing waits for this."""
SSHD = "/usr/sbin/sshd"


class LabHost(ReconnectingHost):
    """`sshd_config` is the path of the configuration of the session's sshd. Close it before its session."""

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
    """Input and output of such a program, for `Program`. `open_session` runs a shell line on the host, over a new
    connection if the last was lost; it raises HostError if the host cannot be reached any more.
    """

    def __init__(
        self, open_session: Callable[[str], paramiko.Channel], logs: str, directory: str, command: Sequence[str]
    ) -> None:
        self._open = open_session
        self._logs = logs
        self.exit_status = -1
        self.status_event = threading.Event()
        line = shlex.join(["sh", "-c", _START, "sh", logs, _SUPERVISE, directory, *command])
        channel = open_session(f"exec {line}")
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
