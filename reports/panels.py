"""Which figures a report has, and what is in each panel of them; drawing them is figures.py's.

Comparisons have the implementations side by side, one figure a metric; portraits have one implementation and
all metrics. Both against packet error rate and against file size. Where the sweep names its channels these are the
rows, whatever their rates; elsewhere rates never share a figure.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, product
from typing import Literal

from reports.grid import ERROR_RATE, OTHER, Axis, Grid, Place
from reports.load import Results
from reports.looks import SERIES, named_or_counted
from reports.metrics import FURTHER, METRICS, Metric
from reports.statistics import Box, box_of
from reports.units import listed

BOXES_ACROSS = 30
"""So many boxes side by side are legible on a page; a figure that would have more becomes several."""


@dataclass(frozen=True)
class Panel:
    """One pair of axes: for each category the boxes of the implementations, in their order.

    `heading` stands over the whole row: the first panel of a row may have one.
    """

    title: str
    metric: Metric
    categories: tuple[str, ...]
    boxes: tuple[tuple[Box, ...], ...]
    heading: str = ""

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
    share: Literal["row", "column", "all", "none"]
    lying: bool = False
    """Whether each implementation has a line, its name at the left; else they stand side by side in each category."""

    @property
    def boxes(self) -> list[Box]:
        """Every box in the figure."""
        return [box for panel in chain(*self.panels) for box in chain(*panel.boxes)]


def comparisons(results: Results) -> Iterator[Figure]:
    """One figure a metric, axis and group of places, its rows; columns are the dimension that is not the axis."""
    grid = Grid.of(results)
    names = tuple(results.implementations)
    whose = named_or_counted(list(results.implementations.values()))
    for group, metric, axis in product(grid.groups, METRICS + FURTHER, grid.axes):
        for part in _parts(grid, axis, names):
            yield Figure(
                name=file_text(f"{metric.slug}-against-{axis.slug}-{group.file_text}{part.suffix}"),
                caption=f"{metric.name} against {axis.label}, {whose}: {group.text}{part.text}.",
                axis=axis,
                implementations=results.implementations,
                panels=_panels(results, names, part, [_Row(metric, place) for place in group.places]),
                share="column" if metric.grows_with_file and axis == ERROR_RATE else "row",
            )


def portraits(results: Results) -> Iterator[Figure]:
    """One figure an implementation, axis and place: rows are metrics, columns the other dimension.

    Of many implementations only along axes with more than one value: a page of single boxes says what the tables do.
    """
    grid = Grid.of(results)
    places = [place for group in grid.groups for place in group.places]
    is_many = len(results.implementations) > len(SERIES)
    axes = [axis for axis in grid.axes if len(grid.along(axis)) > 1 or not is_many]
    for name, place, axis in product(results.implementations, places, axes):
        for part in _parts(grid, axis, (name,)):
            yield Figure(
                name=file_text(f"{name}-against-{axis.slug}-{place.file_text}{part.suffix}"),
                caption=f"{results.implementations[name]} against {axis.label}: {place.caption}{part.text}.",
                axis=axis,
                implementations={name: results.implementations[name]},
                panels=_panels(results, (name,), part, [_Row(metric, place) for metric in METRICS]),
                share="none" if axis == ERROR_RATE else "row",
            )


@dataclass(frozen=True)
class _Part:
    """The columns of one figure, of those that a figure against the axis would have.

    One of them is None where the other dimension has no value but the channels' own.
    """

    axis: Axis
    columns: tuple[float | None, ...]
    whole: bool

    @property
    def text(self) -> str:
        """The columns in words, to end a caption: "; columns files of 100 kB and 1 MB"."""
        other = OTHER[self.axis]
        values = [other.text(value) for value in self.columns if value is not None]
        if not values:
            return "; errors and losses are the channel's own"
        return f"; columns {'packet error rate' if other == ERROR_RATE else 'files of'} {listed(values)}"

    @property
    def suffix(self) -> str:
        """What tells the files of the parts apart; nothing where there is one."""
        if self.whole:
            return ""
        other = OTHER[self.axis]
        prefix = "per" if other == ERROR_RATE else ""
        return "".join(f"-{prefix}{other.file_text(value)}" for value in self.columns if value is not None)


def _parts(grid: Grid, axis: Axis, names: tuple[str, ...]) -> list[_Part]:
    """The columns against an axis, in as many figures as keep each of them legible."""
    columns: tuple[float | None, ...] = grid.along(OTHER[axis]) or (None,)
    most = max(1, BOXES_ACROSS // (len(grid.along(axis)) * len(names)))
    starts = range(0, len(columns), most)
    return [_Part(axis, columns[start : start + most], len(starts) == 1) for start in starts]


@dataclass(frozen=True)
class _Row:
    """What the panels of a row have in common."""

    metric: Metric
    place: Place


def _panels(results: Results, names: tuple[str, ...], part: _Part, rows: list[_Row]) -> tuple[tuple[Panel, ...], ...]:
    """The panels of each row; a row that is of the same place as the one above repeats no titles."""
    titled = [index == 0 or rows[index].place != rows[index - 1].place for index in range(len(rows))]
    return tuple(
        tuple(
            _panel(
                results, names, part.axis, row, other, _Titles.of(row.place, part, column) if is_titled else _Titles()
            )
            for column, other in enumerate(part.columns)
        )
        for row, is_titled in zip(rows, titled, strict=True)
    )


@dataclass(frozen=True)
class _Titles:
    """What stands over a panel, and over the row that begins with it."""

    title: str = ""
    heading: str = ""

    @classmethod
    def of(cls, place: Place, part: _Part, column: int) -> _Titles:
        """A place's name is too long to be repeated over each panel: it is over the row."""
        other, value = OTHER[part.axis], part.columns[column]
        text = "" if value is None else f"PER {other.text(value)}" if other == ERROR_RATE else other.text(value)
        if not place.channel_name:
            return cls(f"{place.text} · {text}")
        return cls(text, "" if column else place.text)


def _panel(
    results: Results, names: tuple[str, ...], axis: Axis, row: _Row, other: float | None, titles: _Titles
) -> Panel:
    place = row.place

    def box(name: str, value: float) -> Box:
        error_rate, size = (value, other) if axis == ERROR_RATE else (other, value)
        return box_of(results, place.point(name, error_rate, size), row.metric)

    values = Grid.of(results).along(axis)
    return Panel(
        title=titles.title,
        metric=row.metric,
        categories=tuple(axis.text(value) for value in values),
        boxes=tuple(tuple(box(name, value) for name in names) for value in values),
        heading=titles.heading,
    )


def file_text(text: str) -> str:
    """Text with quantities as a file name: 10 Mbit/s is 10Mbps."""
    return text.replace("bit/s", "bps").replace(" ", "").replace("µ", "u")
