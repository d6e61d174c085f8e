"""How long a host of a lab rig that is out of reach is tried."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import paramiko
import pytest

from owlt.orchestrator.hosts.host import HostError
from owlt.orchestrator.rigs.lab.ssh_hosts import Login, ManagementHost, OtherHostKey, ReconnectingHost
from tests.unit.orchestrator.test_inventory import SENDER, rack1, with_host


class LostTransport:
    """A connection that was lost."""

    def __init__(self) -> None:
        self.sock: object = self

    def is_active(self) -> bool:
        return False

    def shutdown(self, how: int) -> None:
        raise OSError(how)

    def close(self) -> None:
        pass


class Jump(LostTransport):
    """A connection to a jump host."""

    is_closed = False

    def _send_user_message(self, message: paramiko.Message) -> None:
        assert not self.is_closed, message

    def close(self) -> None:
        self.is_closed = True


class BehindJump(ManagementHost):
    """A host behind a jump host, that is out of reach once its first connection was lost."""

    jumps: tuple[Jump, ...] = ()

    def _connect(self) -> paramiko.Transport:
        if self.jumps:
            raise OtherHostKey("another key")
        channel, jump, transport = paramiko.Channel(1), Jump(), LostTransport()
        channel.transport = jump
        transport.sock = channel
        self.jumps += (jump,)
        return cast(paramiko.Transport, transport)


class LostHost(ReconnectingHost):
    """A host whose connection was lost, and that fails at each further attempt in the same way."""

    def __init__(self, problem: HostError, reconnect_s: float, reconnect_s_after_one: float) -> None:
        self.attempts = 0
        self.reconnect_s = reconnect_s
        self._problem = problem
        self._reconnect_s_after_one = reconnect_s_after_one
        super().__init__(Login("sender", "192.0.2.1", 22, "root", Path(), Path()), "")

    def _connect(self) -> paramiko.Transport:
        self.attempts += 1
        if self.attempts == 1:  # that of the constructor
            return cast(paramiko.Transport, LostTransport())
        self.reconnect_s = self._reconnect_s_after_one
        raise self._problem


def test_attempts_end_when_the_rig_is_taken_down() -> None:
    host = LostHost(HostError("no route"), reconnect_s=3600, reconnect_s_after_one=0)

    with pytest.raises(HostError, match="no route"):
        host.require_connection()
    assert host.attempts == 2


def test_another_host_key_ends_the_attempts() -> None:
    host = LostHost(OtherHostKey("another key"), reconnect_s=3600, reconnect_s_after_one=3600)

    with pytest.raises(OtherHostKey):
        host.require_connection()
    assert host.attempts == 2


def test_the_connection_to_a_jump_host_ends_with_the_one_that_goes_through_it(tmp_path: Path) -> None:
    host = BehindJump(rack1(tmp_path, with_host(SENDER)).sender)
    (jump,) = host.jumps

    with pytest.raises(OtherHostKey):
        host.require_connection()
    assert jump.is_closed
