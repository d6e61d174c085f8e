"""Which figures a report has, and what is in each panel of them; drawing them is figures.py's.

Comparisons have the implementations side by side, one figure a metric; portraits have one implementation and
all metrics. Both against packet error rate and against file size. Rates never share a figure.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Literal

from reports.load import Results
from reports.metrics import METRICS, Metric
from reports.records import Permutation
from reports.statistics import Box, box_of
from reports.units import delay_text, listed, probability_text, rate_text, size_text


@dataclass(frozen=True)
class Axis:
    """A dimension of the grid that figures are drawn against, its values as categories."""

    field: Literal["packet_error_rate", "file_size_bytes"]
    slug: str
    label: str

    def text(self, value: float) -> str:
        """A value of the dimension, for a tick."""
        return probability_text(value) if self == ERROR_RATE else size_text(int(value))


ERROR_RATE = Axis("packet_error_rate", "error-rate", "packet error rate")
FILE_SIZE = Axis("file_size_bytes", "file-size", "file size")
OTHER = {ERROR_RATE: FILE_SIZE, FILE_SIZE: ERROR_RATE}


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
    implementations: tuple[str, ...]
    panels: tuple[tuple[Panel, ...], ...]
    share: Literal["row", "column", "none"]


@dataclass(frozen=True)
class Grid:
    """The values of each dimension of a sweep, ascending."""

    rates: tuple[float | None, ...]
    delays: tuple[int, ...]
    sizes: tuple[int, ...]
    error_rates: tuple[float, ...]

    @classmethod
    def of(cls, results: Results) -> Grid:
        """The grid that the sweep asked for."""
        points = results.asked
        return cls(
            rates=tuple(dict.fromkeys(point.rate_bps for point in points)),
            delays=tuple(sorted({point.delay_ns for point in points})),
            sizes=tuple(sorted({point.file_size_bytes for point in points})),
            error_rates=tuple(sorted({point.packet_error_rate for point in points})),
        )

    def along(self, axis: Axis) -> tuple[float, ...]:
        """The values of the dimension that an axis stands for."""
        return self.error_rates if axis == ERROR_RATE else self.sizes

    def texts(self, axis: Axis) -> str:
        """Those values in words: "files of 100 kB and 1 MB"."""
        name = "packet error rate" if axis == ERROR_RATE else "files of"
        return f"{name} {listed([axis.text(value) for value in self.along(axis)])}"

    @property
    def axes(self) -> list[Axis]:
        """The axes with more than one value, or the first where none has."""
        return [axis for axis in (ERROR_RATE, FILE_SIZE) if len(self.along(axis)) > 1] or [ERROR_RATE]


def comparisons(results: Results) -> Iterator[Figure]:
    """One figure a metric, axis and rate: rows are delays, columns the dimension that is not the axis."""
    grid = Grid.of(results)
    delays = listed([delay_text(delay) for delay in grid.delays])
    for rate, metric, axis in product(grid.rates, METRICS, grid.axes):
        rows = [_Row(metric, rate, delay) for delay in grid.delays]
        yield Figure(
            name=f"{metric.slug}-against-{axis.slug}-{_file_text(rate_text(rate))}",
            caption=f"{metric.name} against {axis.label}, {listed(list(results.implementations.values()))}: "
            f"{rate_text(rate)} both ways; rows one-way delay {delays}, columns {grid.texts(OTHER[axis])}.",
            axis=axis,
            implementations=tuple(results.implementations),
            panels=_panels(results, tuple(results.implementations), axis, rows),
            share="column" if metric.kind == "count" and axis == ERROR_RATE else "row",
        )


def portraits(results: Results) -> Iterator[Figure]:
    """One figure an implementation, axis, rate and delay: rows are metrics, columns the other dimension."""
    grid = Grid.of(results)
    for name, rate, delay, axis in product(results.implementations, grid.rates, grid.delays, grid.axes):
        channel = f"{delay_text(delay)} one way, {rate_text(rate)} both ways"
        yield Figure(
            name=_file_text(f"{name}-against-{axis.slug}-{delay_text(delay)}-{rate_text(rate)}"),
            caption=f"{results.implementations[name]} against {axis.label}: {channel}; "
            f"columns {grid.texts(OTHER[axis])}.",
            axis=axis,
            implementations=(name,),
            panels=_panels(results, (name,), axis, [_Row(metric, rate, delay) for metric in METRICS]),
            share="none" if axis == ERROR_RATE else "row",
        )


@dataclass(frozen=True)
class _Row:
    """What the panels of a row have in common."""

    metric: Metric
    rate_bps: float | None
    delay_ns: int


def _panels(results: Results, names: tuple[str, ...], axis: Axis, rows: list[_Row]) -> tuple[tuple[Panel, ...], ...]:
    """The panels of each row; a row that is of the same channel as the one above repeats no titles."""
    across = Grid.of(results).along(OTHER[axis])
    channels = [(row.rate_bps, row.delay_ns) for row in rows]
    return tuple(
        tuple(
            _panel(results, names, axis, row, other, titled=index == 0 or channels[index] != channels[index - 1])
            for other in across
        )
        for index, row in enumerate(rows)
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
