"""One panel of a figure for a paper: each kind draws the samples of its groups into a pair of axes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm, Normalize

from owlt.reports.comparison.cells import Sample
from owlt.reports.comparison.estimates import box_numbers, estimate
from owlt.reports.drawing.boxes import BoxLooks, draw_boxes
from owlt.reports.drawing.specification import Quantity, values_in
from owlt.reports.looks import ALARM, INK, PAPER, GroupLooks

SPAN = 0.8
"""The part of a category that its groups take."""
APART = 0.06
"""The distance of the points of neighbouring groups in a category of a line, so that none hides another."""
FEW = 1
TINT = 0.18
LOG_FROM = 10.0
"""Numbers that span this factor have a logarithmic axis."""


@dataclass(frozen=True)
class Panel:
    """The samples of a panel, by group and by value of x, and the texts of both."""

    samples: Mapping[Any, Mapping[Any, Sample]]
    x: Quantity
    y: Quantity
    xs: tuple[Any, ...]
    groups: tuple[Any, ...]
    looks: Mapping[Any, GroupLooks]

    def values(self, group: Any, x: Any) -> list[tuple[Any, float]]:
        """The rows and values of a group at a value of x."""
        sample = self.samples.get(group, {}).get(x)
        return values_in(sample, self.y) if sample else []

    def all_values(self) -> list[float]:
        """Every value in the panel."""
        return [value for group in self.groups for x in self.xs for _, value in self.values(group, x)]


def draw_box(axes: Axes, panel: Panel) -> None:
    """Boxes with every run as a point; hollow points are suspect runs. A cross: no run delivered its file."""
    step = SPAN / len(panel.groups)
    for place, group in enumerate(panel.groups):
        looks = panel.looks[group]
        samples = [(_at(category, place, panel), panel.values(group, x)) for category, x in enumerate(panel.xs)]
        boxes = [(at, box_numbers([value for _, value in values])) for at, values in samples if len(values) > FEW]
        draw_boxes(axes, boxes, BoxLooks(looks.colour, 0.86 * step, tint=TINT, hatch=looks.hatch))
        for (at, values), x in zip(samples, panel.xs, strict=True):
            _draw_points(axes, at, step, values, looks)
            _mark_failures(axes, at, panel.samples.get(group, {}).get(x), len(values))


def draw_bar(axes: Axes, panel: Panel) -> None:
    """Bars of the mean, with the standard error of the mean as a whisker."""
    step = SPAN / len(panel.groups)
    for place, group in enumerate(panel.groups):
        looks = panel.looks[group]
        for category, x in enumerate(panel.xs):
            at = _at(category, place, panel)
            numbers = estimate([value for _, value in panel.values(group, x)])
            if numbers:
                axes.bar(
                    at,
                    numbers.mean,
                    0.92 * step,
                    facecolor=(looks.colour, TINT),
                    edgecolor=looks.colour,
                    hatch=looks.hatch,
                    linewidth=0.8,
                )
                if numbers.sem is not None:
                    axes.errorbar(at, numbers.mean, numbers.sem, color=INK, capsize=2, linewidth=0.8, capthick=0.8)
            _mark_failures(axes, at, panel.samples.get(group, {}).get(x), numbers.n if numbers else 0)


def draw_cdf(axes: Axes, panel: Panel) -> None:
    """The share of runs with at most each value. Undelivered files count in the share: the line then ends below 1."""
    for group in panel.groups:
        looks = panel.looks[group]
        values = sorted(value for x in panel.xs for _, value in panel.values(group, x))
        tried = sum(sample.tried for sample in panel.samples.get(group, {}).values())
        if not values:
            continue
        shares = np.arange(len(values) + 1) / tried
        axes.step([values[0], *values], shares, where="post", color=looks.colour, linestyle=looks.line)
        axes.plot(
            values, shares[1:], looks.marker, color=looks.colour, markersize=3, markevery=max(1, len(values) // 12)
        )


def draw_line(axes: Axes, panel: Panel) -> None:
    """The median of each group against x, with its interval as a whisker."""
    places = dict(zip(panel.xs, line_places(panel.xs, panel.x), strict=True))
    apart = 0.0 if is_numeric(panel.xs) else APART
    for place, group in enumerate(panel.groups):
        looks = panel.looks[group]
        shift = apart * (place - (len(panel.groups) - 1) / 2)
        points = [
            (places[x] + shift, numbers)
            for x in panel.xs
            if (numbers := estimate([value for _, value in panel.values(group, x)])) is not None
        ]
        if not points:
            continue
        medians = np.array([numbers.median for _, numbers in points])
        bounds = [(n.interval.low, n.interval.high) if n.interval else (n.median, n.median) for _, n in points]
        low, high = np.array(bounds).T
        axes.errorbar(
            [place for place, _ in points],
            medians,
            [medians - low, high - medians],
            color=looks.colour,
            linestyle=looks.line,
            marker=looks.marker,
            markerfacecolor=PAPER,
            capsize=2,
            elinewidth=0.7,
            capthick=0.7,
        )


def draw_heatmap(axes: Axes, panel: Panel, norm: Normalize) -> None:
    """The medians as colours with their numbers: rows are groups, columns values of x. "0/3": no file was delivered."""
    table = np.full((len(panel.groups), len(panel.xs)), np.nan)
    for (row, group), (column, x) in ((r, c) for r in enumerate(panel.groups) for c in enumerate(panel.xs)):
        numbers = estimate([value for _, value in panel.values(group, x)])
        if numbers:
            table[row, column] = numbers.median
        sample = panel.samples.get(group, {}).get(x)
        text = panel.y.text(numbers.median) if numbers else f"{sample.delivered}/{sample.tried}" if sample else ""
        is_dark = numbers is not None and float(norm(numbers.median)) < 0.55
        colour = PAPER if is_dark else INK if numbers else ALARM
        axes.text(column, row, text, ha="center", va="center", color=colour, fontsize="small")
    axes.imshow(table, norm=norm, cmap="cividis", aspect="auto")
    axes.grid(False)
    axes.set_yticks(range(len(panel.groups)))


def heat_norm(values: Sequence[float]) -> Normalize:
    """The scale of colours of all panels: logarithmic if the values span more than a decade."""
    low, high = (min(values), max(values)) if values else (0.0, 1.0)
    if low > 0 and high > LOG_FROM * low:
        return LogNorm(low, high)
    return Normalize(min(low, 0.5 * high), high or 1.0)


def line_places(xs: Sequence[Any], x: Quantity) -> list[float]:
    """Where values of x are on the axis of a line: at their numbers on a logarithmic axis, else side by side."""
    return [float(value) / x.per_unit for value in xs] if is_numeric(xs) else [float(place) for place in range(len(xs))]


def is_numeric(xs: Sequence[Any]) -> bool:
    """Whether an axis is logarithmic: positive numbers, at least three, that span a decade or more."""
    return (
        len(xs) > 2
        and all(isinstance(value, int | float) and not isinstance(value, bool) and value > 0 for value in xs)
        and max(xs) >= LOG_FROM * min(xs)
    )


def _at(category: int, place: int, panel: Panel) -> float:
    return category + (place - (len(panel.groups) - 1) / 2) * SPAN / len(panel.groups)


def _draw_points(axes: Axes, at: float, step: float, values: Sequence[tuple[Any, float]], looks: GroupLooks) -> None:
    """Every run as a point, side by side in their order."""
    for is_suspect in (False, True):
        chosen = [
            (at + 0.5 * step * ((number + 0.5) / len(values) - 0.5), value)
            for number, (row, value) in enumerate(values)
            if bool(row["suspect"]) == is_suspect
        ]
        axes.scatter(
            [place for place, _ in chosen],
            [value for _, value in chosen],
            s=7,
            marker=looks.marker,
            zorder=4,
            linewidths=0.5,
            facecolors=PAPER if is_suspect else looks.colour,
            edgecolors=looks.colour if is_suspect else PAPER,
        )


def _mark_failures(axes: Axes, at: float, sample: Sample | None, n: int) -> None:
    """The number of delivered files above the axis, if some were not delivered."""
    if sample is not None and (sample.undelivered or n < sample.tried):
        axes.annotate(
            f"{sample.delivered}/{sample.tried}",
            (at, 0),
            (0, 2),
            ("data", "axes fraction"),
            "offset points",
            ha="center",
            va="bottom",
            fontsize="x-small",
            color=ALARM,
            rotation=90,
        )
