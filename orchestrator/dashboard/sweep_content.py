"""What the pages of a sweep show: its state in words, its machines, the filters and cells of its matrix, and the box
plot of one condition.

A box plot is lengths for a template: a row for each implementation, a dot for each run. Its numbers are those of the
report (`reports.comparison.estimates`).
"""

from __future__ import annotations

import os
import socket
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass
from pathlib import Path
from urllib.parse import urlencode

from matplotlib.ticker import MaxNLocator

from owlt.inputs.axes import AXES, CONDITIONS, LOADS, Axis, conditions_of
from owlt.inputs.quantities import PROBABILITY
from owlt.orchestrator.dashboard.index import (
    STATES,
    Cell,
    Condition,
    PlannedCell,
    RunRow,
    Snapshot,
    counted_states,
    counts_of,
)
from owlt.orchestrator.planning.estimate import duration_text, machine_memory_bytes
from owlt.orchestrator.sweep.forecast import available_bytes
from owlt.orchestrator.sweep.journal import Activity
from owlt.orchestrator.sweep.state import SweepState, repetitions_text, stamp
from owlt.reports.comparison.estimates import BoxNumbers, box_numbers
from owlt.reports.comparison.metrics import Metric
from owlt.reports.page.certificates import verdict_words
from owlt.reports.results.load import Channel
from owlt.reports.units import axis_text, number_text, tick_text
from owlt.results.certificates import certificate_or_problem
from owlt.results.permutation import Permutation

ANNOUNCED_PERCENT = 10


@dataclass(frozen=True)
class Headline:
    """The first lines of a sweep's page."""

    process: str
    """running, paused, ended, killed or unknown"""
    sentence: str
    announcement: str
    """Changes rarely: with each tenth of the runs, with a new failure, and at the end."""
    percent: int
    counts: tuple[tuple[str, int], ...]
    """States, and the number of runs; without those of which there is none."""


def headline_of(snapshot: Snapshot) -> Headline:
    """The headline of a sweep whose state is known."""
    state = snapshot.state
    assert state is not None
    counts = counts_of(snapshot.rows.values())
    percent = 100 * counts.with_record // counts.planned if counts.planned else 100
    process = "paused" if state.process.state == "running" and state.paused_since_s else state.process.state
    failures = f", {counts.undelivered} failed" if counts.undelivered else ""
    recorded = f"{number_text(counts.with_record)} of {number_text(counts.planned)} runs recorded"
    repetitions = repetitions_text(state.repetitions) if state.repetitions else ""
    tenth = percent // ANNOUNCED_PERCENT * ANNOUNCED_PERCENT
    return Headline(
        process=process,
        sentence="; ".join(filter(None, (recorded, _process_text(state), repetitions))),
        announcement=f"{tenth} % of the runs are recorded{failures}; the sweep {PROCESS_WORDS[process]}",
        percent=percent,
        counts=tuple((name, number) for name, number in counted_states(counts) if number),
    )


PROCESS_WORDS = {
    "running": "is running",
    "paused": "is paused",
    "ended": "is not running",
    "killed": "was killed",
    "unknown": "may be running on another machine",
}


def _process_text(state: SweepState) -> str:
    """What the process of the sweep does, and how long it still takes."""
    process = state.process.state
    if process == "running" and state.paused_since_s:
        return f"paused since {stamp(state.paused_since_s)}: no run is started until it is resumed"
    if process == "running":
        return (
            f"about {duration_text(state.time_left_s)} left" if state.time_left_s else "the time left is not known yet"
        )
    left = any(run.is_left for run in state.runs)
    if process == "ended":
        waits = "; it is paused: its next start waits until that ends" if left and state.paused_since_s else ""
        return f"the sweep is stopped; 'owlt run' resumes it{waits}" if left else "the sweep is complete"
    holder = f" ({state.process.holder})" if state.process.holder else ""
    if process == "killed":
        return f"the sweep was killed{holder}; 'owlt run' resumes it"
    return f"the sweep may be running on another machine{holder}"


