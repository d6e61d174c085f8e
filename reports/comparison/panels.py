"""The figures of a report, and the boxes in each of their panels. Drawing belongs to `reports.drawing`.

Comparisons have the implementations side by side, one figure a metric; portraits have one implementation and
all metrics. Both against packet error rate and against file size, or the duration for which data is sent. If the sweep
names its channels, each is a row; else each rate has a figure of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import chain, product
from typing import Literal

from owlt.reports.comparison.cells import box_of
from owlt.reports.comparison.estimates import Box
from owlt.reports.comparison.grid import DELAY, DURATION, ERROR_RATE, FILE_SIZE, FigureAxis, Grid, GridPlace, Group
from owlt.reports.comparison.metrics import FURTHER, METRICS, TIME_TO_DELIVERY, Metric, defined_in
from owlt.reports.looks import SERIES, named_or_counted
from owlt.reports.results.load import Results

BOXES_ACROSS = 30
"""The most boxes side by side that are legible on a page; a figure with more is split."""


MANY_PERMUTATIONS = 300
"""With more permutations, the portraits of an implementation use one axis only: with two, there would be too many
figures."""


@dataclass(frozen=True)
class Panel:
    """One pair of axes: for each category the boxes of the implementations, in their order.

    `heading` is that of the whole row: the first panel of a row may have one.
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
    """A grid of panels. `share` says which of them have the same scale, because they are to be compared."""

    name: str
    """The name of its files, and its anchor in the page."""
    caption: str
    axis: FigureAxis
    implementations: dict[str, str]
    """The titles of the implementations in it, by name."""
    panels: tuple[tuple[Panel, ...], ...]
    share: Literal["row", "column", "all", "none"]
    lying: bool = False
    """Whether each implementation has a line, with its name at the left; else they are side by side."""

    @property
    def boxes(self) -> list[Box]:
        """Every box in the figure."""
        return [box for panel in chain(*self.panels) for box in chain(*panel.boxes)]


@dataclass(frozen=True)
class FigureKind:
    """A kind of figure that has the implementations side by side: the quantities on its axes, and its panels.

    Its columns are the values of the dimension that `Grid.other` gives. A caption names all of it.
    """

    metric: Metric
    """Upwards. Its kind decides the scale (`reports.drawing.scales`)."""
    axis: FigureAxis
    """To the right, as categories."""
    rows: Literal["places", "loads"] = "places"
    """Rows are the channels of a group of places, or the file sizes or durations of its first place."""

    @property
    def share(self) -> Literal["row", "column"]:
        """Which panels have the same scale: those whose values may be compared."""
        return "column" if self.metric.grows_with_file and self.axis == ERROR_RATE else "row"

    def is_in(self, grid: Grid) -> bool:
        """Whether the grid has what the figure shows; one against delay only if the sweep gives several."""
        if self.axis == DELAY:
            others = {place.others for group in grid.groups for place in group.places}
            return not grid.channels and len(grid.delays) > 1 and len(others) == 1
        return self.axis in grid.axes

    def row_places(self, grid: Grid, group: Group) -> list[_Row]:
        """The rows of its figure of a group of places."""
        if self.rows == "places":
            return [_Row(self.metric, place) for place in group.places]
        heads = {load: grid.load_axis.text(load) for load in grid.loads}
        return [_Row(self.metric, replace(group.places[0], text=head), load) for load, head in heads.items()]

    def caption_place(self, grid: Grid, group: Group) -> str:
        """The common values of its panels, and its rows, in words."""
        if self.rows == "places":
            return group.text
        return f"{group.rate_text}; rows: {grid.load_axis.listed(grid.loads)}"


KINDS = (
    *(FigureKind(metric, axis) for metric in METRICS + FURTHER for axis in (ERROR_RATE, FILE_SIZE, DURATION)),
    FigureKind(TIME_TO_DELIVERY, DELAY, rows="loads"),
)
"""The kinds of figures of the page, in its order.

A new kind is a row here, and a line of docs/measures.md if its measure is new.
"""


