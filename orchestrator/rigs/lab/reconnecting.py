"""A host over SSH whose connection is made again when it was lost, for as long as the host's lease lasts."""

from __future__ import annotations

import logging
import threading
import time

import paramiko

from owlt.orchestrator.hosts.host import HostError
from owlt.orchestrator.hosts.ssh_host import SshHost

# paramiko logs a traceback for each lost connection; what the user needs of it is in a HostError
logging.getLogger("paramiko").setLevel(logging.CRITICAL)

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
