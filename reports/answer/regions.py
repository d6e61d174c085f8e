"""Regions: cells side by side in the grid for which the same implementations are to be taken, or are undecided.

If a cell has several candidates, it joins the region of one that delivered every file of the sweep, and of these of the
one that may be taken in most cells, so that regions are large and few. A region names all that are candidates in each
of its cells.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import permutations, product
from typing import Any, NamedTuple

from owlt.inputs.axes import AXES, LOADS, OF_THE_LINK, QUANTITIES, Axis, conditions_of
from owlt.inputs.quantities import NAME
from owlt.reports.answer.cell_verdicts import Verdict
from owlt.reports.comparison.cells import Point
from owlt.reports.units import axis_text, listed, with_head

RANGE = 3
"""From so many neighbouring values on, a region names the first and the last."""


@dataclass(frozen=True)
class Dimension:
    """A dimension of the grid with its values in order."""

    axis: Axis
    values: tuple[Any, ...]

    @property
    def head(self) -> str:
        """The head of its column."""
        return self.axis.head

    @property
    def has_order(self) -> bool:
        """Whether values have neighbours: they are numbers."""
        return self.axis.quantity is not NAME

    def of(self, point: Point) -> Any:
        """The value of a point."""
        return self.axis.of(point)

    def text(self, value: Any) -> str:
        """A value as it is written."""
        return axis_text(self.axis, value)

    def phrase(self, values: Sequence[Any]) -> str:
        """Some of the values in words: "25 ms", "PER 0 to 0.01"."""
        places = [self.values.index(value) for value in values]
        texts = [self.text(value) for value in values]
        is_range = self.has_order and len(texts) >= RANGE and places == list(range(places[0], places[-1] + 1))
        return with_head(self.axis, f"{texts[0]} to {texts[-1]}" if is_range else listed(texts))


@dataclass(frozen=True)
class Region:
    """A box of the grid, or all of it."""

    phrase: str
    """Its place in the grid in words; "" if it is all of the grid."""
    take: tuple[str, ...]
    """The implementations to take, or that are not excluded if it is undecided, in every one of its cells. () if none
    delivered more than half of its files."""
    is_undecided: bool
    verdicts: tuple[Verdict, ...]


def dimensions_of(points: Sequence[Point]) -> tuple[Dimension, ...]:
    """The dimensions with more than one value: those that named channels decide are in the channel's name."""

    def is_decided(axis: Axis) -> bool:
        by_channel: dict[str, set[Any]] = {}
        for point in points:
            by_channel.setdefault(point.channel_name, set()).add(axis.of(point))
        return bool(points[0].channel_name) and all(len(values) == 1 for values in by_channel.values())

    dimensions = []
    for key in conditions_of(points):
        axis = AXES[key]
        values = list(dict.fromkeys(axis.of(point) for point in points))
        if key in QUANTITIES:
            values.sort(key=lambda value: float("inf") if value is None else value)
        if len(values) > 1 and not (key in OF_THE_LINK and is_decided(axis)):
            dimensions.append(Dimension(axis, tuple(values)))
    return tuple(dimensions)


def regions_of(verdicts: Sequence[Verdict]) -> list[Region]:
    """The regions of a grid, in its order. Two boxes merge if they differ in neighbouring values of one dimension."""
    dimensions = dimensions_of([verdict.point for verdict in verdicts])
    choices = _choices(verdicts)
    boxes = [_Box(tuple((each.of(v.point),) for each in dimensions), choices(v), (v,)) for v in verdicts]
    boxes = min((_merged_in(order, boxes, dimensions) for order in permutations(range(len(dimensions)))), key=len)
    boxes.sort(key=lambda box: [each.values.index(own[0]) for each, own in zip(dimensions, box.values, strict=True)])
    return [
        Region(
            _phrase(box, dimensions),
            candidates_in(box.verdicts, box.choice.name),
            box.choice.is_undecided,
            box.verdicts,
        )
        for box in boxes
    ]


def candidates_in(verdicts: Sequence[Verdict], first: str | None) -> tuple[str, ...]:
    """The implementations that are candidates in every one of these cells, one of them first."""
    common = [name for name in verdicts[0].candidates if all(name in verdict.candidates for verdict in verdicts)]
    return tuple(sorted(common, key=lambda name: name != first))


class _Choice(NamedTuple):
    """The candidate whose region a cell joins; None: it has none."""

    name: str | None
    is_undecided: bool


@dataclass(frozen=True)
class _Box:
    values: tuple[tuple[Any, ...], ...]
    """The range in each dimension."""
    choice: _Choice
    verdicts: tuple[Verdict, ...]


def _choices(verdicts: Sequence[Verdict]) -> Callable[[Verdict], _Choice]:
    """How a cell of a grid chooses the region that it joins."""
    led = Counter(name for verdict in verdicts for name in verdict.leaders)
    undecided = Counter(name for verdict in verdicts for name in verdict.undecided)
    fails = {each.name for verdict in verdicts for each in verdict.standings if each.delivered < each.tried}
    first = {name: -place for place, name in enumerate({**led, **undecided})}  # in all cells the same of several equal

    def choice(verdict: Verdict) -> _Choice:
        def rank(name: str) -> tuple[bool, int, int, int]:
            return name not in fails, led[name], undecided[name], first[name]

        return _Choice(max(verdict.candidates, key=rank, default=None), verdict.is_undecided)

    return choice


def _merged_in(order: Sequence[int], boxes: list[_Box], dimensions: Sequence[Dimension]) -> list[_Box]:
    """The boxes after merging along one dimension after the other, until none merges any more."""
    before = len(boxes) + 1
    while len(boxes) < before:
        before = len(boxes)
        for place in order:
            boxes = _merged(boxes, place, dimensions[place])
    return boxes


def _merged(boxes: list[_Box], place: int, dimension: Dimension) -> list[_Box]:
    """The boxes after merging neighbours along a dimension."""
    merged: dict[tuple[Any, ...], list[_Box]] = {}
    for box in boxes:
        others = (box.values[:place], box.values[place + 1 :], box.choice)
        group = merged.setdefault(others, [])
        if group and _are_neighbours(group[-1], box, place, dimension):
            last = group.pop()
            values = (*box.values[:place], last.values[place] + box.values[place], *box.values[place + 1 :])
            group.append(_Box(values, box.choice, last.verdicts + box.verdicts))
        else:
            group.append(box)
    return [box for group in merged.values() for box in group]


def _are_neighbours(one: _Box, other: _Box, place: int, dimension: Dimension) -> bool:
    if not dimension.has_order:
        return True
    return dimension.values.index(one.values[place][-1]) + 1 == dimension.values.index(other.values[place][0])


def place_text(point: Point, dimensions: Sequence[Dimension]) -> str:
    """The place of a cell in words; "the only cell" if no dimension varies."""
    return ", ".join(dimension.phrase([dimension.of(point)]) for dimension in dimensions) or "the only cell"


def _phrase(box: _Box, dimensions: Sequence[Dimension]) -> str:
    return ", ".join(
        dimension.phrase(values)
        for dimension, values in zip(dimensions, box.values, strict=True)
        if len(values) < len(dimension.values)
    )


ACROSS = ("packet_error_rate", "forward_packet_error_rate", *LOADS)
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
    down = [dimension for dimension in dimensions if dimension.axis.key not in ACROSS]
    across = [dimension for dimension in dimensions if dimension.axis.key in ACROSS]
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