def comparisons(results: Results) -> Iterator[Figure]:
    """One figure a metric, axis and group of places, its rows; columns are the dimension that is not the axis."""
    grid = Grid.of(results)
    names = tuple(results.implementations)
    whose = named_or_counted(list(results.implementations.values()))
    metrics = {kind.metric for kind in KINDS}
    defined = defined_in(results, tuple(metrics))
    for group, kind in product(grid.groups, KINDS):
        if kind.metric not in defined or not kind.is_in(grid):
            continue
        metric, axis = kind.metric, grid.worded(kind.axis)
        for part in _parts(grid, axis, names):
            yield Figure(
                name=file_text(f"{metric.slug}-against-{axis.slug}-{group.file_text}{part.suffix}"),
                caption=f"{metric.name} against {axis.label}, {whose}: {kind.caption_place(grid, group)}{part.text}.",
                axis=axis,
                implementations=results.implementations,
                panels=_panels(results, grid, names, part, kind.row_places(grid, group)),
                share=kind.share,
            )


def portraits(results: Results) -> Iterator[Figure]:
    """One figure an implementation, axis and place: rows are metrics, columns the other dimension.

    For many implementations only along axes with more than one value: tables show single boxes better. For many
    permutations only along the first such axis: its columns are the values of the other one.
    """
    grid = Grid.of(results)
    places = [place for group in grid.groups for place in group.places]
    is_many = len(results.implementations) > len(SERIES)
    axes = [axis for axis in grid.axes if len(grid.along(axis)) > 1 or not is_many]
    if len(results.planned) > MANY_PERMUTATIONS:
        axes = axes[:1]
    for name, place, axis in product(results.implementations, places, axes):
        for part in _parts(grid, axis, (name,)):
            yield Figure(
                name=file_text(f"{name}-against-{axis.slug}-{place.file_text}{part.suffix}"),
                caption=f"{results.implementations[name]} against {axis.label}: {place.caption}{part.text}.",
                axis=axis,
                implementations={name: results.implementations[name]},
                panels=_panels(
                    results, grid, (name,), part, [_Row(metric, place) for metric in defined_in(results, METRICS)]
                ),
                share="none" if axis == ERROR_RATE else "row",
            )


@dataclass(frozen=True)
class _Part:
    """Some of the columns of a figure against an axis: those of one figure.

    A column is None if the other dimension has only the channels' own values.
    """

    axis: FigureAxis
    other: FigureAxis
    """The axis of the columns."""
    columns: tuple[float | None, ...]
    whole: bool

    @property
    def text(self) -> str:
        """The columns in words, to end a caption: "; columns: files of 100 kB and 1 MB"."""
        values = [value for value in self.columns if value is not None]
        if not values:
            return "; errors and losses as each channel specifies"
        return f"; columns: {self.other.listed(values)}"

    @property
    def suffix(self) -> str:
        """The end of a file's name that distinguishes parts; "" if there is one part."""
        if self.whole:
            return ""
        prefix = "per" if self.other == ERROR_RATE else ""
        return "".join(f"-{prefix}{self.other.file_text(value)}" for value in self.columns if value is not None)


