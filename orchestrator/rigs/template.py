"""A template: a guest that is prepared once, stops, and is copied for each run.

A copy takes milliseconds and continues from the point at which the template stopped: same memory, same clock, same
network. It gets a console, a directory, a processor and a seed for its randomness, and nothing else, so what it does
depends on the template and the seed alone. The kernel's side is `orchestrator/kernel/template-7.3.patch`.
"""

from __future__ import annotations

import io
import os
import select
import signal
import socket
import struct
import subprocess
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from owlt.orchestrator.hosts.host import HostError
from owlt.orchestrator.rigs.guest import Boot, init_script, start

TEMPLATE_FILE = "/proc/template"
"""In a guest: a write to it makes the guest a template, and returns in each copy."""
FREE_READS_FILE = Path("/proc/free_reads")
IDLE_FILE = Path("/proc/idle")
PREPARATION_S = 300.0
"""The time in which a guest must have become a template."""
COPYING_S = 60.0
_REQUEST = struct.Struct("=QQ")
_PROCESS = struct.Struct("=i")

Start = Callable[[Boot, Path, str, socket.socket, IO[bytes]], subprocess.Popen[str]]
"""Boots a guest, as `orchestrator.rigs.guest.start` does."""


def become_template() -> None:
    """Make this guest a template. Returns in each copy, whose randomness is that of its own seed.

    Raises OSError if the kernel cannot be copied.
    """
    Path(TEMPLATE_FILE).write_text("1")


def wait_for_idle(earliest_ns: int) -> None:
    """Wait until this guest has nothing to do, at a time of its clock (ns since the epoch) or later. A program that
    computes, or its threads that wake each other, do not notice it.

    Raises OSError if the kernel cannot do this, and TimeoutError if a program still computes a second later.
    """
    IDLE_FILE.write_text(str(earliest_ns))


@contextmanager
def free_reads() -> Iterator[None]:
    """Within this context reading the clock takes no virtual time. What waits for the clock then waits until its end.

    Raises OSError if the kernel cannot do this.
    """
    FREE_READS_FILE.write_text("1")
    try:
        yield
    finally:
        FREE_READS_FILE.write_text("0")


