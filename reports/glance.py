"""The medians in one look: implementations as columns while there are few, a row each where they are many."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from math import ceil

from reports.grid import Grid
from reports.load import Results
from reports.looks import NAMED
from reports.metrics import METRICS, Metric
from reports.records import Permutation
from reports.statistics import Box, box_of
from reports.units import delay_text, probability_text, rate_text, size_text

PAGE_LETTERS = 150
"""So many letters are side by side on the page."""
NUMBER_LETTERS, NAME_LETTERS = 10, 4
"""What a column of numbers takes, and what a name takes beside its own letters."""
LEAST_LETTERS, POINT_LETTERS = 9, 20
"""What a column under a short name takes, and what the columns take that say which channel and file."""


@dataclass(frozen=True)
class GlanceRow:
    """One channel and size: the boxes of each metric, the implementations side by side."""

    boxes: tuple[tuple[Box, ...], ...]

    @property
    def point(self) -> Box:
        """Any box of the row, for what all of them share."""
        return self.boxes[0][0]


@dataclass(frozen=True)
class Head:
    """A dimension over the columns: its values in their order, each over how many columns."""

    name: str
    values: tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class GlanceTable:
    """A row for each implementation, for each metric a column for each channel and size; `heads` are over them."""

    metrics: tuple[Metric, ...]
    heads: tuple[Head, ...]
    rows: dict[str, tuple[tuple[Box, ...], ...]]
    """By implementation: the boxes of each metric."""

    @property
    def points(self) -> int:
        """How many columns each metric has."""
        return len(next(iter(self.rows.values()))[0])


def glance_rows(results: Results) -> list[GlanceRow]:
    """A row for each point of the grid but for the implementation; [] where `glance_tables` has them."""
    names = list(results.implementations)
    if _is_wide(names):
        return []
    return [
        GlanceRow(tuple(tuple(box_of(results, _at(point, name), metric) for name in names) for metric in METRICS))
        for point in _points(results)
    ]


def glance_tables(results: Results) -> list[GlanceTable]:
    """The tables that have a row for each implementation, as many as the page's width asks for; [] for few."""
    names = list(results.implementations)
    if not _is_wide(names):
        return []
    points = _points(results)
    heads = _heads(Grid.of(results), points)
    room = PAGE_LETTERS - NAME_LETTERS - max(map(len, names))
    tables = ceil(len(METRICS) / max(1, room // (NUMBER_LETTERS * len(points))))
    across = ceil(len(METRICS) / tables)
    return [
        GlanceTable(
            metrics,
            heads,
            {
                name: tuple(tuple(box_of(results, _at(point, name), metric) for point in points) for metric in metrics)
                for name in names
            },
        )
        for start in range(0, len(METRICS), across)
        for metrics in [METRICS[start : start + across]]
    ]


def _is_wide(names: list[str]) -> bool:
    """Whether the names do not fit side by side for each metric."""
    letters = len(METRICS) * sum(max(len(name) + NAME_LETTERS, LEAST_LETTERS) for name in names)
    return len(names) > NAMED or letters > PAGE_LETTERS - POINT_LETTERS


def _points(results: Results) -> list[Permutation]:
    """The grid but for the implementation, as points of the first."""
    first = next(iter(results.implementations))
    return [point for point in results.asked if point.implementation == first]


def _at(point: Permutation, name: str) -> Permutation:
    return point.model_copy(update={"implementation": name})


def _heads(grid: Grid, points: list[Permutation]) -> tuple[Head, ...]:
    """The dimensions with more than one value; neighbours of one value under one head, but not across outer heads."""
    texts = {
        "channel": (grid.channels, [point.channel_name for point in points]),
        "rate": (grid.rates, [rate_text(point.rate_bps) for point in points]),
        "delay": (grid.delays, [delay_text(point.delay_ns) for point in points]),
        "file": (grid.sizes, [size_text(point.file_size_bytes) for point in points]),
        "PER": (grid.error_rates, [probability_text(point.packet_error_rate) for point in points]),
    }
    varied = [(name, of_points) for name, (values, of_points) in texts.items() if len(values) > 1]
    return tuple(
        Head(name, tuple((key[-1], len(list(same))) for key, same in groupby(zip(*outer, strict=True))))
        for depth, (name, _) in enumerate(varied)
        for outer in [[of_points for _, of_points in varied[: depth + 1]]]
    )
