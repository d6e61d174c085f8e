"""What the dashboard computes in child processes at low priority: the answer of a sweep so far, and the packets of a
run, when somebody wants to see them.

The answer is the output of `owlt answer`. While somebody looks at the page, it is computed again if runs were recorded
since, at most once a minute, and so that all answers of a results directory take at most SHARE_OF_TIME of a processor.

Programs that read captures run one at a time, into a temporary directory. `owlt analyse` is the analysis that a user
would start, and needs the token. The list of the packets that did not arrive needs no token: the server starts it only
for runs whose ledger has some, with limits on captures, time and number. The results directory stays as it is.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from owlt.captures.accounting.derived_files import CAPTURES
from owlt.orchestrator.dashboard.index import Snapshot
from owlt.results.plain_files import is_plain
from owlt.results.record import RECORD_NAME

EVERY_S = 60.0
SHARE_OF_TIME = 0.02
LONGEST_S = 600.0
"""After so long, an answer or an analysis is ended."""


class ChildProcess:
    """Runs one program at a time, each in a process group of its own, until it is closed. Any thread may close it."""

    def __init__(self) -> None:
        self.is_closed = False
        self._lock = threading.Lock()
        self._process: subprocess.Popen[str] | None = None

    def run(self, command: Sequence[str], longest_s: float) -> subprocess.CompletedProcess[str] | None:
        """Run a program to its end; None if this was closed before. Raises OSError, and subprocess.TimeoutExpired after
        the program and its children have been ended."""
        with self._lock:
            if self.is_closed:
                return None
            process = self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                encoding="utf-8",
                errors="replace",
                start_new_session=True,
            )
        with process:
            try:
                output, errors = process.communicate(timeout=longest_s)
            except subprocess.TimeoutExpired:
                _end(process)
                raise
            finally:
                with self._lock:
                    self._process = None
        return subprocess.CompletedProcess(command, process.returncode, output, errors)

    def close(self) -> None:
        """End the program that runs, with its children, and run no other one."""
        with self._lock:
            self.is_closed = True
            process = self._process
        if process is not None:
            _end(process)


def _end(process: subprocess.Popen[str]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


@dataclass(frozen=True)
class SoFar:
    """An answer in words. `headline` is "" if there is none, such as of one implementation."""

    headline: str
    certainty: str
    sureness: str
    criterion: str
    recorded: int
    """The runs that were recorded when it was computed."""


def owlt_answer(results: Path) -> list[str]:
    """`owlt answer RESULTS --json`, at the lowest priority."""
    return [*_owlt(19), "answer", str(results), "--json"]


def _owlt(niceness: int) -> list[str]:
    return ["nice", "-n", str(niceness), str(Path(sys.executable).with_name("owlt"))]


class Answers:
    """The latest answer of each results directory, until it is closed; one is computed at a time."""

    def __init__(
        self,
        command: Callable[[Path], Sequence[str]] = owlt_answer,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._command = command
        self._now_s = now_s
        self._latest: dict[Path, SoFar] = {}
        self._of_runs: dict[Path, int] = {}
        """The digest of the outcomes that the latest answer is computed from."""
        self._next_s: dict[Path, float] = {}
        self._lock = threading.Lock()
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="answer")
        self._process = ChildProcess()

    def of(self, results: Path, snapshot: Snapshot) -> SoFar | None:
        """The latest answer; None if there is none yet. Another one is begun if it is due."""
        with self._lock:
            if not self._process.is_closed and self._now_s() >= self._next_s.get(results, float("-inf")):
                outcomes = [(each.state.outcome, each.state.attempt) for each in snapshot.rows.values()]
                recorded = sum(outcome is not None for outcome, _ in outcomes)
                digest = hash((snapshot.plan_version, tuple(outcomes)))
                if recorded and digest != self._of_runs.get(results):
                    self._of_runs[results] = digest
                    self._next_s[results] = float("inf")  # until this one has ended
                    self._pool.submit(self._compute, results, recorded)
            return self._latest.get(results)

    def close(self) -> None:
        """End what is computed, and begin nothing more."""
        self._process.close()
        self._pool.shutdown()

    def _compute(self, results: Path, recorded: int) -> None:
        began_s = self._now_s()
        try:
            done = self._process.run(self._command(results), LONGEST_S)
        except (OSError, subprocess.SubprocessError):
            done = None
        answer = so_far(done.stdout if done else "", recorded)
        with self._lock:
            ended_s = self._now_s()
            self._latest[results] = answer
            self._next_s[results] = ended_s + max(EVERY_S, (ended_s - began_s) / SHARE_OF_TIME)


def so_far(output: str, recorded: int) -> SoFar:
    """The answer in the output of `owlt answer --json`, which is empty if it was refused."""
    try:
        value: dict[str, Any] = json.loads(output)
        headline, certainty, sureness, criterion = (
            str(value[name]) for name in ("headline", "certainty", "sureness", "criterion")
        )
    except (ValueError, LookupError, TypeError):
        return SoFar("", "", "", "", recorded)
    return SoFar(headline, certainty, sureness, criterion, recorded)


ANALYSIS, ANALYSIS_PAGE = "analysis", "index.html"
"""Where `owlt analyse RUN` leaves its result in the directory of a run."""
MOST_KEPT = 32
MOST_WAITING = 8
LONGEST_LIST_S = 60.0
MOST_LISTED_BYTES = 100_000_000
"""The largest size of both captures: those of longer runs are read only for a user with the token."""

Analyse = Callable[[Path, Path], str]
"""Analyses a run's directory into another one; returns what went wrong, "" if nothing."""


