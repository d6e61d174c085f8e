"""TCP's rate under losses against Padhye's formula, and the last custody signal against its closed form."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean

from owlt.reports.comparison.theory import padhye_rate
from owlt.reports.results.rows import Row
from tests.validation.equivalence import Statement, equivalence, interval_text, percent_text, verdict_of

MARGIN = 0.1
BITS = 8
LEAST_RTO_S = 0.2
"""What Linux adds to the smoothed round trip, at least, for its retransmission timeout (TCP_RTO_MIN)."""


def last_signal_s(delay_s: float, signals: int, signal_bytes: float, reverse_rate_bps: float) -> float:
    """When the last custody signal arrives, after the bundle was sent: 2 d + n 8 S / R_reverse. Derived.

    A sender that repeats bundles earlier repeats some without need.
    """
    return 2 * delay_s + signals * BITS * signal_bytes / reverse_rate_bps


@dataclass(frozen=True)
class RateCell:
    """A cell with a closed form: its name, where it is, and what was measured and expected in each run."""

    name: str
    delay_s: float
    loss: float
    unit: str
    measured: tuple[float, ...]
    expected: tuple[float, ...]

    @property
    def ratio(self) -> float:
        """The mean of measured over expected."""
        return fmean(one / other for one, other in zip(self.measured, self.expected, strict=True))


def padhye_expectation(row: Row) -> float:
    """The rate of Padhye's formula in segments per second; the round trip has one segment's own transmission.

    The formula's window grows by a segment in b round trips, b segments per acknowledgement, as each acknowledgement
    counts once. Linux counts the acknowledged segments (RFC 3465): b is 1.
    """
    frame_bits = BITS * row["str_sent_bytes"] / row["str_sent"]
    rtt_s = row["rtt_ns"] / 1e9 + frame_bits / row["forward_rate_bps"]
    loss, timeout_s = row["forward_packet_error_rate"], rtt_s + LEAST_RTO_S
    return padhye_rate(rtt_s, loss, timeout_s, segments_per_ack=1)


def tcp_cells(rows: Iterable[Row]) -> list[RateCell]:
    """The cells of TCP runs that sent for a duration."""
    groups: dict[tuple[str, float, float], list[tuple[float, float]]] = defaultdict(list)
    for row in rows:
        if _counts(row) and row["protocol"] == "TCP" and row["goodput_bps"]:
            segment_bits = BITS * json.loads(row["parameters"])["segment_bytes"]
            key = row["implementation"], row["forward_delay_ns"] / 1e9, row["forward_packet_error_rate"]
            groups[key].append((row["goodput_bps"] / segment_bits, padhye_expectation(row)))
    return [_cell(*key, "segments/s", values) for key, values in groups.items()]


def custody_cells(rows: Iterable[Row]) -> list[RateCell]:
    """The cells of transfers with custody: how long after a round trip the last signal arrived."""
    groups: dict[tuple[str, float, float], list[tuple[float, float]]] = defaultdict(list)
    for row in rows:
        if _counts(row) and row["protocol"] == "BP" and row["rts_sent"]:
            delay_s, rate = row["forward_delay_ns"] / 1e9, row["reverse_rate_bps"]
            last_s = last_signal_s(delay_s, row["rts_sent"], row["rts_sent_bytes"] / row["rts_sent"], rate)
            name = f"{row['implementation']}, {rate / 1e3:g} kbit/s"
            groups[name, delay_s, 0.0].append((row["session_s"] - 2 * delay_s, last_s - 2 * delay_s))
    return [_cell(*key, "s", values) for key, values in groups.items()]


def tcp_statements(cells: Sequence[RateCell]) -> list[Statement]:
    """For each variant: its rate on average over the cells."""
    statements = []
    for name in dict.fromkeys(cell.name for cell in cells):
        ratios = [cell.ratio for cell in cells if cell.name == name]
        test = equivalence(ratios, 1 - MARGIN, 1 + MARGIN)
        interval = interval_text(test.low, test.high) if test and test.n > 1 else "no interval"
        statements.append(
            Statement(
                f"padhye-{name}".replace("=", ""),
                f"The rate of {name} is that of Padhye's formula with b = 1 within {100 * MARGIN:g} % on average over "
                f"{len(ratios)} cells",
                verdict_of(test),
                f"{percent_text(fmean(ratios))} ({interval}); cells from {percent_text(min(ratios))} to "
                f"{percent_text(max(ratios))}",
            )
        )
    return statements


def custody_statements(cells: Sequence[RateCell]) -> list[Statement]:
    """One statement: each cell is near the closed form. Without losses, runs on `exact` do not vary."""
    if not cells:
        return []
    ratios = [cell.ratio for cell in cells]
    outside = sum(abs(ratio - 1) > MARGIN for ratio in ratios)
    return [
        Statement(
            "custody",
            f"The last custody signal arrives when its closed form says, within {100 * MARGIN:g} % of the time beyond "
            f"a round trip, in each of {len(cells)} cells",
            "failed" if outside else "passed",
            f"{percent_text(min(ratios))} to {percent_text(max(ratios))}; {outside} cells outside",
        )
    ]


def rate_table(cells: Sequence[RateCell]) -> tuple[list[str], list[tuple[object, ...]]]:
    """The headings and a row for each cell."""
    headings = ["name", "delay_s", "loss", "runs", "measured", "expected", "unit", "ratio"]
    return headings, [
        (
            cell.name,
            cell.delay_s,
            cell.loss,
            len(cell.measured),
            fmean(cell.measured),
            fmean(cell.expected),
            cell.unit,
            cell.ratio,
        )
        for cell in cells
    ]


def _cell(name: str, delay_s: float, loss: float, unit: str, values: Sequence[tuple[float, float]]) -> RateCell:
    return RateCell(name, delay_s, loss, unit, tuple(one for one, _ in values), tuple(other for _, other in values))


def _counts(row: Row) -> bool:
    return row["outcome"] == "completed" and not row["suspect"]
