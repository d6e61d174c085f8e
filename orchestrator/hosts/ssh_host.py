"""A host of the rig, over SSH. Deciding what to run belongs to `orchestrator.run`."""

from __future__ import annotations

import shlex
import socket
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

import paramiko

from owlt.orchestrator.hosts.confinement import Confinement, confined, without_a_run
from owlt.orchestrator.hosts.host import (
    ANSWER_BYTES,
    COMMAND_LIMIT_S,
    FLOODED,
    LATE,
    Completed,
    Host,
    HostError,
)
from owlt.orchestrator.hosts.printable import BY_SIGNAL
from owlt.orchestrator.hosts.program import GROUP_COMMAND, Program

SHOWN_CHARACTERS = 200

TERMINAL = ("dumb", 500, 50)
"""The terminal of a program with a dialogue: kind, columns, lines. No line of a dialogue is longer."""

_STOPPED = r"cat /proc/[0-9]*/stat 2>/dev/null | sed -nE 's/^[0-9]+ \((.*)\) T [0-9]+ [0-9]+ '$1' .*/\1/p'"


@dataclass(frozen=True)
class Login:
    """How to reach a host; the user's own SSH configuration is not used."""

    role: str
    address: str
    port: int
    user: str
    key: Path
    known_hosts: Path


class SshHost(Host):
    """One host of a rig, over SSH. Close it, or use it as a context manager."""

    def __init__(self, login: Login, base: str) -> None:
        self.login = login
        self.role = login.role
        self.base = base
        self._transport = self._connect()
        self._sftp: paramiko.SFTPClient | None = None

    def _connect(self) -> paramiko.Transport:
        try:
            link = self._dial()
            transport = paramiko.Transport(link)
            # paramiko looks ten times a second whether it was closed: most of the work on long delays
            link.settimeout(None)
            with ExitStack() as undo:
                undo.callback(hang_up, transport)
                self._log_in(transport)
                undo.pop_all()
        except (OSError, EOFError, paramiko.SSHException) as problem:
            reason = str(problem) or "the other side ended the connection"
            raise HostError(
                f"{self.role}: no SSH to {self.login.user}@{self.login.address}:{self.login.port}: {reason}"
            ) from problem
        return transport

    def _dial(self) -> socket.socket | paramiko.Channel:
        """The connection that SSH is spoken on."""
        link = socket.create_connection((self.login.address, self.login.port), timeout=COMMAND_LIMIT_S)
        link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return link

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
        self,
        command: Sequence[str],
        deadline_s: float,
        confinement: Confinement | None = None,
        directory: str | None = None,
    ) -> Completed:
        if directory is not None:
            command = ["sh", "-c", 'cd "$0" && exec "$@"', directory, *command]
        enclosed = confined(command, confinement or without_a_run(self.base))
        bounded = ["timeout", "--kill-after=2", f"{deadline_s:g}", "setsid", *enclosed]
        end_s = time.monotonic() + deadline_s
        done = self.run(bounded, deadline_s + COMMAND_LIMIT_S)
        was_killed = done.exit_status == BY_SIGNAL and time.monotonic() >= end_s  # timeout(1) kills itself as well
        return replace(done, exit_status=LATE) if was_killed else done

    def start(
        self,
        command: Sequence[str],
        directory: str,
        logs: Path,
        news: threading.Condition | None = None,
        *,
        terminal: bool = False,
    ) -> Program:
        """Start a program, led by the shell that becomes it.

        sshd gives each command a session and process group of its own: the number that the shell prints first is the
        handle.
        """
        line = shlex.join(command) + ("" if terminal else " </dev/null")
        script = f"{GROUP_COMMAND}; cd {shlex.quote(directory)} && exec {line}"
        session = self._session(script, terminal=terminal)
        try:
            news = news or threading.Condition()
            return Program(self.role, session, logs, news, self._signal_group, self._stopped_in)
        except ConnectionError as problem:
            raise HostError(str(problem)) from problem

    def start_foreign(
        self,
        command: Sequence[str],
        directory: str,
        logs: Path,
        news: threading.Condition,
        confinement: Confinement,
        *,
        terminal: bool = False,
    ) -> Program:
        return self.start(confined(command, confinement), directory, logs, news, terminal=terminal)

    def _signal_group(self, name: str, group: int) -> None:
        self.run(["kill", f"-{name}", "--", f"-{group}"])

    def _stopped_in(self, session: int) -> list[str]:
        """The names of the session's processes that a signal has stopped (proc_pid_stat(5))."""
        stopped = self.run(["sh", "-c", _STOPPED, "sh", str(session)]).stdout.decode(errors="replace")
        return stopped.splitlines()

    def write_file(self, path: str, content: bytes) -> None:
        with self._files.open(path, "wb") as file:
            file.set_pipelined(True)
            file.write(content)

    def read_file(self, path: str, most_bytes: int) -> bytes:
        with self._files.open(path, "rb") as file:
            file.prefetch(min(file.stat().st_size or 0, most_bytes))
            return bytes(file.read(most_bytes))

    def fetch_file(self, path: str, target: Path) -> None:
        self._files.get(path, str(target))

    @property
    def _files(self) -> paramiko.SFTPClient:
        if self._sftp is None:
            self._sftp = paramiko.SFTPClient.from_transport(self._transport)
            if self._sftp is None:
                raise HostError(f"{self.role}: no file transfer over SSH")
        return self._sftp

    def close(self) -> None:
        """End the connection."""
        hang_up(self._transport)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def hang_up(transport: paramiko.Transport) -> None:
    """End a connection at once: only the shutdown wakes its reading thread, which waits without a limit."""
    with suppress(OSError):
        transport.sock.shutdown(socket.SHUT_RDWR)
    transport.close()
