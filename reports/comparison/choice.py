"""The choice among the implementations of a cell: which may be taken, which are excluded, which are undecided.

Each ratio of two implementations has a lower bound at the level 5 % / (k (k - 1)), for k implementations, so that all
statements about a cell hold together with a confidence of 95 % (Bonferroni). The bounds of all pairs say how far an
implementation is behind the best of the others, whichever that is (Edwards and Hsu 1983). One that is shown to be the
best, or behind it by no more than the margin, may be taken; one that is shown to be behind by more is excluded. A
difference that is significant and within the margin does not matter.

The ratio is the median over all pairs (a run of one / a run of the other), and its bound one of the sorted ratios
(Hodges and Lehmann 1963). The critical value is the exact one of the Mann–Whitney test, or that of Brunner and Munzel
(2000) where it is smaller, because the former is too large if one implementation varies more than the other; and with
equal probabilities of both orders all runs of one precede all of the other with a probability of at most 2^-n, so that
fewer runs than that allows exclude nothing. Where values are at few levels, the ratio is that of the means, and its
bound holds too (Welch 1947). An undelivered file is the worst result. The p-value belongs to the same bound.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import combinations
from math import ceil, comb, exp, floor, inf, isfinite, log, sqrt
from typing import Literal, NamedTuple, TypeVar

import numpy as np
import scipy
from numpy.typing import NDArray

from owlt.reports.comparison.estimates import CONFIDENCE, exact_bounds

ERROR = 1 - CONFIDENCE
"""The probability of a wrong statement about a cell."""
MOST_EXACT = 40
"""With more values on a side, exact distributions take long and their normal approximation is as good."""
MOST_REPETITIONS = 1000
"""The largest number of needed repetitions that is stated: a difference that needs more does not matter."""
ROUNDING = 1e-9
TIED = 1e-3
"""Ratios whose relative difference is smaller count as equal where the spread of an order is estimated: runs at one
level differ by microseconds, and their order at random would hide the distance between two levels."""
TIED_OF_RANGE = 0.01
"""The difference is also smaller than this share of the range of all ratios: a spread of microseconds, where there is
no other, is one."""

Name = TypeVar("Name", bound=Hashable)
Position = Literal["take", "undecided", "excluded"]
Scores = NDArray[np.float64]
"""One value for each run, at least 0, a higher one better; 0: the file was not delivered."""


class Rule(NamedTuple):
    """What a choice demands."""

    margin: float = 0.01
    """The share of the best value by which an implementation may be behind and still be taken."""
    looks: int = 1
    """How often the results decide whether more runs follow; each time has its part of the error."""

    def level(self, implementations: int) -> float:
        """The level of one bound, of which each pair of so many implementations has two."""
        return ERROR / self.looks / max(implementations * (implementations - 1), 2)

    def least_repetitions(self, implementations: int) -> int:
        """The least number of runs of each with which one of so many implementations can be excluded at all, if the
        channel has random errors."""
        level = self.level(implementations)
        return next(n for n in range(2, 100) if max(0.5**n, 1 / comb(2 * n, n)) <= level)


DEFAULT_RULE = Rule()


class Contestant(NamedTuple):
    """The runs of an implementation in a cell. `is_share`: compared is the share of the scores that are not 0."""

    scores: Scores
    is_share: bool = False
    is_inverse: bool = False
    """Whether the scores are the inverse of the values, because lower values are better."""
    is_at_levels: bool = False
    """Whether the values are at few levels, such as numbers of round trips: then its mean is compared."""
    is_determined: bool = False
    """Whether every further run is the same: the channel has no random errors, and the runs have the same packets."""

    def competes(self, least: int) -> bool:
        """Whether it delivered more than half of its files, or has fewer than `least` runs: a rule, not a test."""
        is_unreliable = 2 * int(np.count_nonzero(self.scores)) <= len(self.scores)
        return self.is_share or not (is_unreliable and (len(self.scores) >= least or self.is_determined))

    @property
    def undelivered_share(self) -> float:
        """The share of its files that were not delivered."""
        return float(np.mean(self.scores == 0))


@dataclass(frozen=True)
class Standpoint:
    """How an implementation stands to the best of the others: the ratio of the scores with its bounds, in which the
    position is decided. `p`: of the hypothesis that none of the others is better; None if nothing is left to chance."""

    position: Position
    value: float
    low: float
    high: float
    p: float | None

    def as_undecided(self) -> Standpoint:
        """The same, except that it may not be taken."""
        return replace(self, position="undecided") if self.position == "take" else self

    def repetitions_needed(self, n: int, implementations: int, rule: Rule) -> int | None:
        """The runs of each after which it is decided, if the ratio is as it seems now, after n runs.

        None: it is decided, or is too close to the margin. The width of an interval is inverse to the root of n.
        """
        if self.position != "undecided":
            return None
        if n < (least := rule.least_repetitions(implementations)):
            return least
        edge = _log(1 - rule.margin)
        value, bound = _log(self.value), _log(self.low if self.value >= 1 - rule.margin else self.high)
        if not (isfinite(value) and isfinite(bound) and isfinite(edge)) or value == edge:
            return None
        needed = max(ceil(n * ((bound - value) / (edge - value)) ** 2), n + 1)
        return needed if needed <= MOST_REPETITIONS else None


def competing(contestants: Mapping[Name, Contestant], rule: Rule) -> dict[Name, Contestant]:
    """Those that are not excluded before any comparison, because they delivered too few of their files."""
    least = rule.least_repetitions(len(contestants))
    return {name: each for name, each in contestants.items() if each.competes(least)}


def choose(
    contestants: Mapping[Name, Contestant], best: Name, rule: Rule, implementations: int = 0
) -> dict[Name, Standpoint]:
    """The position of each implementation that competes; `best` is the one with the best value, of which the others'
    ratios are stated. `implementations`: the number of those in the cell, if some do not compete."""
    if len(contestants) < 2:
        return {name: Standpoint("take", 1.0, 1.0, 1.0, None) for name in contestants}
    level = rule.level(max(implementations, len(contestants)))
    pairs: dict[tuple[Name, Name], Bounded] = {}
    for one, other in combinations(contestants, 2):
        bounded = _shares if contestants[one].is_share else ratios
        pairs[one, other], pairs[other, one] = bounded(contestants[one], contestants[other], level)
    of_others = {name: [pairs[name, other] for other in contestants if other != name] for name in contestants}
    high = {name: min(each.high for each in own) for name, own in of_others.items()}
    standpoints = {}
    for name, own in of_others.items():
        low = min(each.low for each in own)
        value = 1.0 if name == best else pairs[name, best].value
        p_values = [each.p_behind for each in own if each.p_behind is not None]
        p = min(1.0, ERROR / level * min(p_values)) if p_values else None
        position = _position(low, high[name], rule.margin)
        standpoints[name] = Standpoint(position, value, min(low, value), max(high[name], value), p)
    if all(each.position == "excluded" for each in standpoints.values()):  # each is behind another: a cycle
        standpoints = {name: replace(each, position="undecided") for name, each in standpoints.items()}
    return _reliable(standpoints, contestants)


def _position(low: float, high: float, margin: float) -> Position:
    if low >= 1 - margin - ROUNDING:
        return "take"
    return "excluded" if high < 1 - margin - ROUNDING else "undecided"


def _reliable(standpoints: dict[Name, Standpoint], contestants: Mapping[Name, Contestant]) -> dict[Name, Standpoint]:
    """The positions where, of several that may be taken, one that failed more often than another is undecided."""
    failed = {
        name: contestants[name].undelivered_share for name, each in standpoints.items() if each.position == "take"
    }
    least = min(failed.values(), default=0.0)
    return {name: each.as_undecided() if failed.get(name, 0.0) > least else each for name, each in standpoints.items()}


class Bounded(NamedTuple):
    """One implementation compared with another: the ratio of the scores, its bounds, each at the level, and the
    one-sided p-values: of not being behind, and of not being ahead; None if nothing is left to chance."""

    value: float
    low: float
    high: float
    p_behind: float | None = None
    p_ahead: float | None = None

    @property
    def p(self) -> float | None:
        """The two-sided p-value."""
        return None if self.p_behind is None or self.p_ahead is None else min(1.0, 2 * min(self.p_behind, self.p_ahead))

    @property
    def reverse(self) -> Bounded:
        """The other implementation compared with this one."""
        return Bounded(_inverse(self.value), _inverse(self.high), _inverse(self.low), self.p_ahead, self.p_behind)


def ratios(one: Contestant, other: Contestant, level: float) -> tuple[Bounded, Bounded]:
    """Both directions of the comparison of two implementations by all ratios of their runs, and by their means."""
    rows, columns = (
        np.resize(each.scores, max(len(each.scores), len(rival.scores))) if each.is_determined else each.scores
        for each, rival in ((one, other), (other, one))
    )
    size = len(rows) * len(columns)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = np.divide.outer(rows, columns)
    ratios[np.isinf(rows)[:, None] & np.isinf(columns)] = 1.0
    known = np.sort(ratios[~np.isnan(ratios)])
    unknown = size - len(known)  # neither file was delivered: each bound counts these pairs on its side
    value = float(np.median(known)) if len(known) else 1.0
    if one.is_determined and other.is_determined:
        return Bounded(value, value, value), Bounded(value, value, value).reverse
    test = _Test(len(rows), len(columns), *_spread(ratios, value))
    after = test.place(level) - 1 - unknown
    low, high = (float(known[after]), float(known[-after - 1])) if after >= 0 else (0.0, inf)
    p_behind, p_ahead = (test.p(unknown + int(np.count_nonzero(side))) for side in (known >= 1, known <= 1))
    if (one.is_at_levels or other.is_at_levels) and (means := _means(one, other)):
        value = means.value
        low, high = min(low, means.low(level)), max(high, means.high(level))
        p_behind, p_ahead = max(p_behind, means.p_behind), max(p_ahead, 1 - means.p_behind)
    found = Bounded(value, low, high, p_behind, p_ahead)
    return found, found.reverse


class _Means(NamedTuple):
    """The ratio of two means (Welch 1947, by the delta method); `deviation` is that of its logarithm."""

    value: float
    deviation: float
    freedom: float

    def low(self, level: float) -> float:
        """The one-sided lower bound at a level."""
        return self.value * exp(float(scipy.special.stdtrit(self.freedom, level)) * self.deviation)

    def high(self, level: float) -> float:
        """The one-sided upper bound at a level."""
        return self.value**2 / self.low(level)

    @property
    def p_behind(self) -> float:
        """The p-value of not being behind."""
        return float(scipy.special.stdtr(self.freedom, log(self.value) / self.deviation))


def _means(one: Contestant, other: Contestant) -> _Means | None:
    """The ratio of the means of two implementations whose values are at few levels, such as rounds of a round trip. For
    such values the median ratio is often 1, even if the numbers of runs at each level differ.

    None: one of them has fewer than two values, or both have no spread.
    """
    means, parts = [], []
    for scores, is_inverse in ((one.scores, one.is_inverse), (other.scores, other.is_inverse)):
        delivered = scores[(scores > 0) & np.isfinite(scores)]
        if len(delivered) < 2:
            return None
        values = 1 / delivered if is_inverse else delivered
        means.append(float(values.mean()) ** (-1 if is_inverse else 1))
        parts.append((float(values.var(ddof=1) / values.mean() ** 2) / len(values), len(values) - 1))
    variance = sum(part for part, _ in parts)
    if variance < ROUNDING**2:
        return None
    freedom = variance**2 / sum(part**2 / free for part, free in parts)
    return _Means(means[0] / means[1], sqrt(variance), freedom)


def _inverse(ratio: float) -> float:
    return 1 / ratio if ratio else inf


def _spread(ratios: NDArray[np.float64], middle: float) -> tuple[float, float]:
    """The standard deviation of the share of ratios on one side of their middle, without the assumption that both
    implementations vary in the same way, and its degrees of freedom (Brunner and Munzel 2000)."""
    if not 0 < middle < inf:
        middle = 1.0
    delivered = ratios[np.isfinite(ratios) & (ratios > 0)]
    between = float(np.ptp(delivered)) / middle if len(delivered) else 0.0
    tied = max(ROUNDING, min(TIED, TIED_OF_RANGE * between))
    with np.errstate(invalid="ignore"):
        below, not_above = ratios < middle * (1 - tied), ratios <= middle * (1 + tied)
    not_above |= np.isnan(ratios)
    widest = (0.0, inf)
    for side in (below, not_above):  # ratios at the middle belong to one side or the other: the larger spread counts
        parts = [
            (_variance(side.mean(axis=axis)) / count, count - 1)
            for axis, count in ((1, ratios.shape[0]), (0, ratios.shape[1]))
            if count > 1
        ]
        variance = sum(part for part, _ in parts)
        if variance > widest[0] ** 2:
            widest = sqrt(variance), variance**2 / sum(part**2 / freedom for part, freedom in parts)
    return widest


def _variance(values: NDArray[np.float64]) -> float:
    """That of a sample; faster for few values than numpy's."""
    middle = values - values.sum() / len(values)
    return float(middle @ middle) / (len(values) - 1)


