"""A sweep whose processes are killed at random moments, restarted as a user would, and what is wrong at its end.

The process that performs it becomes the reaper of all that the sweep starts, so nothing that is left over is missed.
"""

from __future__ import annotations

import ctypes
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from owlt.orchestrator.planning.plan import read_plan
from owlt.orchestrator.rigs.network import leftovers
from owlt.orchestrator.run.analysis import is_to_analyse
from owlt.results.record import Outcome, RunRecord, read_record
from owlt.results.recorded_runs import recorded_directories
from tests.commands import WITHOUT_PATIENCE

PR_SET_CHILD_SUBREAPER = 36
PROJECT = Path(__file__).parents[1]
DONE = (0, 3)
"""Exit statuses of `owlt run` if every run is recorded."""
LAST_SHARE = 0.9
"""The last kill waits for this share of the runs, so that the sweep does not end before it."""
LONGEST_DELAY_S = 1.5
NO_TARGET_S = 5.0
"""How long a kill waits for a process of its kind; then another kind takes its turn."""
LEFT_S = 120.0
"""How long processes may take to end after the orchestrator."""
MOST_STARTS_WITHOUT_KILLS = 6
PERIOD_S = 0.05

Identity = tuple[int, int]
"""Of a record's file: inode and time of its last change in ns."""


@dataclass(frozen=True)
class Process:
    """One process, from /proc."""

    pid: int
    parent: int
    command: tuple[str, ...]
    directory: Path | None
    is_leader: bool
    """Whether it leads a session."""


Kind = Callable[[Process], bool]
"""Tells whether a process, which a sweep has started, is one of a kind."""


def kinds_of_virtual_rig(results: Path, temporary: Path) -> dict[str, Kind]:
    """The processes of a sweep in guests; `temporary` has its temporary files."""
    return {
        "orchestrator": lambda process: "run" in process.command[2:3],
        "guest": lambda process: process.is_leader and _is_below(process.directory, results),
        "template": lambda process: process.is_leader and _is_below(process.directory, temporary),
        "analysis": lambda process: any("spawn_main" in word for word in process.command),
    }


def kinds_of_local_rig() -> dict[str, Kind]:
    """The processes of a sweep in namespaces of this kernel."""
    return {
        "orchestrator": lambda process: "run" in process.command[2:3],
        "worker": lambda process: "owlt.orchestrator.run" in process.command,
        "emulator": lambda process: process.command[1:3] == ("-m", "owlt.emulator"),
    }


def _is_below(path: Path | None, directory: Path) -> bool:
    return path is not None and path.is_relative_to(directory)


