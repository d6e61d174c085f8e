"""Differences between samples: which implementations of a cell differ, by how much, and how sure that is.

Kruskal-Wallis first; then each pair by the Mann-Whitney test, two-sided: exact without ties, else the normal
approximation with the correction for ties, but never below the least p-value of an exact test. Holm (1979) corrects for
the number of pairs of a cell.

The values of a sample are scores: a run that did not deliver its file has the worst score, so it is in every test. The
ratio of two samples is of delivered files only: the median of all ratios (a run of one / a run of the other). Its
interval is that of Hodges and Lehmann on logarithms (1963), which corresponds to the Mann-Whitney test: two order
statistics of all ratios.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import combinations
from math import ceil, comb

import numpy as np
import scipy
from numpy.typing import NDArray

from owlt.reports.comparison.choice import ERROR, MOST_EXACT, MOST_REPETITIONS, exact_place

SIGNIFICANCE = ERROR
POWER = 0.8
"""The probability with which the number of repetitions needed shows a difference."""
Samples = Mapping[str, Sequence[float]]
"""The scores of each implementation, a higher one better; -inf: the file was not delivered."""


@dataclass(frozen=True)
class Ratio:
    """How many times as large the values of one sample are as those of the other."""

    value: float
    low: float
    high: float
    confidence: float


@dataclass(frozen=True)
class Pair:
    """Two implementations of a cell. Numbers are None if a sample has no run."""

    one: str
    other: str
    n_one: int
    n_other: int
    p: float | None
    p_holm: float | None
    a12: float | None
    """The probability that a run of `one` is better than a run of `other`, ties counted half (Vargha, Delaney 2000)."""

    @property
    def differs(self) -> bool:
        """Whether the difference is significant after Holm's correction."""
        return self.p_holm is not None and self.p_holm <= SIGNIFICANCE

    def repetitions_needed(self, pairs: int) -> int | None:
        """The runs of each that would show such a difference with the power POWER, among so many pairs of a cell.

        At least so many that the test can be significant at all. None: there is no difference, or too small a one.
        """
        if self.a12 is None or self.a12 == 0.5:
            return None
        level = SIGNIFICANCE / max(pairs, 1)
        z = float(scipy.special.ndtri(1 - level / 2) + scipy.special.ndtri(POWER))
        noether = ceil(z**2 / (6 * (self.a12 - 0.5) ** 2))  # Noether 1987, equal samples
        needed = max(noether if 0 < self.a12 < 1 else 0, least_repetitions(pairs))
        return needed if needed <= MOST_REPETITIONS else None


@dataclass(frozen=True)
class Comparison:
    """All implementations of one cell. `p` is that of Kruskal-Wallis; None if there are too few samples."""

    p: float | None
    pairs: tuple[Pair, ...]

    def pair(self, one: str, other: str) -> Pair | None:
        """The pair, seen from `one`."""
        for each in self.pairs:
            if (each.one, each.other) == (one, other):
                return each
            if (each.one, each.other) == (other, one):
                a12 = None if each.a12 is None else 1 - each.a12
                return replace(each, one=one, other=other, n_one=each.n_other, n_other=each.n_one, a12=a12)
        return None


def compare(cells: Sequence[Samples]) -> list[Comparison]:
    """The comparison of each cell. All cells at once, because scipy tests many pairs in the time of one."""
    named = [list(combinations(samples, 2)) for samples in cells]
    both = [(samples[one], samples[other]) for samples, pairs in zip(cells, named, strict=True) for one, other in pairs]
    p_values = iter(mann_whitney(both))
    a12_values = iter([probability_of_better(*pair) for pair in both])
    overall = kruskal_wallis([list(samples.values()) for samples in cells])
    comparisons = []
    for samples, pairs, p in zip(cells, named, overall, strict=True):
        raw = [next(p_values) for _ in pairs]
        compared = tuple(
            Pair(one, other, len(samples[one]), len(samples[other]), p_raw, p_holm, next(a12_values))
            for (one, other), p_raw, p_holm in zip(pairs, raw, holm(raw), strict=True)
        )
        comparisons.append(Comparison(p, compared))
    return comparisons


