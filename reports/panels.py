"""Which figures a report has, and what is in each panel of them; drawing them is figures.py's.

Comparisons have the implementations side by side, one figure a metric; portraits have one implementation and
all metrics. Both against packet error rate and against file size. Rates never share a figure.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Literal

from reports.grid import ERROR_RATE, FILE_SIZE, OTHER, Axis, Grid
from reports.load import Results
from reports.metrics import METRICS, Metric
from reports.records import Permutation
from reports.statistics import Box, box_of
from reports.units import delay_text, listed, rate_text

BOXES_ACROSS = 30
"""So many boxes side by side are legible on a page; a figure that would have more becomes several."""


@dataclass(frozen=True)
class Panel:
    """One pair of axes: for each category the boxes of the implementations, in their order."""

    title: str
    metric: Metric
    categories: tuple[str, ...]
    boxes: tuple[tuple[Box, ...], ...]

    @property
    def values(self) -> list[float]:
        """Every value in the panel."""
        return [value for boxes in self.boxes for box in boxes for _, value in box.values]


@dataclass(frozen=True)
class Figure:
    """A grid of panels. `share` says which of them have one scale: it is what the eye will compare."""

    name: str
    """The name of its files, and its anchor in the page."""
    caption: str
    axis: Axis
    implementations: dict[str, str]
    """The titles of those in it, by name."""
    panels: tuple[tuple[Panel, ...], ...]
    share: Literal["row", "column", "none"]


def comparisons(results: Results) -> Iterator[Figure]:
    """One figure a metric, axis and rate: rows are delays, columns the dimension that is not the axis."""
    grid = Grid.of(results)
    names = tuple(results.implementations)
    delays = listed([delay_text(delay) for delay in grid.delays])
    for rate, metric, axis in product(grid.rates, METRICS, grid.axes):
        for part in _parts(grid, axis, names):
            yield Figure(
                name=_file_text(f"{metric.slug}-against-{axis.slug}-{rate_text(rate)}{part.suffix}"),
                caption=f"{metric.name} against {axis.label}, {listed(list(results.implementations.values()))}: "
                f"{rate_text(rate)} both ways; rows one-way delay {delays}, columns {part.text}.",
                axis=axis,
                implementations=results.implementations,
                panels=_panels(results, names, part, [_Row(metric, rate, delay) for delay in grid.delays]),
                share="column" if metric.kind == "count" and axis == ERROR_RATE else "row",
            )


def portraits(results: Results) -> Iterator[Figure]:
    """One figure an implementation, axis, rate and delay: rows are metrics, columns the other dimension."""
    grid = Grid.of(results)
    for name, rate, delay, axis in product(results.implementations, grid.rates, grid.delays, grid.axes):
        channel = f"{delay_text(delay)}-{rate_text(rate)}"
        for part in _parts(grid, axis, (name,)):
            yield Figure(
                name=_file_text(f"{name}-against-{axis.slug}-{channel}{part.suffix}"),
                caption=f"{results.implementations[name]} against {axis.label}: {delay_text(delay)} one way, "
                f"{rate_text(rate)} both ways; columns {part.text}.",
                axis=axis,
                implementations={name: results.implementations[name]},
                panels=_panels(results, (name,), part, [_Row(metric, rate, delay) for metric in METRICS]),
                share="none" if axis == ERROR_RATE else "row",
            )


@dataclass(frozen=True)
class _Part:
    """The columns of one figure, of those that a figure against the axis would have."""

    axis: Axis
    columns: tuple[float, ...]
    whole: bool

    @property
    def text(self) -> str:
        """The columns in words: "files of 100 kB and 1 MB"."""
        other = OTHER[self.axis]
        texts = listed([other.text(value) for value in self.columns])
        return f"packet error rate {texts}" if other == ERROR_RATE else f"files of {texts}"

    @property
    def suffix(self) -> str:
        """What tells the files of the parts apart; nothing where there is one."""
        if self.whole:
            return ""
        prefix = "per" if OTHER[self.axis] == ERROR_RATE else ""
        return "".join(f"-{prefix}{OTHER[self.axis].file_text(value)}" for value in self.columns)


def _parts(grid: Grid, axis: Axis, names: tuple[str, ...]) -> list[_Part]:
    """The columns against an axis, in as many figures as keep each of them legible."""
    columns = grid.along(OTHER[axis])
    most = max(1, BOXES_ACROSS // (len(grid.along(axis)) * len(names)))
    starts = range(0, len(columns), most)
    return [_Part(axis, columns[start : start + most], len(starts) == 1) for start in starts]


@dataclass(frozen=True)
class _Row:
    """What the panels of a row have in common."""

    metric: Metric
    rate_bps: float | None
    delay_ns: int


def _panels(results: Results, names: tuple[str, ...], part: _Part, rows: list[_Row]) -> tuple[tuple[Panel, ...], ...]:
    """The panels of each row; a row that is of the same channel as the one above repeats no titles."""
    channels = [(row.rate_bps, row.delay_ns) for row in rows]
    titled = [index == 0 or channels[index] != channels[index - 1] for index in range(len(rows))]
    return tuple(
        tuple(_panel(results, names, part.axis, row, other, is_titled) for other in part.columns)
        for row, is_titled in zip(rows, titled, strict=True)
    )


def _panel(results: Results, names: tuple[str, ...], axis: Axis, row: _Row, other: float, titled: bool) -> Panel:
    def box(name: str, value: float) -> Box:
        at = {axis.field: value, OTHER[axis].field: other}
        permutation = Permutation.model_validate(
            {"implementation": name, "rate_bps": row.rate_bps, "delay_ns": row.delay_ns, **at}
        )
        return box_of(results, permutation, row.metric)

    values = Grid.of(results).along(axis)
    column = f"PER {OTHER[axis].text(other)}" if axis == FILE_SIZE else OTHER[axis].text(other)
    return Panel(
        title=f"{delay_text(row.delay_ns)} one way · {column}" if titled else "",
        metric=row.metric,
        categories=tuple(axis.text(value) for value in values),
        boxes=tuple(tuple(box(name, value) for name in names) for value in values),
    )


def _file_text(text: str) -> str:
    """Text with quantities as a file name: 10 Mbit/s is 10Mbps."""
    return text.replace("bit/s", "bps").replace(" ", "").replace("µ", "u")
