"""The share of frames that bit errors hit, against their length: measured, beside 1-(1-BER)^(8L)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from owlt.emulator.certification.intervals import share_interval

COLOURS = ["#0072b2", "#d55e00", "#009e73"]
"""Okabe and Ito's, told apart by all."""


def expected_share(bit_error_rate: float, length_bytes: float) -> float:
    """The probability that at least one of the frame's bits is hit."""
    return float(-np.expm1(8 * length_bytes * np.log1p(-bit_error_rate)))


def draw_hit_frames(points: list[dict[str, Any]], alpha: float, path: Path) -> list[str]:
    """Draw the points with their exact binomial intervals, `alpha` shared among them; return those off the curve."""
    figure = Figure(figsize=(7.2, 4.6), layout="constrained")
    axes = figure.subplots()
    lengths = np.geomspace(60, 9500, 200)
    outside = []
    for colour, rate in zip(COLOURS, sorted({point["rate"] for point in points}), strict=False):
        axes.plot(lengths, [expected_share(rate, length) for length in lengths], color=colour, linewidth=1)
        for point in (each for each in points if each["rate"] == rate):
            share = point["hits"] / point["trials"]
            low, high = share_interval(point["hits"], point["trials"], alpha / len(points))
            length = point["length_bytes"]
            if not low <= expected_share(rate, length) <= high:
                outside.append(f"BER {rate:g} at {length} bytes")
            axes.errorbar(length, share, [[share - low], [high - share]], color=colour, marker="o", ms=4, capsize=2)
        axes.annotate(
            f"BER {_power(rate)}",
            (9500, expected_share(rate, 9500)),
            color=colour,
            va="center",
            xytext=(4, 0),
            textcoords="offset points",
        )
    axes.set(xscale="log", yscale="log", xlabel="frame length, bytes", ylabel="share of frames hit")
    axes.set_xticks(
        [64, 128, 256, 512, 1024, 2048, 4096, 9000], ["64", "128", "256", "512", "1024", "2048", "4096", "9000"]
    )
    axes.minorticks_off()
    axes.set_xlim(55, 22_000)
    axes.set_ylim(5e-5, 1.6)
    axes.grid(alpha=0.3)
    fewest, most = (of(point["trials"] for point in points) for of in (min, max))
    title = f"{fewest:,} to {most:,} frames a point, with exact binomial intervals; lines: 1-(1-BER)$^{{8L}}$"
    axes.set_title(title, fontsize=10)
    figure.savefig(path)
    figure.savefig(path.with_suffix(".png"), dpi=120)
    return outside


def _power(rate: float) -> str:
    return f"$10^{{{round(np.log10(rate))}}}$"
