"""The analysis of published runs beside the sweep: in processes of their own, so that no worker waits for it.

A few runs at most wait for their analysis; then the next worker waits too, so that complete captures do not pile up.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from concurrent.futures import CancelledError, Executor, Future
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from pathlib import Path

from owlt.orchestrator.results.analysis import mark_failed

Analyse = Callable[[Path], str]
"""Analyses a published run. Returns the problem, "" if there is none. Pickled, if the executor is a process pool."""
MakeExecutor = Callable[[], Executor]
Note = Callable[[str, str], None]
"""Gets the id of a run and the problem of its analysis, "" if there is none; from any thread."""

MOST_WAITING = 8
"""Runs that are published and not yet analysed: some seconds of work, and at most some 200 MB of complete captures."""
PROCESS_ENDED = "a process of the analysis ended unexpectedly; if memory ran out, run fewer guests at a time"


class Analyses:
    """Starts the analysis of each published run, and notes its result."""

    def __init__(self, analyse: Analyse, make_executor: MakeExecutor, note: Note) -> None:
        self._analyse = analyse
        self._make_executor = make_executor
        self._note = note
        self._executor: Executor | None = None
        self._lock = threading.Lock()
        self._room = threading.Semaphore(MOST_WAITING)
        self._problem: BaseException | None = None

    def start(self, directory: Path) -> None:
        """Start the analysis of a run. Waits if too many wait already. Raises what an earlier analysis raised."""
        self._raise_problem()
        self._room.acquire()
        self._submit(directory).add_done_callback(partial(self._take, directory))

    def finish(self) -> None:
        """Wait for all that were started. Raises what one of them raised."""
        with self._lock:
            executor, self._executor = self._executor, None
        if executor is not None:
            executor.shutdown()
        self._raise_problem()

    def _submit(self, directory: Path) -> Future[str]:
        with self._lock:
            # Ctrl-C and a closed terminal signal all processes; those of the analysis complete their current work.
            blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGHUP})
            try:
                if self._executor is None:
                    self._executor = self._make_executor()
                try:
                    return self._executor.submit(self._analyse, directory)
                except BrokenProcessPool:
                    self._executor = self._make_executor()
                    return self._executor.submit(self._analyse, directory)
            finally:
                signal.pthread_sigmask(signal.SIG_SETMASK, blocked)

    def _take(self, directory: Path, done: Future[str]) -> None:
        """Note the result of an analysis, from a thread of the executor."""
        try:
            self._note(directory.name, self._result(directory, done))
        except BaseException as raised:  # the executor would drop it
            self._problem = self._problem or raised
        finally:
            self._room.release()

    def _result(self, directory: Path, done: Future[str]) -> str:
        """The problem of an analysis, "" if there is none; what it raised is kept."""
        try:
            return done.result()
        except (BrokenProcessPool, CancelledError):
            mark_failed(directory, PROCESS_ENDED)
            return f"analysis failed: {PROCESS_ENDED}"
        except BaseException as raised:
            self._problem = self._problem or raised
            return f"analysis failed: {raised}"

    def _raise_problem(self) -> None:
        if self._problem is not None:
            raise self._problem
