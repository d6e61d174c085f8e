"""The matrix as its template shows it: rows of cells, and the cells that have changed since a version."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from owlt.orchestrator.dashboard.sweeps.cells import Cell, Condition, PlannedCell
from owlt.orchestrator.dashboard.sweeps.filters import Filter, varying
from owlt.orchestrator.dashboard.sweeps.index import Snapshot


@dataclass(frozen=True)
class MatrixRow:
    """A condition, its values in the columns of the head, and its cells; None where no run is planned or shown."""

    condition: Condition
    heads: tuple[str, ...]
    cells: tuple[tuple[PlannedCell, Cell] | None, ...]


@dataclass(frozen=True)
class Matrix:
    """What is shown of a sweep."""

    heads: tuple[str, ...]
    implementations: tuple[str, ...]
    rows: tuple[MatrixRow, ...]

    @property
    def size(self) -> int:
        """The number of cells."""
        return sum(each is not None for row in self.rows for each in row.cells)


def matrix_of(snapshot: Snapshot, selected: Filter) -> Matrix:
    """The selected cells, condition by condition; conditions of which no cell is selected are omitted."""
    dimensions = varying(snapshot.planned)
    names = dict.fromkeys(each.implementation for each in snapshot.planned)
    columns = tuple(name for name in names if selected.shows_column(name))
    place = {name: number for number, name in enumerate(columns)}
    rows: dict[str, tuple[Condition, list[tuple[PlannedCell, Cell] | None]]] = {}
    for planned, cell in _selected(snapshot, selected):
        condition = planned.condition
        _, cells = rows.setdefault(condition.key, (condition, [None] * len(columns)))
        cells[place[planned.implementation]] = (planned, cell)
    return Matrix(
        heads=tuple(each.head for each in dimensions),
        implementations=columns,
        rows=tuple(
            MatrixRow(condition, tuple(each.text(condition.point) for each in dimensions), tuple(cells))
            for condition, cells in rows.values()
        ),
    )


def changed_cells(snapshot: Snapshot, selected: Filter, since: int) -> list[tuple[PlannedCell, Cell]]:
    """The cells of the selected conditions and implementations that have changed after a version, in any state."""
    in_any_state = Filter({name: values for name, values in selected.selected.items() if name != "state"})
    return [
        (planned, cell)
        for planned, cell, version in zip(snapshot.planned, snapshot.cells, snapshot.changed_at, strict=True)
        if version > since and in_any_state.shows(planned, cell)
    ]


def _selected(snapshot: Snapshot, selected: Filter) -> Iterator[tuple[PlannedCell, Cell]]:
    for planned, cell in zip(snapshot.planned, snapshot.cells, strict=True):
        if selected.shows(planned, cell):
            yield planned, cell
