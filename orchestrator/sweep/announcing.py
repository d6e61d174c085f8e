"""What owlt reports of a sweep to other programs: metrics for Prometheus, and its end to a command of the user.

The metrics are for the textfile collector of node_exporter; the command may send mail, chat or a desktop notification.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from owlt.orchestrator.errors import OwltError
from owlt.orchestrator.sweep.state import Counts, SweepState
from owlt.orchestrator.sweep.state_reader import StateReader, read_state
from owlt.results.plain_files import write_whole

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry


HOOK_LIMIT_S = 60.0
MOST_CHARACTERS = 10_000
"""The longest environment variable; the kernel refuses to start a program with longer ones."""
HOOK_VARIABLE = "OWLT_ON_END"
"""The environment variable with the command, if it is not given as an option."""
ANNOUNCED = ("planned", "completed", "failed", "unsupported", "quarantined", "aborted", "suspect", "waiting")


@dataclass(frozen=True)
class Ending:
    """How a start of a sweep ended."""

    results: Path
    sweep: str
    exit_status: int
    summary: str
    """A paragraph; after an error, its message."""
    report: Path | None = None
    counts: Counts | None = None
    """None if the results directory has no plan."""

    @property
    def values(self) -> dict[str, Any]:
        """The ending as JSON values."""
        return {
            "results": str(self.results.resolve()),
            "sweep": self.sweep,
            "exit_status": self.exit_status,
            "summary": self.summary,
            "report": str(self.report.resolve()) if self.report else None,
            "counts": asdict(self.counts) if self.counts else None,
        }

    @property
    def variables(self) -> dict[str, str]:
        """The ending as environment variables."""
        named = {f"OWLT_{name.upper()}": value for name, value in self.values.items() if name != "counts"}
        counted = {f"OWLT_RUNS_{name.upper()}": getattr(self.counts, name) for name in ANNOUNCED if self.counts}
        return {
            name: "" if value is None else str(value)[:MOST_CHARACTERS] for name, value in {**named, **counted}.items()
        }


def counts_of(results: Path) -> Counts | None:
    """The counts of a results directory; None if they cannot be read."""
    try:
        return read_state(results).counts
    except (OwltError, OSError):
        return None


def run_hook(command: str, ending: Ending, limit_s: float = HOOK_LIMIT_S) -> str:
    """Run a command of the user in a shell, with the ending in its environment and as JSON on its standard input.

    At the time limit all its processes are ended. Returns why it failed, "" if it did not.
    """
    try:
        shell = subprocess.Popen(
            command,
            shell=True,
            env={**os.environ, **ending.variables},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            start_new_session=True,
        )
    except OSError as problem:
        return str(problem.strerror)
    with shell:
        try:
            output, errors = shell.communicate(json.dumps(ending.values, indent=2) + "\n", limit_s)
        except BaseException as problem:
            with suppress(ProcessLookupError):
                os.killpg(shell.pid, signal.SIGKILL)
            if isinstance(problem, subprocess.TimeoutExpired):
                return f"did not finish within {limit_s:g} s"
            raise
    if shell.returncode == 0:
        return ""
    lines = (errors or output).strip().splitlines()
    return f"exit status {shell.returncode}" + (f": {lines[-1]}" if lines else "")


METRICS_NAME = "metrics.prom"
WRITTEN_EVERY_S = 30.0


def write_metrics(state: SweepState, exit_status: int | None = None) -> Path:
    """Write the metrics into the results directory, atomically; `exit_status` is that of a start that has ended."""
    from prometheus_client import generate_latest

    return write_whole(state.results / METRICS_NAME, generate_latest(registry_of(state, exit_status)))


def registry_of(state: SweepState, exit_status: int | None = None) -> CollectorRegistry:
    """The metrics; docs/sweeps.md lists them."""
    from prometheus_client import CollectorRegistry, Gauge

    registry = CollectorRegistry()
    labels = ("sweep", "implementation", "state")
    runs = Gauge("owlt_runs", "Runs by outcome; without_record: not recorded yet.", labels, registry=registry)
    suspect = Gauge("owlt_runs_suspect", "Suspect runs.", ("sweep", "implementation"), registry=registry)
    for implementation, counts in state.by_implementation.items():
        suspect.labels(state.sweep, implementation).set(counts.suspect)
        for name, number in _by_state(counts).items():
            runs.labels(state.sweep, implementation, name).set(number)
    times = {
        "owlt_sweep_time_left_seconds": ("Remaining time of the sweep.", state.time_left_s),
        "owlt_sweep_started_timestamp_seconds": ("When the latest start began.", state.started_s),
        "owlt_sweep_last_event_timestamp_seconds": ("When the latest event happened.", state.latest_entry_s),
        "owlt_sweep_exit_status": ("Exit status of the latest start.", exit_status),
        "owlt_sweep_running": ("1 while a process performs the sweep.", int(state.process.state == "running")),
    }
    for name, (text, value) in times.items():
        if value is not None:
            Gauge(name, text, ("sweep",), registry=registry).labels(state.sweep).set(value)
    return registry


def _by_state(counts: Counts) -> dict[str, int]:
    """Every run once."""
    recorded = sum(counts.by_outcome.values())
    return {**counts.by_outcome, "without_record": counts.planned - recorded}


class MetricsFile:
    """Keeps the metrics file of a results directory up to date, in a thread of its own, from `start` to `close`.

    A file that cannot be written is a warning, once: it must not end a sweep.
    """

    def __init__(self, results: Path, every_s: float = WRITTEN_EVERY_S) -> None:
        self._results = results
        self._every_s = every_s
        self._over = threading.Event()
        self._thread: threading.Thread | None = None
        self._has_warned = False

    def start(self) -> None:
        """Write the file now and then; the directory has a plan."""
        self._thread = threading.Thread(target=self._keep, daemon=True)
        self._thread.start()

    def close(self, exit_status: int) -> None:
        """Write the file for the last time, if it was started."""
        if self._thread is None:
            return
        self._over.set()
        self._thread.join()
        with suppress(OwltError):
            self._write(StateReader(self._results), exit_status)

    def _keep(self) -> None:
        with suppress(OwltError):  # no plan: the directory was removed, and the sweep ends with that message
            reader = StateReader(self._results)
            while not self._over.wait(self._every_s):
                self._write(reader)

    def _write(self, reader: StateReader, exit_status: int | None = None) -> None:
        try:
            write_metrics(reader.read(), exit_status)
        except OSError as problem:
            if not self._has_warned:
                print(f"owlt: warning: {self._results / METRICS_NAME}: {problem.strerror}", file=sys.stderr)
            self._has_warned = True
