"""Matrices of senders and receivers: for each family of implementations and each cell, what each pair did.

The diagonal has the implementations themselves.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from owlt.agents.contract.implementation import Implementation
from owlt.agents.contract.pairs import pair_name
from owlt.reports.comparison.cells import Cell, Point, Sample
from owlt.reports.comparison.metrics import METRICS, Metric
from owlt.reports.results.rows import Row
from owlt.results.record import NOT_DELIVERED

SHOWN: tuple[Metric, ...] = tuple(
    metric for slug in ("goodput", "str", "rts") for metric in METRICS if metric.slug == slug
)
"""What an entry has of the runs that delivered their file: the medians of these."""


@dataclass(frozen=True)
class Entry:
    """A pair, or an implementation with itself, in a cell."""

    name: str
    sample: Sample

    @property
    def delivered(self) -> str:
        """The number of runs that delivered their file, out of those that have a result; or that none is supported."""
        if self.sample.is_unsupported:
            return "unsupported"
        return f"{self.sample.delivered} of {self.sample.tried}"

    @property
    def why_unsupported(self) -> str:
        """Why runs of it are unsupported; "" if none is."""
        return str(self.sample.counts["unsupported_why"])

    @property
    def failed(self) -> list[Row]:
        """The rows of the runs that did not deliver their file."""
        return [row for row in self.sample.rows if row["outcome"] in NOT_DELIVERED]

    def median(self, metric: Metric) -> float | None:
        """The median of a metric over the runs that delivered their file, in its unit."""
        values = self.sample.values(metric)
        return median(values) if values else None

    @property
    def texts(self) -> list[str]:
        """The medians of `SHOWN` as text, "" where no run delivered the file."""
        medians = [(metric, self.median(metric)) for metric in SHOWN]
        return ["" if value is None else metric.cell_text(value) for metric, value in medians]


@dataclass(frozen=True)
class Square:
    """A sender with a receiver: an entry for each variant; none if the pair was not performed."""

    entries: tuple[Entry, ...]
    is_own: bool
    """Whether both sides are the same implementation."""
    why_not: str
    """Why the pair is not possible; "" if it is, or if that is not known."""


@dataclass(frozen=True)
class Matrix:
    """Every sender with every receiver of a family in one cell: a row of squares for each sender."""

    family: str
    point: Point
    receivers: tuple[str, ...]
    rows: dict[str, tuple[Square, ...]]

    @property
    def entries(self) -> list[Entry]:
        """All entries."""
        return [entry for row in self.rows.values() for square in row for entry in square.entries]


def matrices_of(
    cells: Iterable[Cell], profiles: Mapping[str, Implementation], left_out: Mapping[str, str]
) -> list[Matrix]:
    """The matrices of a sweep, family by family; [] without pairs.

    `profiles` are its implementations and pairs by name, `left_out` are the pairs that are not possible, with the
    reason.
    """
    sides = {name: (each.pair.sender.name, each.pair.receiver.name) for name, each in profiles.items() if each.pair}
    families = {name: each.pair.family for name, each in profiles.items() if each.pair}
    cells = list(cells)
    matrices = []
    for family in dict.fromkeys(families.values()):
        own = {name: sides[name] for name in sides if families[name] == family}
        named = {side for pair in own.values() for side in pair}
        members = [*(name for name in profiles if name in named), *sorted(named - profiles.keys())]
        own |= {name: (name, name) for name in members if name in profiles}
        matrices += [
            _matrix(family, cell, own, members, left_out) for cell in cells if own.keys() & cell.samples.keys()
        ]
    return matrices


def _matrix(
    family: str, cell: Cell, sides: Mapping[str, tuple[str, str]], members: Sequence[str], left_out: Mapping[str, str]
) -> Matrix:
    """The matrix of a cell, without senders and receivers that are in no pair there."""

    def square(sender: str, receiver: str) -> Square:
        names = [name for name, pair in sides.items() if pair == (sender, receiver) and name in cell.samples]
        entries = tuple(Entry(name, cell.samples[name]) for name in names)
        return Square(entries, sender == receiver, left_out.get(pair_name(sender, receiver), ""))

    there = [sides[name] for name in sides if name in cell.samples]
    senders = [name for name in members if any(name == sender for sender, _ in there)]
    receivers = [name for name in members if any(name == receiver for _, receiver in there)]
    rows = {sender: tuple(square(sender, receiver) for receiver in receivers) for sender in senders}
    return Matrix(family, cell.point, tuple(receivers), rows)