def activity_text(activity: Activity, now_s: float) -> str:
    """What a worker does, for how long and on which other machine: "perform, transfer, for 12 s (on lab2)"."""
    phase = f", {activity.phase}" if activity.phase else ""
    machine = f" (on {activity.machine})" if activity.machine else ""
    since_s = activity.phase_since_s or activity.since_s
    return f"{activity.what}{phase}, for {max(now_s - since_s, 0):.0f} s{machine}"


@dataclass(frozen=True)
class MachineRuns:
    """A machine of a sweep."""

    name: str
    performed: int
    """Runs in the results, with any outcome; the latest attempt of each."""
    performs: int
    """Runs that it performs now."""


def machines_of(state: SweepState) -> list[MachineRuns]:
    """The machines of a sweep by name, that of `owlt run` first; empty if no other machine performs runs of it."""
    performed = Counter(run.machine for run in state.runs if run.outcome is not None)
    performs = Counter(each.machine for each in state.activities if each.run_id)
    names = {*performed, *performs, *(each.machine for each in state.activities)}
    if not any(names):
        return []
    return [MachineRuns(name or THIS_MACHINE, performed[name], performs[name]) for name in sorted(names)]


THIS_MACHINE = "orchestrator"
LOAD_EVERY_S = 15.0


class MachineLoad:
    """How busy the dashboard's machine is, in words; looked up at most every LOAD_EVERY_S, so that pages change
    seldom for it."""

    def __init__(self, now_s: Callable[[], float] = time.monotonic) -> None:
        self._now_s = now_s
        self._next_s = float("-inf")
        self._text = ""

    def text(self) -> str:
        """Its name, its load in its processors, and its memory."""
        if self._now_s() >= self._next_s:
            self._next_s = self._now_s() + LOAD_EVERY_S
            cores, memory_bytes = len(os.sched_getaffinity(0)), machine_memory_bytes()
            used_bytes = memory_bytes - available_bytes()
            self._text = (
                f"{socket.gethostname()}: load {os.getloadavg()[0]:.1f} on {cores} cores; "
                f"{used_bytes / 1e9:.1f} of {memory_bytes / 1e9:.1f} GB of memory in use"
            )
        return self._text


@dataclass(frozen=True)
class ChannelVerdict:
    """A channel of a sweep with its certificate in words; `file` is "" if there is none."""

    label: str
    verdict: str
    words: str
    file: str


def channels_of(results: Path, snapshot: Snapshot) -> list[ChannelVerdict]:
    """The channels of a sweep, those whose certificate says that something is wrong first."""
    plan, state = snapshot.plan, snapshot.state
    assert plan is not None and state is not None
    verdicts = []
    for key, label in state.channels.items():
        certificate, problem = certificate_or_problem(results, key)
        channel = Channel(key, label, plan.channels[key], certificate, problem)
        is_awaited = certificate is None and "missing" in problem and plan.sweep.certify
        words = "not measured yet" if is_awaited and not channel.specified.bypass else ""
        verdict = certificate.verdict if certificate else "none"
        file = f"{key}.json" if certificate else ""
        verdicts.append(ChannelVerdict(label, verdict, words or verdict_words(channel, plan.sweep.certify), file))
    order = ("failed", "incomplete", "none", "ok")
    return sorted(verdicts, key=lambda each: order.index(each.verdict))


@dataclass(frozen=True)
class Dimension:
    """A dimension of the grid: its axis, and its name in addresses."""

    axis: Axis
    name: str

    @property
    def head(self) -> str:
        """Its head in the matrix."""
        return self.axis.head

    def text(self, point: Permutation) -> str:
        """The value of a point, with the words of the report."""
        return axis_text(self.axis, self.axis.of(point))


DIMENSIONS = tuple(
    Dimension(AXES[key], AXES[key].head.lower().replace(" ", "-"))
    for key in sorted(CONDITIONS, key=lambda key: AXES[key].quantity is PROBABILITY)
)
"""The dimensions in the order by which the conditions of a sweep are sorted: the error rate changes fastest."""


@dataclass(frozen=True)
class Choice:
    """The choices of a form for one name: its values in the order of the grid."""

    name: str
    label: str
    values: tuple[str, ...]


