"""Selective repeat in rounds: CFDP with deferred NAKs, LTP reports, Saratoga's holes, NORM's NACKs.

N packets are sent; each round repeats those that were lost, each packet with the probability p, independently. Derived
here and checked by Monte Carlo: every packet is there after m rounds with the probability (1 - p^m)^N.
"""

from __future__ import annotations

from math import expm1, log

import numpy as np
from numpy.typing import NDArray
from scipy import stats

MOST_ROUNDS = 10_000
"""More rounds do not end in practice: a loss probability of almost 1."""
NEGLIGIBLE = 1e-12
LONGEST = 100
"""The most rounds in a distribution."""

Distribution = NDArray[np.float64]
"""The probability of each number of rounds, from 0."""


def probability_of_rounds(rounds: int, packets: int, loss: float) -> float:
    """The probability that at most so many rounds are needed."""
    if rounds < 1:
        return 0.0
    missing = loss**rounds
    return 1.0 if missing == 0 else (1 - missing) ** packets


def expected_rounds(packets: int, loss: float) -> float:
    """The mean number of rounds: the sum over m >= 0 of 1 - (1 - p^m)^N. Raises ValueError for a loss of 1 or more."""
    _require_loss(loss)
    total = 0.0
    for rounds in range(MOST_ROUNDS):
        rest = 1 - probability_of_rounds(rounds, packets, loss)
        total += rest
        if rest < NEGLIGIBLE:
            break
    return total


def rounds_distribution(packets: int, loss: float) -> Distribution:
    """The probability of each number of rounds, from 0 to LONGEST."""
    _require_loss(loss)
    return np.diff([probability_of_rounds(rounds, packets, loss) for rounds in range(LONGEST + 1)], prepend=0.0)


def polled_distribution(packets: int, loss: float) -> Distribution:
    """The probability of each number of round trips if the last packet of a round asks for the answer.

    An LTP checkpoint, or Saratoga's request for a status. It is sent again, alone, after a round trip without an
    answer. Of the n - 1 other packets of the round, each is missing afterwards with the probability p: T(n) = G + T(K)
    with G geometric and K binomial, T(0) = 0. Derived.
    """
    _require_loss(loss)
    attempts = rounds_distribution(1, loss)
    rest = np.zeros((packets + 1, LONGEST + 1))
    rest[0, 0] = 1
    for sent in range(1, packets + 1):
        after = stats.binom.pmf(range(sent), sent - 1, loss) @ rest[:sent]
        rest[sent] = np.convolve(attempts, after)[: LONGEST + 1]
    of_all: Distribution = rest[packets]
    return of_all


def announced_distribution(packets: int, loss: float) -> Distribution:
    """The probability of each number of round trips if one packet more ends the first round, sent until it is answered,
    and the receiver asks for the rest: CFDP's EOF and deferred NAKs.

    The metadata are one packet more that may be missing: M(N + 1) and the attempts of the EOF but the last. Derived.
    """
    again = rounds_distribution(1, loss)[1:]
    return np.convolve(rounds_distribution(packets + 1, loss), again)[: LONGEST + 1]


def mean_rounds(distribution: Distribution) -> float:
    """The mean of a distribution of rounds."""
    return float(np.arange(len(distribution)) @ distribution)


def rounds_quantile(share: float, packets: int, loss: float) -> int:
    """The least number of rounds that suffices with the probability `share`. Raises ValueError as `expected_rounds`."""
    _require_loss(loss)
    if loss == 0:
        return 1
    # share = (1 - p^m)^N, solved for m; then corrected for rounding
    rounds = max(1, int(log(-expm1(log(share) / packets)) / log(loss)))
    while rounds > 1 and probability_of_rounds(rounds - 1, packets, loss) >= share:
        rounds -= 1
    while probability_of_rounds(rounds, packets, loss) < share:
        rounds += 1
    return rounds


def time_to_delivery_s(
    packets: int, packet_bits: float, rate_bps: float | None, delay_s: float, rtt_s: float, loss: float, rounds: float
) -> float:
    """The time from the first packet to the delivery of the file after so many rounds, without processing and timers.

    The transmission of all packets, lost ones again, N L / R / (1 - p); the one-way delay; and a round trip for each
    further round. `rate_bps` None: unlimited.
    """
    sending_s = 0.0 if rate_bps is None else packets * packet_bits / rate_bps / (1 - loss)
    return sending_s + delay_s + rtt_s * (rounds - 1)


def control_loss_s(timer_s: float, loss: float) -> float:
    """The mean time that the losses of one control packet add, if a timer repeats it: timer x q / (1 - q)."""
    _require_loss(loss)
    return timer_s * loss / (1 - loss)


def _require_loss(loss: float) -> None:
    if not 0 <= loss < 1:
        raise ValueError(f"a loss probability of {loss}: expected 0 or more and less than 1")