def mann_whitney(pairs: Sequence[tuple[Sequence[float], Sequence[float]]]) -> list[float | None]:
    """The two-sided p-value of each pair; None if a sample is empty, 1 if all values are equal."""
    p_values: list[float | None] = [None] * len(pairs)
    groups: dict[tuple[int, int, bool], list[tuple[int, NDArray[np.float64]]]] = {}
    for place, (one, other) in enumerate(pairs):
        if not one or not other:
            continue
        ranks = scipy.stats.rankdata([*one, *other])  # the same test, and an infinite score has a finite rank
        distinct = len(np.unique(ranks))
        if distinct == 1:
            p_values[place] = 1.0
            continue
        is_exact = distinct == len(ranks) and max(len(one), len(other)) <= MOST_EXACT
        groups.setdefault((len(one), len(other), is_exact), []).append((place, ranks))
    for (size, _, is_exact), members in groups.items():
        ranks = np.stack([each for _, each in members])
        result = scipy.stats.mannwhitneyu(
            ranks[:, :size], ranks[:, size:], axis=1, method="exact" if is_exact else "asymptotic"
        )
        for (place, _), p in zip(members, result.pvalue, strict=True):
            p_values[place] = min(1.0, max(float(p), least_p(size, ranks.shape[1] - size)))
    return p_values


def least_p(n: int, m: int) -> float:
    """The least p-value that an exact test of n and m runs can have; the approximation for ties may be below it."""
    return 2 / comb(n + m, n)


def kruskal_wallis(cells: Sequence[Sequence[Sequence[float]]]) -> list[float | None]:
    """The p-value of each cell; None for fewer than two samples with values, 1 if all values are equal."""
    p_values: list[float | None] = []
    for samples in cells:
        filled = [sample for sample in samples if sample]
        if len(filled) < 2:
            p_values.append(None)
            continue
        ranks = scipy.stats.rankdata([value for sample in filled for value in sample])
        if len(np.unique(ranks)) == 1:
            p_values.append(1.0)
        else:
            ends = np.cumsum([len(sample) for sample in filled])[:-1]
            p_values.append(float(scipy.stats.kruskal(*np.split(ranks, ends)).pvalue))
    return p_values


def holm(p_values: Sequence[float | None]) -> list[float | None]:
    """The p-values after Holm's correction; None stays None and does not count."""
    ascending = sorted((p, place) for place, p in enumerate(p_values) if p is not None)
    corrected: list[float | None] = [None] * len(p_values)
    greatest = 0.0
    for passed, (p, place) in enumerate(ascending):
        greatest = max(greatest, min(1.0, (len(ascending) - passed) * p))
        corrected[place] = greatest
    return corrected


@lru_cache(maxsize=256)
def least_repetitions(pairs: int) -> int:
    """The least number of runs of each with which one of so many pairs can be significant at all."""
    level = SIGNIFICANCE / max(pairs, 1)
    return next(n for n in range(2, 100) if least_p(n, n) <= level)


def ratio(one: Sequence[float], other: Sequence[float], tests: int = 1) -> Ratio | None:
    """The median over all ratios of a value of one and a value of the other, with its interval; None for a sample that
    has no value, or zero.

    Of several tests, the intervals hold together with the confidence CONFIDENCE, if the samples are large enough for
    that; else it is that of all ratios.
    """
    if not one or not other or min(*one, *other) <= 0:
        return None
    ratios = np.sort(np.divide.outer(np.asarray(one, float), np.asarray(other, float)).ravel())
    place, confidence = _ratio_place(len(one), len(other), SIGNIFICANCE / max(tests, 1))
    return Ratio(float(np.median(ratios)), float(ratios[place - 1]), float(ratios[-place]), confidence)


@lru_cache(maxsize=256)
def _ratio_place(n: int, m: int, level: float) -> tuple[int, float]:
    """The place of the lower bound among the sorted ratios, from 1, and the confidence of the interval."""
    place = exact_place(n, m, level / 2)
    return max(place, 1), 1 - level if place else float(1 - 2 * least_p(n, m) / 2)


def probability_of_better(
    one: Sequence[float] | NDArray[np.float64], other: Sequence[float] | NDArray[np.float64]
) -> float | None:
    """A12: the probability that a score of one is above a score of the other; None for an empty sample."""
    if not len(one) or not len(other):
        return None
    wins, ties = np.greater.outer(one, other), np.equal.outer(one, other)
    return float((np.count_nonzero(wins) + np.count_nonzero(ties) / 2) / wins.size)
