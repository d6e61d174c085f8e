"""Models of links: the frame error rate of a coded link, and a land-mobile terminal, with type II hybrid ARQ over it.

Coded links: TM and AOS, CCSDS 131.0-B, have Reed-Solomon codewords of 255 symbols of 8 bits with 223 or 239 of data,
interleaved; each coded frame has a sync marker of 4 bytes in front. The decoder corrects up to 16 or 8 symbols of a
codeword and marks others as lost, and the frame is lost if one of its codewords is. In TC, CCSDS 231.0-B, a command
link transmission unit (CLTU) has a start sequence, BCH (63,56) codeblocks of 8 bytes with 7 bytes of the frame, and a
tail sequence. The decoder corrects one wrong bit of a codeblock or none, and the frame is lost if one of its codeblocks
or the start sequence is.

The signal of a satellite under trees is a Markov chain of three states of shadowing, in each of which the amplitude has
the distribution of Loo. Model and values: F. Perez-Fontan et al., "Statistical modeling of the LMS channel", IEEE
Trans. Vehicular Technology 50(6), 2001: S band, intermediate tree shadow (ITS), elevation 40 degrees. The direct signal
is lognormal, and correlated over a distance; the multipath signal is complex Gaussian, with the Doppler spread of the
terminal's speed. The values are those of another published implementation of the model, except for the length of a
stretch in one state (`frame_m`): docs/channels.md states the comparison and the effect. The paper's own tables were
not available.

In type II hybrid ARQ, each retransmission brings further redundancy, so that later attempts succeed at a lower SNR. An
attempt succeeds with a probability that depends on its number and its SNR, and takes a fixed time. The default
probabilities are those of a code at the normal approximation (Polyanskiy, Poor and Verdu, "Channel coding rate in the
finite blocklength regime", 2010): after k attempts, k x `symbols` symbols carry `bits_per_symbol` x `symbols` bits.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from math import ceil, e, erfc, exp, expm1, log, log1p, log2, pi, sqrt

import numpy
from numpy.typing import NDArray
from scipy.signal import lfilter
from scipy.special import j0
from scipy.stats import binom, norm

CODEWORD_SYMBOLS = 255
SYNC_MARKER_BYTES = 4
DATA_SYMBOLS = {"rs-223": 223, "rs-239": 239}
"""The Reed-Solomon codes by name."""
INTERLEAVING_DEPTHS = (1, 2, 3, 4, 5, 8)
"""The interleaving depths of CCSDS 131.0-B."""
CORRECTED_BITS = {"bch-sec": 1, "bch-ted": 0}
"""The BCH code by the mode of its decoder: wrong bits that it corrects in a codeblock, and accepts in the start
sequence (single error correction, triple error detection)."""
CODEBLOCK_BYTES, CODEBLOCK_DATA_BYTES = 8, 7
CODEWORD_BITS = 63
START_SEQUENCE_BYTES, TAIL_SEQUENCE_BYTES = 2, 8
FRAME_OVERHEAD_BYTES = {"tm": 6, "aos": 6, "tc": 5}
"""The primary header of a transfer frame (CCSDS 132.0-B, 732.0-B, 232.0-B), without further fields."""
ERROR_CONTROL_BYTES = 2
"""The frame error control field, which all three kinds of frames have as an option."""
LONGEST_TC_FRAME_BYTES = 1024


@dataclass(frozen=True)
class CodedFrame:
    """The contents of a TM or AOS frame with Reed-Solomon codewords, in bytes."""

    code: str
    interleaving: int
    header_bytes: int

    @property
    def data_bytes(self) -> int:
        """The bytes of packets in a frame."""
        return DATA_SYMBOLS[self.code] * self.interleaving - self.header_bytes

    @property
    def coded_bytes(self) -> int:
        """The bytes that the link sends: data, header, parity and sync marker."""
        return CODEWORD_SYMBOLS * self.interleaving + SYNC_MARKER_BYTES


@dataclass(frozen=True)
class CommandFrame:
    """The contents of a TC frame in a CLTU of its own, in bytes."""

    code: str
    data_bytes: int
    """The bytes of packets in a frame."""
    header_bytes: int

    @property
    def codeblocks(self) -> int:
        """The number of codeblocks; the last one is padded."""
        return ceil((self.data_bytes + self.header_bytes) / CODEBLOCK_DATA_BYTES)

    @property
    def coded_bytes(self) -> int:
        """The bytes that the link sends: start sequence, codeblocks and tail sequence."""
        return START_SEQUENCE_BYTES + CODEBLOCK_BYTES * self.codeblocks + TAIL_SEQUENCE_BYTES


def bit_error_rate_of(eb_over_n0_db: float, code: str) -> float:
    """The bit error rate of coherent BPSK or QPSK before decoding.

    Eb is the energy of a bit of data, which the code rate distributes over more bits.
    """
    bch_rate = CODEBLOCK_DATA_BYTES / CODEBLOCK_BYTES
    code_rate = DATA_SYMBOLS[code] / CODEWORD_SYMBOLS if code in DATA_SYMBOLS else bch_rate
    return 0.5 * erfc(sqrt(10 ** (eb_over_n0_db / 10) * code_rate))


def frame_error_rate(frame: CodedFrame, bit_error_rate: float) -> float:
    """The error rate of frames with independent bit errors, which interleaving is meant to achieve."""
    symbol_errors = -expm1(8 * log1p(-bit_error_rate))
    correctable = (CODEWORD_SYMBOLS - DATA_SYMBOLS[frame.code]) // 2
    lost = float(binom.sf(correctable, CODEWORD_SYMBOLS, symbol_errors))
    return -expm1(frame.interleaving * log1p(-lost)) if lost < 1 else 1.0


def command_error_rate(frame: CommandFrame, bit_error_rate: float) -> float:
    """The error rate of TC frames with independent bit errors."""
    correctable = CORRECTED_BITS[frame.code]
    intact = binom.logcdf(correctable, 8 * START_SEQUENCE_BYTES, bit_error_rate)
    intact += frame.codeblocks * binom.logcdf(correctable, CODEWORD_BITS, bit_error_rate)
    return float(-expm1(intact))


def interpolated_error_rate(rows: list[tuple[float, float]], eb_over_n0_db: float) -> float | None:
    """The frame error rate in a table of Eb/N0 in dB and rates, linear in its logarithm; None outside of the table."""
    for (low_db, low), (high_db, high) in pairwise(rows):
        if low_db <= eb_over_n0_db <= high_db:
            share = (eb_over_n0_db - low_db) / (high_db - low_db)
            return float(10 ** ((log(low) + share * (log(high) - log(low))) / log(10)))
    return None


Values = NDArray[numpy.float64]


@dataclass(frozen=True)
class Loo:
    """The distribution in one state, relative to the unshadowed signal."""

    mean_db: float
    deviation_db: float
    """The standard deviation of the direct signal."""
    multipath_db: float
    """Mean power of the multipath signal."""


@dataclass(frozen=True)
class Environment:
    """States from unshadowed to deeply shadowed, and the transitions between them."""

    states: tuple[Loo, ...]
    shares: tuple[float, ...]
    """The share of the distance in each state, in the long run."""
    transitions: tuple[tuple[float, ...], ...]
    """The probability of a transition from each state (row) to each, at the end of each stretch of `frame_m`."""
    frame_m: float
    correlation_m: float


INTERMEDIATE_TREE_SHADOW = Environment(
    states=(Loo(-0.4, 1.5, -13.2), Loo(-8.2, 3.9, -12.7), Loo(-17.0, 3.14, -10.0)),
    shares=(0.3929, 0.3571, 0.2500),
    transitions=((0.7193, 0.1865, 0.0942), (0.1848, 0.7269, 0.0883), (0.1771, 0.0971, 0.7258)),
    frame_m=4.0,
    correlation_m=1.5,
)
FREQUENCY_HZ = 2.2e9
LIGHT_M_PER_S = 299_792_458.0


def snr_series_db(
    mean_db: float,
    count: int,
    sample_s: float,
    speed_m_per_s: float,
    seed: int,
    environment: Environment = INTERMEDIATE_TREE_SHADOW,
) -> Values:
    """The signal-to-noise ratio at `count` moments; the mean of its values in dB is `mean_db`."""
    generator = numpy.random.default_rng(seed)
    state = _states(environment, count, sample_s * speed_m_per_s, generator)
    means, deviations, multipaths = (
        numpy.array([getattr(each, name) for each in environment.states])
        for name in ("mean_db", "deviation_db", "multipath_db")
    )
    direct_db = means[state] + deviations[state] * _shadowing(environment, count, sample_s * speed_m_per_s, generator)
    scattered = _multipath(count, sample_s, speed_m_per_s, generator) * 10 ** (multipaths[state] / 20)
    power_db = 20 * numpy.log10(numpy.abs(10 ** (direct_db / 20) + scattered))
    return numpy.asarray(mean_db + power_db - power_db.mean())


def _states(
    environment: Environment, count: int, step_m: float, generator: numpy.random.Generator
) -> NDArray[numpy.int64]:
    """The state at each sample; a stretch of `frame_m` has the same one."""
    frames = int(count * step_m / environment.frame_m) + 1
    cumulative = numpy.cumsum(environment.transitions, axis=1)
    draws = generator.random(frames)
    states = [int(numpy.searchsorted(numpy.cumsum(environment.shares), draws[0]))]
    for draw in draws[1:]:
        states.append(min(int(numpy.searchsorted(cumulative[states[-1]], draw)), len(environment.states) - 1))
    at_frame = (numpy.arange(count) * step_m / environment.frame_m).astype(numpy.int64)
    return numpy.array(states, dtype=numpy.int64)[at_frame]


def _shadowing(environment: Environment, count: int, step_m: float, generator: numpy.random.Generator) -> Values:
    """Gaussian with variance 1, correlated exponentially over the distance."""
    return _correlated(generator.standard_normal(count), exp(-step_m / environment.correlation_m))


def _multipath(
    count: int, sample_s: float, speed_m_per_s: float, generator: numpy.random.Generator
) -> NDArray[numpy.complex128]:
    """Complex Gaussian with power 1. Its correlation from one sample to the next is that of Clarke's spectrum."""
    doppler_hz = speed_m_per_s * FREQUENCY_HZ / LIGHT_M_PER_S
    correlation = max(float(j0(2 * pi * doppler_hz * sample_s)), 0.0)
    real, imaginary = (_correlated(generator.standard_normal(count), correlation) for _ in range(2))
    return numpy.asarray((real + 1j * imaginary) / sqrt(2))


