"""A host on the kernel that this runs on: its commands are processes of this one in the namespaces of another."""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import signal
import stat
import subprocess
import termios
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path, PurePosixPath
from typing import IO, Self, TypeVar

from owlt.orchestrator.hosts.confinement import make_run_directory, remove_run_directory
from owlt.orchestrator.hosts.host import (
    BLOCK_BYTES,
    COMMAND_LIMIT_S,
    TERMINAL,
    FileStatus,
    HostError,
    ListedFile,
    SessionHost,
)
from owlt.orchestrator.hosts.mount_namespace import Namespaces, show_network
from owlt.orchestrator.hosts.printable import BY_SIGNAL
from owlt.orchestrator.hosts.program import Program

Result = TypeVar("Result")

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""Where programs on a host are looked for: root's PATH in sshd."""
COPIED_BYTES = 1 << 20
WRITING = os.O_WRONLY | os.O_CREAT | os.O_TRUNC


class NearSession:
    """Input and output of a process on this kernel that leads a process group; `out` may be its terminal."""

    def __init__(self, process: subprocess.Popen[bytes], out: IO[bytes] | None, err: IO[bytes] | None) -> None:
        self.exit_status = BY_SIGNAL
        self.status_event = threading.Event()
        self.group = process.pid
        self._process = process
        self._out, self._err = out, err
        threading.Thread(target=self._wait, daemon=True).start()

    def _wait(self) -> None:
        self.exit_status = max(self._process.wait(), BY_SIGNAL)
        self.status_event.set()

    def recv(self, nbytes: int, /) -> bytes:
        """Some of its output; nothing once it has ended."""
        return _some_of(self._out, nbytes)

    def recv_stderr(self, nbytes: int, /) -> bytes:
        """Some of its errors; nothing once it has ended, or if it has a terminal."""
        return _some_of(self._err, nbytes)

    def sendall(self, s: bytes, /) -> None:
        """Type into its terminal. Raises OSError once it has ended."""
        if self._out is not None:
            try:
                self._out.write(s)
            except ValueError:
                raise OSError(errno.EIO, "its terminal is closed") from None

    def settimeout(self, timeout: float | None, /) -> None:
        """Without effect: only for the line of a shell (`read_group`), which it does not have."""

    def exit_status_ready(self) -> bool:
        """Whether it has ended."""
        return self.status_event.is_set()

    def close(self) -> None:
        """End it and its group if it runs; read no more if it has ended."""
        if not self.exit_status_ready():
            with suppress(ProcessLookupError):
                os.killpg(self.group, signal.SIGKILL)
            return
        for stream in (self._out, self._err):
            if stream is not None:
                stream.close()

    def __del__(self) -> None:
        """The output of a program that wrote too much was not read to its end."""
        self.close()


def _some_of(stream: IO[bytes] | None, nbytes: int) -> bytes:
    """Some bytes; b"" at the end, where the stream is closed. Reading from a terminal that nobody has open any more
    fails with EIO (pty(7))."""
    if stream is None or stream.closed:
        return b""
    with suppress(OSError, ValueError):  # ValueError: closed meanwhile
        if chunk := stream.read(nbytes):
            return chunk
    stream.close()
    return b""


