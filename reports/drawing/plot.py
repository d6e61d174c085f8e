"""A panel of a figure over a sweep: its frame, its scale with grid and ticks, and what is drawn in its coordinates.

It does without matplotlib's axes, which take two thirds of the time of such a figure; a report has hundreds of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from matplotlib.artist import Artist
from matplotlib.figure import Figure
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

from owlt.reports.drawing.output import POINTS
from owlt.reports.drawing.scales import MINOR_TICK, Scale, minor_ticks_of, ticks_as_line, ticks_on, transform_of
from owlt.reports.looks import MUTED, RULE, STYLE
from owlt.reports.units import tick_text

TICK, PAD, ABOVE, LINE_WIDTH = 3.5, 7.0, 6.0, 0.6
"""Points: the length of a tick, the distance of its text from the frame, that of a title, and the width of lines."""
FRAME = "_frame"
"""The label of the lines at the left and below a panel."""


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
        self, canvas: Figure, place: Place, categories: tuple[float, float], scale: Scale, lying: bool = False
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