@dataclass(frozen=True)
class Filter:
    """The selected values by name; a name without values selects everything."""

    selected: Mapping[str, frozenset[str]]

    @classmethod
    def of_query(cls, query: Mapping[str, Sequence[str]]) -> Filter:
        """The filter of an address; names that are none of a filter are ignored, and empty values are no values."""
        names = ("implementation", *(each.name for each in DIMENSIONS), "state")
        given = {name: frozenset(filter(None, query.get(name, ()))) for name in names}
        return cls({name: values for name, values in given.items() if values})

    @property
    def query(self) -> str:
        """The filter as the query of an address, without the question mark; "" if it selects everything."""
        return urlencode([(name, value) for name, values in self.selected.items() for value in sorted(values)])

    def shows_column(self, implementation: str) -> bool:
        """Whether an implementation is selected."""
        return self._selects("implementation", implementation)

    def shows(self, planned: PlannedCell, cell: Cell) -> bool:
        """Whether a cell is selected."""
        states = self.selected.get("state")
        return (
            self.shows_column(planned.implementation)
            and all(self._selects(each.name, each.text(planned.condition.point)) for each in DIMENSIONS)
            and (states is None or bool(states & cell.states))
        )

    def is_selected(self, name: str, value: str) -> bool:
        """Whether a form shows a value as selected."""
        return value in self.selected.get(name, ())

    def _selects(self, name: str, value: str) -> bool:
        return name not in self.selected or value in self.selected[name]


def varying(planned: Sequence[PlannedCell]) -> list[Dimension]:
    """The dimensions with more than one value; the file's size or the duration if there is none."""
    points = list(dict.fromkeys(each.condition.point for each in planned))
    keys = conditions_of(points)
    several = [each for each in DIMENSIONS if each.axis.key in keys and len({each.text(point) for point in points}) > 1]
    return several or [each for each in DIMENSIONS if each.axis.key in LOADS and points and each.text(points[0])]


def choices(planned: Sequence[PlannedCell]) -> list[Choice]:
    """What can be selected."""
    implementations = tuple(dict.fromkeys(each.implementation for each in planned))
    points = list(dict.fromkeys(each.condition.point for each in planned))
    several = [
        Choice(each.name, each.head, tuple(dict.fromkeys(each.text(point) for point in points)))
        for each in varying(planned)
    ]
    return [
        Choice("implementation", "implementation", implementations),
        *(each for each in several if len(each.values) > 1),
        Choice("state", "state", STATES),
    ]


def condition_title(planned: Sequence[PlannedCell], condition: Condition) -> str:
    """A condition in words: what differs between the conditions of the sweep."""
    return " · ".join(f"{each.head} {each.text(condition.point)}" for each in varying(planned))


@dataclass(frozen=True)
class MatrixRow:
    """A condition, its values in the columns of the head, and its cells; None where no run is planned or shown."""

    condition: Condition
    heads: tuple[str, ...]
    cells: tuple[tuple[PlannedCell, Cell] | None, ...]


@dataclass(frozen=True)
class Matrix:
    """What is shown of a sweep."""

    heads: tuple[str, ...]
    implementations: tuple[str, ...]
    rows: tuple[MatrixRow, ...]

    @property
    def size(self) -> int:
        """The number of cells."""
        return sum(each is not None for row in self.rows for each in row.cells)


def matrix_of(snapshot: Snapshot, selected: Filter) -> Matrix:
    """The selected cells, condition by condition; conditions of which no cell is selected are omitted."""
    dimensions = varying(snapshot.planned)
    names = dict.fromkeys(each.implementation for each in snapshot.planned)
    columns = tuple(name for name in names if selected.shows_column(name))
    place = {name: number for number, name in enumerate(columns)}
    rows: dict[str, tuple[Condition, list[tuple[PlannedCell, Cell] | None]]] = {}
    for planned, cell in _selected(snapshot, selected):
        condition = planned.condition
        _, cells = rows.setdefault(condition.key, (condition, [None] * len(columns)))
        cells[place[planned.implementation]] = (planned, cell)
    return Matrix(
        heads=tuple(each.head for each in dimensions),
        implementations=columns,
        rows=tuple(
            MatrixRow(condition, tuple(each.text(condition.point) for each in dimensions), tuple(cells))
            for condition, cells in rows.values()
        ),
    )


