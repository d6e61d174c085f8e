"""The packets of a run, when somebody wants to see them: `owlt analyse`, one at a time, into a temporary directory.

The results directory stays as it is. The analysis is the one that a user would start, at a low priority.
"""

from __future__ import annotations

import csv
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

MOST_KEPT = 32
MOST_WAITING = 8
MOST_ROWS = 200
LONGEST_S = 600.0

Analyse = Callable[[Path, Path], str]
"""Analyses a run's directory into another one; returns what went wrong, "" if nothing."""


def owlt_analyse(run: Path, out: Path) -> list[str]:
    """`owlt analyse RUN --out OUT`, at a low priority."""
    owlt = Path(sys.executable).with_name("owlt")
    return ["nice", "-n", "10", str(owlt), "analyse", str(run), "--out", str(out)]


class AnalysisProcesses:
    """Analyses runs, each in a process of its own, until it is closed."""

    def __init__(self, command: Callable[[Path, Path], Sequence[str]] = owlt_analyse) -> None:
        self._command = command
        self._lock = threading.Lock()
        self._process: subprocess.Popen[str] | None = None
        self._is_closed = False

    def __call__(self, run: Path, out: Path) -> str:
        """As `Analyse`."""
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
                _, errors = process.communicate(timeout=LONGEST_S)
            except subprocess.TimeoutExpired as problem:
                _end(process)
                return str(problem)
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
    """The latest analyses. `keep` is the directory for their files; who gives it removes it."""

    def __init__(self, keep: Path, analyse: Analyse | None = None) -> None:
        self.keep = keep
        self._analyse = analyse or AnalysisProcesses()
        self._views: OrderedDict[tuple[str, int], PacketView] = OrderedDict()
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="analyse")
        self._lock = threading.Lock()
        self._number = 0

    def view(self, run: Path) -> PacketView | None:
        """The analysis of a run as it is now; None if nobody asked for one."""
        with self._lock:
            return self._views.get(_version(run))

    def request(self, run: Path) -> PacketView:
        """The analysis of a run, which is begun if there is none. Raises TooMany."""
        with self._lock:
            version = _version(run)
            if version in self._views:
                return self._views[version]
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
        stamp = run.stat().st_mtime_ns
    return str(run), stamp


@dataclass(frozen=True)
class PacketRow:
    """A packet that did not arrive as it was sent."""

    host: str
    frame: str
    sent_s: str
    """Since the first packet of the session."""
    wire_bytes: str
    fate: str


def missing_packets(directory: Path) -> tuple[Sequence[PacketRow], int]:
    """The first packets that were not delivered intact, in the order of their departure; and how many there are."""
    with (directory / "packets.csv").open(newline="") as file:
        rows = sorted(csv.DictReader(file), key=lambda row: int(row["sent_ns"]))
    first_ns = int(rows[0]["sent_ns"]) if rows else 0
    missing = list(_not_delivered(rows, first_ns))
    return missing[:MOST_ROWS], len(missing)


def _not_delivered(rows: Sequence[dict[str, str]], first_ns: int) -> Iterator[PacketRow]:
    for row in rows:
        if row["fate"] != "delivered":
            sent_s = (int(row["sent_ns"]) - first_ns) / 1e9
            yield PacketRow(row["host"], row["frame"], f"{sent_s:.6f}", row["wire_bytes"], row["fate"])
