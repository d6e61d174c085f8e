"""Draw docs/harq-calibration.svg, the share of packets that HARQ delivers by SNR: python -m tests.harq_calibration

The points are seed 003's (Tauran et al. 2017, tables 1 and 2, columns "HARQ Success"), the curve is
`emulator.models.links` over many fading series of 600 s, the band the middle 90 % of these series.
"""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl
import numpy
from matplotlib.figure import Figure
from numpy.typing import NDArray

from owlt.emulator.models.links import (
    INTERMEDIATE_TREE_SHADOW,
    Environment,
    attempt_shares,
    coded_table,
    snr_series_db,
)

FIGURE = Path(__file__).parents[1] / "docs" / "harq-calibration.svg"
SNR_DB = tuple(range(7, 14))
PUBLISHED = {
    "NewReno, no delayed ACK": (96.47, 97.22, 97.89, 98.47, 98.77, 99.12, 99.52),
    "CUBIC, no delayed ACK": (95.23, 96.95, 97.60, 98.29, 98.82, 99.22, 99.36),
    "NewReno, delayed ACK": (96.12, 97.49, 97.83, 98.49, 98.92, 99.16, 99.31),
    "CUBIC, delayed ACK": (95.33, 97.18, 97.46, 98.43, 98.82, 99.14, 99.42),
}
"""Per cent."""
SAMPLE_S = 0.01
SAMPLES = 60_000
BETWEEN = 2


def success_percent(
    series: int, first_seed: int = 0, environment: Environment = INTERMEDIATE_TREE_SHADOW
) -> NDArray[numpy.float64]:
    """The delivered share for each fading series (rows) and each SNR (columns)."""
    table = coded_table()
    seeds = range(first_seed, first_seed + series)
    fading = [snr_series_db(0, SAMPLES, SAMPLE_S, 1.0, seed, environment) for seed in seeds]
    return numpy.array(
        [[100 * (1 - attempt_shares(each + snr, table, BETWEEN)[:, -1].mean()) for snr in SNR_DB] for each in fading]
    )


def draw() -> None:
    """Write the figure."""
    mpl.rcParams["svg.hashsalt"] = "owlt"
    percent = success_percent(40)
    figure = Figure(figsize=(6, 3.6), layout="constrained")
    axes = figure.subplots()
    low, high = numpy.quantile(percent, (0.05, 0.95), axis=0)
    axes.fill_between(SNR_DB, low, high, color="#4477aa", alpha=0.2, linewidth=0, label="owlt, 90 % of series of 600 s")
    axes.plot(SNR_DB, percent.mean(axis=0), color="#4477aa", label="owlt, mean of 40 series")
    for (name, values), marker in zip(PUBLISHED.items(), "os^v", strict=True):
        axes.plot(SNR_DB, values, marker, color="#222222", markersize=4, markerfacecolor="none", label=f"paper: {name}")
    axes.set_xlabel("mean SNR (dB)")
    axes.set_ylabel("packets delivered by HARQ (%)")
    axes.grid(alpha=0.3)
    axes.legend(fontsize=7, loc="lower right")
    figure.savefig(FIGURE, metadata={"Date": None})


if __name__ == "__main__":
    draw()
