"""Comparisons of more implementations than there are colours: each has a line in each panel, with its name at the left.

A panel then has one category. Several categories are side by side, with a row for each place; if there is only one,
places are side by side.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

from owlt.reports.comparison.grid import ERROR_RATE, Axis, Grid, Group, Place
from owlt.reports.comparison.metrics import FURTHER, METRICS, Metric, defined_in
from owlt.reports.comparison.panels import Figure, Panel, file_text
from owlt.reports.comparison.statistics import box_of
from owlt.reports.results.load import Results
from owlt.reports.style.looks import SERIES, named_or_counted

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
    axis: Axis
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
        """The place, and the file size, duration or error rate if no channel name includes it."""
        if place.channel_name or self.other is None:
            return place.text
        return f"{place.text} · {_title(self.grid.other(self.axis), self.other)}"

    def _panel(self, place: Place, value: float, title: str, heading: str) -> Panel:
        error_rate, load = (value, self.other) if self.axis == ERROR_RATE else (self.other, value)
        points = [place.point(name, error_rate, load) for name in self.results.implementations]
        return Panel(
            title=title,
            metric=self.metric,
            categories=(self.axis.text(value),),
            boxes=(tuple(box_of(self.results, point, self.metric) for point in points),),
            heading=heading,
        )


def _title(axis: Axis, value: float) -> str:
    return f"PER {axis.text(value)}" if axis == ERROR_RATE else axis.text(value)


def _file_text(axis: Axis, value: float) -> str:
    return f"per{axis.file_text(value)}" if axis == ERROR_RATE else axis.file_text(value)
