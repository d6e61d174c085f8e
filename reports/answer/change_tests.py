"""The change of each implementation over all cells that two results directories have in common.

Small changes that no cell shows alone show in all cells together: the ratios of the medians have the signed-rank test
of Wilcoxon, and the typical ratio is the estimate that belongs to it (Hodges and Lehmann 1963, on logarithms) with its
interval. Shares of undelivered files are compared by Fisher's exact test. Holm's correction is for the number of
implementations, of each of the two.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil, exp, inf, log, log2
from statistics import median
from typing import Literal

import numpy as np
import scipy

from owlt.reports.answer.changes import Change, Relation, loss
from owlt.reports.comparison.cells import Cell, Criterion, Point, Sample
from owlt.reports.comparison.differences import (
    SIGNIFICANCE,
    Ratio,
    holm,
    least_p,
    mann_whitney,
    probability_of_better,
    ratio,
)
from owlt.reports.comparison.estimates import Share, share

ChangeVerdict = Literal["worse", "better", "no difference", "identical", "too few cells"]
NOT_JUDGED: tuple[Relation, ...] = ("removed", "no result")


@dataclass(frozen=True)
class Overall:
    """One implementation over all common cells."""

    implementation: str
    verdict: ChangeVerdict
    """The verdict on the ratio of the medians."""
    cells: int
    """The number of cells that have a ratio."""
    ratio: Ratio | None
    """The typical ratio, after over before; None if no cell has one."""
    p_holm: float | None
    cells_needed: int
    """The least number of cells with which any difference could be significant."""
    before: Share | None
    """The share of undelivered files in the common cells."""
    after: Share | None
    p_undelivered: float | None
    """The p-value of the difference of the shares, after Holm's correction."""
    delivers: Literal["worse", "better", "no difference"]
    relations: dict[Relation, int]
    """The number of its permutations by their change."""

    @property
    def is_worse(self) -> bool:
        """Whether it regressed: in a cell, over all cells, or in its share of delivered files."""
        return "worse" in (self.verdict, self.delivers) or bool(self.relations.get("worse"))

    @property
    def not_judged(self) -> int:
        """The permutations that cannot be judged: removed, without a result; or with too few runs, if all
        cells together are too few, too."""
        few = self.relations.get("too few runs", 0) if self.verdict == "too few cells" else 0
        return few + sum(self.relations.get(relation, 0) for relation in NOT_JUDGED)


def overall_of(changes: Sequence[Change], criterion: Criterion, tolerance: float) -> list[Overall]:
    """Each implementation, in the order of their names."""
    by_name: dict[str, list[Change]] = {}
    for change in sorted(changes, key=lambda change: change.implementation):
        by_name.setdefault(change.implementation, []).append(change)
    logs = [_logs(own) for own in by_name.values()]
    undelivered = [_undelivered(own) for own in by_name.values()]
    p_ratios = holm([_wilcoxon(each) for each in logs])
    p_undelivered = holm([_fisher(*each) for each in undelivered])
    return [
        Overall(
            implementation=name,
            verdict=_verdict(own, size, p_ratio, len(by_name), criterion, tolerance),
            cells=len(each),
            ratio=size,
            p_holm=p_ratio,
            cells_needed=least_cells(len(by_name)),
            before=shares[0],
            after=shares[1],
            p_undelivered=p_share,
            delivers=_delivers(*shares, p_share),
            relations=dict(Counter(change.relation for change in own)),
        )
        for (name, own), each, shares, p_ratio, p_share in zip(
            by_name.items(), logs, undelivered, p_ratios, p_undelivered, strict=True
        )
        for size in [_typical(each)]
    ]


def _logs(changes: Sequence[Change]) -> list[float]:
    return [log(change.ratio.value) for change in changes if change.ratio]


def _wilcoxon(logs: Sequence[float]) -> float | None:
    """The two-sided p-value; differences of zero count half to either side. None without a value."""
    if not logs:
        return None
    if not any(logs):
        return 1.0
    return float(scipy.stats.wilcoxon(logs, zero_method="zsplit").pvalue)


def least_cells(implementations: int) -> int:
    """The least number of cells with which one of so many implementations can differ significantly: of n, the least
    p-value is 2 ** (1 - n)."""
    return 1 + ceil(log2(implementations / SIGNIFICANCE))


