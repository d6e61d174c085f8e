"""The medians in one table: implementations as columns if there are few, as rows if there are many."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from math import ceil

from owlt.reports.comparison.grid import Grid
from owlt.reports.comparison.metrics import METRICS, Metric, defined_in
from owlt.reports.comparison.statistics import Box, box_of
from owlt.reports.results.load import Results
from owlt.reports.style.looks import NAMED
from owlt.reports.style.units import delay_text, probability_text, rate_text
from owlt.results.record import Permutation

PAGE_LETTERS = 150
"""The width of the page."""
NUMBER_LETTERS, NAME_LETTERS = 10, 4
"""The width of a column of numbers, and of a name beside its own letters."""
LEAST_LETTERS, POINT_LETTERS = 9, 20
"""The least width of a column, and the width of the columns that name channel and file."""


@dataclass(frozen=True)
class GlanceRow:
    """One channel and size: the boxes of each metric, the implementations side by side."""

    boxes: tuple[tuple[Box, ...], ...]

    @property
    def point(self) -> Box:
        """Any box of the row, for its channel and file size."""
        return self.boxes[0][0]


@dataclass(frozen=True)
class Head:
    """A dimension above the columns: its values in order, each with the number of columns below it."""

    name: str
    values: tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class GlanceTable:
    """A row for each implementation; for each metric a column for each channel and size, below `heads`."""

    metrics: tuple[Metric, ...]
    heads: tuple[Head, ...]
    rows: dict[str, tuple[tuple[Box, ...], ...]]
    """By implementation: the boxes of each metric."""

    @property
    def points(self) -> int:
        """The number of columns of each metric."""
        return len(next(iter(self.rows.values()))[0])


def glance_rows(results: Results) -> list[GlanceRow]:
    """A row for each channel and file size; [] if `glance_tables` has them."""
    names, metrics = list(results.implementations), defined_in(results, METRICS)
    if _is_wide(names, len(metrics)):
        return []
    return [
        GlanceRow(tuple(tuple(box_of(results, _at(point, name), metric) for name in names) for metric in metrics))
        for point in _points(results)
    ]


def glance_tables(results: Results) -> list[GlanceTable]:
    """The tables with a row for each implementation, as many as fit the page; [] if `glance_rows` has them."""
    names, metrics = list(results.implementations), defined_in(results, METRICS)
    if not _is_wide(names, len(metrics)):
        return []
    points = _points(results)
    heads = _heads(Grid.of(results), points)
    room = PAGE_LETTERS - NAME_LETTERS - max(map(len, names))
    tables = ceil(len(metrics) / max(1, room // (NUMBER_LETTERS * len(points))))
    across = ceil(len(metrics) / tables)
    return [
        GlanceTable(
            shown,
            heads,
            {
                name: tuple(tuple(box_of(results, _at(point, name), metric) for point in points) for metric in shown)
                for name in names
            },
        )
        for start in range(0, len(metrics), across)
        for shown in [metrics[start : start + across]]
    ]


def _is_wide(names: list[str], metrics: int) -> bool:
    """Whether the names do not fit side by side for each of so many metrics."""
    letters = metrics * sum(max(len(name) + NAME_LETTERS, LEAST_LETTERS) for name in names)
    return len(names) > NAMED or letters > PAGE_LETTERS - POINT_LETTERS


def _points(results: Results) -> list[Permutation]:
    """Each channel and file size of any implementation, as points of the first, which need not be planned."""
    first = next(iter(results.implementations))
    return list(dict.fromkeys(_at(point, first) for point in results.planned))


def _at(point: Permutation, name: str) -> Permutation:
    return point.model_copy(update={"implementation": name})


def _heads(grid: Grid, points: list[Permutation]) -> tuple[Head, ...]:
    """The dimensions with more than one value; columns of equal value share a head within an outer head."""
    texts = {
        "channel": (grid.channels, [point.channel_name for point in points]),
        "rate": (grid.rates, [rate_text(point.rate_bps) for point in points]),
        "delay": (grid.delays, [delay_text(point.delay_ns) for point in points]),
        grid.load_axis.head: (grid.loads, [point.load_text for point in points]),
        "PER": (grid.error_rates, [probability_text(point.packet_error_rate) for point in points]),
    }
    varied = [(name, of_points) for name, (values, of_points) in texts.items() if len(values) > 1]
    return tuple(
        Head(name, tuple((key[-1], len(list(same))) for key, same in groupby(zip(*outer, strict=True))))
        for depth, (name, _) in enumerate(varied)
        for outer in [[of_points for _, of_points in varied[: depth + 1]]]
    )
