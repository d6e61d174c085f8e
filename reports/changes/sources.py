"""Results directories to compare: their tables of runs, under names that differ."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from owlt.reports.comparison.cells import Cell, cells_of
from owlt.reports.comparison.stopping import load_due_results
from owlt.reports.results.rows import Row, run_rows


@dataclass(frozen=True)
class Source:
    """One directory. `label` is its name, with a number if another has the same."""

    label: str
    directory: Path
    sweep: str
    seed: int
    rows: tuple[Row, ...]

    @property
    def recorded(self) -> int:
        """The number of runs with a record."""
        return sum(row["attempt"] is not None for row in self.rows)

    @cached_property
    def cells(self) -> list[Cell]:
        """Its runs by cell."""
        return cells_of(self.rows)


def load_sources(directories: Sequence[Path]) -> list[Source]:
    """The directories, in the given order. Raises ReportError, as `reports.results.load.load_results` does."""
    labels = labels_of(directories)
    sources = []
    for label, directory in zip(labels, directories, strict=True):
        results = load_due_results(directory)
        sources.append(Source(label, directory, results.sweep.name, results.sweep.seed, tuple(run_rows(results))))
    return sources


def labels_of(directories: Sequence[Path]) -> list[str]:
    """A name for each: the last part of its path; with its number, from 1, if another has the same."""
    names = [directory.resolve().name for directory in directories]
    return [f"{name}-{place}" if names.count(name) > 1 else name for place, name in enumerate(names, start=1)]
