"""A comparison put together: two directories, or many in the order of time."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from owlt.reports.answer.change_tests import Overall, Series, overall_of, series_of
from owlt.reports.answer.changes import Change, ComparedResults, changes_of, pairs_of
from owlt.reports.comparison.cells import Criterion, Point
from owlt.reports.results.rows import Row
from owlt.reports.units import listed

OF_ALL = {
    "sweep": "sweep",
    "owlt_version": "version of owlt",
    "kernel_version": "kernel",
    "rig": "rig",
    "clock": "clock",
}
OF_AN_IMPLEMENTATION = {"implementation_version": "version of {}"}
OF_A_PERMUTATION = {
    "channel_key": "settings of the channel",
    "advertised_rate_bps": "advertised rate",
    "advertised_one_way_delay_s": "advertised delay",
    "certificate": "certificate",
}


@dataclass(frozen=True)
class Condition:
    """A condition that differs, with its values on both sides in words."""

    what: str
    before: str
    after: str

    @property
    def text(self) -> str:
        """The difference in words."""
        return f"{self.what}: {self.before} before, {self.after} after"


def conditions_of(before: Sequence[Row], after: Sequence[Row]) -> list[Condition]:
    """All differences of two tables; of settings of permutations, the number that differ."""
    conditions: list[Condition | None] = [_condition(words, name, before, after) for name, words in OF_ALL.items()]
    for implementation in dict.fromkeys(row["implementation"] for row in before):
        own = [[row for row in rows if row["implementation"] == implementation] for rows in (before, after)]
        if all(own):
            conditions += [
                _condition(words.format(implementation), name, *own) for name, words in OF_AN_IMPLEMENTATION.items()
            ]
            conditions += _parameters(implementation, *own)
    return [each for each in conditions if each] + _of_permutations(before, after)


def _condition(what: str, name: str, before: Sequence[Row], after: Sequence[Row]) -> Condition | None:
    one, other = (list(dict.fromkeys(str(row[name]) for row in rows if row[name])) for rows in (before, after))
    if not one or not other or set(one) == set(other):
        return None
    return Condition(what, listed(one), listed(other))


def _parameters(implementation: str, before: Sequence[Row], after: Sequence[Row]) -> list[Condition]:
    """The parameters that differ, if each side has one set of them."""
    sets = [{row["parameters"] for row in rows if row["parameters"]} for rows in (before, after)]
    if any(len(each) > 1 for each in sets) or sets[0] == sets[1]:
        return []
    one, other = (json.loads(each.pop()) if each else {} for each in sets)
    return [
        Condition(f"parameter {name} of {implementation}", str(one.get(name, "none")), str(other.get(name, "none")))
        for name in dict.fromkeys([*one, *other])
        if one.get(name) != other.get(name)
    ]


def _of_permutations(before: Sequence[Row], after: Sequence[Row]) -> list[Condition]:
    one, other = _by_permutation(before), _by_permutation(after)
    common = [key for key in one if key in other]
    conditions = []
    for name, words in OF_A_PERMUTATION.items():
        differing = [key for key in common if one[key][name] != other[key][name] and one[key][name] is not None]
        if differing:
            first, *_ = differing
            where = f"{words}, in {len(differing)} of {len(common)} permutations; first {first[0]}"
            conditions.append(Condition(where, str(one[first][name]), str(other[first][name])))
    return conditions


def _by_permutation(rows: Sequence[Row]) -> dict[tuple[object, ...], Row]:
    """The first recorded run of each permutation."""
    recorded = [row for row in rows if row["owlt_version"] or row["started_at_ns"]]
    return {(row["implementation"], *(row[name] for name in Point._fields)): row for row in reversed(recorded)}


@dataclass(frozen=True)
class TwoCompared:
    """Two directories by one criterion."""

    before: ComparedResults
    after: ComparedResults
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

    sources: tuple[ComparedResults, ...]
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


def compare_two(before: ComparedResults, after: ComparedResults, criterion: Criterion, tolerance: float) -> TwoCompared:
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


def compare_nights(sources: Sequence[ComparedResults], criterion: Criterion, tolerance: float) -> NightsCompared:
    """Find the change points over many directories; `tolerance` is a share of the median."""
    series = series_of([source.cells for source in sources], criterion, tolerance)
    return NightsCompared(tuple(sources), criterion, tolerance, tuple(series))
