"""A host of a namespace rig: over SSH, except for what this machine can do to its files and processes directly."""

from __future__ import annotations

import hashlib
import os
import shutil
import signal
from collections.abc import Callable
from concurrent.futures import BrokenExecutor
from contextlib import suppress
from pathlib import Path
from typing import ParamSpec, TypeVar

from orchestrator.hosts import run_directory
from orchestrator.hosts.file_status import FileStatus, statuses_here
from orchestrator.hosts.host import COMMAND_LIMIT_S, HostError
from orchestrator.hosts.mount_namespace import MountNamespace
from orchestrator.hosts.ssh_host import Login, SshHost

COPIED_BYTES = 1 << 20
WRITING = os.O_WRONLY | os.O_CREAT | os.O_TRUNC

Given = ParamSpec("Given")
Result = TypeVar("Result")


class NearHost(SshHost):
    """A host on the kernel that this runs on.

    Its files are reached as it sees them, in its mount namespace, and signals go to processes directly: each command
    over SSH starts processes, which would be a large part of the cost of a run.
    """

    def __init__(self, login: Login, base: str, sshd_pid: int) -> None:
        """Raises HostError as SshHost does."""
        super().__init__(login, base)
        self._mounts = MountNamespace(sshd_pid)

    def make_directory(self, path: str) -> None:
        self._here(os.makedirs, path, exist_ok=True)

    def remove(self, path: str) -> None:
        self._here(shutil.rmtree, path, ignore_errors=True)

    def make_run_directory(self, path: str, size_bytes: int) -> None:
        self._here(run_directory.make_here, path, size_bytes)

    def remove_run_directory(self, path: str) -> None:
        self._here(run_directory.remove_here, path)

    def statuses(self, *paths: str) -> list[FileStatus] | None:
        with suppress(OSError):
            return self._mounts.call(statuses_here, paths)
        return None

    def write_file(self, path: str, content: bytes) -> None:
        with os.fdopen(self._opened(path, WRITING), "wb") as file:
            file.write(content)

    def read_file(self, path: str, most_bytes: int) -> bytes:
        with os.fdopen(self._opened(path, os.O_RDONLY), "rb") as file:
            return file.read(most_bytes)

    def fetch_file(self, path: str, target: Path) -> None:
        with os.fdopen(self._opened(path, os.O_RDONLY), "rb") as source, target.open("wb") as copy:
            shutil.copyfileobj(source, copy, COPIED_BYTES)

    def sha256(self, path: str, deadline_s: float = COMMAND_LIMIT_S) -> str | None:
        try:
            with os.fdopen(self._opened(path, os.O_RDONLY), "rb") as file:
                return hashlib.file_digest(file, "sha256").hexdigest()
        except OSError:
            return None

    def close(self) -> None:
        super().close()
        self._mounts.close()

    def _signal_group(self, name: str, group: int) -> None:
        with suppress(ProcessLookupError):
            os.killpg(group, signal.Signals[f"SIG{name}"])

    def _opened(self, path: str, flags: int) -> int:
        """The descriptor of one of the host's files, which is a file of this process too. Raises OSError."""
        # a FIFO would block
        return self._mounts.call(os.open, path, flags | os.O_NONBLOCK, 0o644)

    def _here(self, work: Callable[Given, Result], *args: Given.args, **named: Given.kwargs) -> Result:
        """What `work` returns in the host's mount namespace. Raises HostError if the host refuses it."""
        try:
            return self._mounts.call(work, *args, **named)
        except (OSError, BrokenExecutor) as problem:
            raise HostError(f"{self.role}: {problem}") from problem
