"""Exact intervals for counts, and the wrong values that a sample detects (its power); and losses in bursts: their
long-run rate, and the exact distribution of their number.

An interval misses the true value with at most the probability `alpha`, half of it at either end. A wrong value is
detected if a channel that has it fails with the probability POWER, judged by these intervals at the same `alpha`. The
tails of the binomial distribution are regularized incomplete beta functions; scipy has them too, but would cost a guest
more time to load than a whole certificate takes.

A model of bursts is a Markov chain with one transition per packet, and each transition loses its packet with a
probability. The distribution of the number of lost packets follows from its characteristic function (the chain's
matrix, each move weighted by what it loses, to the power of the number of packets).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from math import ceil, exp, floor, inf, lgamma, log, log1p, sqrt

import numpy as np
from numpy.typing import NDArray

from owlt.emulator.channel.loss_models import FourState, GilbertElliott

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


_FARTHEST = 40
"""Standard deviations beyond the mean to which a distribution is computed."""


@dataclass(frozen=True)
class BurstLoss:
    """A chain: `moves[i][j]` is the probability of a move from state i to j, `lost[i][j]` that it loses its packet.

    It begins in the first state.
    """

    moves: tuple[tuple[float, ...], ...] = ((1.0,),)
    lost: tuple[tuple[float, ...], ...] = ((0.0,),)

    @classmethod
    def of(cls, loss: GilbertElliott | FourState | None) -> BurstLoss:
        """Return the chain of a loss model, with the states and the moves that netem's has (net/sched/sch_netem.c)."""
        if loss is None:
            return cls()
        if isinstance(loss, GilbertElliott):  # good, bad: what comes in the bad state is lost
            p, r = loss.to_bad, loss.to_good
            return cls(((1 - p, p), (r, 1 - r)), ((0.0, 0.0), (1.0, 1.0)))
        # 1 kept, 2 kept in a burst, 3 lost in a burst, 4 lost alone: what moves to 3 or 4 is lost
        moves = (
            (1 - loss.p13 - loss.p14, 0.0, loss.p13, loss.p14),
            (0.0, 1 - loss.p23, loss.p23, 0.0),
            (loss.p31, loss.p32, 1 - loss.p31 - loss.p32, 0.0),
            (1.0, 0.0, 0.0, 0.0),
        )
        return cls(moves, ((0.0, 0.0, 1.0, 1.0),) * 4)

    def duplicated(self, share: float) -> BurstLoss:
        """Return the chain for a link where netem duplicates that share of the packets (sch_netem.c, netem_enqueue).

        A packet that is lost and duplicated arrives once. The copy of a packet that is not lost passes the chain too:
        it may be lost, and it moves the chain one step, so duplicates change the share of packets that are lost.
        """
        lost = self._moves * self._lost
        return self._of(self._moves_with_copies(share), (1 - share) * lost)

    def arriving_twice(self, share: float, dropped: float = 0.0) -> BurstLoss:
        """Return a chain that counts as lost the packets of which both copies arrive.

        `share` of the packets are duplicated. `dropped` is the probability that one is dropped before the chain.
        """
        kept = self._moves * (1 - self._lost)
        moves = dropped * np.eye(len(self.moves)) + (1 - dropped) * self._moves_with_copies(share)
        return self._of(moves, (1 - dropped) * share * (kept @ kept))

    def _moves_with_copies(self, share: float) -> NDArray[np.float64]:
        """The moves that a packet and its copy, if there is one, make together."""
        lost, kept = self._moves * self._lost, self._moves * (1 - self._lost)
        moves: NDArray[np.float64] = lost + (1 - share) * kept + share * (kept @ self._moves)
        return moves

    @classmethod
    def _of(cls, moves: NDArray[np.float64], counted: NDArray[np.float64]) -> BurstLoss:
        """A chain from the probabilities of all moves, and of the moves that count their packet."""
        shares = np.divide(counted, moves, out=np.zeros_like(moves), where=moves > 0)
        return cls(tuple(map(tuple, moves.tolist())), tuple(map(tuple, shares.tolist())))

    @cached_property
    def mean_rate(self) -> float:
        """The share of packets that is lost in the long run."""
        return float(self._stationary @ (self._moves * self._lost).sum(axis=1))

    @cached_property
    def packets_each(self) -> float:
        """The number of packets that is worth one independent packet in an estimate of the mean rate.

        By the chain's fundamental matrix (Kemeny and Snell, 1960). 1 if nothing is lost.
        """
        mean = self.mean_rate
        if not 0 < mean < 1:
            return 1.0
        weighted = self._moves * self._lost
        fundamental = np.linalg.inv(np.eye(len(self._moves)) - self._moves + self._stationary)
        memory = self._stationary @ weighted @ fundamental @ weighted.sum(axis=1) - mean**2
        return float(1 + 2 * memory / (mean * (1 - mean)))

    @property
    def _moves(self) -> NDArray[np.float64]:
        return np.array(self.moves)

    @property
    def _lost(self) -> NDArray[np.float64]:
        return np.array(self.lost)

    @cached_property
    def _stationary(self) -> NDArray[np.float64]:
        size = len(self.moves)
        balance = np.vstack([self._moves.T - np.eye(size), np.ones(size)])
        stationary: NDArray[np.float64] = np.linalg.lstsq(balance, np.append(np.zeros(size), 1.0))[0]
        return stationary

    @cache  # noqa: B019  # of a frozen value, few and small
    def lost_packets(self, packets: int, dropped: float = 0.0) -> NDArray[np.float64]:
        """Return the probability of each number of lost packets, from 0 on, as far as any is above 1e-12.

        `dropped` is the probability with which a packet is dropped before the chain, which it then does not move.
        """
        mean = packets * (dropped + (1 - dropped) * self.mean_rate)
        farthest = mean + _FARTHEST * sqrt(mean * max(self.packets_each, 1.0)) + _FARTHEST * self.packets_each
        points = 1 << (min(packets, ceil(farthest)) + 1).bit_length()
        turn = np.exp(-2j * np.pi * np.arange(points // 2 + 1) / points)[:, None, None]
        step = dropped * turn * np.eye(len(self.moves)) + (1 - dropped) * self._moves * (
            1 - self._lost + self._lost * turn
        )
        total = np.linalg.matrix_power(step, packets)[:, 0, :].sum(axis=1)
        return np.fft.irfft(total, points).clip(min=0)


def accepted_counts(distribution: NDArray[np.float64], alpha: float) -> tuple[int, int]:
    """Return the fewest and the most lost packets that are not too unlikely: fewer or more have a probability below
    half of alpha."""
    so_few = np.cumsum(distribution)
    so_many = np.cumsum(distribution[::-1])[::-1]
    return int(np.argmax(so_few >= alpha / 2)), len(so_many) - 1 - int(np.argmax(so_many[::-1] >= alpha / 2))


def caught_counts(accepted: tuple[int, int], actual: NDArray[np.float64]) -> float:
    """Return the probability of a number that is not accepted, where it has another distribution."""
    return 1 - float(actual[accepted[0] : accepted[1] + 1].sum())


def scaled(
    loss: GilbertElliott | FourState, factor: float, model: Callable[[GilbertElliott | FourState], BurstLoss]
) -> BurstLoss | None:
    """Return the chain with equal bursts that are more or less frequent, so that losses are multiplied by the factor.
    None if they cannot be so frequent.
    """
    target_rate = model(loss).mean_rate * factor
    low = 0.0
    begins = loss.to_bad if isinstance(loss, GilbertElliott) else loss.p13 + loss.p14
    high = (1 - 1e-9) / begins
    if model(_oftener(loss, high)).mean_rate < target_rate:
        return None
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if model(_oftener(loss, middle)).mean_rate < target_rate else (low, middle)
    return model(_oftener(loss, high))


def _oftener(loss: GilbertElliott | FourState, times: float) -> GilbertElliott | FourState:
    if isinstance(loss, GilbertElliott):
        to_bad = loss.to_bad * times
        return loss.model_copy(update={"mean_rate": to_bad / (to_bad + loss.to_good)})
    return loss.model_copy(update={"p13": loss.p13 * times, "p14": loss.p14 * times})
