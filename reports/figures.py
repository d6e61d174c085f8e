"""Figures drawn: boxes with every run as a point on them, as SVG and as PDF, the same bytes every time."""

from __future__ import annotations

from itertools import chain
from math import ceil
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas
from matplotlib.lines import Line2D

from reports.looks import INK, MUTED, PAPER, RULE, STYLE, Looks
from reports.panels import Figure, Panel
from reports.scales import apply_scale, scales_of
from reports.statistics import FEW, Box

RUN_LINK = "../index.html#run-"
"""Where a point leads: the run's row in the page. Followed by the run id."""

FULL_WIDTH, HEADED_WIDTH, WIDEST_PANEL = 7.0, 4.6, 3.4
LEFT, RIGHT, TOP, BOTTOM = 0.74, 0.10, 0.36, 0.60
PANEL_HEIGHT, ROW_GAP, TITLE_GAP, SHARED_GAP, OWN_GAP = 1.5, 0.44, 0.26, 0.18, 0.52
HEADING_GAP = 0.19
LEGEND_LINE, LETTER, LEGEND_MARK = 0.17, 0.068, 0.45
"""Inches. A figure fills the two columns of a paper where its panels allow, and is wider only if they must."""


def draw(figure: Figure, series: dict[str, int]) -> Canvas:
    """The figure drawn. `series` numbers the implementations, so that each has its colour everywhere."""
    with matplotlib.rc_context(STYLE):
        handles = _legend_handles(figure, series)
        canvas, grid = _frame(figure, handles)
        for axes, panel, scale in zip(chain(*grid), chain(*figure.panels), scales_of(figure), strict=True):
            _draw_panel(axes, panel, series)
            apply_scale(axes, scale, panel.metric.kind == "count")
        for row, panels in zip(grid, figure.panels, strict=True):
            row[0].set_ylabel(panels[0].metric.label)
            _annotate(row[0], "n", (-0.5, 0), -6, color=MUTED)
            for axes in row[1:] if figure.share == "row" else ():
                axes.tick_params(labelleft=False)
        for axes in grid[-1]:
            axes.set_xlabel(figure.axis.label)
    return canvas


def save(canvas: Canvas, directory: Path, name: str) -> None:
    """Write NAME.svg and NAME.pdf: no dates in them, and ids that depend on the name alone."""
    with matplotlib.rc_context(STYLE | {"svg.hashsalt": name}):
        nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
        canvas.savefig(directory / f"{name}.svg", metadata=nothing)
        canvas.savefig(directory / f"{name}.pdf", metadata={"CreationDate": None, "Creator": "owlt"})


def _frame(figure: Figure, handles: list[Line2D]) -> tuple[Canvas, list[list[Axes]]]:
    """A figure with its legend and an empty pair of axes for each panel, laid out in inches."""
    rows, columns = len(figure.panels), len(figure.panels[0])
    gap = SHARED_GAP if figure.share == "row" else OWN_GAP
    panel_width = _panel_width(figure, FULL_WIDTH - LEFT - RIGHT - (columns - 1) * gap)
    width = LEFT + columns * panel_width + (columns - 1) * gap + RIGHT
    longest = max(len(str(handle.get_label())) for handle in handles)
    legend_columns = max(1, int((width - LEFT) / (longest * LETTER + LEGEND_MARK)))
    top = TOP + LEGEND_LINE * ceil(len(handles) / legend_columns) + HEADING_GAP * _has_both(figure.panels[0])
    row_gaps = [
        ROW_GAP + TITLE_GAP * bool(panels[0].title or panels[0].heading) + HEADING_GAP * _has_both(panels)
        for panels in figure.panels[1:]
    ]
    height = top + rows * PANEL_HEIGHT + sum(row_gaps) + BOTTOM
    canvas = Canvas(figsize=(width, height))
    canvas.legend(
        handles=handles,
        loc="upper left",
        bbox_to_anchor=((LEFT - 0.07) / width, 1 - 0.04 / height),
        ncols=legend_columns,
    )

    def place(row: int, column: int) -> Axes:
        left = LEFT + column * (panel_width + gap)
        bottom = height - top - (row + 1) * PANEL_HEIGHT - sum(row_gaps[:row])
        return canvas.add_axes((left / width, bottom / height, panel_width / width, PANEL_HEIGHT / height))

    return canvas, [[place(row, column) for column in range(columns)] for row in range(rows)]


def _has_both(panels: tuple[Panel, ...]) -> bool:
    """Whether a row has a heading, and a line of titles below it."""
    return bool(panels[0].heading and panels[0].title)


