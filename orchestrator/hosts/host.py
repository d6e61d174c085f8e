"""A host of a rig: run a command, start a program, read and write files.

`orchestrator.rigs.lab.ssh_hosts` has hosts that are reached over SSH, `near_host` hosts on this kernel, and
`tests/memory` a host in memory for tests.
"""

from __future__ import annotations

import shlex
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from owlt.orchestrator.hosts.confinement import (
    LEFT,
    MAKE_RUN_DIRECTORY,
    REMOVE_RUN_DIRECTORY,
    Confinement,
    confined,
    without_a_run,
)
from owlt.orchestrator.hosts.printable import BY_SIGNAL, end_of, how_ended, unstyled
from owlt.orchestrator.hosts.program import LINE_CHARACTERS, Program, Session

STATUS_FORMAT = "--printf=%f %d %s %b %B\\n"
"""Format for stat(1): a line for each file, which `status_from_line` parses."""
BLOCK_BYTES = 512
"""Unit of `os.stat_result.st_blocks`."""


@dataclass(frozen=True)
class FileStatus:
    """The status of a file. `mode` is as in inode(7); a sparse file has fewer `stored_bytes` than its size."""

    mode: int
    device: int
    size_bytes: int
    stored_bytes: int


def status_from_line(line: str) -> FileStatus:
    """The status that stat(1) printed with `STATUS_FORMAT`."""
    mode, device, size_bytes, blocks, block_bytes = line.split()
    return FileStatus(int(mode, 16), int(device), int(size_bytes), int(blocks) * int(block_bytes))


@dataclass(frozen=True)
class ListedFile:
    """An entry in a listing: anything but a directory. `changed_at_ns` is the last change of its status, since 1970."""

    path: str
    size_bytes: int
    changed_at_ns: int


LIST_FORMAT = "%C@ %s %p\\0"
"""Format for find(1), which `listed_files` parses."""


def listed_files(output: str) -> list[ListedFile]:
    """The files that find(1) printed with `LIST_FORMAT`."""
    files = []
    for entry in output.split("\0")[:-1]:
        changed_s, size_bytes, path = entry.split(" ", 2)
        seconds, _, fraction = changed_s.partition(".")
        files.append(ListedFile(path, int(size_bytes), int(seconds) * 10**9 + int(f"{fraction:<09.9}")))
    return files


COMMAND_LIMIT_S = 60.0
ANSWER_BYTES = 4_000_000
FLOODED = -1000
"""The exit status of a command whose output exceeded ANSWER_BYTES."""
LATE = 124
"""The exit status of timeout(1)."""


class HostError(Exception):
    """A command that the rig needs has failed; the text has the host, the command and its output."""


@dataclass(frozen=True)
class Completed:
    """The result of a command on a host."""

    exit_status: int
    stdout: bytes
    stderr: bytes


def last_line(done: Completed) -> str:
    """The last line of a command's standard error, or else of its output, without the list of programs left running."""
    for stream in (done.stderr, done.stdout):
        text = unstyled(stream.decode(errors="replace"))
        lines = [line.strip() for line in text.splitlines() if not line.startswith(LEFT)]
        if messages := [line for line in lines if line]:
            return end_of(messages[-1], LINE_CHARACTERS)
    return "no output"


class Host(Protocol):
    """One host of a rig. `base` is the rig's directory on the host."""

    role: str
    base: str

    def run(self, command: Sequence[str], deadline_s: float = COMMAND_LIMIT_S) -> Completed:
        """Run a short command to its end. Raises HostError after the deadline; a non-zero exit status does not raise.

        ANSWER_BYTES of each stream are read. A command that writes more has the exit status FLOODED.
        """

    def run_foreign(
        self,
        command: Sequence[str],
        deadline_s: float,
        confinement: Confinement | None = None,
        directory: str | None = None,
    ) -> Completed:
        """Run a third-party command to its end, or kill it and its children: exit status LATE after the deadline.

        Programs that it leaves running are killed. It has its own process group, so that it cannot stop timeout(1).
        """

    def check(self, command: Sequence[str], deadline_s: float = COMMAND_LIMIT_S) -> bytes:
        """The output of a short command. Raises HostError with the output if it fails."""
        done = self.run(command, deadline_s)
        if done.exit_status != 0:
            output = (done.stderr or done.stdout).decode(errors="replace").strip()
            raise HostError(f"{self.role}: {shlex.join(command)!r} {how_ended(done.exit_status)}: {output}")
        return done.stdout

    def make_directory(self, path: str) -> None:
        """Make a directory and those above it. Raises HostError."""
        self.check(["mkdir", "-p", path])

    def remove(self, path: str) -> None:
        """Remove a directory with everything in it, if it exists."""
        self.run(["rm", "-rf", path])

    def make_run_directory(self, path: str, size_bytes: int) -> None:
        """Make a run directory that holds so many bytes. Raises HostError."""
        self.check(["sh", "-c", MAKE_RUN_DIRECTORY, "sh", path, str(size_bytes)])

    def remove_run_directory(self, path: str) -> None:
        """Remove a run directory, if it exists, even if it is incomplete."""
        self.run(["sh", "-c", REMOVE_RUN_DIRECTORY, "sh", path])

    def statuses(self, *paths: str) -> list[FileStatus] | None:
        """The status of each file; None if one does not exist."""
        done = self.run(["stat", STATUS_FORMAT, "--", *paths])
        if done.exit_status != 0:
            return None
        return [status_from_line(line) for line in done.stdout.decode().splitlines()]

    def files_below(self, *directories: str) -> list[ListedFile] | None:
        """The files below these directories, as far as they can be read; None if there are more than can be listed."""
        done = self.run(["find", *directories, "!", "-type", "d", "-printf", LIST_FORMAT])
        return None if done.exit_status == FLOODED else listed_files(done.stdout.decode(errors="replace"))

    def sha256(self, path: str, deadline_s: float = COMMAND_LIMIT_S) -> str | None:
        """The hash of a file; None if there is no file that can be read. Raises HostError after the deadline."""
        done = self.run(["sha256sum", path], deadline_s)
        return done.stdout.split()[0].decode() if done.exit_status == 0 else None

    def network_tables(self, *names: str) -> str:
        """The text of these files of /proc/net, such as udp; missing files are left out."""
        return self.run(["cat", *(f"/proc/net/{name}" for name in names)]).stdout.decode(errors="replace")

    def start(
        self,
        command: Sequence[str],
        directory: str,
        logs: Path,
        news: threading.Condition | None = None,
        *,
        terminal: bool = False,
    ) -> Program:
        """Start a program in a directory on the host; its output goes to `logs`.out and `logs`.err here.

        `news` is notified when the program writes or ends; several programs may share it. With a `terminal` the
        program can be typed to, and its errors are part of its output.
        """

    def start_foreign(
        self,
        command: Sequence[str],
        directory: str,
        logs: Path,
        news: threading.Condition,
        confinement: Confinement,
        *,
        terminal: bool = False,
    ) -> Program:
        """Start a third-party program in its confinement."""

    def write_file(self, path: str, content: bytes) -> None:
        """Create or replace a file. Raises OSError or EOFError."""

    def read_file(self, path: str, most_bytes: int) -> bytes:
        """The first `most_bytes` bytes of a file. Raises OSError or EOFError."""

    def fetch_file(self, path: str, target: Path) -> None:
        """Copy a file to this machine. Raises OSError or EOFError."""

    def close(self) -> None:
        """End the connection."""


