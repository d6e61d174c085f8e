"""Rounds of protocols that repeat what was lost, against the closed forms of `reports.comparison.theory`.

The number of rounds of a run follows from its time to delivery over a round trip in which the transmission takes no
time: M = 1 + (T - d - transmission) / RTT.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from math import ceil
from statistics import fmean

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from owlt.reports.comparison.differences import holm
from owlt.reports.comparison.theory import expected_rounds, probability_of_rounds
from owlt.reports.results.rows import Row
from tests.validation.equivalence import LEVEL, Statement, equivalence, interval_text, percent_text, verdict_of

LONGEST = 100
"""The most rounds in a distribution."""
Distribution = NDArray[np.float64]
"""The probability of each number of rounds, from 0."""


def rounds_distribution(packets: int, loss: float) -> Distribution:
    """The probability of each number of rounds, from 0 to LONGEST."""
    return np.diff([probability_of_rounds(rounds, packets, loss) for rounds in range(LONGEST + 1)], prepend=0.0)


def polled_distribution(packets: int, loss: float) -> Distribution:
    """The probability of each number of round trips if the last packet of a round asks for the answer.

    An LTP checkpoint, or Saratoga's request for a status. It is sent again, alone, after a round trip without an
    answer. Of the n - 1 other packets of the round, each is missing afterwards with the probability p: T(n) = G + T(K)
    with G geometric and K binomial, T(0) = 0. Derived.
    """
    attempts = rounds_distribution(1, loss)
    rest = np.zeros((packets + 1, LONGEST + 1))
    rest[0, 0] = 1
    for sent in range(1, packets + 1):
        after = stats.binom.pmf(range(sent), sent - 1, loss) @ rest[:sent]
        rest[sent] = np.convolve(attempts, after)[: LONGEST + 1]
    of_all: Distribution = rest[packets]
    return of_all


def announced_distribution(packets: int, loss: float) -> Distribution:
    """The probability of each number of round trips if the receiver asks for missing data only once it has a packet
    that begins the first round and one that ends it, each sent until it is answered: CFDP's metadata and EOF.

    Both are repeated side by side, so that the later one of them counts: the attempts of two packets but the last, and
    M(N) for the data. Derived.
    """
    again = rounds_distribution(2, loss)[1:]
    return np.convolve(rounds_distribution(packets, loss), again)[: LONGEST + 1]


def mean_rounds(distribution: Distribution) -> float:
    """The mean of a distribution of rounds."""
    return float(np.arange(len(distribution)) @ distribution)


MARGIN = 0.1
PACKET_BYTES = 1000
"""File data in a packet: the default of each of these implementations."""
WITH_CONTROL = {"CFDP": announced_distribution, "LTP": polled_distribution, "Saratoga": polled_distribution}
"""The distribution of rounds with the losses of the packets that end a round, by protocol."""


@dataclass(frozen=True)
class RoundsCell:
    """The runs of one implementation with so many packets and such a loss."""

    implementation: str
    protocol: str
    packets: int
    loss: float
    measured: tuple[float, ...]
    """The rounds of each run."""

    @property
    def expected(self) -> float:
        """E[M]: every packet that ends a round arrives."""
        return expected_rounds(self.packets, self.loss)

    @cached_property
    def distribution(self) -> Distribution:
        """Of the rounds of a run, if the packets that end a round are lost, too."""
        return WITH_CONTROL[self.protocol](self.packets, self.loss)

    @property
    def with_control(self) -> float:
        """The mean of that distribution."""
        return mean_rounds(self.distribution)

    @property
    def mean(self) -> float:
        """The mean of the runs."""
        return fmean(self.measured)

    @property
    def total(self) -> int:
        """The rounds of all runs."""
        return sum(map(round, self.measured))

    @cached_property
    def of_sum(self) -> Distribution:
        """The distribution of the sum of the runs' rounds."""
        return reduce(np.convolve, [self.distribution] * len(self.measured))

    @property
    def p(self) -> float:
        """The two-sided p-value of that sum; exact."""
        return tails(self.of_sum, self.total)


def tails(of_sum: Distribution, total: int) -> float:
    """Twice the probability of a sum as small as this one, or as large, whichever is smaller."""
    return min(1.0, 2 * float(min(of_sum[: total + 1].sum(), of_sum[total:].sum())))


def pooled_p(cells: Sequence[RoundsCell]) -> float:
    """The two-sided p-value of the rounds of all runs of all cells together; exact."""
    return tails(reduce(np.convolve, [cell.of_sum for cell in cells]), sum(cell.total for cell in cells))