class Copy:
    """A copy of a template: a process like a guest that was booted, but not a child of this one."""

    def __init__(self, pid: int, stdin: IO[str], stdout: IO[str]) -> None:
        """Raises HostError if it has ended already."""
        self.pid = pid
        self.stdin = stdin
        self.stdout = stdout
        try:
            self._handle = os.pidfd_open(pid)
        except ProcessLookupError:  # the template has reaped it already
            raise HostError(f"the copy {pid} of the guest ended at once") from None
        # not closed at the end of the process: an interrupt ends a copy while its worker's thread waits for it too
        weakref.finalize(self, os.close, self._handle).atexit = False

    def poll(self) -> int | None:
        """0 if it has ended, otherwise None: its exit status belongs to the template."""
        return 0 if self._has_ended(0.0) else None

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end. Raises subprocess.TimeoutExpired."""
        if not self._has_ended(timeout):
            raise subprocess.TimeoutExpired(f"copy {self.pid}", timeout or 0.0)
        return 0

    def _has_ended(self, limit_s: float | None) -> bool:
        return bool(select.select([self._handle], [], [], limit_s)[0])


class _Server:
    """A guest that has become a template: its kernel makes copies of it on request. The copies end with the
    template."""

    def __init__(self, console: Path) -> None:
        """`console` is the file that its console is written to."""
        self.is_broken = False
        """Whether it has ended or does not answer: no more copies can be made of it."""
        self._console = console
        self._copies: list[Copy] = []
        self._requests = threading.Lock()
        self._ours, self._theirs = socket.socketpair()

    def _wait_until_prepared(self) -> None:
        """Wait until the guest has become a template. Raises HostError, with the guest ended."""
        self._theirs.close()
        try:
            self._process_number(PREPARATION_S)
        except HostError:
            self.close()
            raise

    def copy(self, seed: int, cpu: int, directory: Path) -> Copy:
        """A copy that works in `directory` on this processor. Raises HostError if the template has ended."""
        stdin, stdin_ours = os.pipe()
        stdout_ours, stdout = os.pipe()
        console = os.fdopen(stdin_ours, "w"), os.fdopen(stdout_ours, errors="replace")
        try:
            copy = Copy(self.copied(seed, cpu, stdin, stdout, directory), *console)
            self._copies = [each for each in self._copies if each.poll() is None] + [copy]
            return copy
        except HostError:
            for file in console:
                file.close()
            raise
        finally:
            for descriptor in (stdin, stdout):
                os.close(descriptor)

    @property
    def has_copies(self) -> bool:
        """Whether a copy of it has not ended."""
        return any(each.poll() is None for each in self._copies)

    def copied(self, seed: int, cpu: int, stdin: int, stdout: int, directory: Path) -> int:
        """Have a copy made that uses these file descriptors as its console, and this directory. Returns its process
        number."""
        place = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
        try:
            with self._requests:
                socket.send_fds(self._ours, [_REQUEST.pack(seed, cpu)], [stdin, stdout, place])
                return self._process_number(COPYING_S)
        except OSError as problem:
            raise self._broken(str(problem)) from problem
        finally:
            os.close(place)

    def close(self) -> None:
        """End it, and with it its copies."""
        raise NotImplementedError

    def _process_number(self, limit_s: float) -> int:
        """What the template writes: a process number, or the negative number of an error."""
        self._ours.settimeout(limit_s)
        try:
            written = self._ours.recv(_PROCESS.size)
        except OSError as problem:
            raise self._broken(str(problem)) from problem
        if len(written) < _PROCESS.size:
            raise self._broken("it has ended")
        number = _PROCESS.unpack(written)[0]
        if number < 0:
            raise self._failure(os.strerror(-number))
        return int(number)

    def _broken(self, reason: str) -> HostError:
        self.is_broken = True
        return self._failure(reason)

    def _failure(self, reason: str) -> HostError:
        console = self._console.read_text(errors="replace").strip().splitlines()
        return HostError(f"the guest cannot be copied ({reason}); its console ends: {' / '.join(console[-5:])}")


class Template(_Server):
    """A guest that was booted to become a template."""

    def __init__(self, boot: Boot, directory: Path, program: Sequence[str], start: Start = start) -> None:
        """Boot a guest with this program, which calls `become_template`; its console is `console.log` in `directory`.

        Raises HostError if it does not become a template, with the end of its console.
        """
        super().__init__(directory / "console.log")
        started: Future[subprocess.Popen[str]] = Future()

        def hold() -> None:
            """The guest ends with the thread that started it (setpriv --pdeathsig), so this one waits for its end."""
            try:
                script = init_script(program, in_task_directory=False)
                with self._console.open("wb") as console:
                    guest = start(boot, directory, script, self._theirs, console)
            except Exception as problem:
                started.set_exception(problem)
                return
            started.set_result(guest)
            guest.wait()

        self._holder = threading.Thread(target=hold, daemon=True)
        self._holder.start()
        try:
            self._guest = started.result()
        except OSError as problem:
            self._theirs.close()
            self._ours.close()
            raise HostError(f"the guest cannot be started: {problem}") from problem
        self._wait_until_prepared()

    def close(self) -> None:
        self._ours.close()
        if self._guest.returncode is None:
            with suppress(ProcessLookupError):
                os.killpg(self._guest.pid, signal.SIGKILL)
        self._holder.join()


class CopiedTemplate(_Server):
    """A copy of a template that has itself become a template, after it has performed a part of a run."""

    def __init__(self, template: Template, seed: int, cpu: int, directory: Path) -> None:
        """Copy a template; the console of the copy is `console.log` in `directory`.

        Raises HostError if it does not become a template, with the end of its console.
        """
        super().__init__(directory / "console.log")
        try:
            with self._console.open("wb") as console:
                pid = template.copied(seed, cpu, self._theirs.fileno(), console.fileno(), directory)
        except HostError:
            self._theirs.close()
            self._ours.close()
            raise
        self._guest = Copy(pid, io.StringIO(), io.StringIO())
        self._wait_until_prepared()

    def close(self) -> None:
        self._ours.close()
        if self._guest.poll() is None:
            with suppress(ProcessLookupError):
                os.killpg(self._guest.pid, signal.SIGKILL)
            self._guest.wait(COPYING_S)
