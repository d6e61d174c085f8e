"""Change points over many results directories in the order of time, such as those of nightly sweeps.

For each permutation, every border between two directories is tested: the runs before it against the runs after it, by
the test of Mann and Whitney, as in the test of Pettitt (1979). The border with the least p-value is a change point if
that is at most 5 % after Bonferroni's correction for all borders of all permutations; then both parts are searched in
the same way (binary segmentation: Scott and Knott 1974). A run that did not deliver its file has the worst rank.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf
from statistics import median

from owlt.reports.changes.permutations import loss
from owlt.reports.comparison.cells import Cell, Point, Sample
from owlt.reports.comparison.criteria import Criterion
from owlt.reports.comparison.differences import SIGNIFICANCE, Ratio, least_p, mann_whitney, probability_of_better, ratio

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
    """After the correction."""


@dataclass(frozen=True)
class Series:
    """One permutation over all directories."""

    point: Point
    implementation: str
    medians: tuple[float | None, ...]
    """Of each directory, in the unit of the criterion's metric."""
    tried: tuple[int, ...]
    delivered: tuple[int, ...]
    changes: tuple[ChangePoint, ...]
    """In the order of time."""
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
        tried=tuple(len(sample.tried) if sample else 0 for sample in samples),
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
