"""Losses in bursts: their long-run rate, and the distribution of the number of lost packets.

A model is a Markov chain with one transition per packet, and each transition loses its packet with a probability. The
number of lost packets has an exact distribution, from its characteristic function (the chain's matrix, each move
weighted by what it loses, to the power of the number of packets).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property
from math import ceil, sqrt

import numpy as np
from numpy.typing import NDArray

from owlt.emulator.channel.loss_models import FourState, GilbertElliott

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
    at_most = np.cumsum(distribution)
    at_least = np.cumsum(distribution[::-1])[::-1]
    return int(np.argmax(at_most >= alpha / 2)), len(at_least) - 1 - int(np.argmax(at_least[::-1] >= alpha / 2))


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
