"""The verdict on a claim from its values in each repetition, with its uncertainty.

A repetition is the whole experiment, performed once. The claim's value is computed in each of them; their median has
the interval of `reports.comparison.estimates`, and a share of runs the exact binomial interval. A claim is confirmed if
the whole interval is inside its bounds, and not confirmed if the whole interval is outside. The error of such a verdict
is the probability that chance alone produces it: the p-value of the one-sided sign test, or of the one-sided binomial
test, at the bound.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count as numbers_from
from math import ceil, inf, pi
from statistics import NormalDist, median, stdev
from typing import Literal, NamedTuple

import scipy

from owlt.reports.comparison.differences import holm
from owlt.reports.comparison.estimates import CONFIDENCE, exact_share, median_interval
from owlt.reports.reproduction.claims import Claim

ClaimVerdict = Literal["confirmed", "not confirmed", "undecided", "undecidable"]
VERDICTS: tuple[ClaimVerdict, ...] = ("confirmed", "not confirmed", "undecided", "undecidable")
MOST_ERROR = 0.05
"""The largest error of a verdict. Five repetitions, all on one side of a bound, have 1/32."""
LEAST_DECIDING = 5
LEAST_FOR_SPREAD = 3
MOST_RUNS = 10_000
"""A larger number of runs than this is not stated."""
Bounds = tuple[float, float]


class Count(NamedTuple):
    """A share of runs, as its numbers."""

    successes: int
    trials: int


Value = float | Count
"""The value of a case in one repetition."""


@dataclass(frozen=True)
class Assessment:
    """The value of one case with its interval, beside the bounds of the claim."""

    case: str
    """The name of the case; "" if the claim has only one."""
    value: float
    low: float
    high: float
    n: int
    """Repetitions, or runs of a share."""
    verdict: ClaimVerdict
    error: float
    """The error of the verdict; 0 of a value without uncertainty."""
    is_inside: bool
    """Whether the value itself is inside the bounds."""
    confidence: float | None = None
    """The confidence of the interval; None without one."""
    runs_needed: int | None = None
    """The approximate number of repetitions, above that performed, that would decide the case; None: more than
    MOST_RUNS, or unknown."""
    is_share: bool = False


@dataclass(frozen=True)
class Judged:
    """A claim, its verdict, and our value: that of the case which is nearest to a bound, or farthest outside."""

    claim: Claim
    verdict: ClaimVerdict
    of: Assessment | None = None
    error: float = 0.0
    """The error of the verdict over all cases."""
    runs_needed: int | None = None
    reason: str = ""
    """Why a claim is undecidable."""

    @property
    def ours(self) -> float | None:
        """Our value; None if there is none."""
        return self.of.value if self.of else None

    @property
    def is_uncertain(self) -> bool:
        """Whether the verdict depends on chance."""
        return self.error > 0


@dataclass(frozen=True)
class Family:
    """The verdicts that depend on chance, taken together."""

    verdicts: int
    error: float
    """An upper bound for the probability that at least one is wrong: the sum of their errors (Bonferroni)."""
    hold: tuple[str, ...]
    """The claims whose verdicts are significant at MOST_ERROR by Holm's procedure."""
    most_performed: int = 0
    """The most repetitions of the other verdicts."""
    least_needed: int | None = None
    """The least number of repetitions with which one of the others can be significant; None if it can be already."""


def family_of(judged: Sequence[Judged]) -> Family:
    """The decided claims of a page as one family of tests."""
    uncertain = [each for each in judged if each.is_uncertain]
    corrected = holm([each.error for each in uncertain])
    hold = [each.claim.id for each, p in zip(uncertain, corrected, strict=True) if p is not None and p <= MOST_ERROR]
    others = [each.of for each in uncertain if each.of and each.claim.id not in hold]
    performed = max((each.n for each in others), default=0)
    needed = _least_for(len(others))
    is_possible = performed >= needed or any(each.is_share for each in others)
    error = min(1.0, sum(each.error for each in uncertain))
    return Family(len(uncertain), error, tuple(hold), performed, None if is_possible or not others else needed)


def judge_cases(claim: Claim, cases: Mapping[str, Sequence[Value]]) -> Judged:
    """The verdict on a claim whose cases have at least one value each: all of them have to be inside the bounds."""
    assessed = [_assessment(claim, case, values) for case, values in cases.items()]
    worst = min(assessed, key=lambda each: _margin(each.value, claim.bounds))
    outside = [each for each in assessed if each.verdict == "not confirmed"]
    undecided = [each for each in assessed if each.verdict == "undecided"]
    if outside:
        surest = min(outside, key=lambda each: each.error)
        error = min(1.0, surest.error * len(assessed))
        if error <= MOST_ERROR:
            return Judged(claim, "not confirmed", surest, error)
        performed = len(cases[surest.case])
        return Judged(claim, "undecided", surest, runs_needed=max(performed + 1, _least_for(len(assessed))))
    if undecided:
        needs = [each.runs_needed for each in undecided]
        of = min(undecided, key=lambda each: _margin(each.value, claim.bounds))
        least = 0 if of.is_inside or of.is_share else _least_for(len(assessed))
        most = None if None in needs else max(least, *(each or 0 for each in needs))
        return Judged(claim, "undecided", of, runs_needed=most)
    return Judged(claim, "confirmed", worst, max(each.error for each in assessed))


