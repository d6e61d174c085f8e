"""The time to delivery that theory expects in a cell, and the medians that are outside.

- Selective repeat in rounds: between the times of the rounds that suffice with 5 % and 95 % probability, without
  processing and timers. The upper bound counts all packets that the implementation sent, the lower one the bits of the
  file alone.
- TCP: at least the time of slow start without losses; no upper bound.
- Any other: at least the transmission of the file and the one-way delay.

Theory applies only to constant channels whose errors are independent packet errors, not more in the reverse direction
than in the forward one: no jitter, reordering, duplicates, bit errors, bursts, coded frames, overhead or timeline. The
closed forms are in `reports.comparison.theory`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from statistics import median
from typing import Literal

from owlt.emulator.channel.link import impairments
from owlt.reports.comparison.cells import Cell, Point, Sample
from owlt.reports.comparison.theory import least_slow_start_s, least_transfer_s, rounds_quantile, time_to_delivery_s
from owlt.reports.results.columns import LINK_FIELDS
from owlt.reports.results.rows import Row

BITS = 8
IN_ROUNDS = ("CFDP", "LTP", "NORM", "Saratoga")
"""The protocols that retransmit in rounds."""
LIKELY = (0.05, 0.95)
TOLERANCE = 0.03
"""The tolerance of the bounds: frames have headers of different lengths."""
SEGMENT_BYTES = 1448
"""The data of a TCP segment with timestamps, on Ethernet."""
NOT_IN_THEORY = (
    "timeline",
    *(
        f"{way}_{name}"
        for way in ("forward", "reverse")
        for name, field in LINK_FIELDS.items()
        if not impairments()[field].in_theory
    ),
)
"""The columns of settings that no theory here describes, if they have a value other than 0."""

TheoryVerdict = Literal["inside", "faster", "slower"]


@dataclass(frozen=True)
class Expectation:
    """The bounds of the time to delivery, in s. `high_s` is inf if the theory has no upper bound."""

    theory: str
    low_s: float
    high_s: float


@dataclass(frozen=True)
class Comparison:
    """An implementation's median time to delivery in a cell, beside the expectation."""

    point: Point
    name: str
    n: int
    measured_s: float
    expected: Expectation

    @property
    def goodput_bounds_bps(self) -> tuple[float, float]:
        """The bounds as goodput to delivery; the lower one is 0 if the time has no upper bound."""
        bits = BITS * (self.point.file_size_bytes or 0)
        return bits / self.expected.high_s, bits / self.expected.low_s if self.expected.low_s else inf

    @property
    def verdict(self) -> TheoryVerdict:
        """Whether the median is inside the bounds, with the tolerance."""
        if self.measured_s < self.expected.low_s * (1 - TOLERANCE):
            return "faster"
        return "slower" if self.measured_s > self.expected.high_s * (1 + TOLERANCE) else "inside"

    @property
    def factor(self) -> float:
        """How many times as long as the nearest bound it took: above 1 if slower, below 1 if faster, 1 if inside."""
        bounds = {"faster": self.expected.low_s, "slower": self.expected.high_s}
        bound = bounds.get(self.verdict)
        return self.measured_s / bound if bound else 1.0


def comparisons_of(cells: Sequence[Cell]) -> list[Comparison]:
    """All medians for which there is a theory."""
    return [
        comparison
        for cell in cells
        for name, sample in cell.samples.items()
        if (comparison := _comparison(cell.point, name, sample)) is not None
    ]


def expectation(rows: Sequence[Row]) -> Expectation | None:
    """The expectation for runs of one implementation in one cell; None if there is no theory for the channel."""
    row = rows[0]
    if not has_packet_errors_alone(row) or row["bypass"] or not row["file_size_bytes"]:
        return None
    rtt_s = row["rtt_ns"] / 1e9
    delay_s, rate_bps, loss = row["forward_delay_ns"] / 1e9, row["forward_rate_bps"], row["forward_packet_error_rate"]
    if loss >= 1 or (rate_bps is None and not rtt_s):  # only computation takes time
        return None
    size = row["file_size_bytes"]
    least_s = least_transfer_s(size, rate_bps, delay_s)
    if row["protocol"] in IN_ROUNDS:
        packets, bits = packets_of(rows, loss)
        few, many = (rounds_quantile(share, packets, loss) for share in LIKELY)
        low_s = least_s + rtt_s * (few - 1)
        high_s = time_to_delivery_s(packets, bits, rate_bps, delay_s, rtt_s, loss, many)
        return Expectation("repair rounds", low_s, high_s)
    if row["protocol"] == "TCP":
        segments = -(-size // SEGMENT_BYTES)
        return Expectation("slow start", max(least_s, least_slow_start_s(segments, rtt_s)), inf)
    return Expectation("capacity", least_s, inf)


def has_packet_errors_alone(row: Row) -> bool:
    """Whether the channel is constant, and its errors are independent packet errors, most of them forward."""
    errors_back, errors = row["reverse_packet_error_rate"] or 0, row["forward_packet_error_rate"] or 0
    return not any(row[name] for name in NOT_IN_THEORY) and errors_back <= errors


def packets_of(rows: Sequence[Row], loss: float) -> tuple[int, float]:
    """The number of different packets of a file, and their bits, from what the sender sent: 1 / (1 - p) times each."""
    sent = median(row["str_sent"] for row in rows)
    bits = median(BITS * row["str_sent_bytes"] / row["str_sent"] for row in rows)
    return max(1, round(sent * (1 - loss))), bits


def _comparison(point: Point, name: str, sample: Sample) -> Comparison | None:
    delivered = [row for row in sample.rows if row["goodput_to_delivery_bps"] and row["str_sent"]]
    expected = expectation(delivered) if delivered else None
    if expected is None:
        return None
    measured_s = median(BITS * row["file_size_bytes"] / row["goodput_to_delivery_bps"] for row in delivered)
    return Comparison(point, name, len(delivered), measured_s, expected)


@dataclass(frozen=True)
class Agreement:
    """All medians of one implementation beside their theory."""

    name: str
    theory: str
    inside: int
    outside: tuple[Comparison, ...]
    """The comparisons, the farthest outside the bounds first."""


def agreements(comparisons: Sequence[Comparison]) -> list[Agreement]:
    """By implementation, in the order of the comparisons."""
    names = dict.fromkeys((each.name, each.expected.theory) for each in comparisons)
    return [
        Agreement(
            name,
            theory,
            sum(each.verdict == "inside" for each in comparisons if each.name == name),
            tuple(
                sorted(
                    (each for each in comparisons if each.name == name and each.verdict != "inside"),
                    key=lambda each: -max(each.factor, 1 / each.factor),
                )
            ),
        )
        for name, theory in names
    ]
