"""A results directory in memory, brought up to date when somebody looks: only what has changed is read again.

A `Snapshot` has the cells of the matrix: the runs of one implementation under one condition, which is a point of the
grid without the implementation. The files are the truth. The state of the runs comes from `orchestrator.sweep`; the
measures of a run are read when its directory has changed, in slices, so that a page never waits for 10,000 summaries.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median

from owlt.captures.accounting.summary import load_summary
from owlt.inputs.mistake import Mistake, Place, ResultsConflict
from owlt.orchestrator.errors import OwltError
from owlt.orchestrator.sweep.state import Counts, RunState, SweepState, count
from owlt.orchestrator.sweep.state_reader import StateReader
from owlt.reports.comparison.cells import GOODPUT as BY_GOODPUT
from owlt.reports.comparison.cells import Sample
from owlt.reports.comparison.metrics import METRICS, TIME_TO_DELIVERY, Metric
from owlt.reports.comparison.theory import BITS, least_transfer_s
from owlt.reports.results.rows import Row
from owlt.results.files import PLAN_NAME, ReportError
from owlt.results.judgements import doubts_of
from owlt.results.permutation import Permutation
from owlt.results.plain_files import directories_in, is_plain, listed
from owlt.results.plan import WrittenPlan, read_written_plan
from owlt.results.record import read_record
from owlt.results.recorded_runs import RUNS, run_directory

SHOWN_METRICS = (*METRICS[:2], TIME_TO_DELIVERY, *METRICS[2:])
COLUMNS = tuple(dict.fromkeys(metric.key for metric in SHOWN_METRICS))


@dataclass(frozen=True, slots=True)
class Measures:
    """The measures read from a run's directory, beside its state."""

    columns: Mapping[str, float | None] = field(default_factory=lambda: dict.fromkeys(COLUMNS))
    """The columns of the table of runs that `SHOWN_METRICS` need; None if the captures have no such number."""
    suspect: tuple[str, ...] = ()
    """The reasons to doubt them."""


NO_MEASURES = Measures()


def read_measures(directory: Path) -> Measures:
    """The measures of a run's directory."""
    summary = load_summary(directory)
    suspect: tuple[str, ...] = ()
    with suppress(OSError, ResultsConflict):  # without a record that can be read, the run has no state to show
        suspect = doubts_of(read_record(directory), directory)
    return Measures({name: getattr(summary, name, None) for name in COLUMNS}, suspect)


GOODPUT = BY_GOODPUT.metric
IN_A_CELL = (GOODPUT, TIME_TO_DELIVERY)
LEVELS = (0.01, 0.03, 0.1, 0.3, 0.5, 0.7, 0.9)
"""The limits between the colours of goodput, as shares of the highest possible goodput."""
STATES = ("done", "open", "running", "failed", "suspect", "unsupported", "quarantined")
"""The states by which a filter can select cells."""


def counted_states(counts: Counts) -> tuple[tuple[str, int], ...]:
    """The states that runs can be in, in the order in which a page names them, each with its number of runs."""
    return (
        ("running", counts.running),
        ("completed", counts.completed),
        ("failed", counts.undelivered),
        ("suspect", counts.suspect),
        ("unsupported", counts.unsupported),
        ("quarantined", counts.quarantined),
    )


@dataclass(frozen=True, slots=True)
class RunRow:
    """One planned run: its state, and its measures if it has any."""

    state: RunState
    measures: Measures = NO_MEASURES
    file_size_bytes: int | None = None

    @property
    def suspect(self) -> tuple[str, ...]:
        """The reasons for doubt about the run's numbers."""
        return tuple(dict.fromkeys((*self.state.suspect, *self.measures.suspect)))

    @property
    def columns(self) -> Row:
        """Its row of the table of runs: the outcome, and the columns of `SHOWN_METRICS`."""
        return {**self.measures.columns, "outcome": self.state.outcome, "file_size_bytes": self.file_size_bytes}

    def value(self, metric: Metric) -> float | None:
        """One of `SHOWN_METRICS`; None if the run did not deliver the file."""
        return next(iter(sample_of([self]).values(metric)), None)


