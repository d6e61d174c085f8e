"""Comparisons of more implementations than there are colours: in each panel a line for each, its name at the left.

A panel is then of one category. The categories are side by side where there are several, in a row for each place; where
there is one, the places are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product

from reports.grid import ERROR_RATE, OTHER, Axis, Grid, Group, Place
from reports.load import Results
from reports.looks import SERIES, named_or_counted
from reports.metrics import FURTHER, METRICS, Metric
from reports.panels import Figure, Panel, file_text
from reports.statistics import box_of
from reports.units import listed

PLACES_ACROSS = 3
"""So many places are side by side; more are below."""


def needs_listings(results: Results) -> bool:
    """Whether the implementations are too many to be told apart by their colours."""
    return len(results.implementations) > len(SERIES)


def listings(results: Results) -> Iterator[Figure]:
    """One figure a metric, axis, group of places and value of the dimension that is not the axis."""
    grid = Grid.of(results)
    for group, metric, axis in product(grid.groups, METRICS + FURTHER, grid.axes):
        others: tuple[float | None, ...] = grid.along(OTHER[axis]) or (None,)
        for other in others:
            yield _Listing(results, grid, group, metric, axis, other).figure(is_only=len(others) == 1)


@dataclass(frozen=True)
class _Listing:
    """One figure in the making. `other` is None where the other dimension has no value but the channels' own."""

    results: Results
    grid: Grid
    group: Group
    metric: Metric
    axis: Axis
    other: float | None

    @property
    def values(self) -> tuple[float, ...]:
        """The categories."""
        return self.grid.along(self.axis)

    def figure(self, is_only: bool) -> Figure:
        """The figure; is it the only one of its kind, its name need not say the other dimension."""
        results, axis = self.results, self.axis
        suffix = "" if is_only or self.other is None else f"-{_file_text(OTHER[axis], self.other)}"
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
        axis, other = self.axis, OTHER[self.axis]
        whose = f"{self.metric.name} of {named_or_counted(list(self.results.implementations.values()))}"
        own = "errors and losses are the channel's own"
        fixed = own if self.other is None else _words(other, [self.other])
        if len(self.values) > 1:
            columns = _words(axis, self.values)
            return f"{whose} against {axis.label}: {self.group.text}; columns {columns}; {fixed}."
        return f"{whose}: {self.group.panels_text}; {_words(axis, self.values)}; {fixed}."

    def _rows_of_categories(self) -> tuple[tuple[Panel, ...], ...]:
        return tuple(
            tuple(
                self._panel(place, value, _title(self.axis, value), "" if column else self._heading(place))
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

    def _heading(self, place: Place) -> str:
        """The place, and the file or the errors where the channel's name does not say it all."""
        if place.channel_name or self.other is None:
            return place.text
        return f"{place.text} · {_title(OTHER[self.axis], self.other)}"

    def _panel(self, place: Place, value: float, title: str, heading: str) -> Panel:
        error_rate, size = (value, self.other) if self.axis == ERROR_RATE else (self.other, value)
        points = [place.point(name, error_rate, size) for name in self.results.implementations]
        return Panel(
            title=title,
            metric=self.metric,
            categories=(self.axis.text(value),),
            boxes=(tuple(box_of(self.results, point, self.metric) for point in points),),
            heading=heading,
        )


def _title(axis: Axis, value: float) -> str:
    return f"PER {axis.text(value)}" if axis == ERROR_RATE else axis.text(value)


def _words(axis: Axis, values: Sequence[float]) -> str:
    """Values of an axis in a caption: "packet error rate 0 and 0.01", "files of 1 MB"."""
    texts = listed([axis.text(value) for value in values])
    return f"packet error rate {texts}" if axis == ERROR_RATE else f"files of {texts}"


def _file_text(axis: Axis, value: float) -> str:
    return f"per{axis.file_text(value)}" if axis == ERROR_RATE else axis.file_text(value)
