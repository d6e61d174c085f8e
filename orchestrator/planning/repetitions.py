"""The runs of a plan that are due: all of them, or with adaptive repetitions those that the results call for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from owlt.captures.accounting.summary import load_summary
from owlt.orchestrator.planning.plan import Plan, Run
from owlt.results.record import Permutation
from owlt.results.recorded_runs import RUNS

if TYPE_CHECKING:  # scipy takes most of a second, and only adaptive repetitions need it
    from owlt.reports.comparison.stopping import Stop


class Recorded(Protocol):
    """The part of a run's record that decides."""

    @property
    def outcome(self) -> str: ...


@dataclass(frozen=True)
class DueRuns:
    """The decision for each permutation from the results so far, by which runs are due or still possible."""

    stops: Mapping[Permutation, Stop]

    def is_due(self, run: Run) -> bool:
        """Whether the results call for a run, recorded or not."""
        return run.repetition <= self.stops[run.permutation].repetitions

    def is_possible(self, run: Run) -> bool:
        """Whether a run is due, or may become so."""
        return self.is_due(run) or self.stops[run.permutation].reason == "open"

    def text(self, point: Permutation) -> str:
        """The decision for a permutation in words."""
        decision = self.stops[point]
        width = "" if decision.width_percent is None else f"{decision.width_percent:.3g} % "
        return f"{decision.reason}: {width}after {decision.repetitions}" if decision.reason != "open" else "open"


class Repeating:
    """Decides again and again; the goodput of a run is read once, as long as its record stays the same."""

    def __init__(self, plan: Plan, results: Path) -> None:
        self._plan = plan
        self._results = results
        self._goodputs: dict[str, tuple[Recorded, tuple[float | None, ...]]] = {}

    def due(self, records: Mapping[str, Recorded]) -> DueRuns | None:
        """The decisions from these records; None if every run of the plan is due."""
        rule = self._plan.sweep.adaptive
        if rule is None:
            return None
        from owlt.reports.comparison.stopping import stop

        goodputs: dict[Permutation, dict[int, float | None]] = {run.permutation: {} for run in self._plan.runs}
        for run in self._plan.runs:
            for goodput in self._goodput(run.run_id, records.get(run.run_id)):
                goodputs[run.permutation][run.repetition] = goodput
        return DueRuns({point: stop(rule, numbers) for point, numbers in goodputs.items()})

    def _goodput(self, run_id: str, record: Recorded | None) -> tuple[float | None, ...]:
        """The goodput as `repetition_goodput` returns it; () without a record."""
        from owlt.reports.results.load import repetition_goodput

        if record is None:
            return ()
        known = self._goodputs.get(run_id)
        if known is not None and known[0] == record:
            return known[1]
        directory = self._results / RUNS / run_id
        goodput = repetition_goodput(directory, record.outcome, partial(load_summary, directory))
        if any(goodput):  # a run without one may be analysed later
            self._goodputs[run_id] = (record, goodput)
        return goodput


def due_runs(plan: Plan, results: Path, records: Mapping[str, Recorded]) -> set[str]:
    """The names of the runs that are due, and of those that have a record."""
    due = Repeating(plan, results).due(records) if plan.sweep.adaptive else None
    return {run.run_id for run in plan.runs if due is None or due.is_due(run) or run.run_id in records}


def counts(stops: Iterable[Stop]) -> dict[str, int]:
    """The number of permutations by the reason of their decision."""
    numbers: dict[str, int] = {"narrow": 0, "bound": 0, "undelivered": 0, "open": 0}
    for each in stops:
        numbers[each.reason] += 1
    return numbers