def counts_of(rows: Iterable[RunRow]) -> Counts:
    """How many runs are in each state."""
    return count(row.state if not row.measures.suspect else replace(row.state, suspect=row.suspect) for row in rows)


def sample_of(rows: Iterable[RunRow]) -> Sample:
    """Runs as the sample that reports compare."""
    return Sample(tuple(row.columns for row in rows))


@dataclass(frozen=True, slots=True)
class Condition:
    """A row of the matrix. `key` is its name in addresses."""

    key: str
    point: Permutation
    """Without an implementation."""

    @property
    def best_goodput_bps(self) -> float | None:
        """The highest possible goodput: the file's bits over their time at the channel's rate plus one round trip.

        Of a duration, the channel's rate. None if the channel has neither a rate nor a delay.
        """
        if self.point.file_size_bytes is None:
            return self.point.rate_bps
        round_trip_s = 2 * self.point.delay_ns / 1e9
        duration_s = least_transfer_s(self.point.file_size_bytes, self.point.rate_bps, round_trip_s)
        return BITS * self.point.file_size_bytes / duration_s if duration_s else None


@dataclass(frozen=True, slots=True)
class PlannedCell:
    """The planned runs of one implementation under one condition."""

    number: int
    """Its place in the plan, which names it within a page."""
    condition: Condition
    implementation: str
    run_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Cell:
    """The state of a cell: how many of its runs are in each state, and their goodput."""

    counts: Counts
    goodput: float | None = None
    """The median of the runs that delivered the file, in Mbit/s."""
    delivery_s: float | None = None
    """The median of their times to delivery."""
    level: int | None = None
    """The colour: the number of `LEVELS` that the goodput reaches."""

    @property
    def states(self) -> frozenset[str]:
        """The states that a filter can select, of `STATES`."""
        is_open = self.counts.with_record < self.counts.planned
        counted = {name for name, number in counted_states(self.counts) if number}
        return frozenset({"open" if is_open else "done", *counted} & set(STATES))


def planned_cells(plan: WrittenPlan) -> list[PlannedCell]:
    """The cells of a plan, condition by condition, implementations in the order of the sweep."""
    names = list(plan.implementations)
    runs: dict[Permutation, list[str]] = {}
    for run in plan.runs:
        runs.setdefault(run.permutation, []).append(run.run_id)
    conditions: dict[Permutation, Condition] = {}
    keys: set[str] = set()
    cells = []
    for number, point in enumerate(sorted(runs, key=lambda point: plan.place(point, names))):
        anonymous = point.model_copy(update={"implementation": ""})
        if anonymous not in conditions:
            conditions[anonymous] = Condition(_unused(point.cell, keys), anonymous)
        cells.append(PlannedCell(number, conditions[anonymous], point.implementation, tuple(runs[point])))
    return cells


def _unused(key: str, keys: set[str]) -> str:
    """A name that differs from all others, which it joins."""
    number, unused = 1, key
    while unused in keys:
        number += 1
        unused = f"{key}-{number}"
    keys.add(unused)
    return unused


def cell_of(condition: Condition, rows: Sequence[RunRow]) -> Cell:
    """The state of a cell, from the rows of all its planned runs; runs that are not due do not count."""
    sample = sample_of(row for row in rows if row.state.is_due)
    goodput, delivery_s = (median(values) if (values := sample.values(each)) else None for each in IN_A_CELL)
    return Cell(counts_of(rows), goodput, delivery_s, _level(condition, goodput))


def _level(condition: Condition, goodput: float | None) -> int | None:
    best = condition.best_goodput_bps
    if goodput is None or best is None:
        return None
    share = goodput * GOODPUT.per_unit / best
    return sum(share >= limit for limit in LEVELS)


