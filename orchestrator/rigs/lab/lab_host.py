"""A host of a lab rig as root, in its session: an sshd of the session's own, spoken to through the management login."""

from __future__ import annotations

import itertools
import shlex
import threading
from collections.abc import Sequence
from pathlib import Path

import paramiko

from owlt.orchestrator.hosts.host import COMMAND_LIMIT_S, HostError
from owlt.orchestrator.hosts.program import Program
from owlt.orchestrator.hosts.ssh_host import Login
from owlt.orchestrator.rigs.lab.followed import FollowedSession
from owlt.orchestrator.rigs.lab.management import ManagementHost
from owlt.orchestrator.rigs.lab.reconnecting import ReconnectingHost
from owlt.orchestrator.rigs.lab.session import CLOSED_STATUS, ON_HOST

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
            return Program(
                self.role, session, logs, news or threading.Condition(), self._signal_group, self._stopped_in
            )
        except ConnectionError as problem:
            raise HostError(str(problem)) from problem


class SessionEnded(HostError):
    """The session is over: its lease has ended, or the host was started again."""
