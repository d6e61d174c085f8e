"""A panel of a trace figure drawn: a row of axes, one for each period, with curves, marks and legend."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import PathPatch
from matplotlib.path import Path
from matplotlib.ticker import FuncFormatter, MaxNLocator
from matplotlib.transforms import Transform
from numpy.typing import NDArray

from owlt.reports.sessions.trace_axis import Period
from owlt.reports.sessions.trace_panels import Curve, Panel
from owlt.reports.sessions.trace_thinning import COLUMNS_PER_INCH, most_dots, one_per_cell, stepped, thinned_dots
from owlt.reports.style.looks import DAMAGED, INK, MUTED
from owlt.reports.style.units import number_text

Numbers = NDArray[np.float64]

_LABEL, _DOT, _MARK = 0.45, 1e-4, 0.02
"""Inches: from the axis to its label, the length of a dot's line, half the width of a mark."""
_LOST: dict[str, Any] = {"marker": "x", "markersize": 3, "color": INK, "linestyle": "none", "markeredgewidth": 0.7}
_DAMAGED: dict[str, Any] = {
    "marker": "|",
    "markersize": 4,
    "color": DAMAGED,
    "linestyle": "none",
    "markeredgewidth": 0.9,
}
_BAR = np.array([[(0, -1.4), (0, 1.4)]])
_CROSS = np.array([[(-1, -1), (1, 1)], [(-1, 1), (1, -1)]])
"""The lines of a mark, around its place, in units of _MARK."""


def draw_panel(row: list[Axes], periods: list[Period], panel: Panel) -> None:
    """Draw a panel on its axes, one for each period, left to right."""
    for axes, period in zip(row, periods, strict=True):
        _draw_period(axes, period, panel)
    for axes in row[1:]:
        axes.spines["left"].set_visible(False)
        axes.tick_params(axis="y", length=0, labelleft=False)
    for before, after in pairwise(row):
        _mark_break(before, 1)
        _mark_break(after, 0)
    row[0].set_title(panel.title, loc="left", fontsize=8, pad=4)
    row[0].set_ylabel(panel.label)
    row[0].yaxis.set_label_coords(-_LABEL / periods[0].width, 0.5)
    row[-1].legend(
        handles=_handles(panel),
        loc="lower right",
        bbox_to_anchor=(1, 1, 0, 0.02),
        ncols=5,
        fontsize=7.5,
        handlelength=1.2,
        columnspacing=1.2,
        borderaxespad=0.2,
    )


def _draw_period(axes: Axes, period: Period, panel: Panel) -> None:
    axes.set_ylim(*panel.y_limits)
    axes.yaxis.set_major_locator(MaxNLocator(4, integer=panel.integers, steps=[1, 2, 2.5, 5, 10]))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: number_text(value)))
    for curve in panel.curves:
        if curve.dots:
            _draw_dots(axes, period, curve, panel)
        else:
            _draw_steps(axes, period, curve)
    _draw_marks(axes, period, panel)


def _mark_break(axes: Axes, at: float) -> None:
    """A slash on the time axis, where idle time is omitted."""
    slash = [(-0.4, -1), (0.4, 1)]
    axes.plot(at, 0, marker=slash, markersize=6, color=MUTED, mew=0.6, transform=axes.transAxes, clip_on=False)


def _handles(panel: Panel) -> list[Line2D]:
    """The entries of the legend: curves with a label, then how many packets were lost and damaged."""
    handles = [
        Line2D([], [], color=curve.colour, label=curve.label, **_legend_looks(curve))
        for curve in panel.curves
        if curve.label and len(curve.x)
    ]
    if len(panel.lost_s):
        handles.append(Line2D([], [], label=f"lost: {number_text(len(panel.lost_s))}", **_LOST))
    if len(panel.damaged_s):
        more = " or more" if panel.more_damaged else ""
        handles.append(Line2D([], [], label=f"damaged: {number_text(len(panel.damaged_s))}{more}", **_DAMAGED))
    return handles


def _legend_looks(curve: Curve) -> dict[str, Any]:
    if curve.dots:
        return {"marker": "o", "linestyle": "none", "markersize": 3.5, "markeredgewidth": 0}
    return _line_looks(curve)


def _line_looks(curve: Curve) -> dict[str, Any]:
    looks: dict[str, Any] = {"linewidth": curve.width, "solid_capstyle": "butt"}
    return looks | ({"dashes": (2.2, 1.2), "dash_capstyle": "butt"} if curve.dashed else {})


def _draw_dots(axes: Axes, period: Period, curve: Curve, panel: Panel) -> None:
    """Dots as very short lines with round ends."""
    shown = thinned_dots(curve.x, curve.y, period, panel.y_limits, panel.height, most_dots(period))
    lines = np.repeat(np.column_stack([curve.x[shown], curve.y[shown]]), 2, axis=0)
    lines[1::2, 0] += period.length_s * _DOT / period.width
    _draw_lines(axes, lines, curve.colour, curve.width, axes.transData, zorder=2.2 if curve.behind else 2.5)


def _draw_steps(axes: Axes, period: Period, curve: Curve) -> None:
    """The highest value of each step, or of each column if steps are too many, and the band between it and the
    lowest."""
    columns = max(int(period.width * COLUMNS_PER_INCH), 1)
    x, low, high = stepped(curve.x, curve.y, period, columns)
    if curve.filled:
        axes.stairs(high, x, fill=True, color=curve.colour, alpha=0.2, linewidth=0)
    elif (high > low).any():
        axes.stairs(high, x, baseline=low, fill=True, color=curve.colour, alpha=0.3, linewidth=0)
    axes.plot(np.repeat(x, 2)[1:-1], np.repeat(high, 2), color=curve.colour, **_line_looks(curve))


def _draw_marks(axes: Axes, period: Period, panel: Panel) -> None:
    """Along the top of the panel, when packets were sent that were damaged (a bar) or lost (a cross)."""
    columns = max(int(period.width * COLUMNS_PER_INCH / 2), 1)
    size = (_MARK * period.length_s / period.width, _MARK / panel.height)
    for times, shape, looks in ((panel.damaged_s, _BAR, _DAMAGED), (panel.lost_s, _CROSS, _LOST)):
        shown = times[one_per_cell(times, np.zeros(len(times)), period, (0, 1), (columns, 1))]
        places = np.column_stack([shown, np.full(len(shown), 0.95)])
        lines = shape.reshape(1, -1, 2) * size + places[:, None]
        _draw_lines(axes, lines.reshape(-1, 2), looks["color"], looks["markeredgewidth"], axes.get_xaxis_transform())


def _draw_lines(
    axes: Axes, ends: Numbers, colour: str, width: float, transform: Transform, zorder: float = 2.5
) -> None:
    """Lines from each first to each second point, as one path: half the size of markers in an SVG."""
    path = Path(ends, np.tile([Path.MOVETO, Path.LINETO], len(ends) // 2))
    path.should_simplify = False
    looks: dict[str, Any] = {"capstyle": "round", "fill": False, "snap": False, "zorder": zorder}
    if len(ends):
        axes.add_patch(PathPatch(path, edgecolor=colour, linewidth=width, transform=transform, **looks))
