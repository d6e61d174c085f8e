"""Theory as lines in a figure: the goodput that `reports.comparison.theory` gives for the settings of runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any

from owlt.reports.comparison.theory import (
    BITS,
    IN_ROUNDS,
    SEGMENT_BYTES,
    cubic_rate,
    expected_rounds,
    has_packet_errors_alone,
    least_transfer_s,
    mathis_rate,
    packets_of,
    padhye_rate,
    time_to_delivery_s,
)
from owlt.reports.results.rows import Row

LEAST_TIMEOUT_S = 1.0
"""The least retransmission timeout of TCP (RFC 6298)."""
COLUMNS = ("goodput_bps", "goodput_to_delivery_bps")
"""The measures for which there are curves."""
INK_LINES: tuple[Any, ...] = ((0, (6, 2)), (0, (2, 2)), (0, (6, 2, 2, 2)), (0, (1, 1)), (0, (9, 2)))


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