def _parts(grid: Grid, axis: FigureAxis, names: tuple[str, ...]) -> list[_Part]:
    """The columns against an axis, in as many figures as keep each of them legible."""
    other = grid.other(axis)
    columns: tuple[float | None, ...] = grid.along(other) or (None,)
    most = max(1, BOXES_ACROSS // (len(grid.along(axis)) * len(names)))
    starts = range(0, len(columns), most)
    return [_Part(axis, other, columns[start : start + most], len(starts) == 1) for start in starts]


@dataclass(frozen=True)
class _Row:
    """The common values of the panels of a row."""

    metric: Metric
    place: GridPlace
    load: int | None = None
    """The file size or duration, if it is neither the axis nor that of a column."""


def _panels(
    results: Results, grid: Grid, names: tuple[str, ...], part: _Part, rows: list[_Row]
) -> tuple[tuple[Panel, ...], ...]:
    """The panels of each row; a row of the same place as the row above has no titles."""
    titled = [index == 0 or rows[index].place != rows[index - 1].place for index in range(len(rows))]
    return tuple(
        tuple(
            _panel(results, grid, names, part.axis, row, other, titles)
            for column, other in enumerate(part.columns)
            for titles in [_Titles.of(row.place, part, column) if is_titled else _Titles()]
        )
        for row, is_titled in zip(rows, titled, strict=True)
    )


@dataclass(frozen=True)
class _Titles:
    """The title of a panel, and the heading of the row that begins with it."""

    title: str = ""
    heading: str = ""

    @classmethod
    def of(cls, place: GridPlace, part: _Part, column: int) -> _Titles:
        """The titles of a column; the name of a channel is too long for each panel and is the heading of the row."""
        other, value = part.other, part.columns[column]
        text = "" if value is None else other.named_text(value)
        if not place.channel_name:
            return cls(f"{place.text} · {text}")
        return cls(text, "" if column else place.text)


def _panel(
    results: Results,
    grid: Grid,
    names: tuple[str, ...],
    axis: FigureAxis,
    row: _Row,
    other: float | None,
    titles: _Titles,
) -> Panel:
    place = row.place

    def box(name: str, value: float) -> Box:
        values = {grid.load_axis: row.load, grid.other(axis): other, axis: value}
        return box_of(results, place.point(name, values), row.metric)

    values = grid.along(axis)
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


PLACES_ACROSS = 3
"""The most places side by side; others are below."""


def needs_listings(results: Results) -> bool:
    """Whether there are too many implementations to distinguish them by colour."""
    return len(results.implementations) > len(SERIES)


def listings(results: Results) -> Iterator[Figure]:
    """One figure a metric, axis, group of places and value of the dimension that is not the axis."""
    grid = Grid.of(results)
    for group, metric, axis in product(grid.groups, defined_in(results, METRICS + FURTHER), grid.axes):
        others: tuple[float | None, ...] = grid.along(grid.other(axis)) or (None,)
        for other in others:
            yield _Listing(results, grid, group, metric, axis, other).figure(is_only=len(others) == 1)


@dataclass(frozen=True)
class _Listing:
    """One figure. `other` is None if the other dimension has only the channels' own values."""

    results: Results
    grid: Grid
    group: Group
    metric: Metric
    axis: FigureAxis
    other: float | None

    @property
    def values(self) -> tuple[float, ...]:
        """The categories."""
        return self.grid.along(self.axis)

    def figure(self, is_only: bool) -> Figure:
        """The figure; its name includes the other dimension unless it is the only one of its kind."""
        results, axis = self.results, self.axis
        suffix = "" if is_only or self.other is None else f"-{_file_text(self.grid.other(axis), self.other)}"
        several = len(self.values) > 1
        return Figure(
            name=file_text(f"{self.metric.slug}-against-{axis.slug}-{self.group.file_text}{suffix}"),
            caption=self._caption(),
            axis=axis,
            implementations=results.implementations,
            panels=self._rows_of_categories() if several else self._rows_of_places(),
            share=("all" if self.metric.grows_with_file and axis == ERROR_RATE else "row") if several else "none",
            lying=True,
        )

    def _caption(self) -> str:
        axis, other = self.axis, self.grid.other(self.axis)
        whose = f"{self.metric.name} of {named_or_counted(list(self.results.implementations.values()))}"
        own = "errors and losses as each channel specifies"
        fixed = own if self.other is None else other.listed([self.other])
        if len(self.values) > 1:
            columns = axis.listed(self.values)
            return f"{whose} against {axis.label}: {self.group.text}; columns: {columns}; {fixed}."
        return f"{whose}: {self.group.panels_text}; {axis.listed(self.values)}; {fixed}."

    def _rows_of_categories(self) -> tuple[tuple[Panel, ...], ...]:
        return tuple(
            tuple(
                self._panel(place, value, self.axis.named_text(value), "" if column else self._heading(place))
                for column, value in enumerate(self.values)
            )
            for place in self.group.places
        )

    def _rows_of_places(self) -> tuple[tuple[Panel, ...], ...]:
        places, value = self.group.places, self.values[0]
        panels = []
        for place in places:
            heading, _, title = self._heading(place).partition(" · ")
            panels.append(self._panel(place, value, title, heading))
        return tuple(tuple(panels[start : start + PLACES_ACROSS]) for start in range(0, len(panels), PLACES_ACROSS))

    def _heading(self, place: GridPlace) -> str:
        """The place, and the file size, duration or error rate if no channel name includes it."""
        if place.channel_name or self.other is None:
            return place.text
        return f"{place.text} · {self.grid.other(self.axis).named_text(self.other)}"

    def _panel(self, place: GridPlace, value: float, title: str, heading: str) -> Panel:
        values = {self.axis: value, self.grid.other(self.axis): self.other}
        points = [place.point(name, values) for name in self.results.implementations]
        return Panel(
            title=title,
            metric=self.metric,
            categories=(self.axis.text(value),),
            boxes=(tuple(box_of(self.results, point, self.metric) for point in points),),
            heading=heading,
        )


def _file_text(axis: FigureAxis, value: float) -> str:
    return f"per{axis.file_text(value)}" if axis == ERROR_RATE else axis.file_text(value)
