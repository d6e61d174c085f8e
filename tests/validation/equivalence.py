"""Equivalence of a mean with a range: two one-sided t-tests (Schuirmann 1987), and Holm's correction for many cells.

A mean is inside the range if both tests reject, at LEVEL each: the interval of confidence 1 - 2 LEVEL is inside. It is
outside if one of the reversed tests rejects. Otherwise the sample is too small or varies too much: undecided.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, sqrt
from statistics import fmean, stdev
from typing import Literal

from scipy import stats

from owlt.reports.comparison.differences import holm

LEVEL = 0.05

Place = Literal["inside", "outside", "undecided"]
Verdict = Literal["passed", "failed", "undecidable"]


@dataclass(frozen=True)
class Equivalence:
    """The mean of a sample, its interval of confidence 1 - 2 LEVEL, and the two p-values."""

    n: int
    mean: float
    low: float
    high: float
    p_inside: float
    """Of the hypothesis that the mean is not inside the range."""
    p_outside: float
    """Of the hypothesis that the mean is not outside the range."""

    @property
    def place(self) -> Place:
        """Where the mean is, of one sample alone."""
        if self.p_inside <= LEVEL:
            return "inside"
        return "outside" if self.p_outside <= LEVEL else "undecided"


def equivalence(values: Sequence[float], least: float, most: float) -> Equivalence | None:
    """The test of a sample's mean against a range; None for an empty sample.

    Of a single value nothing is known beside it: undecided. Values that are all equal have no error.
    """
    if not values:
        return None
    if len(values) == 1:
        return Equivalence(1, values[0], -inf, inf, 1.0, 1.0)
    error = stdev(values) / sqrt(len(values)) if len(set(values)) > 1 else 0.0
    return equivalence_of_mean(fmean(values), error, len(values), least, most, len(values) - 1)


def equivalence_of_mean(
    mean: float, error: float, n: int, least: float, most: float, degrees_of_freedom: float = inf
) -> Equivalence:
    """The test of a mean whose standard error is known, or was estimated with so many degrees of freedom."""
    if error == 0:
        is_inside = least < mean < most
        return Equivalence(n, mean, mean, mean, float(not is_inside), float(is_inside))
    above_least, below_most = (mean - least) / error, (most - mean) / error
    reach = float(stats.t.ppf(1 - LEVEL, degrees_of_freedom)) * error
    p_inside = float(stats.t.sf(min(above_least, below_most), degrees_of_freedom))
    p_outside = min(1.0, 2 * float(stats.t.cdf(min(above_least, below_most), degrees_of_freedom)))
    return Equivalence(n, mean, mean - reach, mean + reach, p_inside, p_outside)


def verdict_of_all(cells: Sequence[Equivalence | None]) -> Verdict:
    """Of "each of these cells is inside": passed if each is, failed if one is outside, else undecidable.

    That each is inside needs no correction (an intersection-union test, Berger 1982); that at least one is outside
    has Holm's.
    """
    if cells and all(cell is not None and cell.place == "inside" for cell in cells):
        return "passed"
    return "failed" if any(outside_of(cells)) else "undecidable"


def outside_of(cells: Sequence[Equivalence | None]) -> list[bool]:
    """Which cells are outside, with Holm's correction for their number."""
    corrected = holm([None if cell is None else cell.p_outside for cell in cells])
    return [p is not None and p <= LEVEL for p in corrected]


def verdict_of(cell: Equivalence | None) -> Verdict:
    """Of "this mean is inside"."""
    return {"inside": "passed", "outside": "failed", "undecided": "undecidable"}[cell.place if cell else "undecided"]  # type: ignore[return-value]


@dataclass(frozen=True)
class Statement:
    """What was to be shown, the verdict, and the numbers that led to it."""

    id: str
    states: str
    verdict: Verdict
    numbers: str


def percent_text(ratio: float) -> str:
    """A ratio as a deviation: +0.42 %."""
    return f"{100 * (ratio - 1):+.2f} %"


def interval_text(low: float, high: float) -> str:
    """An interval of ratios as deviations: -0.10 to +0.42 %."""
    return f"{100 * (low - 1):+.2f} to {100 * (high - 1):+.2f} %"
