"""How many repetitions a sweep needs: when those of a permutation end, and what a number of them can decide.

Adaptive repetitions end as soon as the interval of the median goodput is narrow enough. The decision depends on results
alone, repetition by repetition, so it is the same in every order, after an interrupt, and when the report is made.

What a number of repetitions can decide is said before a sweep starts, by the rule of `reports.comparison.choice`, for
values whose logarithms are normally distributed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from math import exp, inf, log, pi, sqrt
from pathlib import Path
from statistics import NormalDist, median, stdev
from typing import Literal, NamedTuple

import numpy as np

from owlt.captures.accounting.summary import CaptureSummary
from owlt.inputs.sweep import Adaptive
from owlt.reports.comparison.choice import (
    ERROR,
    MARGIN,
    MOST_EXACT,
    MOST_REPETITIONS,
    Contestant,
    least_repetitions_of,
    ratios,
)
from owlt.reports.comparison.estimates import CONFIDENCE, SEED, median_interval
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


class LoadedRows(NamedTuple):
    """The table of the runs of one or several directories."""

    rows: list[Row]
    order: tuple[str, ...]
    """The implementations in the order of the first sweep that has each, which decides their looks."""
    margin: float
    """The share by which an implementation may be behind the best, in the first sweep."""


def load_rows(directories: Iterable[Path]) -> LoadedRows:
    """The table of the runs of at least one directory. Raises as `load_results`."""
    loaded = [load_due_results(directory) for directory in directories]
    order = dict.fromkeys(name for results in loaded for name in results.series)
    return LoadedRows([row for results in loaded for row in results.rows], tuple(order), loaded[0].sweep.margin)


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


DETECTION = 0.9
"""The probability with which repetitions show a difference that they are said to detect."""
SIMULATED = 1000
LEAST_FOR_SPREAD = 3


def spread(values: Sequence[float]) -> float | None:
    """The standard deviation of the logarithms of a sample, about that of the values relative to their mean: 0.05 is
    5 %. None: too few values, or one that has no logarithm."""
    if len(values) < LEAST_FOR_SPREAD or min(values) <= 0:
        return None
    return stdev(map(log, values))


def detectable_ratio(spread: float, repetitions: int, implementations: int, margin: float = MARGIN) -> float | None:
    """The ratio of two of so many implementations, above 1, for which so many runs of each exclude the worse one with
    the probability DETECTION if all have this spread. None: none can be excluded."""
    if repetitions < least_repetitions_of(implementations):
        return None
    return exp(spread * _detectable_shift(repetitions, implementations)) / (1 - margin)


def repetitions_for(ratio: float, spread: float, implementations: int, margin: float = MARGIN) -> int | None:
    """The number of runs of each that detects a ratio; None: more than MOST_REPETITIONS."""
    low, high = least_repetitions_of(implementations), MOST_REPETITIONS + 1
    while low < high:
        middle = (low + high) // 2
        enough = (detectable_ratio(spread, middle, implementations, margin) or inf) <= ratio
        low, high = (low, middle) if enough else (middle + 1, high)
    return low if low <= MOST_REPETITIONS else None


@lru_cache(maxsize=256)
def _detectable_shift(n: int, implementations: int) -> float:
    """The difference of two normal distributions, in standard deviations, at which n runs of each show with the
    probability DETECTION that one is behind, as `choice` decides it among so many implementations.

    The bound moves with the difference: so each simulated pair of samples without one has the least that it shows.
    """
    level = ERROR / max(implementations - 1, 1)
    if n > MOST_EXACT:  # the efficiency of the test is 3 / pi
        normal = NormalDist()
        return (normal.inv_cdf(1 - level) + normal.inv_cdf(DETECTION)) * sqrt(2 * pi / (3 * n))
    draws = np.exp(np.random.default_rng(SEED).standard_normal((SIMULATED, 2, n)))
    bounds = [ratios(Contestant(one), Contestant(other), level)[0].high for one, other in draws]
    return float(np.quantile(np.log(bounds), DETECTION))
