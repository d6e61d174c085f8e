"""Estimates from one sample with their uncertainty: median, mean, share of failures.

The interval of a median is, at a confidence of at least CONFIDENCE if the sample allows it:

- 2 to 5 values: the range of the sample. Its confidence 1 - 2^(1-n) is lower, and is part of the interval.
- 6 to 19 values: between two order statistics; exact for any continuous distribution.
- 20 or more: BCa bootstrap (Efron 1987), with a fixed seed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import pairwise
from math import isnan, sqrt
from statistics import NormalDist
from typing import Literal, NamedTuple

import numpy as np
import scipy

from owlt.reports.comparison.metrics import Metric
from owlt.results.permutation import Permutation

CONFIDENCE = 0.95
LEAST_EXACT = 6
"""With fewer values, no interval between order statistics has a confidence of CONFIDENCE."""
LEAST_BOOTSTRAP = 20
RESAMPLES = 4999
SEED = 2012

LEAST_GROUPED = 6
"""The fewest values for levels: with fewer, they are too often due to chance."""
MOST_LEVELS = 5
TIMES_APART = 3.0
"""The least gap between two levels, in widths of the widest one."""
WORTH_A_NOTE = 0.05
"""A gap between two levels that is a smaller share of the median does not matter."""

Method = Literal["range", "order statistics", "BCa", "Wilson", "Clopper-Pearson"]


@dataclass(frozen=True)
class Interval:
    """The bounds of an interval, its confidence, and how it was computed."""

    low: float
    high: float
    confidence: float
    method: Method


@dataclass(frozen=True)
class Estimate:
    """A sample in numbers, in the sample's unit. Its quartiles are those of `reports.comparison.estimates`."""

    n: int
    median: float
    interval: Interval | None
    """The interval of the median; None for a single value."""
    mean: float
    sem: float | None
    """Standard error of the mean; None for a single value."""


@dataclass(frozen=True)
class Share:
    """A number of events out of n, with the interval of Wilson (1927) at CONFIDENCE."""

    count: int
    n: int
    low: float
    high: float

    @property
    def value(self) -> float:
        """The share: 0.1 is 10 %."""
        return self.count / self.n


def estimate(values: Sequence[float]) -> Estimate | None:
    """The numbers of a sample; None if it is empty."""
    if not values:
        return None
    return Estimate(
        n=len(values),
        median=float(np.median(values)),
        interval=median_interval(values),
        mean=float(np.mean(values)),
        sem=float(np.std(values, ddof=1)) / sqrt(len(values)) if len(values) > 1 else None,
    )


class Level(NamedTuple):
    """Runs with nearly the same value, apart from all others, such as those that needed the same number of rounds."""

    runs: int
    low: float
    high: float


