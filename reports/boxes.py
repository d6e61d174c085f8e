"""The boxes of one implementation and its points, standing on their categories or lying along lines of their own."""

from __future__ import annotations

from typing import Any

from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from reports.looks import ALARM, INK, MUTED, PAPER, Looks
from reports.panels import Figure
from reports.statistics import FEW, Box

RUN_LINK = "../index.html#run-"
"""Where a point leads: the run's row in the page. Followed by the run id."""

Placed = list[tuple[float, Box]]
"""Boxes and where on the axis of categories, or of lines, each of them is."""


def draw_boxes(axes: Axes, placed: Placed, step: float, looks: Looks, lying: bool = False) -> None:
    """The boxes of one implementation in a panel; none of a single run, which its point shows."""
    drawn = [(at, numbers) for at, box in placed if box.n > 1 and (numbers := box.numbers)]
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
        orientation="horizontal" if lying else "vertical",
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


def draw_points(axes: Axes, placed: Placed, spread: float, looks: Looks, lying: bool = False) -> None:
    """Points side by side in the order of their repetitions, each a link to its run; suspect ones hollow."""
    points = [
        (at + spread * ((run.record.repetition - 0.5) / box.asked - 0.5), value, run)
        for at, box in placed
        for run, value in box.values
    ]
    most = max(box.asked for _, box in placed)
    size, edge = (26, 0.5) if most <= 1 else (18, 0.5) if most <= FEW and not lying else (9, 0.25)
    for hollow in (False, True):
        shown = [point for point in points if bool(point[2].suspect) == hollow]
        places, values = [at for at, _, _ in shown], [value for _, value, _ in shown]
        axes.scatter(
            values if lying else places,
            places if lying else values,
            s=size,
            marker=looks.marker,
            facecolors=PAPER if hollow else looks.colour,
            edgecolors=looks.colour if hollow else PAPER,
            linewidths=1.0 if hollow else edge,
            urls=[RUN_LINK + run.record.run_id for _, _, run in shown],
            zorder=4,
            clip_on=False,
        )


def n_colour(box: Box) -> str:
    """The colour in which a box's n is written: red where a file was not delivered, dark where runs are missing."""
    if box.undelivered:
        return ALARM
    return MUTED if box.n == box.asked else INK


def implementation_handles(figure: Figure, series: dict[str, int]) -> list[Line2D]:
    """The lines of a legend that name the implementations."""
    return [
        _handle(title, looks.marker, looks.colour, looks.colour)
        for name, title in figure.implementations.items()
        for looks in [Looks(series[name])]
    ]


def suspect_handles(figure: Figure) -> list[Line2D]:
    """The line of a legend that says what a hollow point means, where there is one."""
    values = [value for box in figure.boxes for value in box.values]
    return [_handle("hollow: suspect run", "o", MUTED, PAPER)] if any(run.suspect for run, _ in values) else []


def _handle(label: str, marker: str, colour: str, fill: str) -> Line2D:
    kind: dict[str, Any] = {"linestyle": "", "marker": marker, "markersize": 5}
    return Line2D([], [], color=colour, markerfacecolor=fill, label=label, **kind)
