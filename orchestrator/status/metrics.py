"""The state of a sweep as Prometheus metrics, in a file for the textfile collector of node_exporter."""

from __future__ import annotations

import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from owlt.captures.files.plain_files import write_whole
from owlt.orchestrator.errors import OwltError
from owlt.orchestrator.status.reading import StateReader
from owlt.orchestrator.status.state import Counts, SweepState

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

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
