"""What a host over SSH says of a connection that is none."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from owlt.orchestrator.hosts.host import HostError
from owlt.orchestrator.rigs.lab.ssh_hosts import Login, SshHost


class EndsAtOnce(SshHost):
    """A host whose sshd ends before it is spoken to, as that of a session whose lease is over."""

    def _dial(self) -> socket.socket:
        here, there = socket.socketpair()
        there.close()
        return here


def test_a_connection_that_ends_before_anything_was_said_is_an_error_of_the_host(tmp_path: Path) -> None:
    login = Login("receiver", "192.0.2.1", 22, "root", tmp_path / "key", tmp_path / "known_hosts")
    login.known_hosts.touch()

    with pytest.raises(HostError, match=r"receiver: no SSH to root@192\.0\.2\.1:22: "):
        EndsAtOnce(login, "/owlt")
