"""The boxes and points of one implementation, upright in categories or horizontal on lines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from matplotlib.artist import Artist
from matplotlib.collections import PathCollection
from matplotlib.lines import Line2D
from matplotlib.markers import MarkerStyle
from matplotlib.patches import PathPatch, Rectangle
from matplotlib.path import Path
from matplotlib.transforms import IdentityTransform, Transform

from owlt.reports.comparison.estimates import FEW, Box, BoxNumbers
from owlt.reports.comparison.panels import Figure
from owlt.reports.looks import ALARM, INK, MUTED, PAPER, RULE, Looks
from owlt.results.permutation import Permutation

RUN_LINK = "../index.html#run-"
"""The link of a point: the run's row in the page. Followed by the run id."""

Placed = list[tuple[float, Box]]
"""Boxes, each with its position on the axis of categories or lines."""
Bounds = Mapping[Permutation, tuple[float, float]]
"""The bounds of theory for a permutation, in the unit of THEORY_METRIC; the lower bound is 0 if there is none."""
THEORY_METRIC = "goodput-to-delivery"
BOXES = "_boxes"
"""The label of the shape that has the boxes of an implementation in a panel."""
THEORY_LABEL = "theory (line: upper bound)"


class Surface(Protocol):
    """What boxes are drawn on: a `plot.Plot`, or axes of matplotlib."""

    transData: Transform
    """From the values and places that are drawn to the figure."""

    def add_artist(self, artist: Artist, /) -> object:
        """Draw something."""


@dataclass(frozen=True)
class BoxLooks:
    """The looks of boxes: how wide they are, on the axis of categories or lines, and how they are drawn; in points."""

    colour: str
    width: float
    line: float = 0.7
    median_line: float = 1.2
    tint: float = 0.16
    hatch: str = ""


def draw_boxes(
    panel: Surface, placed: Sequence[tuple[float, BoxNumbers]], looks: BoxLooks, lying: bool = False
) -> None:
    """Draw boxes at their positions: the quartiles, the whiskers, the median.

    All of them are three paths: boxes, whiskers, medians. With a shape for each line, large sweeps take twice the time.
    """
    if not placed:
        return
    half, half_cap = looks.width / 2, looks.width / 4
    frames = [[(at - half, n.q1), (at + half, n.q1), (at + half, n.q3), (at - half, n.q3)] for at, n in placed]
    whiskers = [
        line
        for at, n in placed
        for end, edge in ((n.whisker_low, n.q1), (n.whisker_high, n.q3))
        for line in ([(at, edge), (at, end)], [(at - half_cap, end), (at + half_cap, end)])
    ]
    medians = [[(at - half, n.median), (at + half, n.median)] for at, n in placed]
    thin: dict[str, Any] = {"edgecolor": looks.colour, "linewidth": looks.line}
    middle: dict[str, Any] = {"edgecolor": INK, "linewidth": looks.median_line, "capstyle": "butt"}
    filled: dict[str, Any] = {"facecolor": (looks.colour, looks.tint), "hatch": looks.hatch or None, "label": BOXES}
    for lines, closed, appearance in (
        (frames, True, {"zorder": 2.0, **filled, **thin}),
        (whiskers, False, {"facecolor": "none", "zorder": 2.0, **thin}),
        (medians, False, {"facecolor": "none", "zorder": 2.1, **middle}),
    ):
        panel.add_artist(PathPatch(_path(lines, closed, lying), **appearance))


def page_looks(colour: str, step: float) -> BoxLooks:
    """The looks in a figure of the page, of boxes that are a step apart."""
    return BoxLooks(colour, 0.72 * step, line=0.8, median_line=1.5)


def boxes_of_several(placed: Placed) -> list[tuple[float, BoxNumbers]]:
    """The numbers of the boxes with more than one run; a single run has only its point."""
    return [(at, numbers) for at, box in placed if box.n > 1 and (numbers := box.numbers)]


def _path(lines: list[list[tuple[float, float]]], closed: bool, lying: bool) -> Path:
    """One path of many lines, each closed to a frame or open."""
    ends = [(0.0, 0.0)] * closed
    points = [point for line in lines for point in (*line, *ends)]
    codes = [code for line in lines for code in _codes(len(line), closed)]
    return Path([point[::-1] for point in points] if lying else points, codes)


