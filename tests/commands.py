"""The `owlt` command for tests: a process of its own, but a fork of one that has imported it (`tests.command_server`),
and that keeps a guest prepared, so that a command spends no time on imports, nor on the boot of a guest."""

from __future__ import annotations

import atexit
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).parents[1]
LONGEST_MESSAGE = 1_000_000
"""Bytes."""


def owlt(
    *arguments: object,
    cwd: Path = PROJECT,
    env: Mapping[str, str] | None = None,
    timeout_s: float = 300,
    prepared: bool = False,
) -> subprocess.CompletedProcess[str]:
    """The command, run to its end, with these variables added to the environment; `prepared` if it performs runs in
    guests, which are then copies of one that all such commands use.

    Tests share the machine, so that it does not wait for a quiet one. Raises subprocess.TimeoutExpired.
    """
    command = ["owlt", *map(str, arguments)]
    request = {"command": command, "cwd": str(cwd), "env": {"OWLT_PATIENCE_S": "0"} | os.environ | dict(env or {})}
    with tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile("w+") as errors:
        status = _server(prepared).perform(request, [output.fileno(), errors.fileno()], timeout_s)
        output.seek(0)
        errors.seek(0)
        return subprocess.CompletedProcess(command, status, output.read(), errors.read())


class _Server:
    """The process that commands are forks of."""

    def __init__(self, *options: str) -> None:
        self._ours, theirs = socket.socketpair(type=socket.SOCK_SEQPACKET)
        with theirs:
            program = [sys.executable, "-m", "tests.command_server", str(theirs.fileno()), *options]
            env = os.environ | {"OPENBLAS_NUM_THREADS": "1"}  # a fork has only one thread
            self._process = subprocess.Popen(
                program, cwd=PROJECT, env=env, stdin=subprocess.DEVNULL, pass_fds=[theirs.fileno()]
            )

    def perform(self, request: dict[str, Any], files: list[int], timeout_s: float) -> int:
        """The exit status of a command. Its standard output and error are these files."""
        socket.send_fds(self._ours, [json.dumps(request).encode()], files)
        pid = self._number(None)
        try:
            return self._number(timeout_s)
        except TimeoutError:
            os.kill(pid, signal.SIGKILL)
            self._number(None)
            raise subprocess.TimeoutExpired(request["command"], timeout_s) from None

    def _number(self, limit_s: float | None) -> int:
        self._ours.settimeout(limit_s)
        message = self._ours.recv(LONGEST_MESSAGE)
        assert message, "the process that performs commands has ended"
        return int(message)

    def end(self) -> None:
        self._ours.close()
        self._process.wait()


@cache
def _server(prepared: bool) -> _Server:
    server = _Server(*(["--prepared"] if prepared else []))
    atexit.register(server.end)
    return server