def changed_cells(snapshot: Snapshot, selected: Filter, since: int) -> list[tuple[PlannedCell, Cell]]:
    """The cells of the selected conditions and implementations that have changed after a version, in any state."""
    in_any_state = Filter({name: values for name, values in selected.selected.items() if name != "state"})
    return [
        (planned, cell)
        for planned, cell, version in zip(snapshot.planned, snapshot.cells, snapshot.changed_at, strict=True)
        if version > since and in_any_state.shows(planned, cell)
    ]


def _selected(snapshot: Snapshot, selected: Filter) -> Iterator[tuple[PlannedCell, Cell]]:
    for planned, cell in zip(snapshot.planned, snapshot.cells, strict=True):
        if selected.shows(planned, cell):
            yield planned, cell


AXIS, LEAST_LEFT, LEAST_RIGHT, ROW, BOTTOM = 500, 150, 70, 40, 46
LETTER = 8
"""Lengths of the drawing: its axis, the least margins for names and counts, the height of a row, the axis below, the
width of a letter."""
FEWEST_FOR_A_BOX = 3
JITTER = (0, -5, 5, -9, 9)
"""How far dots of one row are apart from its middle, in turn, so that equal values stay visible."""


@dataclass(frozen=True)
class Dot:
    """A run."""

    run_id: str
    x: float
    dy: int
    text: str
    suspect: bool


@dataclass(frozen=True)
class PlotRow:
    """An implementation. `box` has places on the axis; it is None if there are too few values."""

    implementation: str
    number: int
    """Its place in the sweep, which decides its looks."""
    y: float
    box: BoxNumbers | None
    numbers: BoxNumbers | None
    dots: Sequence[Dot]
    planned: int


@dataclass(frozen=True)
class Plot:
    """The whole drawing."""

    width: int
    height: int
    left: int
    right: int
    """Where the axis ends."""
    axis_y: float
    ticks: Sequence[tuple[float, str]]
    rows: Sequence[PlotRow]


def box_plot(rows: Mapping[str, Sequence[RunRow]], metric: Metric, numbers: Mapping[str, int]) -> Plot:
    """The box plot of a metric; `rows` are the planned runs of each implementation."""
    values = {
        name: [(row, value) for row in of_name if (value := row.value(metric)) is not None]
        for name, of_name in rows.items()
    }
    ticks = _ticks([value for of_name in values.values() for _, value in of_name])

    counts = (f"{len(of_name)}/{len(rows[name])}" for name, of_name in values.items())
    right = max(LEAST_RIGHT, LETTER * max(map(len, counts), default=0) + 20)
    left = max(LEAST_LEFT, LETTER * max(map(len, rows), default=0) + 20)

    def place(value: float) -> float:
        return round(left + (value - ticks[0]) / (ticks[-1] - ticks[0]) * AXIS, 1)

    plotted = []
    for number, (name, of_name) in enumerate(values.items()):
        sample = [value for _, value in of_name]
        box = box_numbers(sample) if sample else None
        dots = [
            Dot(
                run_id=row.state.run_id,
                x=place(value),
                dy=JITTER[place_in_row % len(JITTER)],
                text=metric.text(value),
                suspect=bool(row.suspect),
            )
            for place_in_row, (row, value) in enumerate(of_name)
        ]
        plotted.append(
            PlotRow(
                implementation=name,
                number=numbers.get(name, 0),
                y=(number + 0.5) * ROW,
                box=BoxNumbers(*map(place, astuple(box))) if box and len(sample) >= FEWEST_FOR_A_BOX else None,
                numbers=box,
                dots=dots,
                planned=len(rows[name]),
            )
        )
    axis_y = len(plotted) * ROW
    return Plot(
        width=left + AXIS + right,
        height=axis_y + BOTTOM,
        left=left,
        right=left + AXIS,
        axis_y=axis_y,
        ticks=[(place(tick), tick_text(tick)) for tick in ticks],
        rows=plotted,
    )


def _ticks(values: Sequence[float]) -> list[float]:
    """Round numbers from below the lowest value to above the highest."""
    low, high = (min(values), max(values)) if values else (0.0, 1.0)
    if high - low < 0.02 * high:
        low, high = 0.99 * low, 1.01 * high
    if low == high:
        high = low + 1
    return [float(tick) for tick in MaxNLocator(nbins=6, min_n_ticks=3).tick_values(low, high)]
