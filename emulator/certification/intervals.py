"""Exact intervals: between which values a probability lies, given what was counted.

Each misses the true value with at most the probability `alpha`, half of it at either end. The tails of the binomial
distribution are regularized incomplete beta functions; scipy has them too, but would cost a guest more time to load
than a whole certificate takes.
"""

import itertools
from collections.abc import Callable, Iterator
from math import exp, inf, lgamma, log, log1p

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
    low = _first(count, lambda rank: at_most(rank - 1, count, quantile) > alpha / 2) - 1
    high = _first(count, lambda rank: 1 - at_most(rank - 1, count, quantile) <= alpha / 2)
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


def _first(count: int, holds: Callable[[int], bool]) -> int:
    """The first rank from 1 on for which it holds, count + 1 if for none; once it holds it holds on."""
    low, high = 1, count + 1
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle + 1, high)
    return low