def _least_for(tests: int) -> int:
    """The least number of repetitions with which one of so many tests can have an error of MOST_ERROR for all."""
    return next(n for n in range(LEAST_DECIDING, MOST_RUNS) if tests * 0.5**n <= MOST_ERROR)


def _assessment(claim: Claim, case: str, values: Sequence[Value]) -> Assessment:
    counts = [each for each in values if isinstance(each, Count)]
    if counts:
        return _of_share(claim.bounds, case, Count(*map(sum, zip(*counts, strict=True))), len(counts))
    numbers = [float(each) for each in values if not isinstance(each, Count)]
    middle = median(numbers)
    if claim.is_fixed and len(set(numbers)) == 1:
        inside = _is_inside(middle, claim.bounds)
        return Assessment(
            case, middle, middle, middle, len(numbers), "confirmed" if inside else "not confirmed", 0.0, inside
        )
    interval = median_interval(numbers)
    low, high = (interval.low, interval.high) if interval else (-inf, inf)
    side = _side(low, high, claim.bounds)
    error = _sign_error(numbers, claim.bounds, side)
    decided = side is not None and error <= MOST_ERROR
    return Assessment(
        case,
        middle,
        low if interval else middle,
        high if interval else middle,
        len(numbers),
        side if side and decided else "undecided",
        error if decided else 0.0,
        _is_inside(middle, claim.bounds),
        interval.confidence if interval else None,
        None if decided else _repetitions_for_median(numbers, claim.bounds),
    )


def _of_share(bounds: Bounds, case: str, count: Count, repetitions: int) -> Assessment:
    interval = exact_share(*count)
    value = count.successes / count.trials
    side = _side(interval.low, interval.high, bounds)
    beyond = [bound for bound in bounds if 0 < bound < 1]  # no share is below 0 or above 1
    error = max((_binomial_error(count, bound) for bound in beyond), default=0.0)
    return Assessment(
        case,
        value,
        interval.low,
        interval.high,
        count.trials,
        side or "undecided",
        error if side else 0.0,
        _is_inside(value, bounds),
        interval.confidence,
        None if side else _repetitions_for_share(count, bounds, repetitions),
        is_share=True,
    )


def _is_inside(value: float, bounds: Bounds) -> bool:
    return bounds[0] <= value <= bounds[1]


def _margin(value: float, bounds: Bounds) -> float:
    """How far inside the bounds a value is; negative if it is outside."""
    return min(value - bounds[0], bounds[1] - value)


def _side(low: float, high: float, bounds: Bounds) -> Literal["confirmed", "not confirmed"] | None:
    """The verdict if the whole interval is on one side of the bounds."""
    least, most = bounds
    if least <= low and high <= most:
        return "confirmed"
    return "not confirmed" if high < least or low > most else None


def _sign_error(values: Sequence[float], bounds: Bounds, side: ClaimVerdict | None) -> float:
    """The p-value of the sign test at the bound that decides."""
    return float(scipy.stats.binom.cdf(_against(values, bounds, side == "confirmed"), len(values), 0.5))


def _against(values: Sequence[float], bounds: Bounds, is_inside: bool) -> int:
    """How many values are on the other side of the bound that decides."""
    least, most = bounds
    beyond = max(sum(value < least for value in values), sum(value > most for value in values))
    return beyond if is_inside else len(values) - beyond


def _binomial_error(count: Count, bound: float) -> float:
    """The p-value of a share on the side of the bound where it is."""
    way: Literal["less", "greater"] = "greater" if count.successes > bound * count.trials else "less"
    return float(scipy.stats.binomtest(count.successes, count.trials, bound, alternative=way).pvalue)


_Z = NormalDist().inv_cdf((1 + CONFIDENCE) / 2)


def _repetitions_for_median(values: Sequence[float], bounds: Bounds) -> int | None:
    """About how many repetitions bring the interval of the median to one side of the nearest bound.

    The half width is z s sqrt(pi / 2 n) for normally distributed values. Those that are on the other side stay there.
    """
    if len(values) < LEAST_FOR_SPREAD:
        return LEAST_DECIDING
    middle = median(values)
    distance = abs(_margin(middle, bounds))
    needed = _rounded_up(pi / 2 * (_Z * stdev(values) / distance) ** 2 if distance else inf)
    against = _against(values, bounds, _is_inside(middle, bounds))
    return needed and max(needed, next(n for n in numbers_from(len(values) + 1) if _can_decide(against, n)))


def _can_decide(against: int, n: int) -> bool:
    """Whether the interval of a median of n values can leave out so many on the other side of a bound."""
    if not against:
        return n >= LEAST_DECIDING
    return bool(scipy.stats.binom.cdf(against, n, 0.5) <= (1 - CONFIDENCE) / 2)


def _repetitions_for_share(share: Count, bounds: Bounds, performed: int) -> int | None:
    """About how many repetitions bring the interval of a share to one side of the nearest bound."""
    expected = (share.successes + 1) / (share.trials + 2)
    distance = abs(_margin(share.successes / share.trials, bounds))
    runs = _rounded_up(_Z**2 * expected * (1 - expected) / distance**2 if distance else inf)
    return runs and max(performed + 1, ceil(runs * performed / share.trials))


def _rounded_up(number: float) -> int | None:
    return max(1, ceil(number)) if number <= MOST_RUNS else None
