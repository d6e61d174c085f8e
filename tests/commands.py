"""The `owlt` command for tests. Most of its processes are forks of one that has imported it (`tests.command_server`):
they spend no time on imports, and none on the boot of a guest if that process keeps one prepared."""

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
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).parents[1]
OWLT = [sys.executable, "-c", "from owlt.orchestrator.commands.cli import main; main()"]
"""The command, also for a script in a guest: the installed program `owlt` names the interpreter by its place on the
machine, which can be hidden there."""
WITHOUT_PATIENCE = {"OWLT_PATIENCE_S": "0"}
"""In the environment: a sweep does not wait for a quiet machine, which tests share."""
LONGEST_MESSAGE = 1_000_000
"""Bytes."""


def owlt_program(
    *arguments: object, env: Mapping[str, str] | None = None, timeout_s: float = 300
) -> subprocess.CompletedProcess[str]:
    """The command as a user starts it, with these variables added to the environment: nothing in it is from earlier
    commands. Raises subprocess.TimeoutExpired."""
    command = [*OWLT, *map(str, arguments)]
    env = WITHOUT_PATIENCE | os.environ | dict(env or {})
    return subprocess.run(command, capture_output=True, text=True, timeout=timeout_s, check=False, cwd=PROJECT, env=env)


def owlt(
    *arguments: object, cwd: Path = PROJECT, timeout_s: float = 300, prepared: bool = False
) -> subprocess.CompletedProcess[str]:
    """The command, run to its end; `prepared` if it performs runs in guests, which are then copies of one that all such
    commands use. Raises subprocess.TimeoutExpired."""
    command = ["owlt", *map(str, arguments)]
    request = {
        "command": command,
        "cwd": str(cwd),
        "env": WITHOUT_PATIENCE | os.environ,
        "cpus": sorted(os.sched_getaffinity(0)),
    }
    with tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile("w+") as errors:
        status = _server(prepared).perform(request, [output.fileno(), errors.fileno()], timeout_s)
        output.seek(0)
        errors.seek(0)
        return subprocess.CompletedProcess(command, status, output.read(), errors.read())


class _Server:
    """The process that commands are forks of."""

    def __init__(self, prepared: bool) -> None:
        self._directory = tempfile.TemporaryDirectory(prefix="owlt-test-commands-", ignore_cleanup_errors=True)
        self._ours, theirs = socket.socketpair(type=socket.SOCK_SEQPACKET)
        with theirs:
            program = [sys.executable, "-m", "tests.command_server", str(theirs.fileno())]
            program += [self._directory.name] if prepared else []
            env = os.environ | {"OPENBLAS_NUM_THREADS": "1"}  # so that it has one thread when it forks
            self._process = subprocess.Popen(
                program, cwd=PROJECT, env=env, stdin=subprocess.DEVNULL, pass_fds=[theirs.fileno()]
            )
        atexit.register(self.end)

    def perform(self, request: dict[str, Any], files: list[int], timeout_s: float) -> int:
        """The exit status of a command. Its standard output and error are these files. If it does not end in time, or
        the test does not wait for it, it is killed, and its guests end with this server."""
        socket.send_fds(self._ours, [json.dumps(request).encode()], files)
        pid = 0
        try:
            pid = self._number(None)
            return self._number(timeout_s)
        except BaseException as problem:
            for process in filter(None, (pid, self._process.pid)):
                with suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)
            _server.cache_clear()
            self.end()
            if isinstance(problem, TimeoutError):
                raise subprocess.TimeoutExpired(request["command"], timeout_s) from None
            raise

    def _number(self, limit_s: float | None) -> int:
        self._ours.settimeout(limit_s)
        message = self._ours.recv(LONGEST_MESSAGE)
        assert message, "the process that performs commands has ended"
        return int(message)

    def end(self) -> None:
        self._ours.close()
        self._process.wait()
        self._directory.cleanup()


_server = cache(_Server)
