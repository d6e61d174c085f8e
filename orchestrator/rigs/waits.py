"""For how long a rig's processes waited for a processor: read from /proc while a run lasts, without stopping anything.

Linux counts for each thread how long it was ready to run and did not (`run delay`, proc_pid_schedstat in
Documentation/scheduler/sched-stats.rst). A guest's processes are processes of this machine, so that what the machine
withholds from a guest, and the guest cannot see, is counted as well.
"""

from __future__ import annotations

import threading
import time
from bisect import bisect_left
from dataclasses import dataclass
from pathlib import Path

PERIOD_S = 0.020
LOOKS_PER_SURVEY = 5
"""Processes are looked for anew with every so manieth look at those that are known."""
MOST_LOOKS = 10_000
"""So many looks are kept. Where there would be more, every other is dropped and the period doubled."""


@dataclass(frozen=True)
class Waited:
    """By how much two counters of a set of threads have grown."""

    waited_ns: int
    """Ready to run and not running, all threads together."""
    dispatches: int
    """How often a thread was put on a processor."""


@dataclass(frozen=True)
class _Look:
    at_ns: int
    waited_ns: float
    dispatches: float


def is_counted(pid: int) -> bool:
    """Whether this kernel counts the waits of a process and names its children (CONFIG_SCHED_INFO, PROC_CHILDREN)."""
    return Path(f"/proc/{pid}/task/{pid}/children").exists() and _counters(f"/proc/{pid}/task/{pid}") is not None


class ProcessorWaits:
    """Looks at a process and all that descends from it, in a thread of its own, until it is closed.

    It need not be told when a run begins, since whoever would tell it may be busy. Times are of this machine's clock,
    in ns since 1970; a guest on the clock `real` has the same.
    """

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._looks: list[_Look] = []
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Look no more; what was seen stays."""
        self._closed.set()
        self._thread.join()

    def between(self, first_ns: int, last_ns: int) -> Waited | None:
        """What was waited in that time, in between two looks in proportion. None where it was not all looked at."""
        with self._lock:
            looks = list(self._looks)
        if len(looks) < 2 or not looks[0].at_ns <= first_ns <= last_ns <= looks[-1].at_ns:
            return None
        begin, end = _at(looks, first_ns), _at(looks, last_ns)
        return Waited(round(end.waited_ns - begin.waited_ns), round(end.dispatches - begin.dispatches))

    def since(self, first_ns: int) -> Waited | None:
        """What was waited from a time to the latest look. None where it was not all looked at."""
        with self._lock:
            last_ns = self._looks[-1].at_ns if self._looks else first_ns
        return self.between(first_ns, last_ns)

    def forget(self, before_ns: int) -> None:
        """Drop what was seen before a time: nobody will ask for it any more."""
        with self._lock:
            self._looks = [look for look in self._looks if look.at_ns >= before_ns]

    def _watch(self) -> None:
        counted: dict[str, tuple[int, int]] = {}
        threads: list[str] = []
        period_s, number = PERIOD_S, 0
        while True:
            if number % LOOKS_PER_SURVEY == 0:
                threads = _threads_of(self._pid)
            at_ns = time.time_ns()
            for thread in threads:
                if (now := _counters(thread)) is not None:
                    counted[thread] = now
            waited_ns, dispatches = (sum(values[place] for values in counted.values()) for place in (0, 1))
            with self._lock:
                self._looks.append(_Look(at_ns, waited_ns, dispatches))
                if len(self._looks) > MOST_LOOKS:
                    del self._looks[1::2]
                    period_s *= 2
                elif len(self._looks) < MOST_LOOKS // 2:
                    period_s = PERIOD_S
            number += 1
            if self._closed.wait(period_s):
                return


def _at(looks: list[_Look], time_ns: int) -> _Look:
    """The counters at a time that lies between the first look and the last."""
    place = max(bisect_left(looks, time_ns, key=lambda look: look.at_ns), 1)
    before, after = looks[place - 1], looks[place]
    share = (time_ns - before.at_ns) / max(after.at_ns - before.at_ns, 1)
    return _Look(
        time_ns,
        before.waited_ns + share * (after.waited_ns - before.waited_ns),
        before.dispatches + share * (after.dispatches - before.dispatches),
    )


def _threads_of(pid: int) -> list[str]:
    """The directories in /proc of all threads of a process and its descendants."""
    found: list[str] = []
    pids = [str(pid)]
    while pids:
        directory = Path("/proc", pids.pop(), "task")
        try:
            threads = [str(path) for path in directory.iterdir()]
        except OSError:
            continue
        found += threads
        for thread in threads:
            pids += _read(f"{thread}/children").split()
    return found


def _counters(thread: str) -> tuple[int, int] | None:
    """How long a thread waited in ns, and how often it was dispatched; None where it is gone or is not counted."""
    fields = _read(f"{thread}/schedstat").split()
    return (int(fields[1]), int(fields[2])) if len(fields) == 3 and fields != ["0", "0", "0"] else None


def _read(path: str) -> str:
    try:
        return Path(path).read_text()
    except OSError:
        return ""
