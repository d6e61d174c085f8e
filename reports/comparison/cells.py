"""The rows of the table of runs by cell: one channel and file size, all implementations side by side."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import inf
from typing import NamedTuple

from owlt.reports.comparison.metrics import Metric
from owlt.reports.results.columns import NOT_RUN
from owlt.reports.results.rows import Row
from owlt.results.judgements import ABORTED, COMPLETED

NO_RESULT = (ABORTED, NOT_RUN)
"""Outcomes that are not the implementation's."""


class Point(NamedTuple):
    """A channel, and a file size or a duration. `rate_bps` None: unlimited."""

    channel_name: str
    rate_bps: float | None
    delay_ns: int
    file_size_bytes: int | None
    """None: data was sent for a duration."""
    packet_error_rate: float
    duration_ns: int | None = None


@dataclass(frozen=True)
class Sample:
    """The planned runs of one implementation in a cell."""

    rows: tuple[Row, ...]

    @property
    def tried(self) -> tuple[Row, ...]:
        """The runs that have a result of the implementation, delivered or not."""
        return tuple(row for row in self.rows if row["outcome"] not in NO_RESULT)

    @property
    def delivered(self) -> int:
        """The number of runs whose file was delivered."""
        return sum(row["outcome"] == COMPLETED for row in self.rows)

    @property
    def undelivered(self) -> int:
        """The number of runs whose file was not delivered, for any reason of the implementation."""
        return len(self.tried) - self.delivered

    @property
    def suspect(self) -> int:
        """The number of suspect runs."""
        return sum(bool(row["suspect"]) for row in self.rows)

    def values(self, metric: Metric) -> list[float]:
        """The values of a metric, in its unit, of the runs that delivered their file; suspect or not."""
        return [
            row[metric.key] / metric.per_unit
            for row in self.rows
            if row["outcome"] == COMPLETED and row[metric.key] is not None
        ]

    def scores(self, metric: Metric, higher_is_better: bool) -> list[float]:
        """The same with a sign that makes higher better, and -inf for each run that did not deliver its file."""
        sign = 1 if higher_is_better else -1
        return [sign * value for value in self.values(metric)] + [-inf] * self.undelivered


@dataclass(frozen=True)
class Cell:
    """The samples of a point, by implementation, in the order of the report."""

    point: Point
    samples: dict[str, Sample]


def cells_of(rows: Iterable[Row]) -> list[Cell]:
    """The cells of a table, in its order. An implementation that is not planned in a cell is not in it."""
    by_point: dict[Point, dict[str, list[Row]]] = {}
    for row in rows:
        point = Point(*(row[name] for name in Point._fields))
        by_point.setdefault(point, {}).setdefault(row["implementation"], []).append(row)
    return [
        Cell(point, {name: Sample(tuple(of_name)) for name, of_name in samples.items()})
        for point, samples in by_point.items()
    ]


def implementations_in(cells: Sequence[Cell]) -> list[str]:
    """The names of all implementations, in the order of the cells."""
    return list(dict.fromkeys(name for cell in cells for name in cell.samples))
