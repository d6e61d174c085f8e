"""Figures with a line for each implementation: its name at the left, its boxes lying on it, its n at the right."""

from __future__ import annotations

from itertools import chain
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas

from reports.boxes import draw_boxes, draw_points, n_colour, suspect_handles
from reports.looks import MUTED, RULE, Looks
from reports.panels import Figure, Panel
from reports.scales import apply_scale, scales_of

FULL_WIDTH, LEAST_PANEL, WIDEST_PANEL = 7.0, 1.2, 3.4
LINE, LETTER, BOLD_LETTER = 0.165, 0.066, 0.074
MARGIN, TOP, BOTTOM, HEADING_GAP, TITLE_GAP, N_GAP, LEGEND_LINE = 0.10, 0.12, 0.48, 0.17, 0.20, 0.34, 0.20
"""Inches."""


def draw_lines(figure: Figure, series: dict[str, int]) -> Canvas:
    """The figure drawn, in the style that is in force. `series` numbers the implementations as everywhere."""
    canvas, grid = _frame(figure)
    drawn = zip(chain(*grid), chain(*figure.panels), scales_of(figure), strict=True)
    for axes, panel, scale in drawn:
        _draw_panel(axes, panel, series)
        apply_scale(axes, scale, panel.metric.kind == "count", lying=True)
    for row, panels in zip(grid, figure.panels, strict=True):
        row[0].set_yticks(range(len(figure.implementations)), list(figure.implementations))
        row[0].set_xlabel(panels[0].metric.label, loc="left")
    return canvas


def _frame(figure: Figure) -> tuple[Canvas, list[list[Axes]]]:
    """An empty pair of axes for each panel, laid out in inches: no name, title or n runs into another."""
    columns = max(map(len, figure.panels))
    left = MARGIN + LETTER * max(map(len, figure.implementations)) + 0.08
    panel_width = _panel_width(figure, (FULL_WIDTH - left) / columns - N_GAP)
    width = left + columns * (panel_width + N_GAP)
    panel_height = LINE * len(figure.implementations)
    over = [
        HEADING_GAP * any(panel.heading for panel in panels) + TITLE_GAP * any(panel.title for panel in panels)
        for panels in figure.panels
    ]
    suspects = suspect_handles(figure)
    top = TOP + LEGEND_LINE * bool(suspects)
    height = top + sum(over) + len(figure.panels) * (panel_height + BOTTOM)
    canvas = Canvas(figsize=(width, height))
    if suspects:
        canvas.legend(handles=suspects, loc="upper left", bbox_to_anchor=((left - 0.07) / width, 1 - 0.04 / height))

    def place(row: int, column: int) -> Axes:
        x = left + column * (panel_width + N_GAP)
        y = height - top - sum(over[: row + 1]) - (row + 1) * panel_height - row * BOTTOM
        return canvas.add_axes((x / width, y / height, panel_width / width, panel_height / height))

    return canvas, [[place(row, column) for column in range(len(panels))] for row, panels in enumerate(figure.panels)]


def _panel_width(figure: Figure, room: float) -> float:
    """As wide as there is room, never narrower than what stands over a panel; a heading may reach over empty titles."""
    titles = max(LETTER * len(panel.title) for panel in chain(*figure.panels)) - N_GAP
    headings = max(
        BOLD_LETTER * len(panels[0].heading) / (1 if all(panel.heading for panel in panels) else len(panels))
        for panels in figure.panels
    )
    return max(LEAST_PANEL, min(WIDEST_PANEL, room), titles, headings - N_GAP)


def _draw_panel(axes: Axes, panel: Panel, series: dict[str, int]) -> None:
    boxes = panel.boxes[0]
    axes.set_title(panel.title, loc="left", fontsize=8, pad=5)
    points = 5 + 72 * HEADING_GAP * bool(panel.title)
    axes.annotate(panel.heading, (0, 1), (0, points), "axes fraction", "offset points", fontsize=8, fontweight="bold")
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(color=RULE, linewidth=0.6)
    axes.set_axisbelow(True)
    axes.set_ylim(len(boxes) - 0.5, -0.5)
    axes.set_yticks(range(len(boxes)), [""] * len(boxes))
    axes.tick_params(axis="y", length=0)
    _write_n(axes, "n", -1, MUTED)
    for line, box in enumerate(boxes):
        looks = Looks(series[box.permutation.implementation])
        _write_n(axes, box.n_text, line, n_colour(box))
        draw_boxes(axes, [(line, box)], 0.9, looks, lying=True)
        draw_points(axes, [(line, box)], 0.6, looks, lying=True)


def _write_n(axes: Axes, text: str, line: float, colour: str) -> None:
    """How many runs there are, to the right of the panel."""
    looks: dict[str, Any] = {"ha": "left", "va": "center", "color": colour, "fontsize": 7}
    axes.annotate(text, (1, line), (4, 0), ("axes fraction", "data"), "offset points", annotation_clip=False, **looks)
