"""The map of the answer: the grid as a table, a cell for each channel and file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from owlt.reports.answer.regions import Dimension
from owlt.reports.answer.verdicts import Verdict
from owlt.reports.comparison.cells import Point

ACROSS = ("packet_error_rate", "file_size_bytes", "duration_ns")
"""The dimensions of the columns; the others are those of the rows."""


@dataclass(frozen=True)
class MapRow:
    """A row: the texts of its dimensions, and a verdict for each column; None if the cell is not planned."""

    heads: tuple[str, ...]
    verdicts: tuple[Verdict | None, ...]


@dataclass(frozen=True)
class Map:
    """The table. `heads` are above the columns: each dimension's name, and its texts with their numbers of columns."""

    row_heads: tuple[str, ...]
    heads: tuple[tuple[str, tuple[tuple[str, int], ...]], ...]
    rows: tuple[MapRow, ...]


def map_of(verdicts: Sequence[Verdict], dimensions: Sequence[Dimension]) -> Map:
    """The map of a grid."""
    down = [dimension for dimension in dimensions if dimension.field not in ACROSS]
    across = [dimension for dimension in dimensions if dimension.field in ACROSS]
    by_place = {(_place(v.point, down), _place(v.point, across)): v for v in verdicts}
    columns = list(product(*(dimension.values for dimension in across)))
    rows = [row for row in product(*(each.values for each in down)) if any((row, each) in by_place for each in columns)]
    return Map(
        row_heads=tuple(dimension.head for dimension in down),
        heads=tuple(_head(across, depth) for depth in range(len(across))),
        rows=tuple(
            MapRow(
                tuple(dimension.text(value) for dimension, value in zip(down, row, strict=True)),
                tuple(by_place.get((row, column)) for column in columns),
            )
            for row in rows
        ),
    )


def _place(point: Point, dimensions: Sequence[Dimension]) -> tuple[Any, ...]:
    return tuple(dimension.of(point) for dimension in dimensions)


def _head(across: Sequence[Dimension], depth: int) -> tuple[str, tuple[tuple[str, int], ...]]:
    """The texts of a dimension above the columns, repeated within each value of the dimensions above it."""
    span = 1
    for dimension in across[depth + 1 :]:
        span *= len(dimension.values)
    times = 1
    for dimension in across[:depth]:
        times *= len(dimension.values)
    return across[depth].head, tuple((across[depth].text(value), span) for value in across[depth].values) * times
