"""SSH to the hosts of a lab rig: commands, files, and the login over the management network, with a pinned host key, a
jump host if there is one, and dead peers noticed. Deciding what to run belongs to `orchestrator.run`.

A connection that was lost is made again, for as long as the lease of the host's session lasts.
"""

from __future__ import annotations

import base64
import logging
import shlex
import socket
import threading
import time
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import paramiko

from owlt.orchestrator.hosts.host import COMMAND_LIMIT_S, TERMINAL, Completed, HostError, SessionHost
from owlt.orchestrator.hosts.program import GROUP_COMMAND, Program, read_group
from owlt.orchestrator.profiles.inventory import LabHostEntry, login_parts

# paramiko logs a traceback for each lost connection; what the user needs of it is in a HostError
logging.getLogger("paramiko").setLevel(logging.CRITICAL)


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


RETRY_S = 1.0


class OtherHostKey(HostError):
    """The host shows another key than the pinned one."""


class ReconnectingHost(SshHost):
    """Commands that begin after the connection was lost have a new one; one that it was lost under fails."""

    reconnected_at_ns: tuple[int, ...] = ()
    """When each new connection was made, in ns since 1970 by this machine's clock."""

    reconnect_s: float
    """How long a new connection is tried: the lease of the host's session."""

    def _session(self, command: str, *, terminal: bool = False) -> paramiko.Channel:
        self.require_connection()
        try:
            return super()._session(command, terminal=terminal)
        except HostError:
            if self._transport.is_active():
                raise
        self.require_connection()
        return super()._session(command, terminal=terminal)

    def require_connection(self) -> None:
        """Connect again if the connection was lost. Raises HostError if that fails for `reconnect_s`."""
        with self._lock:
            if self._transport.is_active():
                return
            self.close()
            self._sftp = None
            began_s = time.monotonic()
            while True:
                try:
                    self._transport = self._connect()
                    self.reconnected_at_ns += (time.time_ns(),)
                    return
                except HostError as problem:
                    # who takes the rig down does not wait: `reconnect_s` is 0 then
                    if time.monotonic() > began_s + self.reconnect_s or self.is_final(problem):
                        raise
                time.sleep(RETRY_S)

    def is_final(self, problem: HostError) -> bool:
        """Whether a further attempt to connect cannot succeed."""
        return isinstance(problem, OtherHostKey)

    @property
    def _lock(self) -> threading.Lock:
        # made with the first connection, which `SshHost.__init__` makes
        lock: threading.Lock = self.__dict__.setdefault("_reconnecting", threading.Lock())
        return lock


KEEPALIVE_S = 5
"""A silent peer is asked so often, and given up after three times without an answer (tcp(7))."""
KEEPALIVES = 3
_ALGORITHMS = {"ssh-rsa": ["rsa-sha2-512", "rsa-sha2-256"]}
"""How keys of a type sign, where that is not the type's name (RFC 8332)."""