def _correlated(values: Values, correlation: float) -> Values:
    """A first-order autoregressive process of variance 1, from independent values; it is stationary from the start."""
    gain = sqrt(1 - correlation**2)
    filtered, _ = lfilter([gain], [1, -correlation], values[1:], zi=[correlation * values[0]])
    return numpy.concatenate((values[:1], filtered))


BITS_PER_SYMBOL = 2.3
"""The bits per symbol of the first attempt. Calibrated on the share of packets that seed 003 (Tauran et al. 2017,
tables 1 and 2) has as "HARQ success" at 7 to 13 dB: docs/harq-calibration.svg."""
SYMBOLS = 1000
TABLE_ENTRIES = 10
"""The number of delays in the table of a step: each represents 10 % of the packets."""
AVERAGE_TABLE_ENTRIES = 100
"""The number of delays in the table of a channel that does not change."""


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


def coded_table(attempts: int = 4, bits_per_symbol: float = BITS_PER_SYMBOL) -> SuccessTable:
    """The default probabilities, for each half dB."""
    snr_db = numpy.arange(-20.0, 30.5, 0.5)
    ratio = 10 ** (snr_db / 10)
    capacity = numpy.log2(1 + ratio)
    dispersion = ratio * (ratio + 2) / (ratio + 1) ** 2 * log2(e) ** 2
    columns = [
        norm.cdf((number * capacity - bits_per_symbol) / numpy.sqrt(number * dispersion / SYMBOLS))
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
