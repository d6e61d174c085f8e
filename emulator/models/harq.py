"""Type II hybrid ARQ: each retransmission brings further redundancy, so that later attempts succeed at a lower SNR.

An attempt succeeds with a probability that depends on its number and its SNR, and takes a fixed time. The default
probabilities are those of a code at the normal approximation (Polyanskiy, Poor and Verdu, "Channel coding rate in the
finite blocklength regime", 2010): after k attempts, k x `symbols` symbols carry `bits_per_symbol` x `symbols` bits.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import e, log2

import numpy
from numpy.typing import NDArray
from scipy.stats import norm

Values = NDArray[numpy.float64]

BITS_PER_SYMBOL = 2.3
"""Of the first attempt. Calibrated on the share of packets that seed 003 (Tauran et al. 2017, tables 1 and 2) has as
"HARQ success" at 7 to 13 dB: docs/harq-calibration.svg."""
SYMBOLS = 1000
TABLE_ENTRIES = 10
"""Of the delays in a step: each stands for 10 % of the packets."""
AVERAGE_TABLE_ENTRIES = 100
"""Of the delays in a channel that does not change."""


@dataclass(frozen=True)
class SuccessTable:
    """The probability that an attempt succeeds if those before it failed: rows by SNR, a column for each attempt.

    Between rows, and before the first and after the last, it is interpolated linearly or stays.
    """

    snr_db: Values
    success: Values

    @property
    def attempts(self) -> int:
        """How many times a packet is sent at most."""
        return int(self.success.shape[1])

    def of_attempt(self, number: int, snr_db: Values) -> Values:
        """The probabilities of an attempt, counted from 0."""
        return numpy.interp(snr_db, self.snr_db, self.success[:, number])


def coded_table(attempts: int = 4, bits_per_symbol: float = BITS_PER_SYMBOL, symbols: int = SYMBOLS) -> SuccessTable:
    """The default probabilities, for each half dB."""
    snr_db = numpy.arange(-20.0, 30.5, 0.5)
    ratio = 10 ** (snr_db / 10)
    capacity = numpy.log2(1 + ratio)
    dispersion = ratio * (ratio + 2) / (ratio + 1) ** 2 * log2(e) ** 2
    columns = [
        norm.cdf((number * capacity - bits_per_symbol) / numpy.sqrt(number * dispersion / symbols))
        for number in range(1, attempts + 1)
    ]
    return SuccessTable(snr_db, numpy.stack(columns, axis=1))


def attempt_shares(snr_db: Values, table: SuccessTable, samples_between: int) -> Values:
    """For a packet that enters at each moment: the probability to succeed at each attempt; in the last column, never.

    Attempts are `samples_between` samples of the SNR apart; the last moments, whose attempts would be after the end of
    the series, are left out.
    """
    count = len(snr_db) - samples_between * (table.attempts - 1)
    failing = numpy.ones(count)
    shares = []
    for number in range(table.attempts):
        begin = number * samples_between
        succeeding = failing * table.of_attempt(number, snr_db[begin : begin + count])
        shares.append(succeeding)
        failing = failing - succeeding
    return numpy.stack([*shares, failing], axis=1)


def delay_table(shares: Values, entries: int = TABLE_ENTRIES) -> tuple[int, ...]:
    """The retransmissions of each of some equally likely packets that arrive (largest remainders)."""
    arriving = shares[:-1].sum()
    exact = shares[:-1] / arriving * entries if arriving > 0 else numpy.eye(len(shares) - 1)[0] * entries
    counts = numpy.floor(exact).astype(int)
    for index in numpy.argsort(counts - exact, kind="stable")[: entries - counts.sum()]:
        counts[index] += 1
    return tuple(number for number, count in enumerate(counts) for _ in range(count))