class ManagementHost(ReconnectingHost):
    """A host as its login user. `base` is of no use: the user has no directory of the rig."""

    def __init__(self, entry: LabHostEntry) -> None:
        self.entry = entry
        self.reconnect_s = entry.lease_s
        login = Login(entry.role, entry.address, entry.port, entry.user, entry.key, Path())
        super().__init__(login, "")

    def run_with_input(self, command: Sequence[str], text: bytes) -> Completed:
        """Run a short command to its end with `text` as its input."""
        channel = self._session(f"exec {shlex.join(command)}")
        try:
            channel.settimeout(COMMAND_LIMIT_S)
            channel.sendall(text)
            channel.shutdown_write()
            output, errors = channel.makefile().read(), channel.makefile_stderr().read()
            if not channel.status_event.wait(COMMAND_LIMIT_S):
                raise TimeoutError(f"no end within {COMMAND_LIMIT_S:g} s")
        except OSError as problem:
            raise HostError(f"{self.entry.name}: {shlex.join(command)!r}: {problem}") from problem
        finally:
            channel.close()
        return Completed(channel.exit_status, output, errors)

    def _dial(self) -> socket.socket | paramiko.Channel:
        if self.entry.jump is None:
            return _connection(self.entry.address, self.entry.port)
        user, address, port = login_parts(self.entry.jump)
        with ExitStack() as undo:
            transport = paramiko.Transport(_connection(address, port))
            undo.callback(transport.close)
            _log_in(transport, f"{address}:{port}", user, str(self.entry.jump_host_key), self.entry.key)
            channel = transport.open_channel(
                "direct-tcpip", (self.entry.address, self.entry.port), ("127.0.0.1", 0), timeout=COMMAND_LIMIT_S
            )
            undo.pop_all()
        return channel

    def _connect(self) -> paramiko.Transport:
        transport = super()._connect()
        if self.entry.jump is not None:
            threading.Thread(target=_close_if_silent, args=(transport,), daemon=True).start()
        return transport

    def close(self) -> None:
        """End the connection, and the one to the jump host that it goes through."""
        link = self._transport.sock
        super().close()
        if isinstance(link, paramiko.Channel):
            link.get_transport().close()

    def _log_in(self, transport: paramiko.Transport) -> None:
        place = f"{self.entry.name} ({self.entry.address}:{self.entry.port})"
        _log_in(transport, place, self.entry.user, self.entry.host_key, self.entry.key)


def _connection(address: str, port: int) -> socket.socket:
    """A TCP connection that ends with an error if the peer is silent for about a quarter of a minute."""
    link = socket.create_connection((address, port), timeout=COMMAND_LIMIT_S / 4)
    link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    link.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    link.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, KEEPALIVE_S)
    link.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, KEEPALIVE_S)
    link.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, KEEPALIVES)
    link.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, KEEPALIVE_S * KEEPALIVES * 1000)
    return link


def _close_if_silent(transport: paramiko.Transport) -> None:
    """Close a connection through a jump host when the host behind it is silent: TCP's own keepalive (`_connection`)
    reaches the jump host only, and paramiko's (`set_keepalive`) asks for no answer.
    """
    while transport.is_active():
        time.sleep(KEEPALIVE_S)
        closing = threading.Timer(KEEPALIVE_S * (KEEPALIVES - 1), hang_up, (transport,))
        closing.start()
        with suppress(OSError, EOFError, paramiko.SSHException):
            transport.global_request("keepalive@openssh.com", wait=True)
        closing.cancel()


def _log_in(transport: paramiko.Transport, place: str, user: str, pinned: str, key_file: Path) -> None:
    """Log in with a key, if the host shows the pinned one. Raises HostError."""
    kind, text = pinned.split()[:2]
    transport.get_security_options().key_types = tuple(_ALGORITHMS.get(kind, [kind]))
    try:
        transport.start_client(timeout=COMMAND_LIMIT_S)
    except paramiko.SSHException as problem:
        raise HostError(f"{place}: no SSH with a host key of type {kind}: {problem}") from problem
    if transport.get_remote_server_key().asbytes() != base64.b64decode(text):
        raise OtherHostKey(
            f"{place} presented a host key other than owlt_host_key in the inventory; if the host was reinstalled, "
            "compare the key on its console and enter the new one"
        )
    try:
        transport.auth_publickey(user, _private_key(key_file))
    except paramiko.AuthenticationException as problem:
        raise HostError(
            f"{place} does not admit {user} with the key {key_file}: append {key_file}.pub to "
            f"~{user}/.ssh/authorized_keys there"
        ) from problem


def _private_key(path: Path) -> paramiko.PKey:
    try:
        return paramiko.PKey.from_path(path)
    except FileNotFoundError:
        raise HostError(f"there is no key {path}: make one with ssh-keygen -t ed25519 -N '' -f {path}") from None
    except (OSError, ValueError, TypeError, paramiko.SSHException) as problem:
        raise HostError(f"the key {path} cannot be used: {problem}; expected one without a passphrase") from problem
