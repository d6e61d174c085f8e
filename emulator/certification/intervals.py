"""Exact intervals for counts, and the wrong values that a sample detects (its power).

An interval misses the true value with at most the probability `alpha`, half of it at either end. A wrong value is
detected if a channel that has it fails with the probability POWER, judged by these intervals at the same `alpha`. The
tails of the binomial distribution are regularized incomplete beta functions; scipy has them too, but would cost a guest
more time to load than a whole certificate takes.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from math import ceil, exp, floor, inf, lgamma, log, log1p

_STEPS = 100
_PRECISION = 1e-13
_TINY = 1e-300


def share_interval(hits: float, trials: float, alpha: float) -> tuple[float, float]:
    """Return the interval of Clopper and Pearson (1934) for the probability of a hit; (0, 1) without a trial.

    Counts of trials that depend on one another may be given as the fractional number of independent ones.
    """
    if not 0 <= hits <= trials:
        raise ValueError(f"hits: expected 0 to the number of trials, {trials}, got {hits}")
    low = probability_at(alpha / 2, hits, trials - hits + 1) if hits > 0 else 0.0
    high = probability_at(1 - alpha / 2, hits + 1, trials - hits) if hits < trials else 1.0
    return low, high


def mean_run_interval(runs: int, total: int, alpha: float) -> tuple[float, float]:
    """Return the interval for the mean length of runs of which each ends with the same probability at each step.

    The lengths are geometric (1, 2, ...), and the `total` length of a given number of runs negative binomial: it
    is at most t just if t steps hold that many ends. Without a run: (1, inf).
    """
    if not runs <= total:
        raise ValueError(f"total length: expected at least the number of runs, {runs}, got {total}")
    if not runs:
        return 1.0, inf
    least = probability_at(alpha / 2, runs, total - runs + 1)
    most = probability_at(1 - alpha / 2, runs, total - runs) if total > runs else 1.0
    return 1 / most, 1 / least


def quantile_ranks(count: int, quantile: float, alpha: float) -> tuple[int, int]:
    """Return the ranks, from 1 to `count`, of the two values in rising order that enclose the quantile.

    0 and count + 1 stand for "nothing is low enough" and "high enough": the quantile may lie outside of all values.
    """
    low = _first(1, count + 1, lambda rank: at_most(rank - 1, count, quantile) > alpha / 2) - 1
    high = _first(1, count + 1, lambda rank: 1 - at_most(rank - 1, count, quantile) <= alpha / 2)
    return low, high


def at_most(hits: int, trials: int, probability: float) -> float:
    """Return the probability of that many hits or fewer."""
    if hits < 0:
        return 0.0
    return 1.0 if hits >= trials else 1 - beta_share(probability, hits + 1, trials - hits)


def beta_share(x: float, a: float, b: float) -> float:
    """Return the regularized incomplete beta function I_x(a, b), by its continued fraction (DLMF 8.17.22)."""
    if x <= 0:
        return 0.0
    if x >= 1:
        return 1.0
    if x > (a + 1) / (a + b + 2):
        return 1 - beta_share(1 - x, b, a)
    factor = exp(a * log(x) + b * log1p(-x) + lgamma(a + b) - lgamma(a) - lgamma(b)) / a
    return min(factor * _fraction(x, a, b), 1.0)


def _fraction(x: float, a: float, b: float) -> float:
    """1/(1+ d1/(1+ d2/(1+ ... by Lentz's method, as Thompson and Barnett modified it (1986)."""
    value, numerator, denominator = 1.0, 1.0, 0.0
    for term in _terms(x, a, b):
        denominator = 1 / _not_zero(1 + term * denominator)
        numerator = _not_zero(1 + term / numerator)
        value *= numerator * denominator
        if abs(numerator * denominator - 1) < _PRECISION:
            break
    return 1 / value


def _terms(x: float, a: float, b: float) -> Iterator[float]:
    """d1, d2, ... of DLMF 8.17.23."""
    for m in itertools.count():
        yield -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        yield (m + 1) * (b - m - 1) * x / ((a + 2 * m + 1) * (a + 2 * m + 2))


def _not_zero(value: float) -> float:
    return value if abs(value) > _TINY else _TINY


def probability_at(share: float, a: float, b: float) -> float:
    """The x at which I_x(a, b) is the share: an interval of log x is halved, so that small ones are as precise."""
    low, high = -745.0, 0.0
    for _ in range(_STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if beta_share(exp(middle), a, b) < share else (low, middle)
        if high - low < _PRECISION:
            break
    return exp(high)


def _first(low: int, high: int, holds: Callable[[int], bool]) -> int:
    """The first number from `low` on for which the predicate holds; `high` if it holds for none before."""
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle + 1, high)
    return low


POWER = 0.99
FACTOR = 1.5
"""The factor by which an error rate, a loss rate or a burst length has to be wrong, up or down, to be detected with
POWER."""
FRACTION = 0.001
"""The fraction by which a rate or a delay has to be wrong, up or down, to be detected with POWER."""
NOTHING = 0.001
"""The share to be detected if the specified one is 0."""


@dataclass(frozen=True)
class Detectable:
    """The values that a sample detects with POWER: this value and any below, this one and any above; None: it detects
    none."""

    low: float | None
    high: float | None


def wrong_share(specified: float) -> Detectable:
    """Return the shares that are to be detected.

    None is above 1; if 0 is specified, NOTHING is the share to be detected.
    """
    if not specified:
        return Detectable(None, NOTHING)
    return Detectable(specified / FACTOR, specified * FACTOR if specified * FACTOR <= 1 else None)


def wrong_length(specified: float) -> Detectable:
    """Return the mean run lengths that are to be detected. None is below 1."""
    return Detectable(specified / FACTOR if specified >= FACTOR else None, specified * FACTOR)


def wrong_amount(specified: float) -> Detectable:
    """Return the delays or rates that are to be detected; none if 0 is specified."""
    return Detectable(specified * (1 - FRACTION), specified * (1 + FRACTION)) if specified else Detectable(None, None)


@cache
def accepted_hits(trials: int, share: float, alpha: float) -> tuple[int, int]:
    """Return the fewest and the most hits with which `share_interval` still contains the share."""
    half, usual = alpha / 2, floor(trials * share)
    fewest = _first(0, min(usual + 1, trials), lambda hits: at_most(hits, trials, share) >= half)
    most = _first(usual, trials, lambda hits: 1 - at_most(hits, trials, share) < half)
    return fewest, most


def caught_share(trials: int, specified: float, actual: float, alpha: float) -> float:
    """Return the probability that the interval excludes the specified share if the true share is another."""
    fewest, most = accepted_hits(trials, specified, alpha)
    return at_most(fewest - 1, trials, actual) + 1 - at_most(most, trials, actual)


def detectable_share(trials: int, specified: float, alpha: float) -> Detectable:
    """Return the shares that so many trials detect."""
    fewest, most = accepted_hits(trials, specified, alpha)
    return Detectable(
        probability_at(1 - POWER, fewest, trials - fewest + 1) if fewest else None,
        probability_at(POWER, most + 1, trials - most) if most < trials else None,
    )


@cache
def trials_for_share(specified: float, wrong: Detectable, alpha: float, most: int) -> int:
    """Return how many trials detect shares that are wrong by this factor; or `most` if that takes more."""
    shares = [share for share in (wrong.low, wrong.high) if share is not None]
    return _enough(lambda trials: all(caught_share(trials, specified, each, alpha) >= POWER for each in shares), most)


def accepted_totals(runs: int, length: float, alpha: float) -> tuple[int, int]:
    """Return the least and the most that so many runs add up to where `mean_run_interval` still holds the mean."""
    ends, half = 1 / length, alpha / 2
    usual = max(runs, floor(runs * length))
    least = _first(runs, usual, lambda total: _total_at_most(total, runs, ends) >= half)
    most = _last(usual, lambda total: 1 - _total_at_most(total - 1, runs, ends) >= half)
    return least, most


def caught_run_length(runs: int, specified: float, actual: float, alpha: float) -> float:
    """Return the probability that the interval of a mean run length excludes the specified one."""
    least, most = accepted_totals(runs, specified, alpha)
    return _total_at_most(least - 1, runs, 1 / actual) + 1 - _total_at_most(most, runs, 1 / actual)


def detectable_run_length(runs: int, specified: float, alpha: float) -> Detectable:
    """Return the mean lengths that so many runs detect."""
    least, most = accepted_totals(runs, specified, alpha)
    shorter = 1 / probability_at(POWER, runs, least - runs) if least > runs else None
    return Detectable(shorter, 1 / probability_at(1 - POWER, runs, most - runs + 1))


@cache
def runs_for_length(specified: float, alpha: float, most: int) -> int:
    """Return how many runs detect a mean length that is wrong by FACTOR; or `most` if that takes more."""
    wrong = wrong_length(specified)
    lengths = [length for length in (wrong.low, wrong.high) if length is not None]
    return _enough(lambda runs: all(caught_run_length(runs, specified, each, alpha) >= POWER for each in lengths), most)


def detectable_quantile(
    count: int, quantile: float, offsets: Sequence[int], alpha: float, tolerance: float
) -> Detectable:
    """Return by how much values must be below or above the specified one, all equally, for so many of them to detect
    it. Each value is the specified one plus one of the equally likely `offsets`, ascending; the measurement adds
    between 0 and `tolerance`.
    """
    size = len(offsets)
    specified = offsets[min(int(quantile * size), size - 1)]
    if quantile == 0:
        likely = offsets[min(int((1 - alpha ** (1 / count)) * size), size - 1)] - specified
        below = offsets[max(ceil((1 - (1 - POWER) ** (1 / count)) * size) - 1, 0)] - specified
        return Detectable(-(below + tolerance + 1), likely + tolerance + 1)
    before, after = quantile_ranks(count, quantile, alpha)
    low = high = None
    if after <= count:
        share = probability_at(POWER, after, count - after + 1)
        low = -(offsets[min(ceil(share * size), size) - 1] - specified + tolerance + 1)
    if before:
        share = probability_at(1 - POWER, before, count - before + 1)
        high = specified + tolerance - offsets[min(floor(share * size), size - 1)] + 1
    return Detectable(low, high)


def _total_at_most(total: int, runs: int, ends: float) -> float:
    """The probability that so many runs, each step the end of one with the probability `ends`, are done by then."""
    return 1 - at_most(runs - 1, total, ends) if total >= runs else 0.0


def _enough(holds: Callable[[int], bool], most: int) -> int:
    """The first number, or one slightly above it, for which the predicate holds, and `most` if it holds for none below.
    Power grows with the sample, except for small decreases where the required number of hits increases by one.
    """
    high = 16
    while high < most and not holds(high):
        high *= 2
    enough = _first(high // 2, min(high, most), holds)
    while enough < most and not all(holds(enough + step * enough // 400) for step in range(4)):
        enough += max(enough // 200, 1)
    return min(enough, most)


def _last(low: int, holds: Callable[[int], bool]) -> int:
    """The last number from `low` on for which the predicate holds; it must hold for `low`."""
    high = low + 1
    while holds(high):
        high += 2 * (high - low)
    return _first(low, high, lambda number: not holds(number)) - 1
