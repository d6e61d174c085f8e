"""The change of each permutation between two results directories, by one criterion, and how sure it is.

Each permutation has a Mann–Whitney test, where a run that did not deliver its file has the worst rank, with
Holm's correction for the number of permutations that are tested. Permutations whose runs are identical on both sides
need no test.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Literal

from owlt.reports.comparison.cells import OF_A_RUN, Cell, Criterion, Point, Sample, SampleNumbers, cells_of
from owlt.reports.comparison.differences import SIGNIFICANCE, Ratio, compare, holm, least_p, least_repetitions, ratio
from owlt.reports.comparison.stopping import load_due_results
from owlt.reports.results.rows import Row


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
    return Counter(tuple(row[name] for name in ("seed", *OF_A_RUN)) for row in rows if row["session_s"] is not None)


Relation = Literal["worse", "better", "no difference", "identical", "too few runs", "no result", "removed", "added"]
"""worse, better: significantly, and by more than the tolerance. no difference: none is shown, or it is within the
tolerance. too few runs: no difference of so few runs can be significant. no result: no run of a side has one. removed,
added: the permutation is in the earlier, or in the later directory only."""
ORDER: tuple[Relation, ...] = (
    *("worse", "better", "no result", "too few runs", "no difference", "identical"),
    *("removed", "added"),
)
"""The order of a list: changes are first."""
CHANGED = ORDER[:2]


@dataclass(frozen=True)
class Change:
    """The change of one permutation. Numbers are None if they do not exist, as for a permutation of one side only."""

    point: Point
    implementation: str
    relation: Relation
    before: SampleNumbers | None
    after: SampleNumbers | None
    ratio: Ratio | None
    """The median over all pairs of a run after over a run before; its interval holds together with all others."""
    identical: int
    """Runs that are the same on both sides."""
    p_holm: float | None = None
    a12: float | None = None
    """The probability that a run after is better than a run before."""
    repetitions_needed: int | None = None
    """The runs of each side with which this difference would be shown; None: there is none, or it is shown."""


@dataclass(frozen=True)
class _Test:
    """The test of one pair, among `tests`."""

    p_holm: float
    a12: float
    n: tuple[int, int]
    tests: int
    repetitions_needed: int | None


def loss(ratio_value: float, criterion: Criterion) -> float:
    """How much worse the value after is, as a share of the value before; negative: better."""
    return 1 - ratio_value if criterion.higher_is_better else ratio_value - 1


def changes_of(pairs: Sequence[Pair], criterion: Criterion, tolerance: float) -> list[Change]:
    """The change of each pair: regressions, then improvements, then the rest, the largest difference of each first. A
    difference of the medians up to the share `tolerance` is no change."""
    tests = _tests(pairs, criterion)
    changes = [_change(pair, test, criterion, tolerance) for pair, test in zip(pairs, tests, strict=True)]
    return sorted(changes, key=lambda change: (ORDER.index(change.relation), -_distance(change)))


def _tests(pairs: Sequence[Pair], criterion: Criterion) -> list[_Test | None]:
    """The test of each pair; None if its runs are identical, or if a side has no result."""
    scores = [_scores(pair, criterion) for pair in pairs]
    tested = [place for place, pair in enumerate(pairs) if all(scores[place].values()) and not pair.is_identical]
    results = [comparison.pairs[0] for comparison in compare([scores[place] for place in tested])]
    tests: list[_Test | None] = [None] * len(pairs)
    for place, result, p_holm in zip(tested, results, holm([each.p for each in results]), strict=True):
        assert p_holm is not None and result.a12 is not None  # both sides have a result
        n = (result.n_one, result.n_other)
        tests[place] = _Test(p_holm, result.a12, n, len(tested), result.repetitions_needed(len(tested)))
    return tests


def _scores(pair: Pair, criterion: Criterion) -> dict[str, list[float]]:
    samples = {"after": pair.after, "before": pair.before}
    return {
        side: sample.scores(criterion.metric, criterion.higher_is_better) if sample else []
        for side, sample in samples.items()
    }


def _change(pair: Pair, test: _Test | None, criterion: Criterion, tolerance: float) -> Change:
    size = _ratio(pair, criterion, test.tests if test else 1)
    change = Change(
        point=pair.point,
        implementation=pair.implementation,
        relation=_untested(pair),
        before=_side(pair.before, criterion),
        after=_side(pair.after, criterion),
        ratio=size,
        identical=pair.identical,
    )
    if test is None:
        return change
    relation = _relation(pair, test, size, criterion, tolerance)
    needed = {
        "no difference": test.repetitions_needed,
        "too few runs": max(test.repetitions_needed or 0, least_repetitions(test.tests)),
    }.get(relation)
    return replace(change, relation=relation, p_holm=test.p_holm, a12=test.a12, repetitions_needed=needed)


def _untested(pair: Pair) -> Relation:
    if pair.before is None:
        return "added"
    if pair.after is None:
        return "removed"
    return "identical" if pair.is_identical else "no result"


def _relation(pair: Pair, test: _Test, size: Ratio | None, criterion: Criterion, tolerance: float) -> Relation:
    if test.p_holm > SIGNIFICANCE:
        return "too few runs" if least_p(*test.n) * test.tests > SIGNIFICANCE else "no difference"
    is_small = size is not None and abs(loss(size.value, criterion)) <= tolerance
    if is_small and _undelivered(pair.before) == _undelivered(pair.after):
        return "no difference"
    return "worse" if test.a12 < 0.5 else "better"


def _undelivered(sample: Sample | None) -> float:
    return sample.undelivered / sample.tried if sample and sample.tried else 0.0


def _ratio(pair: Pair, criterion: Criterion, tests: int) -> Ratio | None:
    if pair.before is None or pair.after is None:
        return None
    return ratio(pair.after.values(criterion.metric), pair.before.values(criterion.metric), tests)


def _side(sample: Sample | None, criterion: Criterion) -> SampleNumbers | None:
    return None if sample is None else sample.numbers(criterion.metric)


def _distance(change: Change) -> float:
    """How far the ratio, or that of the shares of delivered files, is from 1; without a ratio infinity."""
    if change.ratio is None or change.before is None or change.after is None:
        return float("inf")
    delivered = change.after.delivered * change.before.tried / (change.before.delivered * change.after.tried)
    return max(change.ratio.value, 1 / change.ratio.value, delivered, 1 / delivered)


@dataclass(frozen=True)
class ComparedResults:
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


def load_sources(directories: Sequence[Path]) -> list[ComparedResults]:
    """The directories, in the given order. Raises ReportError, as `reports.results.load.load_results` does."""
    labels = labels_of(directories)
    sources = []
    for label, directory in zip(labels, directories, strict=True):
        results = load_due_results(directory)
        sources.append(ComparedResults(label, directory, results.sweep.name, results.sweep.seed, results.rows))
    return sources


def labels_of(directories: Sequence[Path]) -> list[str]:
    """A name for each: the last part of its path; with its number, from 1, if another has the same."""
    names = [directory.resolve().name for directory in directories]
    return [f"{name}-{place}" if names.count(name) > 1 else name for place, name in enumerate(names, start=1)]
