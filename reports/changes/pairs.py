"""The same permutation in two tables of runs: its sample before, its sample after, and the runs that are identical."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from owlt.reports.comparison.cells import Cell, Point, Sample
from owlt.reports.results.rows import Row

OF_A_RUN = (
    *("seed", "outcome", "session_s", "goodput_to_delivery_bps"),
    *("str_sent", "str_sent_bytes", "rts_sent", "rts_sent_bytes"),
)
"""Two runs with the same values of these are identical: the same seed, the same packets, the same times."""


@dataclass(frozen=True)
class Pair:
    """One implementation in one cell; a sample is None if its directory has no such permutation."""

    point: Point
    implementation: str
    before: Sample | None
    after: Sample | None

    @property
    def identical(self) -> int:
        """The number of runs that have an identical one on the other side."""
        if self.before is None or self.after is None:
            return 0
        return sum((_keys(self.before.rows) & _keys(self.after.rows)).values())

    @property
    def is_identical(self) -> bool:
        """Whether all runs of both sides are."""
        return self.before is not None and self.identical == len(self.before.rows) == len(self.after.rows)  # type: ignore[union-attr]


def pairs_of(before: Sequence[Cell], after: Sequence[Cell]) -> list[Pair]:
    """Every permutation of either side, in the order of the first and then of the second."""
    one, other = _samples(before), _samples(after)
    return [Pair(*key, one.get(key), other.get(key)) for key in {**one, **other}]


def _samples(cells: Sequence[Cell]) -> dict[tuple[Point, str], Sample]:
    return {(cell.point, name): sample for cell in cells for name, sample in cell.samples.items()}


def _keys(rows: Sequence[Row]) -> Counter[tuple[object, ...]]:
    return Counter(tuple(row[name] for name in OF_A_RUN) for row in rows if row["session_s"] is not None)
