"""Bars of goodput, the fastest first, beside a ceiling."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import matplotlib
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from owlt.reports.looks import INK, MUTED, RULE, SERIES, STYLE

OWN, OTHERS = SERIES[0], SERIES[1]


@dataclass(frozen=True)
class Bar:
    """A build: its name, its goodput (0: none), whether it is an endpoint of this project, and what to add in words."""

    name: str
    goodput_mbps: float
    own: bool
    note: str


def draw(bars: list[Bar], ceiling_mbps: float, path: Path) -> None:
    """Draw the bars, as SVG and as PNG beside it."""
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(6.8, 0.9 + 0.2 * len(bars)), layout="constrained")
        axes = figure.subplots()
        places = range(len(bars))
        axes.barh(
            places,
            [bar.goodput_mbps for bar in bars],
            color=[OWN if bar.own else OTHERS for bar in bars],
            height=0.68,
            zorder=2,
        )
        for place, bar in zip(places, bars, strict=True):
            value = f"{bar.goodput_mbps:.3g}" if bar.goodput_mbps else ""
            axes.annotate(
                "  ".join(filter(None, [value, bar.note])),
                (bar.goodput_mbps, place),
                xytext=(4, 0),
                textcoords="offset points",
                va="center",
                color=INK if bar.goodput_mbps else MUTED,
                zorder=4,
                bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.8},
            )
        axes.axvline(ceiling_mbps, color=INK, linewidth=0.8, linestyle=(0, (4, 2)), zorder=3)
        axes.annotate(
            f"UDP ceiling {ceiling_mbps:.0f}",
            (ceiling_mbps, 1),
            xycoords=("data", "axes fraction"),
            xytext=(0, 3),
            textcoords="offset points",
            ha="center",
        )
        axes.set_yticks(places, [bar.name for bar in bars])
        axes.set_ylim(len(bars) - 0.4, -0.6)
        axes.set(xlabel="goodput until the file was whole, Mbit/s")
        axes.set_xlim(0, 1.18 * max([ceiling_mbps, *(bar.goodput_mbps for bar in bars)]))
        axes.grid(axis="x", color=RULE, linewidth=0.5, zorder=0)
        axes.tick_params(axis="y", length=0)
        axes.spines[["top", "right"]].set_visible(False)
        kinds = [Patch(color=OWN, label="endpoint of this project"), Patch(color=OTHERS, label="third-party program")]
        figure.legend(handles=kinds, loc="outside lower center", ncols=2)
        figure.savefig(path)
        figure.savefig(path.with_suffix(".png"), dpi=140)