class NearHost(SessionHost):
    """A host on the kernel that this runs on: commands, files and signals without a connection, which would be a large
    part of the cost of a run.

    Commands are processes of this one in the host's namespaces. Files below its `base` are reached as it sees them; a
    file behind a symbolic link is read by a process on the host, which follows the link.
    """

    def __init__(self, role: str, base: str, home: str, holder: int) -> None:
        """`holder` is a process in the namespaces of the host, `home` the home of root there. Raises HostError."""
        self.role = role
        self.base = base
        self._home = home
        self._environment = {"USER": "root", "LOGNAME": "root", "HOME": home, "PATH": PATH, "SHELL": "/bin/sh"}
        try:
            self._namespaces = Namespaces(holder)
        except OSError as problem:
            raise HostError(f"{self.role}: its namespaces: {problem}") from problem

    def enter_network(self, namespace: Path) -> None:
        """Run all later commands in another network namespace; /sys shows its interfaces. Raises HostError."""
        with namespace.open() as file:
            self._on_host(partial(show_network, file.fileno()))

    def _begin(self, command: Sequence[str]) -> NearSession:
        return self._spawned(command, self._home)

    def start(
        self,
        command: Sequence[str],
        directory: str,
        logs: Path,
        news: threading.Condition | None = None,
        *,
        terminal: bool = False,
    ) -> Program:
        session = self._at_terminal(command, directory) if terminal else self._spawned(command, directory)
        news = news or threading.Condition()
        return Program(session.group, session, logs, news, self._signal_group, self._stopped_in)

    def _spawned(self, command: Sequence[str], directory: str) -> NearSession:
        """A process on the host, in a session and process group of its own. Raises HostError."""

        def spawn(words: Sequence[str], place: str) -> subprocess.Popen[bytes]:
            return subprocess.Popen(
                words,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                bufsize=0,
                cwd=place,
                env=self._environment,
                start_new_session=True,
            )

        def spawn_or_complain() -> subprocess.Popen[bytes]:
            try:
                return spawn(command, directory)
            except OSError:  # then a shell says why, as on other hosts
                return spawn(["sh", "-c", 'cd "$0" && exec "$@"', directory, *command], "/")

        process = self._on_host(spawn_or_complain)
        return NearSession(process, process.stdout, process.stderr)

    def _at_terminal(self, command: Sequence[str], directory: str) -> NearSession:
        """A process on the host that leads the session of a new terminal. Raises HostError."""
        kind, columns, lines = TERMINAL

        def spawn() -> tuple[subprocess.Popen[bytes], int]:
            ours, theirs = os.openpty()
            with os.fdopen(theirs, "wb", 0) as end:
                termios.tcsetwinsize(ours, (lines, columns))
                environment = self._environment | {"TERM": kind}
                leader = ["setsid", "--ctty", *command]
                process = subprocess.Popen(leader, stdin=end, stdout=end, stderr=end, cwd=directory, env=environment)
            return process, ours

        process, terminal = self._on_host(spawn)
        return NearSession(process, os.fdopen(terminal, "r+b", 0), None)

    def make_directory(self, path: str) -> None:
        self._on_host(lambda: Path(path).mkdir(parents=True, exist_ok=True))

    def remove(self, path: str) -> None:
        self._on_host(lambda: shutil.rmtree(path, ignore_errors=True))

    def make_run_directory(self, path: str, size_bytes: int) -> None:
        self._on_host(partial(make_run_directory, path, size_bytes))

    def remove_run_directory(self, path: str) -> None:
        self._on_host(partial(remove_run_directory, path))

    def statuses(self, *paths: str) -> list[FileStatus] | None:
        with suppress(OSError):
            return self._namespaces.call(statuses_here, paths)
        return None

    def files_below(self, *directories: str) -> list[ListedFile] | None:
        with suppress(OSError):
            return self._namespaces.call(files_here, directories)
        return super().files_below(*directories)

    def write_file(self, path: str, content: bytes) -> None:
        with os.fdopen(self._opened(path, WRITING), "wb") as file:
            file.write(content)

    def read_file(self, path: str, most_bytes: int) -> bytes:
        try:
            with os.fdopen(self._opened(path, os.O_RDONLY), "rb") as file:
                return file.read(most_bytes)
        except OSError:
            return self._read_there(path, most_bytes)

    def _read_there(self, path: str, most_bytes: int) -> bytes:
        reading = self._spawned(["head", "--bytes", str(most_bytes), "--", path], self._home)
        limit = threading.Timer(COMMAND_LIMIT_S, reading.close)  # of a pipe, the end may never come
        limit.start()
        content = b"".join(iter(partial(reading.recv, COPIED_BYTES), b""))
        reading.status_event.wait()
        limit.cancel()
        if reading.exit_status != 0:
            raise OSError(errno.EIO, f"not readable on the {self.role}", path)
        return content

    def fetch_file(self, path: str, target: Path) -> None:
        with os.fdopen(self._opened(path, os.O_RDONLY), "rb") as source, target.open("wb") as copy:
            shutil.copyfileobj(source, copy, COPIED_BYTES)

    def network_tables(self, *names: str) -> str:
        tables = [Path("/proc/thread-self/net", name) for name in names]
        return self._on_host(lambda: "".join(table.read_text() for table in tables if table.exists()))

    def sha256(self, path: str, deadline_s: float = COMMAND_LIMIT_S) -> str | None:
        try:
            with os.fdopen(self._opened(path, os.O_RDONLY), "rb") as file:
                return hashlib.file_digest(file, "sha256").hexdigest()
        except FileNotFoundError:
            return None
        except OSError:
            return super().sha256(path, deadline_s)

    def close(self) -> None:
        self._namespaces.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _signal_group(self, name: str, group: int) -> None:
        with suppress(ProcessLookupError):
            os.killpg(group, signal.Signals[f"SIG{name}"])

    def _opened(self, path: str, flags: int) -> int:
        """The descriptor of one of the host's files, which this process can use too. Raises OSError."""
        return self._namespaces.call(open_below, self.base, path, flags)

    def _on_host(self, call: Callable[[], Result]) -> Result:
        """The result of a call in the host's namespaces. Raises HostError if the host refuses it."""
        try:
            return self._namespaces.call(call)
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


def statuses_here(paths: tuple[str, ...]) -> list[FileStatus]:
    """The status of each file, as the caller sees them. Raises OSError."""
    results = map(os.lstat, paths)
    return [FileStatus(each.st_mode, each.st_dev, each.st_size, each.st_blocks * BLOCK_BYTES) for each in results]


MOST_LISTED = 20_000
"""Files and directories that `files_here` looks at."""


def files_here(directories: Sequence[str], most: int = MOST_LISTED) -> list[ListedFile]:
    """The files below directories, as the caller sees them. No symbolic link is followed, not even one that a program
    puts in place of a directory during the walk.

    Raises OSError if a directory cannot be read, or if there are more than `most` files and directories.
    """
    files: list[ListedFile] = []
    looked_at = 0
    for top in map(os.fsencode, filter(os.path.lexists, directories)):
        if not stat.S_ISDIR((status := os.lstat(top)).st_mode):
            files.append(_listed(top, status))
            continue
        try:
            for place, inner, others, descriptor in os.fwalk(top, onerror=_raise):
                looked_at += len(inner) + len(others)
                if looked_at > most:
                    raise OSError(errno.E2BIG, "more files than are listed", os.fsdecode(top))
                named = {name: os.stat(name, dir_fd=descriptor, follow_symlinks=False) for name in (*inner, *others)}
                files += [
                    _listed(place + b"/" + name, status)
                    for name, status in named.items()
                    if not stat.S_ISDIR(status.st_mode)
                ]
        except RecursionError:
            raise OSError(errno.ENAMETOOLONG, "directories are too deep", os.fsdecode(top)) from None
    return files


def _listed(path: bytes, status: os.stat_result) -> ListedFile:
    return ListedFile(path.decode(errors="replace"), status.st_size, status.st_ctime_ns)


def _raise(problem: OSError) -> None:
    raise problem
