"""When the repetitions of a permutation end: as soon as the interval of the median goodput is narrow enough.

The decision depends on results alone, repetition by repetition, so it is the same in every order, after an interrupt,
and when the report is made.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path
from statistics import median
from typing import Literal

from owlt.captures.accounting.summary import CaptureSummary
from owlt.inputs.sweep import Adaptive
from owlt.reports.comparison.estimates import CONFIDENCE, median_interval
from owlt.reports.results.load import Results, Run, load_results, repetition_goodput
from owlt.reports.results.rows import Row
from owlt.results.record import Permutation

Reason = Literal["open", "narrow", "bound", "undelivered"]
REASONS: dict[Reason, str] = {
    "narrow": "the interval is narrow enough",
    "bound": "the largest number of repetitions is reached",
    "undelivered": "no run was completed",
    "open": "more repetitions are due",
}


@dataclass(frozen=True)
class Stop:
    """The decision about the repetitions of a permutation, from its results."""

    repetitions: int
    """The number of repetitions that are due: more may be if it is open, none otherwise."""
    reason: Reason
    width_percent: float | None = None
    """The width of the interval of the median, relative to the median; None: too few values for one."""


def stop(rule: Adaptive, goodputs: Mapping[int, float | None]) -> Stop:
    """The decision from the goodput of each recorded repetition, by its number; None: the run has no goodput.

    A repetition that is not recorded, or only with a fault of the rig, is missing.
    """
    width = None
    for count in range(rule.at_least, rule.at_most + 1):
        if any(number not in goodputs for number in range(1, count + 1)):
            return Stop(count, "open", width)
        values = [value for number in range(1, count + 1) if (value := goodputs[number]) is not None]
        if not values:
            return Stop(count, "undelivered")
        width = width_percent(tuple(values))
        if width is not None and width <= rule.until_interval_percent:
            return Stop(count, "narrow", width)
    return Stop(rule.at_most, "bound", width)


@lru_cache(maxsize=100_000)
def width_percent(values: tuple[float, ...]) -> float | None:
    """The width of the interval of the median in percent of the median; None if its confidence is too low."""
    interval = median_interval(values)
    if interval is None or interval.confidence < CONFIDENCE:
        return None
    middle = median(values)
    return 100 * (interval.high - interval.low) / middle if middle else None


def load_due_results(directory: Path) -> Results:
    """The results in a directory, without planned runs that are not due. Raises as `load_results`."""
    loaded = load_results(directory)
    return with_due_runs(loaded, stops_of(loaded))


def load_rows(directories: Iterable[Path]) -> tuple[list[Row], tuple[str, ...]]:
    """The table of the runs of several directories, and their implementations in the order of the first sweep that has
    each, which decides their looks. Raises as `load_results`."""
    loaded = [load_due_results(directory) for directory in directories]
    order = dict.fromkeys(name for results in loaded for name in results.series)
    return [row for results in loaded for row in results.rows], tuple(order)


def stops_of(results: Results) -> dict[Permutation, Stop]:
    """The decision for each permutation, in the order of the grid; {} if the number of repetitions is fixed."""
    rule = results.sweep.repetitions
    if isinstance(rule, int):
        return {}
    return {
        point: stop(
            rule,
            {
                run.record.repetition: goodput
                for run in results.by_permutation[point]
                if run.record.run_id not in results.baseline
                for goodput in repetition_goodput(run.directory, run.record.outcome, partial(_summary_of, run))
            },
        )
        for point in results.planned
    }


def _summary_of(run: Run) -> CaptureSummary | None:
    return run.summary


def with_due_runs(results: Results, stops: Mapping[Permutation, Stop]) -> Results:
    """The results without planned runs that are not due and have no record."""
    if not stops:
        return results
    unrecorded = tuple(run for run in results.unrecorded if run.repetition <= stops[run.permutation].repetitions)
    missing = Counter(run.permutation for run in unrecorded)
    planned = {point: len(results.by_permutation[point]) + missing[point] for point in results.planned}
    return replace(results, planned=planned, unrecorded=unrecorded)