@dataclass
class KilledSweep:
    """A sweep that is killed again and again until it is complete. `problems` are sentences about what went wrong."""

    sweep: Path
    results: Path
    temporary: Path
    """For the sweep's temporary files: an empty directory."""
    kinds: dict[str, Kind]
    draw: random.Random
    kills: Counter[str] = field(default_factory=Counter)
    starts: int = 0
    problems: list[str] = field(default_factory=list)
    _identities: dict[str, Identity] = field(default_factory=dict)
    _others: set[int] = field(default_factory=set)
    """Processes below this one that are not the sweep's, such as the resource tracker of an earlier test's pool."""

    def perform(self, kills: int, runs: int) -> None:
        """Start the sweep until it is complete, with so many kills while its runs are performed."""
        become_reaper()
        self._others = {process.pid for process in started()}
        before = interfaces()
        todo = self._plan_of_kills(kills, runs)
        spare = MOST_STARTS_WITHOUT_KILLS
        while spare:
            spare -= not todo
            status = self._start_once(todo)
            self._check()
            if status in DONE:
                break
        else:
            self.problems.append(f"not complete after {self.starts} starts; the last one ended with status {status}")
        self.problems += [f"{kind} was never killed" for kind in self.kinds if not self.kills[kind]]
        self.problems += [f"{len(todo)} kills were left when the sweep was complete"] if todo else []
        self.problems += self._incomplete()
        self.problems += [f"left over: {name}" for name in interfaces() - before]
        self.problems += [f"left over: {path}" for path in self.temporary.iterdir()]

    def _plan_of_kills(self, kills: int, runs: int) -> list[tuple[int, str]]:
        """After how many recorded runs to kill a process of which kind, the first first."""
        kinds = [kind for kind, _ in zip(_in_turn(list(self.kinds)), range(kills), strict=False)]
        self.draw.shuffle(kinds)
        return [(int(LAST_SHARE * runs * number / kills), kind) for number, kind in enumerate(kinds)]

    def _start_once(self, todo: list[tuple[int, str]]) -> int:
        """Start the sweep; it ends by itself, or because it was killed. Returns its exit status."""
        self.starts += 1
        command = [sys.executable, str(Path(sys.executable).parent / "owlt"), "run", str(self.sweep)]
        command += ["--results", str(self.results), "--no-report"]
        env = os.environ | WITHOUT_PATIENCE | {"TMPDIR": str(self.temporary)}
        with (self.temporary.parent / "output.txt").open("a") as output:
            sweep = subprocess.Popen(command, stdout=output, stderr=output, cwd=PROJECT, env=env)
        while sweep.poll() is None and todo:
            if len(recorded_directories(self.results)) >= todo[0][0]:
                time.sleep(self.draw.uniform(0, LONGEST_DELAY_S))
                self._kill(todo, sweep)
            time.sleep(PERIOD_S)
        status = sweep.wait()
        self.problems += [f"left over after start {self.starts}: {each}" for each in self._processes_left()]
        return status

    def _kill(self, todo: list[tuple[int, str]], sweep: subprocess.Popen[bytes]) -> None:
        """Kill a process of the next kind; if there is none for a while, this kind comes last."""
        kind = todo[0][1]
        end_s = time.monotonic() + NO_TARGET_S
        while sweep.poll() is None and time.monotonic() < end_s:
            targets = [process for process in self._started() if self.kinds[kind](process)]
            if targets:
                with suppress(ProcessLookupError):
                    os.kill(self.draw.choice(targets).pid, signal.SIGKILL)
                    self.kills[kind] += 1
                    todo.pop(0)
                return
            time.sleep(PERIOD_S)
        todo[:] = [(count, later) for (count, _), (_, later) in zip(todo, [*todo[1:], todo[0]], strict=True)]

    def _started(self) -> list[Process]:
        return [process for process in started() if process.pid not in self._others]

    def _processes_left(self) -> list[str]:
        """The processes that are still there some time after the sweep has ended; they are killed."""
        end_s = time.monotonic() + LEFT_S
        while (left := self._started()) and time.monotonic() < end_s:
            time.sleep(PERIOD_S)
        for process in left:
            with suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGKILL)
        return [" ".join(process.command) or f"process {process.pid}" for process in left]

    def _check(self) -> None:
        """Every record is readable, and none has changed that was final."""
        for directory in recorded_directories(self.results):
            record = self._record(directory)
            status = (directory / "record.json").stat()
            identity = status.st_ino, status.st_mtime_ns
            if self._identities.get(directory.name, identity) != identity:
                self.problems.append(f"{directory.name}: performed again although it was recorded")
            if record and record.outcome is not Outcome.ABORTED:
                self._identities[directory.name] = identity

    def _record(self, directory: Path) -> RunRecord | None:
        try:
            return read_record(directory)
        except Exception as problem:
            self.problems.append(f"{directory.name}: {problem}")
            return None

    def _incomplete(self) -> Iterator[str]:
        """What the results directory is missing, or has too much."""
        planned = {run.run_id for run in read_plan(self.results).runs}
        there = {path.name for path in (self.results / "runs").iterdir()}
        yield from (f"{name}: has no record" for name in planned - there)
        yield from (f"runs/{name}: not planned" for name in there - planned)
        for name in sorted(planned & there):
            record = self._record(self.results / "runs" / name)
            if record and record.outcome is not Outcome.COMPLETED:
                yield f"{name}: {record.outcome}: {record.reason}"
            if record and is_to_analyse(self.results / "runs" / name, record, "headers"):
                yield f"{name}: not analysed"
        for path in self.results.iterdir():
            if path.name.startswith(".") or path.name == "workers":
                yield f"left over: {path}"

    @property
    def repeated(self) -> int:
        """Attempts beyond the first of each run that its records count."""
        records = [self._record(directory) for directory in recorded_directories(self.results)]
        return sum(record.attempt - 1 for record in records if record)


def _in_turn(kinds: Sequence[str]) -> Iterator[str]:
    while True:
        yield from kinds


def become_reaper() -> None:
    """Have all processes whose parents end become children of this one."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def started() -> list[Process]:
    """The living processes below this one."""
    every = {process.pid: process for process in _processes()}
    return [process for process in every.values() if os.getpid() in _ancestors(process.pid, every)]


def _ancestors(pid: int, every: dict[int, Process]) -> Iterator[int]:
    while pid in every:
        pid = every[pid].parent
        yield pid


def _processes() -> Iterator[Process]:
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(FileNotFoundError, ProcessLookupError):
                state, parent, _, session = (entry / "stat").read_text().rpartition(")")[2].split()[:4]
                if state not in "ZX":
                    command = tuple((entry / "cmdline").read_bytes().decode(errors="replace").rstrip("\0").split("\0"))
                    pid = int(entry.name)
                    yield Process(pid, int(parent), command, _directory(entry), int(session) == pid)


def _directory(entry: Path) -> Path | None:
    try:
        return (entry / "cwd").readlink()
    except OSError:
        return None


def interfaces() -> set[str]:
    """What stands of a local rig on this kernel. Other tests of this machine may have namespaces of other names."""
    return set(leftovers())