def _panel_width(figure: Figure, room: float) -> float:
    """As wide as the room for all columns allows, never so narrow that boxes or their n run together.

    Under headings the columns together are as wide as the longest, and as most: such figures are of one size.
    """
    columns = len(figure.panels[0])
    needed = 0.3 + len(figure.panels[0][0].categories) * max(0.45, 0.27 * len(figure.implementations))
    letters = max(len(panels[0].heading) for panels in figure.panels)
    headed = max(HEADED_WIDTH, LETTER * letters) / columns if letters else 0
    return max(needed, min(WIDEST_PANEL, room / columns), headed)


def _draw_panel(axes: Axes, panel: Panel, series: dict[str, int]) -> None:
    axes.set_title(panel.title, loc="left", fontsize=8, pad=6)
    if panel.heading:
        points = 6 + 72 * HEADING_GAP * bool(panel.title)
        axes.annotate(
            panel.heading, (0, 1), (0, points), "axes fraction", "offset points", fontsize=8, fontweight="bold"
        )
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", color=RULE, linewidth=0.6)
    axes.set_axisbelow(True)
    axes.set_xlim(-0.5, len(panel.categories) - 0.5)
    axes.set_xticks(range(len(panel.categories)), panel.categories)
    axes.tick_params(axis="x", length=0, pad=14)
    step = 0.8 / len(panel.boxes[0])
    for index, boxes in enumerate(zip(*panel.boxes, strict=True)):
        offset = (index - (len(panel.boxes[0]) - 1) / 2) * step
        looks = Looks(series[boxes[0].permutation.implementation])
        placed = [(place + offset, box) for place, box in enumerate(boxes)]
        for at, box in placed:
            _annotate(axes, box.n_text, (at, 0), 0, color=looks.colour, fontsize=7)
        _draw_boxes(axes, placed, min(step, 0.45), looks)
        _draw_points(axes, placed, 0.5 * min(step, 0.45), looks)


def _annotate(axes: Axes, text: str, at: tuple[float, float], shift_points: float, **looks: Any) -> None:
    """A word in the line of n, between the axis and the categories. `at` is x in categories, y unused."""
    looks = {"ha": "center", "va": "center"} | looks
    axes.annotate(text, at, (shift_points, -9), ("data", "axes fraction"), "offset points", **looks)


def _draw_boxes(axes: Axes, placed: list[tuple[float, Box]], step: float, looks: Looks) -> None:
    """The boxes of one implementation in a panel; none where there is no value."""
    drawn = [(at, numbers) for at, box in placed if (numbers := box.numbers)]
    thin = {"color": looks.colour, "linewidth": 0.8}
    axes.bxp(
        [
            {
                "med": numbers.median,
                "q1": numbers.q1,
                "q3": numbers.q3,
                "whislo": numbers.whisker_low,
                "whishi": numbers.whisker_high,
            }
            for _, numbers in drawn
        ],
        positions=[at for at, _ in drawn],
        widths=0.72 * step,
        capwidths=0.36 * step,
        showfliers=False,
        patch_artist=True,
        manage_ticks=False,
        boxprops={"facecolor": (looks.colour, 0.16), "edgecolor": looks.colour, "linewidth": 0.8},
        medianprops={"color": INK, "linewidth": 1.5, "solid_capstyle": "butt"},
        whiskerprops=thin,
        capprops=thin,
    )


def _draw_points(axes: Axes, placed: list[tuple[float, Box]], spread: float, looks: Looks) -> None:
    """Points side by side in the order of their repetitions, each a link to its run; suspect ones hollow."""
    points = [
        (at + spread * ((run.record.repetition - 0.5) / box.asked - 0.5), value, run)
        for at, box in placed
        for run, value in box.values
    ]
    few = all(box.asked <= FEW for _, box in placed)
    for hollow in (False, True):
        shown = [point for point in points if bool(point[2].suspect) == hollow]
        axes.scatter(
            [x for x, _, _ in shown],
            [y for _, y, _ in shown],
            s=18 if few else 9,
            marker=looks.marker,
            facecolors=PAPER if hollow else looks.colour,
            edgecolors=looks.colour if hollow else PAPER,
            linewidths=1.0 if hollow else 0.5 if few else 0.25,
            urls=[RUN_LINK + run.record.run_id for _, _, run in shown],
            zorder=4,
            clip_on=False,
        )


def _legend_handles(figure: Figure, series: dict[str, int]) -> list[Line2D]:
    """The implementations; and what a hollow point means, where there is one."""
    boxes = [box for panel in chain(*figure.panels) for box in chain(*panel.boxes)]
    handles = [
        _handle(title, looks.marker, looks.colour, looks.colour)
        for name, title in figure.implementations.items()
        for looks in [Looks(series[name])]
    ]
    if any(run.suspect for box in boxes for run, _ in box.values):
        handles.append(_handle("hollow: suspect run", "o", MUTED, PAPER))
    return handles


def _handle(label: str, marker: str, colour: str, fill: str) -> Line2D:
    return Line2D([], [], linestyle="", marker=marker, markersize=5, color=colour, markerfacecolor=fill, label=label)