def levels(values: Sequence[float]) -> tuple[Level, ...]:
    """The levels of a sample, the lowest first; () if it has no gaps worth a note.

    A median of few values jumps from one level to the next: the numbers of runs at each say more.
    """
    ordered = sorted(values)
    if len(ordered) < LEAST_GROUPED or ordered[0] == ordered[-1]:
        return ()
    least_gap = WORTH_A_NOTE * abs(ordered[len(ordered) // 2])
    gaps = [after - before for before, after in pairwise(ordered)]
    if max(gaps) <= least_gap:
        return ()
    widest_gaps = sorted(range(1, len(ordered)), key=lambda place: -gaps[place - 1])
    for number in range(min(MOST_LEVELS, len(ordered)), 1, -1):
        ends = [0, *sorted(widest_gaps[: number - 1]), len(ordered)]
        found = [Level(end - start, ordered[start], ordered[end - 1]) for start, end in pairwise(ends)]
        gap = min(after.low - before.high for before, after in pairwise(found))
        if gap > max(TIMES_APART * max(each.high - each.low for each in found), least_gap):
            return tuple(found)
    return ()


def median_interval(values: Sequence[float]) -> Interval | None:
    """The interval of the median, by the method for the number of values; None for fewer than two."""
    if len(values) < 2:
        return None
    if len(values) >= LEAST_BOOTSTRAP and (bounds := _bootstrap(values)):
        return Interval(*bounds, CONFIDENCE, "BCa")
    place, confidence = _order_statistic(len(values))
    ordered = sorted(values)
    method: Method = "order statistics" if len(values) >= LEAST_EXACT else "range"
    return Interval(ordered[place - 1], ordered[-place], confidence, method)


@lru_cache(maxsize=4096)
def share(count: int, n: int) -> Share | None:
    """A share with its interval (Wilson 1927), without scipy, which takes longer to load than a small report takes to
    build; None if n is 0."""
    if not n:
        return None
    z = NormalDist().inv_cdf((1 + CONFIDENCE) / 2)
    centre = (count + z * z / 2) / (n + z * z)
    half = z / (n + z * z) * sqrt(count * (n - count) / n + z * z / 4)
    return Share(count, n, centre - half if count else 0.0, centre + half if count < n else 1.0)


def exact_share(count: int, n: int) -> Interval:
    """The exact interval of a share (Clopper and Pearson 1934) of at least one run: its confidence is never too low."""
    return Interval(*exact_bounds(count, n, (1 - CONFIDENCE) / 2), CONFIDENCE, "Clopper-Pearson")


def exact_bounds(count: int, n: int, tail: float) -> tuple[float, float]:
    """The ends of the exact interval of a share; each is exceeded with the probability `tail` at most."""
    low = float(scipy.special.betaincinv(count, n - count + 1, tail)) if count else 0.0
    return low, float(scipy.special.betaincinv(count + 1, n - count, 1 - tail)) if count < n else 1.0


@lru_cache(maxsize=64)
def _order_statistic(n: int) -> tuple[int, float]:
    """The greatest place k so that the kth least and the kth greatest value bound the median, and the confidence.

    For small samples the place is 1, with a confidence below CONFIDENCE.
    """
    places = range(1, n // 2 + 1)
    enough = [place for place in places if 1 - 2 * scipy.stats.binom.cdf(place - 1, n, 0.5) >= CONFIDENCE]
    place = max(enough, default=1)
    return place, float(1 - 2 * scipy.stats.binom.cdf(place - 1, n, 0.5))


def _bootstrap(values: Sequence[float]) -> tuple[float, float] | None:
    """The bounds of the BCa interval; None if the values do not vary enough for one."""
    if len(set(values)) < 3:
        return None
    result = scipy.stats.bootstrap(
        (np.asarray(values),),
        np.median,
        confidence_level=CONFIDENCE,
        n_resamples=RESAMPLES,
        method="BCa",
        rng=np.random.default_rng(SEED),
    )
    low, high = map(float, result.confidence_interval)
    return None if isnan(low) or isnan(high) else (low, high)


FEW = 5
"""With at most this many runs, quartiles say little more than the points."""
WHISKER = 1.5
"""The length of whiskers beyond the box, in interquartile ranges."""


@dataclass(frozen=True)
class BoxNumbers:
    """A sample in numbers, in the sample's unit."""

    minimum: float
    q1: float
    median: float
    q3: float
    maximum: float
    whisker_low: float
    whisker_high: float


class PlainRun(NamedTuple):
    """The values of a run in a figure: few, because figures are drawn in other processes."""

    run_id: str
    repetition: int
    is_suspect: bool


@dataclass(frozen=True)
class Box:
    """One metric of one permutation: the runs that have a value, and the number of planned runs."""

    permutation: Permutation
    metric: Metric
    planned: int
    values: tuple[tuple[PlainRun, float], ...]
    delivered: int
    """Runs whose file was delivered; `n` of them have a value."""
    undelivered: int
    """Runs whose file was not delivered, for any reason of the implementation (`results.judgements`)."""
    share: Share | None = None
    """Of a metric that is a share of the runs: the share, whose interval is the box."""

    @property
    def n(self) -> int:
        """The number of runs that have a value."""
        return len(self.values)

    @property
    def shown_values(self) -> list[float]:
        """What a drawing of it has to have room for: its values, or the interval of a share."""
        numbers = self.numbers if self.share else None
        return [numbers.minimum, numbers.maximum] if numbers else [value for _, value in self.values]

    @property
    def n_text(self) -> str:
        """The number of runs, and of planned runs if it differs: "3", "2/3"; "" if none was planned."""
        if not self.planned:
            return ""
        return str(self.n) if self.n == self.planned else f"{self.n}/{self.planned}"

    @property
    def delivered_text(self) -> str:
        """The number of runs that delivered the file, of those planned: "2/3"; "" if none was planned."""
        return f"{self.n or self.delivered}/{self.planned}" if self.planned else ""

    @property
    def is_short(self) -> bool:
        """Whether the numbers leave out a run that has ended; runs that have yet to be performed do not count."""
        return self.undelivered > 0 or 0 < self.n < self.delivered

    @cached_property
    def numbers(self) -> BoxNumbers | None:
        """The box in numbers; None if no run has a value."""
        if self.share:
            low, middle, high = (100 * each for each in (self.share.low, self.share.value, self.share.high))
            return BoxNumbers(low, low, middle, high, high, low, high)
        return box_numbers([value for _, value in self.values]) if self.values else None

    @cached_property
    def levels(self) -> tuple[Level, ...]:
        """The levels of its runs; () if there are none, and for counts, which are whole numbers anyway."""
        return () if self.metric.kind == "count" else levels([value for _, value in self.values])


def box_numbers(values: Sequence[float]) -> BoxNumbers:
    """The numbers of a sample of at least one value."""
    ordered = sorted(values)
    q1, middle, q3 = (_quantile(ordered, share) for share in (0.25, 0.5, 0.75))
    reach = WHISKER * (q3 - q1)
    return BoxNumbers(
        minimum=ordered[0],
        q1=q1,
        median=middle,
        q3=q3,
        maximum=ordered[-1],
        whisker_low=min(next(value for value in ordered if value >= q1 - reach), q1),
        whisker_high=max(next(value for value in reversed(ordered) if value <= q3 + reach), q3),
    )


def _quantile(ordered: Sequence[float], share: float) -> float:
    """A quantile, computed as by numpy, to the last bit."""
    place = share * (len(ordered) - 1)
    below = int(place)
    low, high, part = ordered[below], ordered[min(below + 1, len(ordered) - 1)], place - below
    return float(high - (high - low) * (1 - part) if part >= 0.5 else low + (high - low) * part)
