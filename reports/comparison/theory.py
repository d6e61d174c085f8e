"""Theory of a transfer: closed forms of selective repeat in rounds (CFDP with deferred NAKs, LTP reports, Saratoga's
holes, NORM's NACKs) and of TCP's slow start; the time to delivery that they predict for a cell, and the medians outside
of it; and curves for figures, of these and of TCP's rates (Mathis, Padhye, CUBIC).

N packets are sent; each round repeats those that were lost, each packet with the probability p, independently. Derived
here and checked by Monte Carlo: every packet is there after m rounds with the probability (1 - p^m)^N. The prediction:

- Selective repeat in rounds: between the times of the rounds that suffice with 5 % and 95 % probability, without
  processing and timers. The upper bound counts all packets that the implementation sent, the lower one the bits of the
  file alone.
- TCP: at least the time of slow start without losses; no upper bound.
- Any other: at least the transmission of the file and the one-way delay.

The prediction applies only to constant channels whose errors are independent packet errors, not more in the reverse
direction than in the forward one: no jitter, reordering, duplicates, bit errors, bursts, coded frames, overhead or
timeline.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil, expm1, inf, isfinite, log, log2, sqrt
from statistics import median
from typing import Literal

from owlt.emulator.channel.link import impairments
from owlt.reports.comparison.cells import Cell, Point, Sample
from owlt.reports.results.columns import LINK_FIELDS
from owlt.reports.results.rows import Row

MOST_ROUNDS = 10_000
"""Limit of rounds: more are needed only for a loss probability of almost 1, where transfers do not end in practice."""
NEGLIGIBLE = 1e-12


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


def _require_loss(loss: float) -> None:
    if not 0 <= loss < 1:
        raise ValueError(f"a loss probability of {loss}: expected 0 or more and less than 1")


DELAYED_ACK = 2
"""Segments that one acknowledgement covers."""
CUBIC_C, CUBIC_BETA = 0.4, 0.7
"""RFC 8312, sections 5.1 and 4.5."""
INITIAL_WINDOW = 10
"""Segments (RFC 6928)."""


def mathis_rate(rtt_s: float, loss: float, segments_per_ack: int = DELAYED_ACK) -> float:
    """The rate in segments/s without timeouts: C / (RTT sqrt(p)), C = sqrt(3 / 2 b).

    Mathis, Semke, Mahdavi and Ott 1997: C is sqrt(3/2) if every segment is acknowledged, sqrt(3/4) if every second.
    """
    return inf if loss == 0 or rtt_s == 0 else sqrt(3 / (2 * segments_per_ack)) / (rtt_s * sqrt(loss))


def padhye_rate(
    rtt_s: float, loss: float, timeout_s: float, window: float = inf, segments_per_ack: float = DELAYED_ACK
) -> float:
    """The rate in segments/s with timeouts, for a receiver's window W.

    min(W / RTT, 1 / (RTT sqrt(2 b p / 3) + T0 min(1, 3 sqrt(3 b p / 8)) p (1 + 32 p^2))): Padhye et al. 1998, as
    equation 1 of Akan, Fang and Akyildiz 2002 has it.
    """
    limit = window / rtt_s if rtt_s else inf
    if loss == 0:
        return limit
    b = segments_per_ack
    fast = rtt_s * sqrt(2 * b * loss / 3)
    timeouts = timeout_s * min(1, 3 * sqrt(3 * b * loss / 8)) * loss * (1 + 32 * loss**2)
    return min(limit, 1 / (fast + timeouts))


def cubic_window(rtt_s: float, loss: float) -> float:
    """The average window of CUBIC, in segments: [C (3 + beta) / (4 (1 - beta))]^(1/4) (RTT / p)^(3/4).

    RFC 8312, equation 5; with its values of C and beta the factor is 1.054.
    """
    if loss == 0:
        return inf
    factor = (CUBIC_C * (3 + CUBIC_BETA) / (4 * (1 - CUBIC_BETA))) ** 0.25
    return float(factor * (rtt_s / loss) ** 0.75)


def cubic_rate(rtt_s: float, loss: float) -> float:
    """The rate of CUBIC in segments/s: its average window in each round trip."""
    return inf if rtt_s == 0 else cubic_window(rtt_s, loss) / rtt_s


def least_slow_start_s(segments: int, rtt_s: float) -> float:
    """The least time from the first packet to the delivery of so many segments, at any rate and without losses.

    A round trip for the handshake, a round trip for each window but the last, each twice the one before (RFC 5681,
    with an acknowledgement for every segment), and half a round trip for the last. Derived.
    """
    windows = ceil(log2(segments / INITIAL_WINDOW + 1))
    return rtt_s * (1 + max(0, windows - 1) + 0.5)


BITS = 8


def least_transfer_s(file_bytes: float, rate_bps: float | None, delay_s: float) -> float:
    """The least time to the delivery of a file: its transmission without any header, and the one-way delay."""
    return (0.0 if rate_bps is None else BITS * file_bytes / rate_bps) + delay_s


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


LEAST_TIMEOUT_S = 1.0
"""The least retransmission timeout of TCP (RFC 6298)."""
COLUMNS = ("goodput_bps", "goodput_to_delivery_bps")
"""The measures for which there are curves."""


@dataclass(frozen=True)
class Theory:
    """A curve: its label in a legend, and the goodput in bit/s for runs with the same settings; None: not defined."""

    label: str
    goodput_bps: Callable[[Sequence[Row]], float | None]


def curve(theory: Theory, by_x: Sequence[Sequence[Row]]) -> list[float | None]:
    """The values of a theory for the runs at each value of x, in bit/s; None if their settings differ."""
    return [theory.goodput_bps(rows) if rows and _have_one_setting(rows) else None for rows in by_x]


def _have_one_setting(rows: Sequence[Row]) -> bool:
    names = ("file_size_bytes", "forward_rate_bps", "forward_delay_ns", "rtt_ns", "forward_packet_error_rate")
    return all(len({row[name] for row in rows}) == 1 for name in names)


def _rounds(rows: Sequence[Row]) -> float | None:
    """The goodput from the mean number of repair rounds."""
    sent = [row for row in rows if row["protocol"] in IN_ROUNDS and row["str_sent"] and row["file_size_bytes"]]
    if not sent or not has_packet_errors_alone(sent[0]):
        return None
    row, loss = sent[0], sent[0]["forward_packet_error_rate"]
    packets, bits = packets_of(sent, loss)
    mean = expected_rounds(packets, loss)
    rate_bps, delay_s = row["forward_rate_bps"], row["forward_delay_ns"] / 1e9
    time_s = time_to_delivery_s(packets, bits, rate_bps, delay_s, row["rtt_ns"] / 1e9, loss, mean)
    return float(BITS * row["file_size_bytes"] / time_s) if time_s else None


def _capacity(rows: Sequence[Row]) -> float | None:
    row = rows[0]
    if not row["file_size_bytes"]:
        return None
    least_s = least_transfer_s(row["file_size_bytes"], row["forward_rate_bps"], row["forward_delay_ns"] / 1e9)
    return float(BITS * row["file_size_bytes"] / least_s) if least_s else None


def _tcp(rate: Callable[[float, float], float]) -> Callable[[Sequence[Row]], float | None]:
    def goodput_bps(rows: Sequence[Row]) -> float | None:
        row = rows[0]
        if not has_packet_errors_alone(row):
            return None
        of_window = BITS * SEGMENT_BYTES * rate(row["rtt_ns"] / 1e9, row["forward_packet_error_rate"])
        limits = [each for each in (of_window, row["forward_rate_bps"]) if each is not None and isfinite(each)]
        return min(limits, default=None)

    return goodput_bps


def _padhye(rtt_s: float, loss: float) -> float:
    return padhye_rate(rtt_s, loss, timeout_s=max(LEAST_TIMEOUT_S, 2 * rtt_s))


THEORIES = {
    "rounds": Theory("repair rounds", _rounds),
    "capacity": Theory("capacity", _capacity),
    "mathis": Theory("Mathis", _tcp(mathis_rate)),
    "padhye": Theory("Padhye", _tcp(_padhye)),
    "cubic": Theory("CUBIC", _tcp(cubic_rate)),
}
"""The theories by their name in commands."""
