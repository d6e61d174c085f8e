"""The figures of the validation page: measured against expected values, and cells of one setting against another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp
from pathlib import Path

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from owlt.reports.looks import MUTED, STYLE, Looks
from owlt.reports.reproduction.page import SMALL_SVG, write_svg
from tests.validation.clocks import MARGIN as CLOCK_MARGIN
from tests.validation.clocks import ClockCell
from tests.validation.rounds import MARGIN


@dataclass(frozen=True)
class Agreement:
    """One panel: a point for each cell, expected and measured."""

    title: str
    unit: str
    series: dict[str, list[tuple[float, float]]]


def draw_agreement(panels: Sequence[Agreement], path: Path) -> None:
    """Measured over expected values, with the line of equality and MARGIN around it. Raises OSError."""
    with rc_context({**STYLE, **SMALL_SVG}):
        canvas = Figure(figsize=(7.2, 2.9), layout="constrained")
        for axes, panel in zip(canvas.subplots(1, len(panels), squeeze=False)[0], panels, strict=True):
            _draw_panel(axes, panel)
        write_svg(canvas, path)


def _draw_panel(axes: Axes, panel: Agreement) -> None:
    values = [value for points in panel.series.values() for point in points for value in point]
    low, high = 0.9 * min(values), 1.1 * max(values)
    axes.fill_between([low, high], [low * (1 - MARGIN), high * (1 - MARGIN)], [low * (1 + MARGIN), high * (1 + MARGIN)],
                      color=MUTED, alpha=0.15, linewidth=0)  # fmt: skip
    axes.plot([low, high], [low, high], color=MUTED, linewidth=0.8)
    for number, (name, points) in enumerate(panel.series.items()):
        looks = Looks(number)
        axes.plot(
            *zip(*points, strict=True), linestyle="", marker=looks.marker, markersize=3, color=looks.colour, label=name
        )
    axes.set_title(panel.title, loc="left", fontsize=8)
    axes.set_xlabel(f"expected ({panel.unit})")
    axes.set_ylabel(f"measured ({panel.unit})")
    axes.grid(alpha=0.3, linewidth=0.5)
    axes.legend(fontsize=6.5, loc="lower right")


def draw_clocks(cells: Sequence[ClockCell], path: Path) -> None:
    """The session time of each cell in a setting, in per cent of that on `exact`; a panel for each setting."""
    settings = list(dict.fromkeys(cell.setting for cell in cells))
    names = list(dict.fromkeys(cell.key[0] for cell in cells))
    with rc_context({**STYLE, **SMALL_SVG}):
        canvas = Figure(figsize=(7.2, 2.9), layout="constrained")
        panels = canvas.subplots(1, max(1, len(settings)), squeeze=False, sharey=True)[0]
        for axes, setting in zip(panels, settings, strict=False):
            margin = 100 * CLOCK_MARGIN
            axes.axhspan(-margin, margin, color=MUTED, alpha=0.2, linewidth=0)
            for number, name in enumerate(names):
                looks = Looks(number)
                points = [(number, 100 * (exp(cell.of_all.mean) - 1)) for cell in cells
                          if cell.setting == setting and cell.key[0] == name and cell.of_all]  # fmt: skip
                if points:
                    axes.plot(*zip(*points, strict=True), linestyle="", marker=looks.marker, markersize=3.5,
                              color=looks.colour)  # fmt: skip
            axes.set_xticks(range(len(names)), names, rotation=45, ha="right")
            axes.set_title(f"{setting}; grey: ±{margin:g} %", loc="left", fontsize=8)
            axes.margins(y=0.1)
            axes.set_ylabel("session time against exact (%)")
            axes.grid(alpha=0.3, linewidth=0.5, axis="y")
        write_svg(canvas, path)
