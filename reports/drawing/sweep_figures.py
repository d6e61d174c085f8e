"""Figures over a sweep: boxes, and every run as a point, as SVG and PDF; equal data give files with equal bytes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from math import ceil
from pathlib import Path
from types import MappingProxyType

import matplotlib
from matplotlib.figure import Figure as Canvas
from matplotlib.lines import Line2D

from owlt.reports.comparison.metrics import Metric
from owlt.reports.comparison.panels import Figure, Panel
from owlt.reports.drawing.boxes import (
    Bounds,
    boxes_of_several,
    draw_boxes,
    draw_points,
    draw_theory,
    implementation_handles,
    n_colour,
    page_looks,
    suspect_handles,
    theory_handles,
)
from owlt.reports.drawing.line_figures import Place, Plot, draw_lines
from owlt.reports.drawing.output import POINTS, write_figure
from owlt.reports.drawing.scales import Scale, scales_of, shown_metrics, ticks_on
from owlt.reports.looks import MUTED, STYLE, Looks
from owlt.reports.units import tick_text

FULL_WIDTH, HEADED_WIDTH, WIDEST_PANEL = 7.0, 4.6, 3.4
LEFT, RIGHT, TOP, BOTTOM = 0.74, 0.10, 0.36, 0.60
PANEL_HEIGHT, ROW_GAP, TITLE_GAP, SHARED_GAP, OWN_GAP = 1.5, 0.44, 0.26, 0.18, 0.52
HEADING_GAP = 0.19
LEGEND_LINE, LETTER, LEGEND_MARK = 0.17, 0.068, 0.45
"""Inches. A figure is as wide as the two columns of a paper, or wider if its panels require it."""
N_LINE, CATEGORY, AXIS_LABEL, VALUE_LABEL = 9, 14, 25, 43
"""Points: how far below the axis the numbers of runs, the categories and the label of their axis are, and how far the
label of the values is from its axis."""
USUAL_TICK, MOST_TICKS = 7, 9
"""Letters of a number at a tick that there is room for, and the most ticks of a scale."""


def draw(figure: Figure, series: dict[str, int], bounds: Bounds = MappingProxyType({})) -> Canvas:
    """Draw a figure. `series` has the number of each implementation, for its colour and marker; `bounds` has the values
    that theory predicts."""
    with matplotlib.rc_context(STYLE):
        if figure.lying:
            return draw_lines(figure, series, bounds)
        handles = implementation_handles(figure, series) + suspect_handles(figure) + theory_handles(figure, bounds)
        shown = shown_metrics(figure)
        scales = scales_of(figure, bounds)
        more = LETTER * max(0, _longest_tick(figure, scales, shown) - USUAL_TICK)
        canvas, grid = _frame(figure, handles, more)
        in_order = iter(scales)
        for places, panels in zip(grid, figure.panels, strict=True):
            plots: list[Plot] = []
            for place, panel in zip(places, panels, strict=True):
                plot = Plot(canvas, place, (-0.5, len(panel.categories) - 0.5), next(in_order))
                per_tick = shown[panel.metric.slug].per_unit / panel.metric.per_unit
                plot.draw_scale(panel.metric.kind == "count", per_tick, figure.share != "row" or not plots)
                _draw_panel(plot, panel, series, bounds)
                plots.append(plot)
            label, left = shown[panels[0].metric.slug].label, -VALUE_LABEL - POINTS * more
            plots[0].write(label, (0, 0.5), plots[0].frame, (left, 0), rotation=90, ha="center", va="center")
            _write_n(plots[0], "n", -0.5, (-6, 0), MUTED)
        for plot in plots:
            plot.write(figure.axis.label, (0.5, 0), plot.frame, (0, -AXIS_LABEL), ha="center", va="top")
    return canvas


def save(canvas: Canvas, directory: Path, name: str, with_pdf: bool = False) -> None:
    """Write NAME.svg and, on request because it takes longer than drawing, NAME.pdf. The files have no dates, and ids
    that depend only on the name. Raises OSError."""
    with matplotlib.rc_context(STYLE):
        for file_format in ("svg", "pdf") if with_pdf else ("svg",):
            write_figure(canvas, directory / f"{name}.{file_format}", file_format, name)


def _longest_tick(figure: Figure, scales: Sequence[Scale], shown: Mapping[str, Metric]) -> int:
    """The number of letters of the longest number at a tick."""
    metrics = [panel.metric for panel in chain(*figure.panels)]
    texts = (
        tick_text(tick * metric.per_unit / shown[metric.slug].per_unit)
        for metric, scale in zip(metrics, scales, strict=True)
        for tick in ticks_on(scale, metric.kind == "count", MOST_TICKS)
    )
    return max(map(len, texts), default=0)


def _frame(figure: Figure, handles: list[Line2D], more: float) -> tuple[Canvas, list[list[Place]]]:
    """A figure with its legend, and the place of each panel; with `more` inches to the left of each scale."""
    rows, columns = len(figure.panels), len(figure.panels[0])
    left, gap = LEFT + more, SHARED_GAP if figure.share == "row" else OWN_GAP + more
    panel_width = _panel_width(figure, FULL_WIDTH - left - RIGHT - (columns - 1) * gap)
    width = left + columns * panel_width + (columns - 1) * gap + RIGHT
    longest = max(len(str(handle.get_label())) for handle in handles)
    legend_columns = max(1, int((width - left) / (longest * LETTER + LEGEND_MARK)))
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
        bbox_to_anchor=((left - 0.07) / width, 1 - 0.04 / height),
        ncols=legend_columns,
    )

    def place(row: int, column: int) -> Place:
        bottom = height - top - (row + 1) * PANEL_HEIGHT - sum(row_gaps[:row])
        return Place(left + column * (panel_width + gap), bottom, panel_width, PANEL_HEIGHT)

    return canvas, [[place(row, column) for column in range(columns)] for row in range(rows)]


def _has_both(panels: tuple[Panel, ...]) -> bool:
    """Whether a row has both a heading and titles."""
    return bool(panels[0].heading and panels[0].title)


def _panel_width(figure: Figure, room: float) -> float:
    """The width of a panel: as large as the room for all columns allows, but large enough that boxes and their n do not
    overlap.

    With headings, the columns together are at least as wide as the longest heading.
    """
    columns = len(figure.panels[0])
    needed = 0.3 + len(figure.panels[0][0].categories) * max(0.45, 0.27 * len(figure.implementations))
    letters = max(len(panels[0].heading) for panels in figure.panels)
    headed = max(HEADED_WIDTH, LETTER * letters) / columns if letters else 0
    return max(needed, min(WIDEST_PANEL, room / columns), headed)


def _draw_panel(plot: Plot, panel: Panel, series: dict[str, int], bounds: Bounds) -> None:
    plot.write_heading(panel.title, panel.heading, HEADING_GAP)
    for place, category in enumerate(panel.categories):
        plot.write_at_category(category, place, (0, -CATEGORY), ha="center", va="top")
    step = 0.8 / len(panel.boxes[0])
    for index, boxes in enumerate(zip(*panel.boxes, strict=True)):
        offset = (index - (len(panel.boxes[0]) - 1) / 2) * step
        looks = Looks(series[boxes[0].permutation.implementation])
        placed = [(place + offset, box) for place, box in enumerate(boxes)]
        for at, box in placed:
            _write_n(plot, box.n_text, at, (0, 0), n_colour(box))
        draw_theory(plot, placed, min(step, 0.45), bounds)
        draw_boxes(plot, boxes_of_several(placed), page_looks(looks.colour, min(step, 0.45)))
        draw_points(plot, placed, 0.5 * min(step, 0.45), looks)


def _write_n(plot: Plot, text: str, place: float, shift_points: tuple[float, float], colour: str) -> None:
    """Write a number of runs, between the axis and the categories."""
    x, y = shift_points
    plot.write_at_category(text, place, (x, y - N_LINE), ha="center", va="center", color=colour, fontsize=7)
