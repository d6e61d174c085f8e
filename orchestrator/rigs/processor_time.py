"""Whether processes get the processor time that they need, read from /proc during a run without stopping anything.

How long a rig's processes waited: Linux counts for each thread how long it was ready to run and did not (`run delay`,
proc_pid_schedstat in Documentation/scheduler/sched-stats.rst). A guest's processes are processes of this machine, so
processor time that the machine does not give to a guest, which the guest cannot see, is counted as well.

Whether this machine has time to spare: /proc/pressure/cpu counts for how long, in µs, some thread waited for a
processor (`total`, Documentation/accounting/psi.rst). If the kernel does not count it (CONFIG_PSI; `psi=1` on its
command line), the machine is assumed to be quiet.
"""

from __future__ import annotations

import re
import threading
import time
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path


def processor_name(cpuinfo: Path = Path("/proc/cpuinfo")) -> str:
    """The model name of the processor in /proc/cpuinfo, or "unknown"."""
    name = re.search(r"^model name\s*:\s*(.+)$", cpuinfo.read_text(), re.MULTILINE)
    return name[1].strip() if name else "unknown"


PERIOD_S = 0.020
READINGS_PER_SEARCH = 5
"""New processes are searched for at every fifth reading of the counters."""
MOST_READINGS = 10_000
"""The largest number of readings in memory. Beyond it, every other is dropped and the period is doubled."""


@dataclass(frozen=True)
class Waited:
    """The growth of two counters of a set of threads."""

    waited_ns: int
    """The total time for which threads were ready to run and did not run."""
    dispatches: int
    """How often a thread was put on a processor."""


@dataclass(frozen=True)
class _Reading:
    at_ns: int
    waited_ns: float
    dispatches: float


def is_counted(pid: int) -> bool:
    """Whether this kernel counts the waits of a process and names its children (CONFIG_SCHED_INFO, PROC_CHILDREN)."""
    return Path(f"/proc/{pid}/task/{pid}/children").exists() and _counters(f"/proc/{pid}/task/{pid}") is not None


class ProcessorWaits:
    """Reads the counters of a process and all its descendants, in its own thread, until it is closed.

    It reads between runs too, because the message that a run begins may be late on a busy machine. Times are of this
    machine's clock, in ns since 1970; a guest on the clock `real` has the same.
    """

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._readings: list[_Reading] = []
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop reading; the readings stay."""
        self._closed.set()
        self._thread.join()

    def between(self, first_ns: int, last_ns: int) -> Waited | None:
        """The waits in that time, interpolated between readings. None if readings do not cover all of it."""
        with self._lock:
            readings = list(self._readings)
        if len(readings) < 2 or not readings[0].at_ns <= first_ns <= last_ns <= readings[-1].at_ns:
            return None
        begin, end = _at(readings, first_ns), _at(readings, last_ns)
        return Waited(round(end.waited_ns - begin.waited_ns), round(end.dispatches - begin.dispatches))

    def since(self, first_ns: int) -> Waited | None:
        """The waits from a time to the latest reading. None if readings do not cover all of it."""
        with self._lock:
            last_ns = self._readings[-1].at_ns if self._readings else first_ns
        return self.between(first_ns, last_ns)

    def forget(self, before_ns: int) -> None:
        """Drop the readings before a time."""
        with self._lock:
            self._readings = [reading for reading in self._readings if reading.at_ns >= before_ns]

    def _watch(self) -> None:
        counted: dict[str, tuple[int, int]] = {}
        threads: list[str] = []
        period_s, number = PERIOD_S, 0
        while True:
            if number % READINGS_PER_SEARCH == 0:
                threads = _threads_of(self._pid)
            at_ns = time.time_ns()
            for thread in threads:
                if (now := _counters(thread)) is not None:
                    counted[thread] = now
            waited_ns, dispatches = (sum(values[place] for values in counted.values()) for place in (0, 1))
            with self._lock:
                self._readings.append(_Reading(at_ns, waited_ns, dispatches))
                if len(self._readings) > MOST_READINGS:
                    del self._readings[1::2]
                    period_s *= 2
                elif len(self._readings) < MOST_READINGS // 2:
                    period_s = PERIOD_S
            number += 1
            if self._closed.wait(period_s):
                return


def _at(readings: list[_Reading], time_ns: int) -> _Reading:
    """The counters at a time between the first reading and the last."""
    place = max(bisect_left(readings, time_ns, key=lambda reading: reading.at_ns), 1)
    before, after = readings[place - 1], readings[place]
    share = (time_ns - before.at_ns) / max(after.at_ns - before.at_ns, 1)
    return _Reading(
        time_ns,
        before.waited_ns + share * (after.waited_ns - before.waited_ns),
        before.dispatches + share * (after.dispatches - before.dispatches),
    )


def _threads_of(pid: int) -> list[str]:
    """The directories in /proc of all threads of a process and its descendants."""
    directories: list[str] = []
    pids = [str(pid)]
    while pids:
        directory = Path("/proc", pids.pop(), "task")
        try:
            threads = [str(path) for path in directory.iterdir()]
        except OSError:
            continue
        directories += threads
        for thread in threads:
            pids += _read(f"{thread}/children").split()
    return directories


def _counters(thread: str) -> tuple[int, int] | None:
    """How long a thread waited in ns, and how often it was dispatched; None if it has ended or is not counted."""
    fields = _read(f"{thread}/schedstat").split()
    return (int(fields[1]), int(fields[2])) if len(fields) == 3 and fields != ["0", "0", "0"] else None


def _read(path: str) -> str:
    try:
        return Path(path).read_text()
    except OSError:
        return ""


PRESSURE = Path("/proc/pressure/cpu")
QUIET_SHARE = 0.05
"""The share of time in which some thread may wait for a processor on a quiet machine."""
WINDOW_S = 1.0
PATIENCE_S = 120.0
"""The total time for which a start of a sweep waits for a quiet machine, unless OWLT_PATIENCE_S is set."""


class Patience:
    """Waits for the machine to be quiet, as often as needed, but in total no longer than `patience_s`.

    `stalled_s` counts like `stalled_in_all_s`; `sleep` and `now_s` are the clock.
    """

    def __init__(
        self,
        patience_s: float = PATIENCE_S,
        stalled_s: Callable[[], float | None] | None = None,
        sleep: Callable[[float], None] = time.sleep,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._left_s = patience_s
        self._stalled_s = stalled_s or stalled_in_all_s
        self._now_s = now_s
        self._sleep = sleep

    @property
    def is_used_up(self) -> bool:
        """Whether its time is used up."""
        return self._left_s <= 0

    def wait_for_quiet(self, is_over: Callable[[], bool], stalled_s: Callable[[], float | None] | None = None) -> bool:
        """Return True once the machine was quiet for WINDOW_S; False if the time is used up or `is_over`.

        `stalled_s` counts on another machine.
        """
        stalled_s = stalled_s or self._stalled_s
        while not (self.is_used_up or is_over()):
            begin_s, before_s = self._now_s(), stalled_s()
            self._sleep(WINDOW_S)
            passed_s, after_s = self._now_s() - begin_s, stalled_s()
            if before_s is None or after_s is None or after_s - before_s < QUIET_SHARE * passed_s:
                return True
            self._left_s -= passed_s
        return False


def stalled_in_all_s(pressure: Path = PRESSURE) -> float | None:
    """The time in which some thread waited for a processor since this machine started; None if it is not counted."""
    try:
        counted = re.search(r"^some .*\btotal=(\d+)", pressure.read_text(), re.MULTILINE)
    except OSError:
        return None
    return int(counted[1]) / 1e6 if counted else None