class _Test(NamedTuple):
    """The one-sided test of n against m runs; `deviation` and `freedom` are those of `_spread`."""

    n: int
    m: int
    deviation: float
    freedom: float

    def place(self, level: float) -> int:
        """The place of the bound among the sorted ratios, from 1; 0: there are too few runs for one."""
        if 0.5 ** min(self.n, self.m) > level:
            return 0
        place = exact_place(self.n, self.m, level)
        if self.deviation:
            quantile = float(scipy.special.stdtrit(self.freedom, level))
            place = min(place, floor(self.n * self.m * (0.5 + quantile * self.deviation)) + 1)
        return max(place, 1)

    def p(self, pairs: int) -> float:
        """The p-value of so few pairs on one side: the least level whose bound excludes a ratio of 1."""
        p = max(_exact_p(self.n, self.m, pairs), 0.5 ** min(self.n, self.m))
        if not self.deviation or not pairs:
            return p
        return max(p, float(scipy.special.stdtr(self.freedom, (pairs / (self.n * self.m) - 0.5) / self.deviation)))


def _shares(one: Contestant, other: Contestant, level: float) -> tuple[Bounded, Bounded]:
    """Both directions of the comparison of two shares, each difference of shares added to 1, from the exact bounds of
    each share at half the level (Clopper and Pearson 1934)."""
    share, other_share = (float(np.mean(each.scores > 0)) for each in (one, other))
    value = 1 + share - other_share
    if one.is_determined and other.is_determined:
        return Bounded(value, value, value), Bounded(2 - value, 2 - value, 2 - value)
    (low, high), (other_low, other_high) = (
        exact_bounds(int(np.count_nonzero(each.scores)), len(each.scores), level / 2) for each in (one, other)
    )
    least, greatest = 1 + low - other_high, 1 + high - other_low
    return Bounded(value, least, greatest), Bounded(2 - value, 2 - greatest, 2 - least)


