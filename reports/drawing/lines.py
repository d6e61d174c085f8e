"""Figures with a line for each implementation: its name at the left, its boxes on the line, its n at the right."""

from __future__ import annotations

from itertools import chain

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
from owlt.reports.drawing.plot import Place, Plot
from owlt.reports.drawing.scales import scales_of, shown_metrics
from owlt.reports.looks import MUTED, Looks

FULL_WIDTH, LEAST_PANEL, WIDEST_PANEL = 7.0, 1.2, 3.4
LINE, LETTER, BOLD_LETTER = 0.165, 0.066, 0.074
MARGIN, TOP, BOTTOM, HEADING_GAP, TITLE_GAP, N_GAP, LEGEND_LINE = 0.10, 0.12, 0.48, 0.17, 0.20, 0.34, 0.20
"""Inches."""
VALUE_LABEL = 18.5
"""Points: how far below the axis the label of the values is."""


def draw_lines(figure: Figure, series: dict[str, int], bounds: Bounds) -> Canvas:
    """Draw a figure in matplotlib's current style. `series`: the number of each implementation, for its looks;
    `bounds`: what theory expects."""
    handles = suspect_handles(figure) + theory_handles(figure, bounds)
    canvas, grid = _frame(figure, handles)
    shown = shown_metrics(figure)
    scales = iter(scales_of(figure, bounds))
    for places, panels in zip(grid, figure.panels, strict=True):
        for column, (place, panel) in enumerate(zip(places, panels, strict=True)):
            plot = Plot(canvas, place, (len(panel.boxes[0]) - 0.5, -0.5), next(scales), lying=True)
            per_tick = shown[panel.metric.slug].per_unit / panel.metric.per_unit
            plot.draw_scale(panel.metric.kind == "count", per_tick)
            _draw_panel(plot, panel, series, bounds)
            if column == 0:
                label = shown[panel.metric.slug].label
                plot.write(label, (0, 0), plot.frame, (0, -VALUE_LABEL), ha="left", va="top")
                for line, name in enumerate(figure.implementations.values()):
                    plot.write_name(name, line)
    return canvas


def _frame(figure: Figure, handles: list[Line2D]) -> tuple[Canvas, list[list[Place]]]:
    """A figure with its legend, and the place of each panel, so that names, titles and n do not overlap."""
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

    def place(row: int, column: int) -> Place:
        bottom = height - top - sum(over[: row + 1]) - (row + 1) * panel_height - row * BOTTOM
        return Place(left + column * (panel_width + N_GAP), bottom, panel_width, panel_height)

    return canvas, [[place(row, column) for column in range(len(panels))] for row, panels in enumerate(figure.panels)]


def _panel_width(figure: Figure, room: float) -> float:
    """As wide as the room allows, at least as wide as titles and headings; a heading may extend over empty titles."""
    titles = max(LETTER * len(panel.title) for panel in chain(*figure.panels)) - N_GAP
    headings = max(
        BOLD_LETTER * len(panels[0].heading) / (1 if all(panel.heading for panel in panels) else len(panels))
        for panels in figure.panels
    )
    return max(LEAST_PANEL, min(WIDEST_PANEL, room), titles, headings - N_GAP)


def _draw_panel(plot: Plot, panel: Panel, series: dict[str, int], bounds: Bounds) -> None:
    boxes = panel.boxes[0]
    plot.write_heading(panel.title, panel.heading, HEADING_GAP)
    plot.draw_rules(range(len(boxes)))
    _write_n(plot, "n", -1, MUTED)
    for line, box in enumerate(boxes):
        looks = Looks(series[box.permutation.implementation])
        _write_n(plot, box.n_text, line, n_colour(box))
        draw_theory(plot, [(line, box)], 0.9, bounds, lying=True)
        draw_boxes(plot, boxes_of_several([(line, box)]), page_looks(looks.colour, 0.9), lying=True)
        draw_points(plot, [(line, box)], 0.6, looks, lying=True)


def _write_n(plot: Plot, text: str, line: float, colour: str) -> None:
    """Write the number of runs to the right of the panel."""
    plot.write_at_category(text, line, (4, 0), ha="left", va="center", color=colour, fontsize=7)
