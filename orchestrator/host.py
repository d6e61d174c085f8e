"""A host of the rig, over SSH: run a command, start a program, move files.

Every rig's hosts are reached this way. What to run and when is decided elsewhere.
"""

from __future__ import annotations

import shlex
import socket
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from pathlib import Path

# paramiko wants invoke only for `Match exec` in ssh_config, which is never read here, and importing it
# takes 40 % of paramiko's start in a guest.
sys.modules.setdefault("invoke", None)  # type: ignore[arg-type]

import paramiko  # noqa: E402

from orchestrator.confinement import ALONE, LEFT, WITHOUT_A_RUN_BYTES, Room, confined  # noqa: E402
from orchestrator.exit_status import BY_SIGNAL, how_ended  # noqa: E402
from orchestrator.program import GROUP_COMMAND, LINE_CHARACTERS, Program  # noqa: E402

COMMAND_LIMIT_S = 60.0
ANSWER_BYTES = 4_000_000
SHOWN_CHARACTERS = 200
FLOODED = -1000
"""What stands for the exit status of a command that wrote more than anybody reads."""
LATE = 124
"""The exit status of timeout(1)."""

TERMINAL = ("dumb", 500, 50)
"""What a program that is typed to is told of its terminal: kind, columns, lines. No line of a dialogue is so long."""

_STOPPED = r"cat /proc/[0-9]*/stat 2>/dev/null | sed -nE 's/^[0-9]+ \((.*)\) T [0-9]+ [0-9]+ '$1' .*/\1/p'"


class HostError(Exception):
    """A host of the rig that does not do what the rig needs: names the host, the command and what it said."""


@dataclass(frozen=True)
class Completed:
    """What a command on a host came to."""

    exit_status: int
    stdout: bytes
    stderr: bytes


def last_line(done: Completed) -> str:
    """What a command said last, to its errors if it said anything there; what is left running is not its word."""
    for stream in (done.stderr, done.stdout):
        lines = [line.strip() for line in stream.decode(errors="replace").splitlines() if not line.startswith(LEFT)]
        if said := [line for line in lines if line]:
            return said[-1][-LINE_CHARACTERS:]
    return "it said nothing"


@dataclass(frozen=True)
class Login:
    """How a host is reached: nothing is taken from the user's own SSH set-up."""

    role: str
    address: str
    port: int
    user: str
    key: Path
    known_hosts: Path


