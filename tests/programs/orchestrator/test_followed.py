"""A program whose output is followed in files: its end and its output arrive, also when connections are lost."""

from __future__ import annotations

import os
import re
import subprocess
import threading
from io import BufferedReader
from pathlib import Path
from typing import IO, cast

import paramiko
import pytest

from orchestrator.hosts.host import HostError
from orchestrator.rigs.lab.followed import SENT_BYTES, FollowedSession

LIMIT_S = 20
ARRIVING_BYTES = 3
"""Of each stream over a connection that is lost."""


class LocalChannel:
    """A shell line on this machine, as paramiko's channel shows one. Of one that is `lost` only a beginning arrives."""

    def __init__(self, line: str, lost: bool = False) -> None:
        self._process = subprocess.Popen(
            ["sh", "-c", line], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        self.exit_status = -1
        self.status_event = threading.Event()
        self._lost = lost
        self._arrived = {"out": 0, "err": 0}
        threading.Thread(target=self._wait, daemon=True).start()

    def _wait(self) -> None:
        status = self._process.wait()
        self.exit_status = -1 if self._lost else status
        self.status_event.set()

    def recv(self, nbytes: int) -> bytes:
        return self._received("out", self._process.stdout, nbytes)

    def recv_stderr(self, nbytes: int) -> bytes:
        return self._received("err", self._process.stderr, nbytes)

    def _received(self, name: str, stream: IO[bytes] | None, nbytes: int) -> bytes:
        allowed = min(nbytes, ARRIVING_BYTES - self._arrived[name]) if self._lost else nbytes
        data: bytes = cast(BufferedReader, stream).read1(allowed) if allowed else b""
        self._arrived[name] += len(data)
        return data

    def makefile(self) -> IO[bytes]:
        assert self._process.stdout is not None
        return self._process.stdout

    def settimeout(self, timeout: float | None) -> None:
        """It ends soon."""

    def close(self) -> None:
        """It ends by itself."""

    def end(self) -> None:
        """Wait for its end."""
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        self.status_event.wait(LIMIT_S)
        self._process.stdout.close()
        self._process.stderr.close()


class Network:
    """Opens channels, of which the first few are lost; with `is_cut` none can be opened after those."""

    def __init__(self, losses: int, is_cut: bool = False) -> None:
        self._losses = losses
        self._is_cut = is_cut
        self._others = threading.enumerate()
        self.channels: list[LocalChannel] = []

    def open(self, line: str) -> paramiko.Channel:
        is_lost = len(self.channels) < self._losses
        if self._is_cut and not is_lost:
            raise HostError("the host cannot be reached")
        self.channels.append(LocalChannel(line, is_lost))
        return cast(paramiko.Channel, self.channels[-1])

    def end(self) -> None:
        """Wait for the end of what goes on beside a test, such as the removal of logs."""
        for thread in threading.enumerate():
            if thread not in self._others:
                thread.join(LIMIT_S)
        for channel in self.channels:
            channel.end()


def followed(network: Network, logs: Path, *command: str, directory: str = "/") -> FollowedSession:
    return FollowedSession(network.open, str(logs), directory, command)


def read(session: FollowedSession, network: Network) -> tuple[bytes, bytes]:
    """All output and errors, without the line with the process group, if there is one; waits for the end."""
    errors = bytearray()

    def read_errors() -> None:
        while chunk := session.recv_stderr(65536):
            errors.extend(chunk)

    reading = threading.Thread(target=read_errors)
    reading.start()
    output = b""
    while chunk := session.recv(65536):
        output += chunk
    reading.join(LIMIT_S)
    network.end()
    return re.sub(rb"^owlt-group \d+\n", b"", output), bytes(errors)


@pytest.mark.parametrize("losses", [0, 1, 2, 5])
def test_output_and_end_arrive_once_although_connections_are_lost(losses: int, tmp_path: Path) -> None:
    network = Network(losses)
    session = followed(network, tmp_path / "logs", "sh", "-c", "echo sent; echo not received >&2; exit 7")

    assert read(session, network) == (b"sent\n", b"not received\n")
    assert session.exit_status == 7


def test_output_arrives_while_the_program_runs(tmp_path: Path) -> None:
    network = Network(0)
    os.mkfifo(tmp_path / "end")
    session = followed(network, tmp_path / "logs", "sh", "-c", f"echo sent; read _ <{tmp_path}/end")
    output = b""
    while b"sent" not in output:
        output += session.recv(65536)
    was_running = not session.exit_status_ready()
    (tmp_path / "end").write_text("\n")
    read(session, network)

    assert was_running


@pytest.mark.parametrize("status", [0, 1, 254, 255])
def test_every_exit_status_is_known_from_that_of_a_lost_connection(status: int, tmp_path: Path) -> None:
    network = Network(0)
    session = followed(network, tmp_path / "logs", "sh", "-c", f"exit {status}")
    read(session, network)

    assert session.exit_status == status


def test_a_program_that_a_signal_ended_has_the_status_of_a_shell(tmp_path: Path) -> None:
    network = Network(0)
    session = followed(network, tmp_path / "logs", "sh", "-c", "kill -TERM $$")
    read(session, network)

    assert session.exit_status == 128 + 15


def test_a_host_that_cannot_be_reached_any_more_ends_the_session_without_a_status(tmp_path: Path) -> None:
    network = Network(1, is_cut=True)
    session = followed(network, tmp_path / "logs", "sh", "-c", "echo sent; exit 7")
    read(session, network)

    assert session.exit_status == -1


def test_a_directory_that_does_not_exist_is_an_error_of_the_program(tmp_path: Path) -> None:
    network = Network(0)
    session = followed(network, tmp_path / "logs", "true", directory="/no/such/place")
    _, errors = read(session, network)

    assert b"/no/such/place" in errors
    assert session.exit_status == 1


def test_logs_that_cannot_be_made_end_the_session_with_the_reason(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    network = Network(0)
    session = followed(network, tmp_path / "file" / "logs", "true")
    output, _ = read(session, network)

    assert b"Not a directory" in output
    assert session.exit_status == 1


def test_nothing_is_left_on_the_host_once_the_output_was_read(tmp_path: Path) -> None:
    network = Network(0)
    session = followed(network, tmp_path / "logs", "echo", "sent")
    read(session, network)

    assert not (tmp_path / "logs").exists()


def test_a_program_whose_output_nobody_reads_any_more_has_an_end(tmp_path: Path) -> None:
    network = Network(0)
    session = followed(network, tmp_path / "logs", "sh", "-c", f"head -c {2 * SENT_BYTES} /dev/zero; exit 3")
    received_bytes = 0
    while chunk := session.recv(65536):
        received_bytes += len(chunk)
    while session.recv_stderr(65536):
        pass
    network.end()

    assert received_bytes == SENT_BYTES
    assert session.exit_status == 3