def _codes(points: int, closed: bool) -> list[Any]:
    return [Path.MOVETO, *[Path.LINETO] * (points - 1), *[Path.CLOSEPOLY] * closed]


def draw_points(panel: Surface, placed: Placed, spread: float, looks: Looks, lying: bool = False) -> None:
    """Draw points side by side in the order of repetitions, each a link to its run; suspect runs are hollow."""
    points = [
        (at + spread * ((run.repetition - 0.5) / box.planned - 0.5), value, run)
        for at, box in placed
        for run, value in box.values
    ]
    most = max(box.planned for _, box in placed)
    size, edge = (26, 0.5) if most <= 1 else (18, 0.5) if most <= FEW and not lying else (9, 0.25)
    for hollow in (False, True):
        shown = [point for point in points if point[2].is_suspect == hollow]
        if not shown:
            continue
        places, values = [at for at, _, _ in shown], [value for _, value, _ in shown]
        marker = MarkerStyle(looks.marker)
        collection = PathCollection(
            [marker.get_path().transformed(marker.get_transform())],
            sizes=[size],
            offsets=list(zip(values, places, strict=True) if lying else zip(places, values, strict=True)),
            offset_transform=panel.transData,
            facecolors=PAPER if hollow else looks.colour,
            edgecolors=looks.colour if hollow else PAPER,
            linewidths=1.0 if hollow else edge,
            urls=[RUN_LINK + run.run_id for _, _, run in shown],
            zorder=4,
            clip_on=False,
        )
        collection.set_transform(IdentityTransform())
        panel.add_artist(collection)


def draw_theory(panel: Surface, placed: Placed, step: float, bounds: Bounds, lying: bool = False) -> None:
    """Draw the bounds of theory behind each box: a range, or a line for an upper bound alone."""
    for at, box in placed:
        low, high = bounds_of(box, bounds) or (None, None)
        if low is None or high is None:
            continue
        across = (at - 0.47 * step, at + 0.47 * step)
        if low:
            corner, size = (across[0], low), (0.94 * step, high - low)
            panel.add_artist(
                Rectangle(
                    corner[::-1] if lying else corner,
                    *(size[::-1] if lying else size),
                    facecolor=(MUTED, 0.2),
                    edgecolor=MUTED,
                    linewidth=0.5,
                    zorder=1.5,
                )
            )
        else:
            ends = (high, high)
            panel.add_artist(
                Line2D(*((ends, across) if lying else (across, ends)), color=INK, linewidth=1.0, zorder=1.5)
            )


def bounds_of(box: Box, bounds: Bounds) -> tuple[float, float] | None:
    """The bounds of theory for a box; None if there is no theory of its metric, permutation or channel."""
    return bounds.get(box.permutation) if box.metric.slug == THEORY_METRIC else None


def theory_handles(figure: Figure, bounds: Bounds) -> list[Line2D]:
    """The entry of a legend that explains theory, if any is drawn."""
    if not any(bounds_of(box, bounds) for box in figure.boxes):
        return []
    handle = _handle(THEORY_LABEL, "s", MUTED, RULE)
    return [handle]


def n_colour(box: Box) -> str:
    """The colour of a box's n: red if a file was not delivered, dark if runs are missing."""
    if box.undelivered:
        return ALARM
    return MUTED if box.n == box.planned else INK


def implementation_handles(figure: Figure, series: dict[str, int]) -> list[Line2D]:
    """The entries of a legend that name the implementations."""
    return [
        _handle(title, looks.marker, looks.colour, looks.colour)
        for name, title in figure.implementations.items()
        for looks in [Looks(series[name])]
    ]


def suspect_handles(figure: Figure) -> list[Line2D]:
    """The entry of a legend that explains hollow points, if there are any."""
    values = [value for box in figure.boxes for value in box.values]
    return [_handle("hollow: suspect run", "o", MUTED, PAPER)] if any(run.is_suspect for run, _ in values) else []


def _handle(label: str, marker: str, colour: str, fill: str) -> Line2D:
    kind: dict[str, Any] = {"linestyle": "", "marker": marker, "markersize": 5}
    return Line2D([], [], color=colour, markerfacecolor=fill, label=label, **kind)