class Host:
    """One host of a rig. Close it, or use it as a context manager."""

    def __init__(self, login: Login, base: str) -> None:
        self.login = login
        self.role = login.role
        self.base = base
        self._transport = self._connect()
        self._sftp: paramiko.SFTPClient | None = None

    def _connect(self) -> paramiko.Transport:
        try:
            link = socket.create_connection((self.login.address, self.login.port), timeout=COMMAND_LIMIT_S)
            link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            transport = paramiko.Transport(link)
            # paramiko looks ten times a second whether it was closed: over light times that is most of the work
            link.settimeout(None)
            with ExitStack() as undo:
                undo.callback(_hang_up, transport)
                self._log_in(transport)
                undo.pop_all()
        except (OSError, paramiko.SSHException) as problem:
            raise HostError(
                f"{self.role}: no SSH to {self.login.user}@{self.login.address}:{self.login.port}: {problem}"
            ) from problem
        return transport

    def _log_in(self, transport: paramiko.Transport) -> None:
        keys = paramiko.HostKeys(str(self.login.known_hosts))
        known = keys.lookup(f"[{self.login.address}]:{self.login.port}") or keys.lookup(self.login.address) or {}
        transport.start_client(timeout=COMMAND_LIMIT_S)
        shown = transport.get_remote_server_key()
        if known.get(shown.get_name()) != shown:
            raise HostError(
                f"{self.role}: {self.login.address} shows a key that {self.login.known_hosts} does not have"
            )
        transport.auth_publickey(self.login.user, paramiko.Ed25519Key.from_private_key_file(str(self.login.key)))

    def _session(self, command: str, *, terminal: bool = False) -> paramiko.Channel:
        try:
            channel = self._transport.open_session(timeout=COMMAND_LIMIT_S)
            if terminal:
                channel.get_pty(*TERMINAL)
            channel.exec_command(command)
        except (OSError, EOFError, paramiko.SSHException) as problem:
            raise HostError(f"{self.role}: the connection was lost before {command!r}: {problem}") from problem
        return channel

    def run(self, command: Sequence[str], deadline_s: float = COMMAND_LIMIT_S) -> Completed:
        """Run a short command to its end. Raises HostError past the deadline; an exit status is the caller's.

        Of each stream ANSWER_BYTES are read. A command that writes more finds nobody who reads on, and has the exit
        status FLOODED.
        """
        line = shlex.join(command)
        channel = self._session(f"exec {line} </dev/null")
        streams = {"out": bytearray(), "err": bytearray()}

        def drain(name: str, receive: Callable[[int], bytes]) -> None:
            while len(streams[name]) < ANSWER_BYTES and (chunk := receive(65536)):
                streams[name] += chunk
            if len(streams[name]) >= ANSWER_BYTES:
                channel.close()

        drains = [
            threading.Thread(target=drain, args=args, daemon=True)
            for args in (("out", channel.recv), ("err", channel.recv_stderr))
        ]
        for reading in drains:
            reading.start()
        ended = channel.status_event.wait(deadline_s)
        for reading in drains if ended else []:
            reading.join(deadline_s)
        channel.close()
        if any(len(stream) >= ANSWER_BYTES for stream in streams.values()):
            return Completed(FLOODED, bytes(streams["out"]), bytes(streams["err"]))
        if not ended:
            shown = line if len(line) <= SHOWN_CHARACTERS else f"{line[:SHOWN_CHARACTERS]}..."
            raise HostError(f"{self.role}: {shown!r} did not finish within {deadline_s:g} s")
        return Completed(channel.exit_status, bytes(streams["out"]), bytes(streams["err"]))

    def run_foreign(
        self, command: Sequence[str], deadline_s: float, room: Room | None = None, capabilities: Sequence[str] = ()
    ) -> Completed:
        """Run a command that is not ours to its end, or end it and all it started: exit status LATE past the deadline.

        What it leaves running ends with it. It has a process group of its own, so that it cannot stop timeout(1).
        """
        enclosed = confined(command, room or Room(self.base, ALONE, WITHOUT_A_RUN_BYTES), {}, capabilities)
        bounded = ["timeout", "--kill-after=2", f"{deadline_s:g}", "setsid", *enclosed]
        end_s = time.monotonic() + deadline_s
        done = self.run(bounded, deadline_s + COMMAND_LIMIT_S)
        was_killed = done.exit_status == BY_SIGNAL and time.monotonic() >= end_s  # timeout(1) kills itself as well
        return replace(done, exit_status=LATE) if was_killed else done

    def check(self, command: Sequence[str], deadline_s: float = COMMAND_LIMIT_S) -> bytes:
        """The output of a short command that has to succeed. Raises HostError with what it said if not."""
        done = self.run(command, deadline_s)
        if done.exit_status != 0:
            said = (done.stderr or done.stdout).decode(errors="replace").strip()
            raise HostError(f"{self.role}: {shlex.join(command)!r} {how_ended(done.exit_status)}: {said}")
        return done.stdout

    def start(
        self,
        command: Sequence[str],
        directory: str,
        logs: Path,
        news: threading.Condition | None = None,
        *,
        terminal: bool = False,
    ) -> Program:
        """Start a program in a directory on the host; its output goes to `logs`.out and `logs`.err here.

        Whoever waits for the first of several programs gives them one condition as `news`: it is notified when
        one writes or ends. sshd gives each command a session and process group of its own, led by the shell that
        becomes the program: the number it prints first is the handle. With a
        `terminal` it can be typed to, and its errors come among its output.
        """
        line = shlex.join(command) + ("" if terminal else " </dev/null")
        script = f"{GROUP_COMMAND}; cd {shlex.quote(directory)} && exec {line}"
        session = self._session(script, terminal=terminal)
        try:
            news = news or threading.Condition()
            return Program(self.role, session, logs, news, self._signal_group, self._stopped_in)
        except ConnectionError as problem:
            raise HostError(str(problem)) from problem

    def _signal_group(self, name: str, group: int) -> None:
        self.run(["kill", f"-{name}", "--", f"-{group}"])

    def _stopped_in(self, session: int) -> list[str]:
        """The names of the session's processes that a signal has stopped (proc_pid_stat(5))."""
        stopped = self.run(["sh", "-c", _STOPPED, "sh", str(session)]).stdout.decode(errors="replace")
        return stopped.splitlines()

    @property
    def files(self) -> paramiko.SFTPClient:
        """File transfer to and from the host."""
        if self._sftp is None:
            self._sftp = paramiko.SFTPClient.from_transport(self._transport)
            if self._sftp is None:
                raise HostError(f"{self.role}: no file transfer over SSH")
        return self._sftp

    def close(self) -> None:
        """End the connection."""
        _hang_up(self._transport)

    def __enter__(self) -> Host:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _hang_up(transport: paramiko.Transport) -> None:
    """End a connection at once: its reading thread waits without a limit, and is woken by the shutdown alone."""
    with suppress(OSError):
        transport.sock.shutdown(socket.SHUT_RDWR)
    transport.close()


def wait_until_listening(address: str, port: int, deadline_s: float) -> None:
    """Return once something accepts connections there. Raises HostError past the deadline."""
    end = time.monotonic() + deadline_s
    pause_s = 0.002
    while True:
        try:
            socket.create_connection((address, port), timeout=deadline_s).close()
            return
        except OSError as problem:
            if time.monotonic() > end:
                raise HostError(f"nothing listens on {address}:{port} after {deadline_s:g} s: {problem}") from problem
        time.sleep(pause_s)
        pause_s = min(2 * pause_s, 0.1)