@lru_cache(maxsize=256)
def _distribution(n: int, m: int) -> NDArray[np.float64]:
    """The probability that Mann–Whitney's U is at most each of its values, if the samples do not differ.

    The number of arrangements is the Gaussian binomial coefficient, multiplied out factor by factor.
    """
    counts = [1] + [0] * (n * m)
    for step in range(1, n + 1):
        for u in range(n * m, m + step - 1, -1):
            counts[u] -= counts[u - m - step]
        for u in range(step, n * m + 1):
            counts[u] += counts[u - step]
    total = comb(n + m, n)
    return np.cumsum([count / total for count in counts])


@lru_cache(maxsize=1024)
def exact_place(n: int, m: int, level: float) -> int:
    """The place of the one-sided bound among the sorted ratios of n and m runs, from 1, if both vary in the same way
    (Mann and Whitney 1947); 0: there are too few runs for one."""
    if max(n, m) > MOST_EXACT:
        return floor(n * m / 2 + float(scipy.special.ndtri(level)) * sqrt(n * m * (n + m + 1) / 12)) + 1
    return len(np.flatnonzero(_distribution(n, m) <= level))


def _exact_p(n: int, m: int, pairs: int) -> float:
    if max(n, m) > MOST_EXACT:
        return float(scipy.special.ndtr((pairs - n * m / 2) / sqrt(n * m * (n + m + 1) / 12)))
    return float(_distribution(n, m)[pairs])


def _log(value: float) -> float:
    return log(value) if value > 0 else -inf