SHOWN_CHARACTERS = 200

TERMINAL = ("dumb", 500, 50)
"""The terminal of a program with a dialogue: kind, columns, lines. No line of a dialogue is longer."""

_STOPPED = r"cat /proc/[0-9]*/stat 2>/dev/null | sed -nE 's/^[0-9]+ \((.*)\) T [0-9]+ [0-9]+ '$1' .*/\1/p'"


class SessionHost(Host):
    """A host on which each command has its own session: standard input, output and an exit status."""

    def _begin(self, command: Sequence[str]) -> Session:
        """Start a command without input. Raises HostError."""
        raise NotImplementedError

    def run(self, command: Sequence[str], deadline_s: float = COMMAND_LIMIT_S) -> Completed:
        session = self._begin(command)
        streams = {"out": bytearray(), "err": bytearray()}

        def drain(name: str, receive: Callable[[int], bytes]) -> None:
            while len(streams[name]) < ANSWER_BYTES and (chunk := receive(65536)):
                streams[name] += chunk
            if len(streams[name]) >= ANSWER_BYTES:
                session.close()

        drains = [
            threading.Thread(target=drain, args=args, daemon=True)
            for args in (("out", session.recv), ("err", session.recv_stderr))
        ]
        for reading in drains:
            reading.start()
        ended = session.status_event.wait(deadline_s)
        for reading in drains if ended else []:
            reading.join(deadline_s)
        session.close()
        if any(len(stream) >= ANSWER_BYTES for stream in streams.values()):
            return Completed(FLOODED, bytes(streams["out"]), bytes(streams["err"]))
        if not ended:
            line = shlex.join(command)
            shown = line if len(line) <= SHOWN_CHARACTERS else f"{line[:SHOWN_CHARACTERS]}..."
            raise HostError(f"{self.role}: {shown!r} did not finish within {deadline_s:g} s")
        return Completed(session.exit_status, bytes(streams["out"]), bytes(streams["err"]))

    def run_foreign(
        self,
        command: Sequence[str],
        deadline_s: float,
        confinement: Confinement | None = None,
        directory: str | None = None,
    ) -> Completed:
        if directory is not None:
            command = ["sh", "-c", 'cd "$0" && exec "$@"', directory, *command]
        enclosed = confined(command, confinement or without_a_run(self.base))
        bounded = ["timeout", "--kill-after=2", f"{deadline_s:g}", "setsid", *enclosed]
        end_s = time.monotonic() + deadline_s
        done = self.run(bounded, deadline_s + COMMAND_LIMIT_S)
        was_killed = done.exit_status == BY_SIGNAL and time.monotonic() >= end_s  # timeout(1) kills itself as well
        return replace(done, exit_status=LATE) if was_killed else done

    def start_foreign(
        self,
        command: Sequence[str],
        directory: str,
        logs: Path,
        news: threading.Condition,
        confinement: Confinement,
        *,
        terminal: bool = False,
    ) -> Program:
        return self.start(confined(command, confinement), directory, logs, news, terminal=terminal)

    def _stopped_in(self, session: int) -> list[str]:
        """The names of the session's processes that a signal has stopped (proc_pid_stat(5))."""
        stopped = self.run(["sh", "-c", _STOPPED, "sh", str(session)]).stdout.decode(errors="replace")
        return stopped.splitlines()
