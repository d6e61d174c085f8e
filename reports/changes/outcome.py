"""A comparison put together: two directories, or many in the order of time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from owlt.reports.changes.conditions import Condition, conditions_of
from owlt.reports.changes.nights import Series, series_of
from owlt.reports.changes.overall import Overall, overall_of
from owlt.reports.changes.pairs import pairs_of
from owlt.reports.changes.permutations import Change, changes_of
from owlt.reports.changes.sources import Source
from owlt.reports.comparison.criteria import Criterion


@dataclass(frozen=True)
class TwoCompared:
    """Two directories by one criterion."""

    before: Source
    after: Source
    criterion: Criterion
    tolerance: float
    conditions: tuple[Condition, ...]
    overall: tuple[Overall, ...]
    changes: tuple[Change, ...]

    @property
    def is_worse(self) -> bool:
        """Whether a regression is shown."""
        return any(each.is_worse for each in self.overall)

    @property
    def is_judged(self) -> bool:
        """Whether a regression of this size could have been shown of every permutation."""
        return not any(each.not_judged for each in self.overall)


@dataclass(frozen=True)
class NightsCompared:
    """Three directories or more by one criterion, in the order of time."""

    sources: tuple[Source, ...]
    criterion: Criterion
    tolerance: float
    series: tuple[Series, ...]

    @property
    def is_worse(self) -> bool:
        """Whether the last change of some permutation was for the worse."""
        return any(each.ended_worse for each in self.series)

    @property
    def is_judged(self) -> bool:
        """Whether a change of every permutation could have been shown."""
        return all(each.is_testable for each in self.series)


def compare_two(before: Source, after: Source, criterion: Criterion, tolerance: float) -> TwoCompared:
    """Compare two directories; `tolerance` is a share of the median."""
    changes = changes_of(pairs_of(before.cells, after.cells), criterion, tolerance)
    return TwoCompared(
        before=before,
        after=after,
        criterion=criterion,
        tolerance=tolerance,
        conditions=tuple(conditions_of(before.rows, after.rows)),
        overall=tuple(overall_of(changes, criterion, tolerance)),
        changes=tuple(changes),
    )


def compare_nights(sources: Sequence[Source], criterion: Criterion, tolerance: float) -> NightsCompared:
    """Find the change points over many directories; `tolerance` is a share of the median."""
    series = series_of([source.cells for source in sources], criterion, tolerance)
    return NightsCompared(tuple(sources), criterion, tolerance, tuple(series))