def _typical(logs: Sequence[float]) -> Ratio | None:
    """The median of all means of two, and its interval: between two of these means, counted as the test counts."""
    if not logs:
        return None
    values = np.asarray(logs)
    first, second = np.triu_indices(len(values))
    means = np.sort((values[first] + values[second]) / 2)
    place, confidence = _place(len(values))
    return Ratio(exp(np.median(means)), exp(means[place - 1]), exp(means[-place]), confidence)


def _place(n: int) -> tuple[int, float]:
    """The place of the interval's lower end among the sorted means, from 1, and its confidence."""
    counts = np.array([1.0])  # how many sets of the ranks 1 to n have each sum
    for rank in range(1, n + 1):
        longer = np.zeros(len(counts) + rank)
        longer[: len(counts)] += counts / 2
        longer[rank:] += counts / 2
        counts = longer
    below = np.cumsum(counts)
    place = max(int(np.searchsorted(below, SIGNIFICANCE / 2, side="right")), 1)
    return place, float(max(0.0, 1 - 2 * below[place - 1]))


def _undelivered(changes: Sequence[Change]) -> tuple[Share | None, Share | None]:
    common = [change for change in changes if change.before and change.after]
    sides = ([change.before for change in common], [change.after for change in common])
    before, after = (
        share(sum(side.tried - side.delivered for side in own if side), sum(side.tried for side in own if side))
        for own in sides
    )
    return before, after


def _fisher(before: Share | None, after: Share | None) -> float | None:
    if before is None or after is None:
        return None
    table = [[each.count, each.n - each.count] for each in (before, after)]
    return float(scipy.stats.fisher_exact(table).pvalue)


def _verdict(
    changes: Sequence[Change],
    size: Ratio | None,
    p_holm: float | None,
    implementations: int,
    criterion: Criterion,
    tolerance: float,
) -> ChangeVerdict:
    if all(change.relation == "identical" for change in changes):
        return "identical"
    cells = sum(change.ratio is not None for change in changes)
    if size is None or p_holm is None or cells < least_cells(implementations):
        return "too few cells"
    if p_holm > SIGNIFICANCE or abs(loss(size.value, criterion)) <= tolerance:
        return "no difference"
    return "worse" if loss(size.value, criterion) > 0 else "better"


def _delivers(
    before: Share | None, after: Share | None, p_holm: float | None
) -> Literal["worse", "better", "no difference"]:
    if before is None or after is None or p_holm is None or p_holm > SIGNIFICANCE:
        return "no difference"
    return "worse" if after.value > before.value else "better"


Key = tuple[Point, str]


@dataclass(frozen=True)
class ChangePoint:
    """A border at which the results of a permutation changed. `ratio` is of the runs up to the next change point over
    those since the last one; None if either has no value or a zero."""

    night: int
    """The first directory after the change, counted from 0."""
    ratio: Ratio | None
    is_worse: bool
    p: float
    """The p-value after the correction."""


@dataclass(frozen=True)
class Series:
    """One permutation over all directories."""

    point: Point
    implementation: str
    medians: tuple[float | None, ...]
    """The medians of each directory, in the unit of the criterion's metric."""
    tried: tuple[int, ...]
    delivered: tuple[int, ...]
    changes: tuple[ChangePoint, ...]
    """The change points in the order of time."""
    is_testable: bool
    """Whether there are enough runs for any border to be a change point."""

    @property
    def ended_worse(self) -> bool:
        """Whether the last change was for the worse."""
        return bool(self.changes) and self.changes[-1].is_worse


def series_of(nights: Sequence[Sequence[Cell]], criterion: Criterion, tolerance: float) -> list[Series]:
    """Every permutation of any directory. First those whose last change is for the worse, the latest first; then other
    changes. A change of the medians up to the share `tolerance` is none."""
    samples = [_samples(cells) for cells in nights]
    keys = list(dict.fromkeys(key for of_night in samples for key in of_night))
    searches = [_search([of_night.get(key) for of_night in samples], criterion, tolerance) for key in keys]
    borders = sum(max(0, len(search.nights) - 1) for search in searches)
    series = [
        _series(key, [of_night.get(key) for of_night in samples], replace(search, borders=borders))
        for key, search in zip(keys, searches, strict=True)
    ]
    return sorted(series, key=_order)


