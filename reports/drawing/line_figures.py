"""A figure over a sweep with a line for each implementation (its name at the left, its boxes on the line, its n at the
right), and its panels: the frame of each, its scale with grid and ticks, and what is drawn in its coordinates.

A panel does without matplotlib's axes, which take two thirds of the time of such a figure; a report has hundreds.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any, NamedTuple

from matplotlib.artist import Artist
from matplotlib.figure import Figure as Canvas
from matplotlib.lines import Line2D
from matplotlib.patches import PathPatch
from matplotlib.path import Path
from matplotlib.text import Text
from matplotlib.transforms import (
    Bbox,
    BboxTransformFrom,
    BboxTransformTo,
    IdentityTransform,
    ScaledTranslation,
    Transform,
    TransformedBbox,
    blended_transform_factory,
)

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
from owlt.reports.drawing.output import POINTS
from owlt.reports.drawing.scales import (
    MINOR_TICK,
    Scale,
    minor_ticks_of,
    scales_of,
    shown_metrics,
    ticks_as_line,
    ticks_on,
    transform_of,
)
from owlt.reports.looks import MUTED, RULE, STYLE, Looks
from owlt.reports.units import tick_text

TICK, PAD, ABOVE, LINE_WIDTH = 3.5, 7.0, 6.0, 0.6
"""Points: the length of a tick, the distance of its text from the frame, that of a title, and the width of lines."""
FRAME = "_frame"
"""The label of the lines at the left and below a panel."""


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


class Place(NamedTuple):
    """The place of a panel in its figure, in inches from the lower left corner."""

    left: float
    bottom: float
    width: float
    height: float


class Plot:
    """A panel with categories, or lines, along one axis, and a scale along the other: upright, or lying with the scale
    to the right.

    `transData` is from categories and values, in the order x, y, to the figure; `frame` from (0, 0) to (1, 1) in the
    panel.
    """

    def __init__(
        self, canvas: Canvas, place: Place, categories: tuple[float, float], scale: Scale, lying: bool = False
    ) -> None:
        """`categories` are the ends of their axis, from the left or from below."""
        self.canvas = canvas
        self.place = place
        self.scale = scale
        self._lying = lying
        values = transform_of(scale.kind)
        low, high = (float(values.transform([end])[0]) for end in (scale.low, scale.high))
        x, y = ((low, high), categories) if lying else (categories, (low, high))
        along = (values, IdentityTransform()) if lying else (IdentityTransform(), values)
        self.frame: Transform = BboxTransformTo(TransformedBbox(Bbox.from_bounds(*place), canvas.dpi_scale_trans))
        ends = BboxTransformFrom(Bbox([[x[0], y[0]], [x[1], y[1]]]))
        self.transData: Transform = blended_transform_factory(*along) + ends + self.frame
        on_scale = (self.transData, self.frame) if lying else (self.frame, self.transData)
        self._on_scale = blended_transform_factory(*on_scale)
        self._on_categories = blended_transform_factory(*on_scale[::-1])
        self._draw_lines([((0, 0), (0, 1)), ((0, 0), (1, 0))], self.frame, MUTED, 2.5, FRAME)

    def add_artist(self, artist: Artist) -> None:
        """Draw something, in the coordinates of `transData` unless it has others."""
        if not artist.is_transform_set():
            artist.set_transform(self.transData)
        self.canvas.add_artist(artist)

    def draw_scale(self, is_count: bool, per_tick: float = 1.0, with_texts: bool = True) -> None:
        """Draw the scale: lines behind everything else at its ticks, the ticks, and their numbers written out (0.01),
        in units of `per_tick`."""
        ticks = ticks_on(self.scale, is_count, self._room)
        self._draw_lines([(self._across(tick, 0), self._across(tick, 1)) for tick in ticks], self._on_scale, RULE, 0.5)
        for values, length_points in ((ticks, TICK), (minor_ticks_of(self.scale, self._room), MINOR_TICK)):
            if values:
                self.canvas.add_artist(ticks_as_line(values, length_points, self._lying, self._on_scale))
        for tick in ticks if with_texts else ():
            at, text = self._across(tick, 0), tick_text(tick / per_tick)
            if self._lying:
                self.write(text, at, self._on_scale, (0, -PAD), ha="center", va="top")
            else:
                self.write(text, at, self._on_scale, (-PAD, 0), ha="right", va="center_baseline")

    def write_heading(self, title: str, heading: str, gap: float) -> None:
        """Write the title over the panel at its left, and the heading over that, in bold; `gap` is in inches."""
        if title:
            self.write(title, (0, 1), self.frame, (0, ABOVE))
        if heading:
            self.write(heading, (0, 1), self.frame, (0, ABOVE + POINTS * gap * bool(title)), fontweight="bold")

    def draw_rules(self, places: Sequence[float]) -> None:
        """Draw lines behind everything else at places of the categories."""
        lines = [((place, 0.0), (place, 1.0)) for place in places]
        ends = [(one[::-1], other[::-1]) if self._lying else (one, other) for one, other in lines]
        self._draw_lines(ends, self._on_categories, RULE, 0.5)

    def write_at_category(self, text: str, place: float, shift_points: tuple[float, float], **looks: Any) -> None:
        """Write at a place of the categories, on the frame: its lower line or, lying, its right end."""
        at = (1.0, place) if self._lying else (place, 0.0)
        self.write(text, at, self._on_categories, shift_points, **looks)

    def write_name(self, text: str, place: float) -> None:
        """Write the name of a line to the left of a lying panel."""
        self.write(text, (0.0, place), self._on_categories, (-TICK, 0), ha="right", va="center_baseline")

    def write(
        self, text: str, at: tuple[float, float], transform: Transform, shift_points: tuple[float, float], **looks: Any
    ) -> None:
        """Write text at a point, shifted by points to the right and upwards."""
        x, y = shift_points
        shift = ScaledTranslation(x / POINTS, y / POINTS, self.canvas.dpi_scale_trans)
        self.canvas.add_artist(Text(*at, text, transform=transform + shift, **looks))

    @property
    def _room(self) -> int:
        """The number of ticks that the scale has room for: as matplotlib's, two letters high or three wide."""
        length, letters = (self.place.width, 3) if self._lying else (self.place.height, 2)
        return int(length * POINTS / (letters * STYLE["font.size"]))

    def _across(self, value: float, part: float) -> tuple[float, float]:
        """A point at a value of the scale, in a part of the panel across it."""
        return (value, part) if self._lying else (part, value)

    def _draw_lines(
        self,
        lines: Sequence[tuple[tuple[float, float], ...]],
        transform: Transform,
        colour: str,
        zorder: float,
        label: str = "",
    ) -> None:
        """Draw lines as one path."""
        if not lines:
            return
        path = Path([end for line in lines for end in line], [Path.MOVETO, Path.LINETO] * len(lines))
        looks: dict[str, Any] = {"facecolor": "none", "edgecolor": colour, "linewidth": LINE_WIDTH, "zorder": zorder}
        self.canvas.add_artist(PathPatch(path, transform=transform, capstyle="projecting", label=label, **looks))
