"""A results directory in memory, brought up to date when somebody looks: only what has changed is read again.

The files are the truth. The state of the runs comes from `orchestrator.status`; the measures of a run are read when its
directory has changed, in slices, so that a page never waits for 10,000 summaries.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from owlt.captures.files.plain_files import listed
from owlt.orchestrator.dashboard.sweeps.cells import Cell, PlannedCell, RunRow, cell_of, planned_cells
from owlt.orchestrator.dashboard.sweeps.measures import Measures, read_measures
from owlt.orchestrator.errors import OwltError
from owlt.orchestrator.results.recorded_runs import RUNS, run_directory
from owlt.orchestrator.status.reading import StateReader
from owlt.orchestrator.status.state import SweepState
from owlt.reports.results.load import PLAN_NAME
from owlt.reports.results.records import Plan, ReportError

LOOK_EVERY_S = 1.0
SHARE_OF_TIME = 0.02
"""A complete look that takes long is repeated later, so that all of them take at most this share of a processor."""
SHARE_OF_NOTED = 0.01
"""The same for looks in between, at what the journal names: the first place where a new run is seen."""
LOOK_AT_ALL_EVERY_S = 15.0
"""After so long the directory of every run is looked at, whether or not `runs/` has changed."""
SLICE_S = 0.3
"""The longest time for which one look reads summaries."""


@dataclass(frozen=True)
class Snapshot:
    """What is known of a results directory at one time. It does not change."""

    problem: str = ""
    """Why nothing can be shown; "" if `plan` and `state` are there."""
    plan: Plan | None = None
    state: SweepState | None = None
    plan_version: int = 0
    """Grows with each change of the plan, after which every cell is another one."""
    version: int = 0
    """Grows with each change of any run."""
    planned: tuple[PlannedCell, ...] = ()
    cells: tuple[Cell, ...] = ()
    """Of `planned`, in the same order."""
    changed_at: tuple[int, ...] = ()
    """The version at which each cell changed last."""
    rows: Mapping[str, RunRow] = field(default_factory=dict)
    """Every planned run, by its name."""
    unread: int = 0
    """Runs whose summaries are still to be read."""

    def rows_of(self, planned: PlannedCell) -> list[RunRow]:
        """The runs of a cell that are due, in the order of their repetitions."""
        rows = (self.rows[run_id] for run_id in planned.run_ids)
        return sorted((row for row in rows if row.state.is_due), key=lambda row: row.state.repetition)


def new_reader(directory: Path) -> StateReader:
    """A reader of a results directory; the index reads what is in summaries itself."""
    return StateReader(directory, with_summaries=False)


class SweepIndex:
    """A results directory, read little by little. Any thread may ask for the snapshot."""

    def __init__(
        self,
        directory: Path,
        now_s: Callable[[], float] = time.monotonic,
        read_measures: Callable[[Path], Measures] = read_measures,
        new_reader: Callable[[Path], StateReader] = new_reader,
    ) -> None:
        self.directory = directory
        self._now_s = now_s
        self._read_measures = read_measures
        self._new_reader = new_reader
        self._lock = threading.Lock()
        self._next_look_s = now_s()
        self._next_complete_look_s = now_s()
        self._look_at_all_s = now_s()
        self._is_complete = True
        """Whether the latest look was at all runs."""
        self._reading_s = 0.0
        """How long the latest look read summaries: each is read once, so that this does not delay the next look."""
        self._plan_stamp = (0, 0)
        self._runs_stamp = 0
        self._reader: StateReader | None = None
        self._stamps: dict[str, int] = {}
        self._unread: dict[str, int] = {}
        self._measures: dict[str, Measures] = {}
        self._snapshot = Snapshot(problem="not read yet")

    def snapshot(self) -> Snapshot:
        """The state of the directory, about `LOOK_EVERY_S` old at most; older while another thread reads it.

        Of thousands of runs, what the journal does not name is older: see `SHARE_OF_TIME`.
        """
        if self._lock.acquire(blocking=self._snapshot.state is None):
            try:
                began_s = self._now_s()
                if began_s >= self._next_look_s or self._unread:
                    self._is_complete = began_s >= self._next_complete_look_s or self._snapshot.state is None
                    self._snapshot = self._look(began_s)
                    ended_s = self._now_s()
                    took_s = ended_s - began_s - self._reading_s
                    if self._is_complete:
                        self._next_complete_look_s = ended_s + took_s / SHARE_OF_TIME
                        self._next_look_s = ended_s + LOOK_EVERY_S
                    else:
                        self._next_look_s = ended_s + max(LOOK_EVERY_S, took_s / SHARE_OF_NOTED)
            finally:
                self._lock.release()
        return self._snapshot

    def _look(self, now_s: float) -> Snapshot:
        """The next snapshot: of all runs, or of those that the journal names since the latest one."""
        self._reading_s = 0.0
        try:
            before = self._with_plan()
            self._is_complete |= before.state is None  # of a new plan, nothing has been read
            self._reader = self._reader or self._new_reader(self.directory)
            state = self._reader.read() if self._is_complete else self._reader.read_noted()
        except (OwltError, ReportError) as problem:
            self._plan_stamp, self._reader = (0, 0), None
            return Snapshot(problem=str(problem), plan_version=self._snapshot.plan_version)
        if any(run.run_id not in before.rows for run in state.runs):
            return before  # the plan has changed since it was read: the next look reads both
        if self._is_complete:
            self._note_changed(before, now_s)
        self._note(self._reader.noted & before.rows.keys())
        return self._after(before, state, self._read_changed())

    def _with_plan(self) -> Snapshot:
        """The latest snapshot; or one of a new plan without any state. Raises OwltError, ReportError."""
        path = self.directory / PLAN_NAME
        try:
            status = path.lstat()
            stamp = (status.st_mtime_ns, status.st_ino)
            if stamp == self._plan_stamp:
                return self._snapshot
            plan = Plan.read(path)
        except OSError:
            raise OwltError(f"{path}: is missing; 'owlt run' writes it when the sweep starts") from None
        planned = tuple(planned_cells(plan))
        self._plan_stamp, self._reader = stamp, self._new_reader(self.directory)
        self._stamps, self._unread, self._measures = {}, {}, {}
        self._runs_stamp = 0
        return Snapshot(
            plan=plan,
            plan_version=self._snapshot.plan_version + 1,
            planned=planned,
            cells=tuple(Cell(len(each.run_ids)) for each in planned),
            changed_at=(0,) * len(planned),
            rows={run.run_id: RunRow(run) for run in self._reader.read().runs},
        )

    def _note_changed(self, before: Snapshot, now_s: float) -> None:
        """Note the runs whose directories are new, changed or gone."""
        runs = self.directory / RUNS
        try:
            stamp = runs.lstat().st_mtime_ns
        except OSError:
            stamp = 0
        if stamp == self._runs_stamp and now_s < self._look_at_all_s:
            return
        self._runs_stamp, self._look_at_all_s = stamp, now_s + LOOK_AT_ALL_EVERY_S
        there = {name: each for name, each in _directories(runs) if name in before.rows}
        self._unread |= {name: each for name, each in there.items() if self._stamps.get(name) != each}
        for name in self._stamps.keys() - there.keys():
            del self._stamps[name]
            self._measures.pop(name, None)

    def _note(self, names: Collection[str]) -> None:
        """Note runs that the journal names, if their directories are new or changed."""
        for name in names:
            try:
                stamp = run_directory(self.directory, name).lstat().st_mtime_ns
            except OSError:
                continue
            if self._stamps.get(name) != stamp:
                self._unread[name] = stamp

    def _read_changed(self) -> set[str]:
        """Read the measures of runs that have changed, for `SLICE_S`. Returns their names."""
        began_s = self._now_s()
        read = set()
        while self._unread and self._now_s() < began_s + SLICE_S:
            name = next(iter(self._unread))
            self._stamps[name] = self._unread.pop(name)
            self._measures[name] = self._read_measures(run_directory(self.directory, name))
            read.add(name)
        self._reading_s = self._now_s() - began_s
        return read

    def _after(self, before: Snapshot, state: SweepState, read: set[str]) -> Snapshot:
        """The next snapshot; the same one if nothing has changed but the time."""
        if before.state is not None and state.runs is before.state.runs and not read:
            return replace(before, problem="", state=state, unread=len(self._unread))
        rows = dict(before.rows)
        changed = set()
        for run in state.runs:
            row = rows[run.run_id]
            if run.run_id in read or (row.state is not run and row.state != run):
                rows[run.run_id] = RunRow(run, self._measures.get(run.run_id, Measures()))
                changed.add(run.run_id)
        version = before.version + bool(changed)
        cells, changed_at = list(before.cells), list(before.changed_at)
        for number, planned in enumerate(before.planned):
            if changed.isdisjoint(planned.run_ids):
                continue
            cell = cell_of(planned.condition, [rows[run_id] for run_id in planned.run_ids])
            if cell != cells[number]:
                cells[number], changed_at[number] = cell, version
        return replace(
            before,
            problem="",
            state=state,
            version=version,
            cells=tuple(cells),
            changed_at=tuple(changed_at),
            rows=rows,
            unread=len(self._unread),
        )


def _directories(runs: Path) -> Iterator[tuple[str, int]]:
    """The runs' directories, and when each changed last."""
    try:
        with listed(runs) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    yield entry.name, entry.stat(follow_symlinks=False).st_mtime_ns
    except OSError:
        return
