"""How many repetitions a sweep needs: when those of a permutation end, and what a number of them can decide.

Adaptive repetitions end as soon as the interval of the median goodput is narrow enough. The decision depends on results
alone, repetition by repetition, so it is the same in every order, after an interrupt, and when the report is made.

`detectable_ratio` and `repetitions_for` say before a sweep starts what its repetitions can decide by the rule of
`reports.comparison.choice`, for values whose logarithms are normally distributed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from math import exp, inf, log, pi, sqrt
from pathlib import Path
from statistics import NormalDist, median, stdev
from typing import Literal, NamedTuple

import numpy as np

from owlt.captures.accounting.summary import CaptureSummary
from owlt.inputs.sweep import Adaptive, Sweep
from owlt.reports.comparison.choice import MOST_EXACT, MOST_REPETITIONS, Contestant, Rule, choose, competing, ratios
from owlt.reports.comparison.estimates import CONFIDENCE, SEED, levels, median_interval
from owlt.reports.results.columns import has_chance
from owlt.reports.results.load import Results, Run, load_results, repetition_goodput
from owlt.reports.results.rows import Row
from owlt.results.permutation import Permutation

Reason = Literal["open", "narrow", "decided", "identical", "bound", "undelivered"]
REASONS: dict[Reason, str] = {
    "narrow": "the interval is narrow enough",
    "decided": "the choice in the cell is decided",
    "identical": "the channel has no random errors, and all further runs are the same",
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


Goodputs = Mapping[int, float | None]
"""The goodput of each recorded repetition of a permutation, by its number; None: the run has no goodput. A repetition
that is not recorded, or only with a fault of the rig, is missing."""
IDENTICAL = 2
"""So many runs with the same goodput, of different seeds, show that nothing is left to chance."""


def stops(
    sweep: Sweep, goodputs: Mapping[Permutation, Goodputs], has_chance: Callable[[Permutation], bool]
) -> dict[Permutation, Stop]:
    """The decision for each permutation; {} if the number of repetitions is fixed.

    `has_chance`: whether the channel of a permutation makes random choices.
    """
    rule = sweep.adaptive
    if rule is None:
        return {}
    if not rule.looks:
        return {point: stop(rule, numbers) for point, numbers in goodputs.items()}
    by_cell: dict[str, list[Permutation]] = {}
    for point in goodputs:
        by_cell.setdefault(point.cell, []).append(point)
    return {
        point: decision
        for points in by_cell.values()
        for point, decision in _decided(
            sweep,
            {point: goodputs[point] for point in points},
            is_exact=sweep.clock == "exact" and not any(map(has_chance, points)),
        ).items()
    }


def stop(rule: Adaptive, goodputs: Goodputs) -> Stop:
    """The decision for a permutation whose interval has to be narrow."""
    width = None
    assert rule.until_interval_percent is not None
    for count in range(rule.at_least, rule.at_most + 1):
        if _missing(goodputs, count):
            return Stop(count, "open", width)
        values = [value for number in range(1, count + 1) if (value := goodputs[number]) is not None]
        if not values:
            return Stop(count, "undelivered")
        width = width_percent(tuple(values))
        if width is not None and width <= rule.until_interval_percent:
            return Stop(count, "narrow", width)
    return Stop(rule.at_most, "bound", width)


def _missing(goodputs: Goodputs, count: int) -> bool:
    return any(number not in goodputs for number in range(1, count + 1))


def _decided(sweep: Sweep, goodputs: Mapping[Permutation, Goodputs], is_exact: bool) -> dict[Permutation, Stop]:
    """The decisions for the permutations of a cell, after a few numbers of repetitions: one that is excluded then, or
    whose runs are identical, has no further runs."""
    assert sweep.adaptive is not None
    decisions: dict[Permutation, Stop] = {}
    if is_exact:
        for point, numbers in goodputs.items():
            if _missing(numbers, IDENTICAL):
                decisions[point] = Stop(IDENTICAL, "open")
            elif numbers[1] == numbers[2]:
                decisions[point] = Stop(IDENTICAL, "identical")
        if any(each.reason == "open" for each in decisions.values()):
            return {point: decisions.get(point, Stop(IDENTICAL, "open")) for point in goodputs}
    for look in sweep.adaptive.looks:
        left = [point for point in goodputs if point not in decisions]
        if any(_missing(goodputs[point], look) for point in left):
            return decisions | {point: Stop(look, "open") for point in left}
        ended = _ended(goodputs, {point: decisions.get(point, Stop(look, "open")) for point in goodputs}, sweep)
        decisions |= {point: reason for point, reason in ended.items() if point in left}
    return decisions | {point: Stop(sweep.adaptive.at_most, "bound") for point in goodputs if point not in decisions}


def _ended(
    goodputs: Mapping[Permutation, Goodputs], so_far: Mapping[Permutation, Stop], sweep: Sweep
) -> dict[Permutation, Stop]:
    """The permutations that need no further runs, after the repetitions of each so far."""
    contestants = {}
    for point, decision in so_far.items():
        scores = np.array([goodputs[point][number] or 0.0 for number in range(1, decision.repetitions + 1)])
        contestants[point] = Contestant(
            scores,
            is_at_levels=bool(levels(scores[scores > 0].tolist())),
            is_determined=decision.reason == "identical",
        )
    rule = rule_of(sweep)
    left = competing(contestants, rule)
    ended = {point: replace(so_far[point], reason="undelivered") for point in contestants if point not in left}
    if left:
        standpoints = choose(left, next(iter(left)), rule, len(contestants))
        is_decided = any(each.position == "take" for each in standpoints.values())
        ended |= {
            point: replace(so_far[point], reason="decided")
            for point, each in standpoints.items()
            if is_decided or each.position == "excluded"
        }
    return ended


def rule_of(sweep: Sweep) -> Rule:
    """What the choice of a sweep demands: its margin, and the looks of its adaptive repetitions."""
    looks = sweep.adaptive.looks if sweep.adaptive else ()
    return Rule(sweep.margin, max(len(looks), 1))


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
    rule: Rule
    """What the choice of the first sweep demands."""


def load_rows(directories: Iterable[Path]) -> LoadedRows:
    """The table of the runs of at least one directory. Raises as `load_results`."""
    loaded = [load_due_results(directory) for directory in directories]
    order = dict.fromkeys(name for results in loaded for name in results.series)
    return LoadedRows([row for results in loaded for row in results.rows], tuple(order), rule_of(loaded[0].sweep))


def stops_of(results: Results) -> dict[Permutation, Stop]:
    """The decision for each permutation, in the order of the grid; {} if the number of repetitions is fixed."""
    if results.sweep.adaptive is None:
        return {}
    goodputs = {
        point: {
            run.record.repetition: goodput
            for run in results.by_permutation[point]
            if run.record.run_id not in results.baseline
            for goodput in repetition_goodput(run.directory, run.record.outcome, partial(_summary_of, run))
        }
        for point in results.planned
    }
    with_chance = {point for point, rows in results.rows_by_permutation.items() if any(map(has_chance, rows))}
    decided = stops(results.sweep, goodputs, with_chance.__contains__)
    return {point: decided[point] for point in results.planned}


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


def detectable_ratio(spread: float, repetitions: int, implementations: int, rule: Rule) -> float | None:
    """The ratio of two of so many implementations, above 1, for which so many runs of each exclude the worse one with
    the probability DETECTION if all have this spread. None: none can be excluded."""
    if repetitions < rule.least_repetitions(implementations):
        return None
    return exp(spread * _detectable_shift(repetitions, rule.level(implementations))) / (1 - rule.margin)


def repetitions_for(ratio: float, spread: float, implementations: int, rule: Rule) -> int | None:
    """The number of runs of each that detects a ratio; None: more than MOST_REPETITIONS."""
    low, high = rule.least_repetitions(implementations), MOST_REPETITIONS + 1
    while low < high:
        middle = (low + high) // 2
        enough = (detectable_ratio(spread, middle, implementations, rule) or inf) <= ratio
        low, high = (low, middle) if enough else (middle + 1, high)
    return low if low <= MOST_REPETITIONS else None


@lru_cache(maxsize=256)
def _detectable_shift(n: int, level: float) -> float:
    """The difference of two normal distributions, in standard deviations, at which n runs of each show with the
    probability DETECTION that one is behind, as `choice` decides it at a level.

    The bound moves with the difference: so each simulated pair of samples without one has the least that it shows.
    """
    if n > MOST_EXACT:  # the efficiency of the test is 3 / pi
        normal = NormalDist()
        return (normal.inv_cdf(1 - level) + normal.inv_cdf(DETECTION)) * sqrt(2 * pi / (3 * n))
    draws = np.exp(np.random.default_rng(SEED).standard_normal((SIMULATED, 2, n)))
    bounds = [ratios(Contestant(one), Contestant(other), level)[0].high for one, other in draws]
    return float(np.quantile(np.log(bounds), DETECTION))