def owlt_analyse(run: Path, out: Path) -> list[str]:
    """`owlt analyse RUN --out OUT`, at a low priority."""
    return [*_owlt(10), "analyse", str(run), "--out", str(out)]


def list_missing(run: Path, out: Path) -> list[str]:
    """`orchestrator.dashboard.missing_packets`, at a low priority."""
    return ["nice", "-n", "10", sys.executable, "-m", MISSING_PACKETS, str(run), str(out)]


MISSING_PACKETS = "owlt.orchestrator.dashboard.missing_packets"


class AnalysisProcesses:
    """Analyses runs, each in a process of its own, until it is closed."""

    def __init__(
        self, command: Callable[[Path, Path], Sequence[str]] = owlt_analyse, longest_s: float = LONGEST_S
    ) -> None:
        self._command = command
        self._longest_s = longest_s
        self._process = ChildProcess()

    def __call__(self, run: Path, out: Path) -> str:
        """Analyse a run; this is an `Analyse`."""
        try:
            done = self._process.run(self._command(run, out), self._longest_s)
        except subprocess.TimeoutExpired:
            return f"it took more than {self._longest_s:g} s"
        except OSError as problem:
            return str(problem)
        if done is None:
            return ENDED
        return done.stderr.strip().removeprefix("owlt: ") or f"exit status {done.returncode}" if done.returncode else ""

    def close(self) -> None:
        """End the analysis that runs, and begin no other one: its files may be removed then."""
        self._process.close()


ENDED = "the dashboard has ended"


class TooMany(Exception):
    """So many analyses wait that another one is refused."""


@dataclass(frozen=True)
class PacketView:
    """An analysis that was asked for."""

    directory: Path
    ending: Future[str]

    @property
    def is_ready(self) -> bool:
        """Whether it has ended, well or not."""
        return self.ending.done()

    @property
    def problem(self) -> str:
        """Why there is none, once it has ended; "" if there is."""
        return self.ending.result() if self.is_ready else ""


class PacketViews:
    """The latest analyses. `keep` is the directory for their files; who gives it removes it.

    `kept` finds one that somebody else has made.
    """

    def __init__(
        self, keep: Path, analyse: Analyse | None = None, kept: Callable[[Path], PacketView | None] | None = None
    ) -> None:
        self.keep = keep
        self._kept = kept or kept_analysis
        self._analyse = analyse or AnalysisProcesses()
        self._views: OrderedDict[tuple[str, int], PacketView] = OrderedDict()
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="analyse")
        self._lock = threading.Lock()
        self._number = 0

    def view(self, run: Path) -> PacketView | None:
        """The analysis of a run as it is now; None if nobody has asked for one or made one."""
        with self._lock:
            return self._views.get(_version(run)) or self._kept(run)

    def request(self, run: Path) -> PacketView:
        """The analysis of a run, which is begun if there is none. Raises TooMany."""
        with self._lock:
            version = _version(run)
            there = self._views.get(version) or self._kept(run)
            if there is not None:
                return there
            if sum(not view.is_ready for view in self._views.values()) >= MOST_WAITING:
                raise TooMany
            self._number += 1
            directory = self.keep / str(self._number)
            view = PacketView(directory, self._pool.submit(self._analyse, run, directory))
            self._views[version] = view
            self._forget_oldest()
            return view

    def _forget_oldest(self) -> None:
        ready = [version for version, view in self._views.items() if view.is_ready]
        for version in ready[: max(len(self._views) - MOST_KEPT, 0)]:
            shutil.rmtree(self._views.pop(version).directory, ignore_errors=True)


def _version(run: Path) -> tuple[str, int]:
    """A run as it is: another one once its directory has changed."""
    stamp = 0
    with suppress(OSError):
        stamp = run.lstat().st_mtime_ns
    return str(run), stamp


def lists_in(keep: Path, make: Analyse) -> PacketViews:
    """The lists of packets that did not arrive, in a directory of their own below `keep`."""
    directory = keep / "missing"
    directory.mkdir(exist_ok=True)
    return PacketViews(directory, make, kept=lambda run: None)


def kept_analysis(run: Path) -> PacketView | None:
    """The analysis that `owlt analyse` wrote into the directory of a run, unless the record is newer."""
    directory = run / ANALYSIS
    try:
        is_current = (directory / ANALYSIS_PAGE).lstat().st_mtime_ns >= (run / RECORD_NAME).lstat().st_mtime_ns
    except OSError:
        return None
    ending: Future[str] = Future()
    ending.set_result("")
    return PacketView(directory, ending) if is_current and is_plain(directory / ANALYSIS_PAGE) else None


def may_list(run: Path) -> bool:
    """Whether the captures of a run are there, and short enough to be read for everybody."""
    try:
        return sum((run / name).lstat().st_size for name in CAPTURES) <= MOST_LISTED_BYTES
    except OSError:
        return False
