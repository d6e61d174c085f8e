"""A host of a namespace rig: over SSH, except for what this machine can do to its files and processes directly."""

from __future__ import annotations

import errno
import hashlib
import os
import shlex
import shutil
import signal
import socket
import stat
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path, PurePosixPath

import paramiko

from owlt.orchestrator.hosts.confinement import make_run_directory, remove_run_directory
from owlt.orchestrator.hosts.host import COMMAND_LIMIT_S, FileStatus, HostError, statuses_here
from owlt.orchestrator.hosts.mount_namespace import MountNamespace, show_network
from owlt.orchestrator.hosts.ssh_host import Login, SshHost

COPIED_BYTES = 1 << 20
WRITING = os.O_WRONLY | os.O_CREAT | os.O_TRUNC


class NearHost(SshHost):
    """A host on the kernel that this runs on.

    Files below its `base` are reached as it sees them, in its mount namespace, and signals go to processes directly:
    each command over SSH starts processes, which would be a large part of the cost of a run. A file behind a symbolic
    link is read over SSH, where the host follows the link.
    """

    def __init__(self, login: Login, base: str, link: socket.socket, sshd_pid: int) -> None:
        """`link` is connected to the sshd. Raises HostError as SshHost does."""
        self._link = link
        self._network: int | None = None
        super().__init__(login, base)
        try:
            self._mounts = MountNamespace(sshd_pid)
        except OSError as problem:
            super().close()
            raise HostError(f"{self.role}: the mount namespace of its sshd: {problem}") from problem

    def _dial(self) -> socket.socket:
        return self._link

    def enter_network(self, namespace: Path) -> None:
        """Run all later commands in another network namespace; /sys shows its interfaces. Raises HostError."""
        previous, self._network = self._network, os.open(namespace, os.O_RDONLY)
        if previous is not None:
            os.close(previous)
        self._changed(partial(show_network, self._network))

    def _session(self, command: str, *, terminal: bool = False) -> paramiko.Channel:
        if self._network is not None:
            entered = f"--net=/proc/{os.getpid()}/fd/{self._network}"
            command = shlex.join(["exec", "nsenter", entered, "sh", "-c", command])
        return super()._session(command, terminal=terminal)

    def make_directory(self, path: str) -> None:
        self._changed(lambda: Path(path).mkdir(parents=True, exist_ok=True))

    def remove(self, path: str) -> None:
        self._changed(lambda: shutil.rmtree(path, ignore_errors=True))

    def make_run_directory(self, path: str, size_bytes: int) -> None:
        self._changed(partial(make_run_directory, path, size_bytes))

    def remove_run_directory(self, path: str) -> None:
        self._changed(partial(remove_run_directory, path))

    def statuses(self, *paths: str) -> list[FileStatus] | None:
        with suppress(OSError):
            return self._mounts.call(statuses_here, paths)
        return None

    def write_file(self, path: str, content: bytes) -> None:
        with os.fdopen(self._opened(path, WRITING), "wb") as file:
            file.write(content)

    def read_file(self, path: str, most_bytes: int) -> bytes:
        try:
            with os.fdopen(self._opened(path, os.O_RDONLY), "rb") as file:
                return file.read(most_bytes)
        except OSError:
            return super().read_file(path, most_bytes)

    def fetch_file(self, path: str, target: Path) -> None:
        with os.fdopen(self._opened(path, os.O_RDONLY), "rb") as source, target.open("wb") as copy:
            shutil.copyfileobj(source, copy, COPIED_BYTES)

    def sha256(self, path: str, deadline_s: float = COMMAND_LIMIT_S) -> str | None:
        try:
            with os.fdopen(self._opened(path, os.O_RDONLY), "rb") as file:
                return hashlib.file_digest(file, "sha256").hexdigest()
        except FileNotFoundError:
            return None
        except OSError:
            return super().sha256(path, deadline_s)

    def close(self) -> None:
        super().close()
        self._mounts.close()
        if self._network is not None:
            os.close(self._network)
            self._network = None

    def _signal_group(self, name: str, group: int) -> None:
        with suppress(ProcessLookupError):
            os.killpg(group, signal.Signals[f"SIG{name}"])

    def _opened(self, path: str, flags: int) -> int:
        """The descriptor of one of the host's files, which this process can use too. Raises OSError."""
        return self._mounts.call(open_below, self.base, path, flags)

    def _changed(self, change: Callable[[], None]) -> None:
        """Make a change in the host's mount namespace. Raises HostError if the host refuses it."""
        try:
            self._mounts.call(change)
        except OSError as problem:
            raise HostError(f"{self.role}: {problem}") from problem


def open_below(base: str, path: str, flags: int) -> int:
    """Open a regular file below a directory; return its descriptor. Raises OSError.

    No symbolic link below the directory is followed: programs on the host may have made it, and one to /proc/self would
    lead to the files of this process.
    """
    inside = PurePosixPath(path)
    if ".." in inside.parts or not inside.is_relative_to(base) or str(inside) == base:
        raise OSError(errno.EINVAL, f"not below {base}", path)
    *parents, name = inside.relative_to(base).parts
    place = os.open(base, os.O_DIRECTORY)
    try:
        for parent in parents:
            inner = os.open(parent, os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=place)
            os.close(place)
            place = inner
        # a FIFO would block
        file = os.open(name, flags | os.O_NOFOLLOW | os.O_NONBLOCK, 0o644, dir_fd=place)
    finally:
        os.close(place)
    if not stat.S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        raise OSError(errno.EINVAL, "not a regular file", path)
    return file
