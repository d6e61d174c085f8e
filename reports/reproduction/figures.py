"""The figures of a reproduction: lines, points, boxes and bars of the points of queries."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from io import StringIO
from math import ceil, sqrt
from pathlib import Path
from statistics import fmean, median, stdev
from typing import Any

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import NullFormatter

from owlt.reports.comparison.estimates import box_numbers
from owlt.reports.drawing.boxes import BoxLooks, draw_boxes
from owlt.reports.drawing.scales import log_locator
from owlt.reports.looks import INK, MUTED, STYLE, Looks
from owlt.reports.reproduction.claims import FigureOf, PanelOf
from owlt.reports.reproduction.database import Point
from owlt.results.plain_files import write_whole

NO_POINTS = "no completed run in this part of the grid"
MOST_MARKERS = 30
"""The most points of a series with markers; longer lines have none, and more points are dots."""
TOO_PRECISE = re.compile(r"(\d\.\d\d)\d+(?=[^<>]*>)")
"""A coordinate of an SVG file with more than hundredths of a point; the labels stand between tags."""
ROOM_ABOVE = 1.04
"""The end of an axis from zero, as a multiple of its highest value."""
GROUP = 0.8
"""The width of the boxes or bars at one value of x; 1 is the distance to the next value."""

SMALL_SVG: dict[Any, Any] = {"svg.hashsalt": "owlt", "svg.fonttype": "none"}
"""Settings for files that are small and the same each time."""

Series = dict[str, dict[float, list[float]]]
"""The values of each series by x."""


def draw(figure: FigureOf, points: Sequence[Sequence[Point]], path: Path, order: Sequence[str] = ()) -> None:
    """Write the figure from the points of its panels; the same points give the same bytes. Raises OSError.

    `order` has the series whose looks are the same in several figures.
    """
    panels = [
        (f"{panel.title}, {facet}" if facet else panel.title, panel, _by_series(of_panel, facet))
        for panel, of_panel in zip(figure.panels, points, strict=True)
        for facet in list(dict.fromkeys(each[3] for each in of_panel)) or [""]
    ]
    present = dict.fromkeys(name for _, _, series in panels for name in series)
    names = [*order, *(name for name in present if name not in order)]
    looks = {name: Looks(names.index(name)) for name in sorted(present, key=names.index)}
    across = min(figure.across, len(panels))
    down = ceil(len(panels) / across)
    with rc_context({**STYLE, **SMALL_SVG}):
        size = (5.6, 3.2) if len(panels) == 1 else (7.2, 2.2 * down + 0.3)
        canvas = Figure(figsize=size, layout="constrained")
        grid = list(canvas.subplots(down, across, squeeze=False).flat)
        for unused in grid[len(panels) :]:
            unused.remove()
        for axes, (title, panel, series) in zip(grid, panels, strict=False):
            _draw(axes, panel, series, looks)
            axes.set_title(title, loc="left", fontsize=8)
        if looks:
            handles = [
                Line2D([], [], color=each.colour, marker=each.marker, markersize=4, linewidth=1, label=name)
                for name, each in looks.items()
            ]
            canvas.legend(handles=handles, loc="outside lower center", ncols=min(len(looks), 4), fontsize=7)
        write_svg(canvas, path)


def write_svg(canvas: Figure, path: Path) -> None:
    """Write a figure without dates and needless digits. Raises OSError."""
    drawn = StringIO()
    canvas.savefig(drawn, format="svg", metadata={"Date": None})
    write_whole(path, TOO_PRECISE.sub(r"\1", drawn.getvalue()))


def _by_series(points: Sequence[Point], facet: str) -> Series:
    series: defaultdict[str, defaultdict[float, list[float]]] = defaultdict(lambda: defaultdict(list))
    for name, x, y, of_facet in points:
        if of_facet == facet:
            series[name][x].append(y)
    return {name: dict(by_x) for name, by_x in series.items()}


def _draw(axes: Axes, panel: PanelOf, series: Series, looks: dict[str, Looks]) -> None:
    axes.grid(alpha=0.3, linewidth=0.5)
    axes.set_axisbelow(True)
    match panel.kind:
        case "line":
            _draw_lines(axes, series, looks)
        case "points":
            _draw_points(axes, series, looks)
        case "box" | "bar":
            _draw_groups(axes, panel, series, looks)
    axes.set_xlabel(panel.x.label)
    axes.set_ylabel(panel.y.label)
    if panel.x.log and not panel.is_grouped:
        axes.set_xscale("log")
        _label_decades(axes.xaxis, *axes.get_xlim())
    if panel.y.log:
        axes.set_yscale("log")
        _label_decades(axes.yaxis, *axes.get_ylim())
    elif panel.y.from_zero:
        axes.set_ylim(0, ROOM_ABOVE * axes.get_ylim()[1])
    if not series:
        axes.text(0.5, 0.5, NO_POINTS, transform=axes.transAxes, ha="center", color=MUTED)


def _label_decades(axis: Axis, low: float, high: float) -> None:
    """Ticks with plain numbers on a logarithmic axis."""
    axis.set_major_locator(log_locator(low, high))
    axis.set_major_formatter(_plain)
    axis.set_minor_formatter(NullFormatter())


def _draw_lines(axes: Axes, series: Series, looks: dict[str, Looks]) -> None:
    """Medians, and the range of the runs."""
    for name, values in series.items():
        at = sorted(values)
        low, high = ([edge(values[x]) for x in at] for edge in (min, max))
        axes.fill_between(at, low, high, color=looks[name].colour, alpha=0.15, linewidth=0)
        marker = looks[name].marker if len(at) <= MOST_MARKERS else ""
        middle = [median(values[x]) for x in at]
        axes.plot(at, middle, color=looks[name].colour, marker=marker, markersize=3.5, linewidth=1)


def _draw_points(axes: Axes, series: Series, looks: dict[str, Looks]) -> None:
    for name, values in series.items():
        flat = [(x, y) for x in sorted(values) for y in values[x]]
        marker = looks[name].marker if len(flat) <= MOST_MARKERS else ","
        axes.plot(*zip(*flat, strict=True), linestyle="", marker=marker, markersize=3.5, color=looks[name].colour)


def _draw_groups(axes: Axes, panel: PanelOf, series: Series, looks: dict[str, Looks]) -> None:
    """Boxes with every run, or bars of means with their standard errors, side by side at each value of x."""
    xs = sorted({x for values in series.values() for x in values})
    names = [name for name in looks if name in series]
    width = GROUP / max(len(names), 1)
    for number, name in enumerate(names):
        colour = looks[name].colour
        placed = [
            (xs.index(x) + (number + 0.5) * width - GROUP / 2, values) for x, values in sorted(series[name].items())
        ]
        if panel.kind == "bar":
            axes.bar([at for at, _ in placed], [fmean(values) for _, values in placed], 0.9 * width, color=colour)
            errors = [_standard_error(values) for _, values in placed]
            means = [fmean(values) for _, values in placed]
            axes.errorbar([at for at, _ in placed], means, errors, fmt="none", ecolor=INK, elinewidth=0.6, capsize=1.5)
            continue
        boxes = [(at, box_numbers(values)) for at, values in placed]
        draw_boxes(axes, boxes, BoxLooks(colour, 0.75 * width))
        flat = [(at, value) for at, values in placed for value in sorted(set(values))]
        axes.plot(*zip(*flat, strict=True), linestyle="", marker=looks[name].marker, markersize=1.6, color=colour)
    axes.set_xticks(range(len(xs)), [category_text(x) for x in xs])
    if xs:
        axes.set_xlim(-0.5, len(xs) - 0.5)
    axes.grid(visible=False, axis="x")


def _standard_error(values: Sequence[float]) -> float:
    return stdev(values) / sqrt(len(values)) if len(values) > 1 else 0.0


def category_text(value: float) -> str:
    """A value of x below its boxes: 0, 1e-5, 0.001, 10,000."""
    return f"{value:,.0f}" if value >= 1 else f"{value:g}".replace("e-0", "e-")


def _plain(value: float, _: object) -> str:
    """A tick of a logarithmic axis: 0.001, 1, 1,000."""
    return f"{value:,.0f}" if value >= 1 else f"{value:g}"
