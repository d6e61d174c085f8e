"""The cells of the matrix: the runs of one implementation under one condition, and what is known of them.

A condition is a point of the sweep's grid without the implementation: a channel, its values and a file.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median

from owlt.orchestrator.dashboard.sweeps.measures import NO_MEASURES, Measures
from owlt.orchestrator.results.record import NOT_DELIVERED, Outcome
from owlt.orchestrator.status.state import RunState
from owlt.reports.comparison.metrics import METRICS
from owlt.reports.results.records import Permutation, Plan

LEVELS = (0.01, 0.03, 0.1, 0.3, 0.5, 0.7, 0.9)
"""The limits between the colours of goodput, as shares of the highest possible goodput."""
GOODPUT = next(place for place, metric in enumerate(METRICS) if metric.slug == "goodput")
REPETITION = re.compile(r"(.+)_r\d+")
"""The name of a run that is no baseline, without its implementation."""
STATES = ("done", "open", "running", "failed", "suspect", "unsupported", "quarantined")


@dataclass(frozen=True, slots=True)
class RunRow:
    """One planned run: its state, and its measures if it has any."""

    state: RunState
    measures: Measures = NO_MEASURES

    @property
    def failed(self) -> bool:
        """Whether the run ended without the file, because of the implementation or of the rig."""
        return self.state.outcome in (*NOT_DELIVERED, Outcome.ABORTED)

    @property
    def suspect(self) -> tuple[str, ...]:
        """The reasons for doubt about the run's numbers."""
        return tuple(dict.fromkeys((*self.state.suspect, *self.measures.suspect)))

    def value(self, metric: int) -> float | None:
        """One of `METRICS`; None if the run did not deliver the file."""
        return self.measures.values[metric] if self.state.outcome is Outcome.COMPLETED else None


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
        bits = 8 * self.point.file_size_bytes
        file_s = bits / self.point.rate_bps if self.point.rate_bps else 0.0
        duration_s = file_s + 2 * self.point.delay_ns / 1e9
        return bits / duration_s if duration_s else None


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
    """What is known of a cell's runs: how many are in each state, and their goodput."""

    planned: int
    recorded: int = 0
    running: int = 0
    failed: int = 0
    suspect: int = 0
    unsupported: int = 0
    quarantined: int = 0
    goodput: float | None = None
    """The median of the runs that delivered the file, in Mbit/s."""
    level: int | None = None
    """The colour: the number of `LEVELS` that the goodput reaches."""

    @property
    def states(self) -> frozenset[str]:
        """The states that a filter can select, of `STATES`."""
        counts = {
            "done": self.recorded == self.planned,
            "open": self.recorded < self.planned,
            "running": self.running,
            "failed": self.failed,
            "suspect": self.suspect,
            "unsupported": self.unsupported,
            "quarantined": self.quarantined,
        }
        return frozenset(name for name, count in counts.items() if count)


def planned_cells(plan: Plan) -> list[PlannedCell]:
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
            conditions[anonymous] = Condition(_unused(_key(point, runs[point]), keys), anonymous)
        cells.append(PlannedCell(number, conditions[anonymous], point.implementation, tuple(runs[point])))
    return cells


def _key(point: Permutation, run_ids: Sequence[str]) -> str:
    """The name of a condition: that of a repetition, without its implementation and its number."""
    matches = (REPETITION.fullmatch(run_id.removeprefix(f"{point.implementation}_")) for run_id in run_ids)
    return next((match[1] for match in matches if match), run_ids[0])


def _unused(key: str, keys: set[str]) -> str:
    """A name that differs from all others, which it joins."""
    number, unused = 1, key
    while unused in keys:
        number += 1
        unused = f"{key}-{number}"
    keys.add(unused)
    return unused


def cell_of(condition: Condition, rows: Sequence[RunRow]) -> Cell:
    """What is known of a cell, from the rows of all its planned runs; those that are not due do not count."""
    rows = [row for row in rows if row.state.is_due]
    goodput = median_of(rows, GOODPUT)
    return Cell(
        planned=len(rows),
        recorded=sum(row.state.outcome is not None for row in rows),
        running=sum(row.state.activity is not None for row in rows),
        failed=sum(row.failed for row in rows),
        suspect=sum(bool(row.suspect) for row in rows),
        unsupported=sum(row.state.outcome is Outcome.UNSUPPORTED for row in rows),
        quarantined=sum(row.state.outcome is Outcome.QUARANTINED for row in rows),
        goodput=goodput,
        level=_level(condition, goodput),
    )


def median_of(rows: Iterable[RunRow], metric: int) -> float | None:
    """The median of one measure; None if no run has it."""
    values = [value for row in rows if (value := row.value(metric)) is not None]
    return median(values) if values else None


def _level(condition: Condition, goodput: float | None) -> int | None:
    best = condition.best_goodput_bps
    if goodput is None or best is None:
        return None
    share = goodput * METRICS[GOODPUT].per_unit / best
    return sum(share >= limit for limit in LEVELS)