LOOK_EVERY_S = 1.0
SHARE_OF_TIME = 0.02
"""A complete look that takes long is repeated later, so that all of them take at most this share of a processor."""
SHARE_OF_NOTED = 0.01
"""The share for looks in between, at the runs that the journal names: new runs are seen there first."""
LOOK_AT_ALL_EVERY_S = 15.0
"""After so long the directory of every run is looked at, whether or not `runs/` has changed."""
SLICE_S = 0.3
"""The longest time for which one look reads summaries."""


@dataclass(frozen=True)
class Snapshot:
    """The state of a results directory at one time. It does not change."""

    problem: str = ""
    """Why nothing can be shown; "" if `plan` and `state` are there."""
    plan: WrittenPlan | None = None
    state: SweepState | None = None
    plan_version: int = 0
    """Grows with each change of the plan, after which every cell is another one."""
    version: int = 0
    """Grows with each change of any run."""
    planned: tuple[PlannedCell, ...] = ()
    cells: tuple[Cell, ...] = ()
    """The cells of `planned`, in the same order."""
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

    def look_soon(self) -> None:
        """Have the next request look at the directory again: the dashboard has changed something in it."""
        self._next_look_s = self._now_s()

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
            plan = read_written_plan(path)
        except OSError:
            raise OwltError(f"{path}: is missing; 'owlt run' writes it when the sweep starts") from None
        planned = tuple(planned_cells(plan))
        self._plan_stamp, self._reader = stamp, self._new_reader(self.directory)
        self._stamps, self._unread, self._measures = {}, {}, {}
        self._runs_stamp = 0
        sizes = {run.run_id: run.permutation.file_size_bytes for run in plan.runs}
        rows = {run.run_id: RunRow(run, file_size_bytes=sizes[run.run_id]) for run in self._reader.read().runs}
        return Snapshot(
            plan=plan,
            plan_version=self._snapshot.plan_version + 1,
            planned=planned,
            cells=tuple(cell_of(each.condition, [rows[run_id] for run_id in each.run_ids]) for each in planned),
            changed_at=(0,) * len(planned),
            rows=rows,
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
                rows[run.run_id] = replace(row, state=run, measures=self._measures.get(run.run_id, Measures()))
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


DEFAULT = Path("results")


class Directories:
    """The directories that were named; without any, those in `results/`, where new ones appear when sweeps start.

    Any thread may ask for them: each has one index and one name.
    """

    def __init__(
        self, named: Sequence[Path], default: Path = DEFAULT, new_index: Callable[[Path], SweepIndex] = SweepIndex
    ) -> None:
        for path in named:
            if not path.is_dir():
                raise OwltError(
                    Mistake(
                        "is no directory" if path.exists() else "is missing",
                        "a results directory of owlt, or one that holds some",
                        "see: ls results",
                        Place(str(path)),
                    )
                )
        self._named = [path.resolve() for path in named]
        self._default = default
        self._new_index = new_index
        self._lock = threading.Lock()
        self._indexes: dict[Path, SweepIndex] = {}
        self._names: dict[str, Path] = {}

    def indexes(self) -> dict[str, SweepIndex]:
        """Every results directory by its name: the directory's own, with a number if another has it already."""
        paths = self._paths()
        with self._lock:
            for path in paths:
                if path not in self._indexes:
                    self._names[self._unused_name(path.name)] = path
                    self._indexes[path] = self._new_index(path)
            return {name: self._indexes[path] for name, path in self._names.items() if path.is_dir()}

    def _paths(self) -> list[Path]:
        """A directory that was named is one of results, even before it has a plan, or holds some that have."""
        roots = self._named or [self._default.resolve()]
        paths: list[Path] = []
        for root in roots:
            inner = [each for each in directories_in(root) if is_plain(each / PLAN_NAME)]
            is_results = (root / PLAN_NAME).exists() or (bool(self._named) and not inner)
            paths += [root] if is_results else inner
        return list(dict.fromkeys(paths))

    def _unused_name(self, name: str) -> str:
        number, unused = 1, name or "results"
        while unused in self._names:
            number += 1
            unused = f"{name}-{number}"
        return unused
