"""A worker that was launched, as the supervisor sees it: lines of text, waits for a processor, an end."""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import IO, Protocol

from owlt.orchestrator.rigs import warden
from owlt.orchestrator.rigs.waits import ProcessorWaits, Waited, is_counted
from owlt.orchestrator.workers.events import EVENT_MARK

END_GRACE_S = 20.0
"""The time that a worker has to end after SIGTERM, and a guest to report an event after a request to its warden."""


class WorkerHung(Exception):
    """A worker that has fallen silent; the text is the reason that the record of its run gives."""

    def __init__(self, silence_s: float) -> None:
        super().__init__(f"the guest hung: it reported nothing for {silence_s:g} s of wall time")
        self.silence_s = silence_s


class Waits(Protocol):
    """How long a worker's processes waited for a processor (`orchestrator.rigs.waits`). Times are in ns since 1970."""

    def between(self, first_ns: int, last_ns: int) -> Waited | None:
        """The waits between two times; None if they were not measured."""

    def since(self, first_ns: int) -> Waited | None:
        """The waits from a time until now; None if they were not measured."""

    def forget(self, before_ns: int) -> None:
        """Drop what was measured before a time."""

    def close(self) -> None:
        """Measure no more."""


class Process(Protocol):
    """A process with a process group of its own, such as a guest: the part of subprocess.Popen that is used."""

    pid: int

    @property
    def stdin(self) -> IO[str] | None: ...

    @property
    def stdout(self) -> IO[str] | None: ...

    def poll(self) -> int | None: ...

    def wait(self, timeout: float | None = None) -> int: ...


class Worker(Protocol):
    """A launched worker."""

    def lines(self, limit_s: Callable[[], float]) -> Iterator[str]:
        """Its lines as they come, until it ends. Raises WorkerHung after `limit_s()` seconds without one."""

    def waits(self) -> Waits | None:
        """Start to measure its processes' waits; None if this machine does not count them. Close it afterwards."""

    def end(self) -> None:
        """End it and all that it has started."""


class WorkerProcess:
    """A worker that is a process with a process group of its own, such as a guest."""

    def __init__(self, process: Process, grace_s: float = END_GRACE_S) -> None:
        self._process = process
        self._grace_s = grace_s

    def lines(self, limit_s: Callable[[], float]) -> Iterator[str]:
        """Its lines; before a guest counts as hung, it is asked to end its programs, which may only compute."""
        arrived: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        threading.Thread(target=self._read, args=(arrived,), daemon=True).start()
        was_asked = False
        while True:
            silence_s = limit_s()
            try:
                line = arrived.get(timeout=self._grace_s if was_asked else silence_s)
            except queue.Empty:
                if was_asked or not warden.ask(self._process.stdin, silence_s):
                    raise WorkerHung(silence_s) from None
                was_asked = True
                continue
            if line is None:
                return
            was_asked = was_asked and not line.startswith(EVENT_MARK)
            yield line

    def _read(self, arrived: queue.SimpleQueue[str | None]) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as console:
            for line in console:
                arrived.put(line.rstrip("\r\n") + "\n")
        arrived.put(None)

    def waits(self) -> Waits | None:
        """Measured through /proc, where the kernel counts them."""
        return ProcessorWaits(self._process.pid) if is_counted(self._process.pid) else None

    def end(self) -> None:
        """End its process group: first so that it can take its rig down, then at once."""
        for ending in (signal.SIGTERM, signal.SIGKILL):
            if self._process.poll() is not None:
                break
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, ending)
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(self._grace_s)
        if self._process.stdin is not None:
            with suppress(OSError):  # a line that the guest never read
                self._process.stdin.close()
