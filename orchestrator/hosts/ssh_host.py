"""A host of the rig, over SSH. Deciding what to run belongs to `orchestrator.run`."""

from __future__ import annotations

import shlex
import socket
import threading
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import paramiko

from owlt.orchestrator.hosts.host import COMMAND_LIMIT_S, TERMINAL, HostError, SessionHost
from owlt.orchestrator.hosts.program import GROUP_COMMAND, Program, read_group


@dataclass(frozen=True)
class Login:
    """How to reach a host; the user's own SSH configuration is not used."""

    role: str
    address: str
    port: int
    user: str
    key: Path
    known_hosts: Path


class SshHost(SessionHost):
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
                f"{self.role}: {self.login.address} presented a host key that is not in {self.login.known_hosts}"
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

    def _begin(self, command: Sequence[str]) -> paramiko.Channel:
        return self._session(f"exec {shlex.join(command)} </dev/null")

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
            group = read_group(self.role, session)
        except ConnectionError as problem:
            raise HostError(str(problem)) from problem
        news = news or threading.Condition()
        return Program(group, session, logs, news, self._signal_group, self._stopped_in)

    def _signal_group(self, name: str, group: int) -> None:
        self.run(["kill", f"-{name}", "--", f"-{group}"])

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