def rounds_of(row: Row) -> float:
    """The rounds that a run took until its file was delivered."""
    time_s = 8 * row["file_size_bytes"] / row["goodput_to_delivery_bps"]
    sending_s = 8 * row["str_sent_bytes"] / row["forward_rate_bps"]
    return float(1 + (time_s - row["forward_delay_ns"] / 1e9 - sending_s) / (row["rtt_ns"] / 1e9))


def rounds_cells(rows: Iterable[Row]) -> list[RoundsCell]:
    """The cells of protocols in rounds that have a run that completed and is not suspect, in the order of the rows."""
    groups: dict[tuple[str, str, int, float], list[float]] = defaultdict(list)
    for row in rows:
        if row["outcome"] == "completed" and not row["suspect"] and row["protocol"] in WITH_CONTROL:
            packets = ceil(row["file_size_bytes"] / PACKET_BYTES)
            key = row["implementation"], row["protocol"], packets, row["forward_packet_error_rate"]
            groups[key].append(rounds_of(row))
    return [RoundsCell(*key, tuple(values)) for key, values in groups.items()]


def rounds_statements(cells: Sequence[RoundsCell]) -> list[Statement]:
    """For each implementation: its rounds on average over the cells, without and with control packets; each cell."""
    statements = []
    for name in _names(cells):
        of_name = [cell for cell in cells if cell.implementation == name]
        statements += [
            _average(name, of_name, [cell.mean / cell.expected for cell in of_name], "rounds", "E[M]"),
            _average(
                name,
                of_name,
                [cell.mean / cell.with_control for cell in of_name],
                "rounds-control",
                "the theory with losses of the packets that end a round",
            ),
            _each(name, of_name),
        ]
    return [*statements, *_pooled(cells)]


def _pooled(cells: Sequence[RoundsCell]) -> list[Statement]:
    """A statement for each implementation on all of its runs together, which shows what no cell of ten runs can."""
    by_name = {name: [cell for cell in cells if cell.implementation == name] for name in _names(cells)}
    ps = [pooled_p(of_name) for of_name in by_name.values()]
    return [
        Statement(
            f"{name}-rounds-pooled",
            f"The rounds of all runs of {name} together do not contradict that theory's distribution",
            "failed" if corrected is not None and corrected <= LEVEL else "passed",
            f"{sum(cell.total for cell in of_name):,} rounds of {sum(len(cell.measured) for cell in of_name):,} runs; "
            f"{sum(len(cell.measured) * cell.with_control for cell in of_name):,.1f} expected; p {p:.2g} "
            f"(exact; {corrected:.2g} with Holm's correction for {len(ps)} implementations)",
        )
        for (name, of_name), p, corrected in zip(by_name.items(), ps, holm(ps), strict=True)
    ]


def _names(cells: Sequence[RoundsCell]) -> list[str]:
    return list(dict.fromkeys(cell.implementation for cell in cells))


def _average(name: str, cells: Sequence[RoundsCell], ratios: Sequence[float], suffix: str, theory: str) -> Statement:
    test = equivalence(ratios, 1 - MARGIN, 1 + MARGIN)
    interval = interval_text(test.low, test.high) if test and test.n > 1 else "no interval"
    near = sum(abs(ratio - 1) <= MARGIN for ratio in ratios)
    runs = sum(len(cell.measured) for cell in cells)
    return Statement(
        f"{name}-{suffix}",
        f"{name} needs as many rounds as {theory} says, within {100 * MARGIN:g} % on average over {len(cells)} cells",
        verdict_of(test),
        f"{percent_text(fmean(ratios))} ({interval}); {near} of {len(cells)} cells within {100 * MARGIN:g} %; "
        f"{runs} runs",
    )


def _each(name: str, cells: Sequence[RoundsCell]) -> Statement:
    """Runs that do not contradict a theory do not prove it, so the statement says no more."""
    corrected = [p for p in holm([cell.p for cell in cells]) if p is not None]
    outside = sum(p <= LEVEL for p in corrected)
    return Statement(
        f"{name}-rounds-cells",
        f"In none of the {len(cells)} cells do the rounds of {name} contradict that theory's distribution",
        "failed" if outside else "passed",
        f"{outside} of {len(cells)} at a level of {LEVEL:g} (exact, Holm); least p {min(corrected):.2g}",
    )


def rounds_table(cells: Sequence[RoundsCell]) -> tuple[list[str], list[tuple[object, ...]]]:
    """The headings and a row for each cell."""
    headings = ["implementation", "packets", "loss", "runs", "mean_rounds", "expected", "with_control", "ratio"]
    headings += ["ratio_with_control", "p"]
    return headings, [
        (
            cell.implementation,
            cell.packets,
            cell.loss,
            len(cell.measured),
            cell.mean,
            cell.expected,
            cell.with_control,
            cell.mean / cell.expected,
            cell.mean / cell.with_control,
            cell.p,
        )
        for cell in cells
    ]
