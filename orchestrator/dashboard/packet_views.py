"""The packets of a run, when somebody wants to see them: programs that read captures, one at a time and at a low
priority, into a temporary directory.

`owlt analyse` is the analysis that a user would start, and takes the token. The list of the packets that did not arrive
needs no token: the server starts it only for runs whose ledger has some, with limits on captures, time and number. The
results directory stays as it is.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from owlt.captures.accounting.derived_files import CAPTURES
from owlt.results.plain_files import is_plain
from owlt.results.record import RECORD_NAME

ANALYSIS, ANALYSIS_PAGE = "analysis", "index.html"
"""Where `owlt analyse RUN` leaves its result in the directory of a run."""
MOST_KEPT = 32
MOST_WAITING = 8
LONGEST_S = 600.0
LONGEST_LIST_S = 60.0
MOST_LISTED_BYTES = 100_000_000
"""The largest size of both captures: those of longer runs are read only for a user with the token."""

Analyse = Callable[[Path, Path], str]
"""Analyses a run's directory into another one; returns what went wrong, "" if nothing."""


def owlt_analyse(run: Path, out: Path) -> list[str]:
    """`owlt analyse RUN --out OUT`, at a low priority."""
    owlt = Path(sys.executable).with_name("owlt")
    return ["nice", "-n", "10", str(owlt), "analyse", str(run), "--out", str(out)]


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
        self._lock = threading.Lock()
        self._process: subprocess.Popen[str] | None = None
        self._is_closed = False

    def __call__(self, run: Path, out: Path) -> str:
        """Analyse a run; this is an `Analyse`."""
        try:
            with self._lock:
                if self._is_closed:
                    return ENDED
                process = self._process = subprocess.Popen(
                    self._command(run, out),
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.PIPE,
                    text=True,
                    start_new_session=True,
                )
            try:
                _, errors = process.communicate(timeout=self._longest_s)
            except subprocess.TimeoutExpired:
                _end(process)
                process.communicate()
                return f"it took more than {self._longest_s:g} s"
        except OSError as problem:
            return str(problem)
        return (
            errors.strip().removeprefix("owlt: ") or f"exit status {process.returncode}" if process.returncode else ""
        )

    def close(self) -> None:
        """End the analysis that runs, and begin no other one: its files may be removed then."""
        with self._lock:
            self._is_closed = True
        if self._process is not None:
            _end(self._process)


ENDED = "the dashboard has ended"


def _end(process: subprocess.Popen[str]) -> None:
    """End a process with its children, and wait for it."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


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
