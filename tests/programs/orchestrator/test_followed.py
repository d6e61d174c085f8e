"""A program whose output is followed in files: its end and its output arrive, also when a connection is lost."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from io import BufferedReader, BufferedWriter
from pathlib import Path
from typing import cast

import paramiko
import pytest

from owlt.orchestrator.rigs.lab.session import FollowedSession

LIMIT_S = 20


class LocalChannel:
    """A shell line on this machine, as paramiko's channel shows one. One that is `lost` runs; no answer arrives."""

    def __init__(self, line: str, lost: bool = False) -> None:
        self._process = subprocess.Popen(
            ["sh", "-c", line], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        if lost:
            cast(BufferedWriter, self._process.stdin).close()
        self.exit_status = -1
        self.status_event = threading.Event()
        self._lost = lost
        threading.Thread(target=self._wait, daemon=True).start()

    def _wait(self) -> None:
        status = self._process.wait()
        self.exit_status = -1 if self._lost else status
        self.status_event.set()

    def recv(self, nbytes: int) -> bytes:
        assert self._process.stdout is not None
        data: bytes = cast(BufferedReader, self._process.stdout).read1(nbytes)
        return b"" if self._lost else data

    def recv_stderr(self, nbytes: int) -> bytes:
        assert self._process.stderr is not None
        return cast(BufferedReader, self._process.stderr).read1(nbytes)

    def makefile(self) -> LocalChannel:
        return self

    def read(self) -> bytes:
        data = b""
        while chunk := self.recv(65536):
            data += chunk
        self.status_event.wait(LIMIT_S)
        return data

    def readline(self) -> str:
        line: bytes = cast(BufferedReader, self._process.stdout).readline()
        return "" if self._lost else line.decode()

    def sendall(self, data: bytes) -> None:
        writer = cast(BufferedWriter, self._process.stdin)
        writer.write(data)
        writer.flush()

    def settimeout(self, timeout: float | None) -> None:
        """It ends soon."""

    def exit_status_ready(self) -> bool:
        return self.status_event.is_set()

    def close(self) -> None:
        """It ends by itself."""

    def end(self) -> None:
        """Wait for its end."""
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        cast(BufferedWriter, self._process.stdin).close()
        assert self.status_event.wait(LIMIT_S)
        self._process.stdout.close()
        self._process.stderr.close()


class Network:
    """Opens channels; the `losses` first of those that read how a program ended are lost."""

    def __init__(self, losses: int) -> None:
        self._losses = losses
        self.channels: list[LocalChannel] = []

    def open(self, line: str) -> paramiko.Channel:
        is_lost = "/status" in line and "setsid" not in line and self._losses > 0
        self._losses -= is_lost
        self.channels.append(LocalChannel(line, is_lost))
        return cast(paramiko.Channel, self.channels[-1])


@pytest.mark.parametrize("losses", [0, 1, 3])
def test_the_end_of_a_program_arrives_although_connections_are_lost_while_it_is_read(
    losses: int, tmp_path: Path
) -> None:
    status, output = followed("echo sent; exit 7", tmp_path / "logs", losses)

    assert (status, output.splitlines()[-1]) == (7, b"sent")


def followed(program: str, logs: Path, losses: int = 0) -> tuple[int, bytes]:
    """Exit status and output of a program that was followed to its end."""
    network = Network(losses)
    session = FollowedSession(network.open, str(logs), "/", ["sh", "-c", program])
    output = b""
    while chunk := session.recv(65536):
        output += chunk
    while session.recv_stderr(65536):
        pass
    assert session.status_event.wait(LIMIT_S)
    assert is_removed(logs)
    for channel in network.channels:
        channel.end()
    return session.exit_status, output


def is_removed(logs: Path) -> bool:
    end_s = time.monotonic() + LIMIT_S
    while logs.exists() and time.monotonic() < end_s:
        time.sleep(0.01)
    return not logs.exists()


def test_without_an_exit_status_on_the_host_the_end_is_like_that_by_a_signal(tmp_path: Path) -> None:
    """A full disk leaves an empty file."""
    logs = tmp_path / "logs"

    assert followed(f"ln -s /dev/null {logs}/status.new", logs)[0] == -1


def test_a_program_whose_supervising_shell_was_killed_has_ended(tmp_path: Path) -> None:
    assert followed("kill -KILL $PPID", tmp_path / "logs")[0] == -1


def test_a_daemon_that_keeps_the_output_open_does_not_delay_the_end(tmp_path: Path) -> None:
    pid = tmp_path / "pid"

    status, _ = followed(f"setsid sleep 600 & echo $! >{pid}; exit 3", tmp_path / "logs")

    os.kill(int(pid.read_text()), signal.SIGKILL)  # it is still there
    assert status == 3