def _samples(cells: Sequence[Cell]) -> dict[Key, Sample]:
    return {(cell.point, name): sample for cell in cells for name, sample in cell.samples.items()}


def _order(series: Series) -> tuple[bool, bool, int]:
    last = series.changes[-1].night if series.changes else 0
    return not series.ended_worse, not series.changes, -last


def _series(key: Key, samples: Sequence[Sample | None], search: _Search) -> Series:
    return Series(
        *key,
        medians=tuple(median(values) if values else None for values in search.values),
        tried=tuple(sample.tried if sample else 0 for sample in samples),
        delivered=tuple(sample.delivered if sample else 0 for sample in samples),
        changes=tuple(search.described(sorted(search.change_points(search.nights)))),
        is_testable=search.is_testable,
    )


def _search(samples: Sequence[Sample | None], criterion: Criterion, tolerance: float) -> _Search:
    metric, higher = criterion.metric, criterion.higher_is_better
    scores = tuple(tuple(sample.scores(metric, higher)) if sample else () for sample in samples)
    values = tuple(tuple(sample.values(metric)) if sample else () for sample in samples)
    return _Search(scores, values, criterion, tolerance)


@dataclass(frozen=True)
class _Search:
    """The scores and values of one permutation, by night. `borders` are all that are tested, of all permutations."""

    scores: tuple[tuple[float, ...], ...]
    values: tuple[tuple[float, ...], ...]
    criterion: Criterion
    tolerance: float
    borders: int = 1

    @property
    def nights(self) -> list[int]:
        """The nights that have a result."""
        return [night for night, scores in enumerate(self.scores) if scores]

    @property
    def is_testable(self) -> bool:
        """Whether the least p-value of some border is low enough."""
        sizes = [len(self.scores[night]) for night in self.nights]
        least = (least_p(sum(sizes[:at]), sum(sizes[at:])) for at in range(1, len(sizes)))
        return any(p * self.borders <= SIGNIFICANCE for p in least)

    def change_points(self, nights: Sequence[int]) -> list[tuple[int, float]]:
        """The first night after each change with the p-value by which it was found, the strongest first."""
        best = self._strongest(nights)
        if best is None:
            return []
        place, p = best
        return [(nights[place], p), *self.change_points(nights[:place]), *self.change_points(nights[place:])]

    def described(self, found: Sequence[tuple[int, float]]) -> list[ChangePoint]:
        """The change points with their sizes: each part against the part before it."""
        bounds = [0, *(night for night, _ in found), len(self.scores)]
        described = []
        for (night, p), start, end in zip(found, bounds, bounds[2:], strict=False):
            before = [each for each in self.nights if start <= each < night]
            after = [each for each in self.nights if night <= each < end]
            better = probability_of_better(self._joined(after), self._joined(before)) or 0.0
            described.append(ChangePoint(night, ratio(self._values(after), self._values(before)), better < 0.5, p))
        return described

    def _strongest(self, nights: Sequence[int]) -> tuple[int, float] | None:
        """The place of the border with the least p-value, and that value after the correction, if it is a change."""
        splits = [(nights[:at], nights[at:]) for at in range(1, len(nights))]
        p_values = mann_whitney([(self._joined(before), self._joined(after)) for before, after in splits])
        ranked = sorted((p, place) for place, p in enumerate(p_values) if p is not None)
        for p, place in ranked[:1]:
            if p * self.borders <= SIGNIFICANCE and not self._is_small(*splits[place]):
                return place + 1, p * self.borders
        return None

    def _is_small(self, before: Sequence[int], after: Sequence[int]) -> bool:
        """Whether the medians differ by no more than the tolerance, and all files were delivered."""
        if -inf in self._joined([*before, *after]):
            return False
        one, other = (abs(median(self._joined(part))) for part in (before, after))
        return one > 0 and abs(loss(other / one, self.criterion)) <= self.tolerance

    def _joined(self, nights: Sequence[int]) -> list[float]:
        return [score for night in nights for score in self.scores[night]]

    def _values(self, nights: Sequence[int]) -> list[float]:
        return [value for night in nights for value in self.values[night]]
