"""Figures with a line for each implementation: its name at the left, its boxes on the line, its n at the right."""

from __future__ import annotations

from itertools import chain
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas
from matplotlib.lines import Line2D

from owlt.reports.comparison.panels import Figure, Panel
from owlt.reports.drawing.boxes import (
    Bounds,
    boxes_of_several,
    draw_boxes,
    draw_points,
    draw_theory,
    n_colour,
    page_looks,
    suspect_handles,
    theory_handles,
)
from owlt.reports.drawing.scales import apply_scale, scales_of, shown_metrics
from owlt.reports.looks import MUTED, Looks, draw_grid

FULL_WIDTH, LEAST_PANEL, WIDEST_PANEL = 7.0, 1.2, 3.4
LINE, LETTER, BOLD_LETTER = 0.165, 0.066, 0.074
MARGIN, TOP, BOTTOM, HEADING_GAP, TITLE_GAP, N_GAP, LEGEND_LINE = 0.10, 0.12, 0.48, 0.17, 0.20, 0.34, 0.20
"""Inches."""


def draw_lines(figure: Figure, series: dict[str, int], bounds: Bounds) -> Canvas:
    """Draw a figure in matplotlib's current style. `series`: the number of each implementation, for its looks;
    `bounds`: what theory expects."""
    handles = suspect_handles(figure) + theory_handles(figure, bounds)
    canvas, grid = _frame(figure, handles)
    shown = shown_metrics(figure)
    drawn = zip(chain(*grid), chain(*figure.panels), scales_of(figure, bounds), strict=True)
    for axes, panel, scale in drawn:
        _draw_panel(axes, panel, series, bounds)
        per_tick = shown[panel.metric.slug].per_unit / panel.metric.per_unit
        apply_scale(axes, scale, panel.metric.kind == "count", lying=True, per_tick=per_tick)
    for row, panels in zip(grid, figure.panels, strict=True):
        row[0].set_yticks(range(len(figure.implementations)), list(figure.implementations.values()))
        row[0].set_xlabel(shown[panels[0].metric.slug].label, loc="left")
    return canvas


def _frame(figure: Figure, handles: list[Line2D]) -> tuple[Canvas, list[list[Axes]]]:
    """Empty axes for each panel, laid out in inches so that names, titles and n do not overlap."""
    columns = max(map(len, figure.panels))
    left = MARGIN + LETTER * max(map(len, figure.implementations.values())) + 0.08
    panel_width = _panel_width(figure, (FULL_WIDTH - left) / columns - N_GAP)
    width = left + columns * (panel_width + N_GAP)
    panel_height = LINE * len(figure.implementations)
    over = [
        HEADING_GAP * any(panel.heading for panel in panels) + TITLE_GAP * any(panel.title for panel in panels)
        for panels in figure.panels
    ]
    top = TOP + LEGEND_LINE * len(handles)
    height = top + sum(over) + len(figure.panels) * (panel_height + BOTTOM)
    canvas = Canvas(figsize=(width, height))
    if handles:
        canvas.legend(handles=handles, loc="upper left", bbox_to_anchor=((left - 0.07) / width, 1 - 0.04 / height))

    def place(row: int, column: int) -> Axes:
        x = left + column * (panel_width + N_GAP)
        y = height - top - sum(over[: row + 1]) - (row + 1) * panel_height - row * BOTTOM
        return canvas.add_axes((x / width, y / height, panel_width / width, panel_height / height))

    return canvas, [[place(row, column) for column in range(len(panels))] for row, panels in enumerate(figure.panels)]


def _panel_width(figure: Figure, room: float) -> float:
    """As wide as the room allows, at least as wide as titles and headings; a heading may extend over empty titles."""
    titles = max(LETTER * len(panel.title) for panel in chain(*figure.panels)) - N_GAP
    headings = max(
        BOLD_LETTER * len(panels[0].heading) / (1 if all(panel.heading for panel in panels) else len(panels))
        for panels in figure.panels
    )
    return max(LEAST_PANEL, min(WIDEST_PANEL, room), titles, headings - N_GAP)


def _draw_panel(axes: Axes, panel: Panel, series: dict[str, int], bounds: Bounds) -> None:
    boxes = panel.boxes[0]
    axes.set_title(panel.title, loc="left", fontsize=8, pad=5)
    points = 5 + 72 * HEADING_GAP * bool(panel.title)
    axes.annotate(panel.heading, (0, 1), (0, points), "axes fraction", "offset points", fontsize=8, fontweight="bold")
    draw_grid(axes, "both")
    axes.set_ylim(len(boxes) - 0.5, -0.5)
    axes.set_yticks(range(len(boxes)), [""] * len(boxes))
    axes.tick_params(axis="y", length=0)
    _write_n(axes, "n", -1, MUTED)
    for line, box in enumerate(boxes):
        looks = Looks(series[box.permutation.implementation])
        _write_n(axes, box.n_text, line, n_colour(box))
        draw_theory(axes, [(line, box)], 0.9, bounds, lying=True)
        draw_boxes(axes, boxes_of_several([(line, box)]), page_looks(looks.colour, 0.9), lying=True)
        draw_points(axes, [(line, box)], 0.6, looks, lying=True)


def _write_n(axes: Axes, text: str, line: float, colour: str) -> None:
    """Write the number of runs to the right of the panel."""
    looks: dict[str, Any] = {"ha": "left", "va": "center", "color": colour, "fontsize": 7}
    axes.annotate(text, (1, line), (4, 0), ("axes fraction", "data"), "offset points", annotation_clip=False, **looks)
