"""The verdict on a cell by a criterion: how each implementation stands to the best one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from statistics import median
from typing import Literal

from owlt.reports.comparison.cells import Cell, Criterion, Point, Sample, SampleNumbers
from owlt.reports.comparison.differences import Comparison, Ratio, compare, ratio
from owlt.reports.comparison.estimates import Share, TwoGroups, share, two_groups

EQUAL_WITHIN = 0.01
"""A difference of at most this share does not matter in practice, significant or not."""
SIMILAR_WITHIN = 0.05
"""The range of the ratio's interval for equal and for similar implementations."""

Relation = Literal["best", "equal", "similar", "worse", "unclear", "undelivered", "not run"]
"""equal: shown to be equal in practice. similar: shown to be close, whether or not the difference is significant.
worse: significantly. unclear: not shown to be close, without a significant difference. undelivered: half of its files
or more were not delivered. not run: no run has a result."""
RELATIONS: dict[Relation, str] = {
    "best": "best",
    "equal": "equal",
    "similar": "close",
    "worse": "significantly worse",
    "unclear": "not significant",
    "undelivered": "not delivered",
    "not run": "not run",
}
"""Each relation in words."""
LEADING: tuple[Relation, ...] = ("best", "equal", "similar")


@dataclass(frozen=True)
class Standing(SampleNumbers):
    """One implementation in a cell, by the metric of a criterion."""

    name: str
    relation: Relation
    groups: TwoGroups | None
    """The groups of runs between which the median lies."""
    ratio: Ratio | None
    """Its values over those of the best implementation; None for the best one, and if either has no value or a zero."""
    p_holm: float | None
    """The p-value of the difference from the best implementation."""
    repetitions_needed: int | None
    """The runs of each that would show the difference from the best; None: there is none, or it is shown."""


@dataclass(frozen=True)
class Verdict:
    """A cell by one criterion."""

    point: Point
    best: str | None
    """None if no implementation delivered more than half of its files."""
    kruskal_p: float | None
    standings: tuple[Standing, ...]
    """The best first, then by their median; in the order of the report where these are equal."""

    @property
    def leaders(self) -> tuple[str, ...]:
        """The best implementation, and those that are equal or similar to it, in the order of the standings."""
        return tuple(each.name for each in self.standings if each.relation in LEADING)

    @property
    def shows_difference(self) -> bool:
        """Whether an implementation is significantly worse than the best, or delivered half of its files or fewer."""
        return any(each.relation in ("worse", "undelivered") for each in self.standings)

    def standing(self, name: str) -> Standing | None:
        """The standing of an implementation; None if it is not planned in the cell."""
        return next((each for each in self.standings if each.name == name), None)


def verdicts(cells: Sequence[Cell], criterion: Criterion) -> list[Verdict]:
    """The verdict on each cell."""
    scores = [criterion.scores(cell) for cell in cells]
    return [
        _verdict(cell, of_cell, comparison, criterion)
        for cell, of_cell, comparison in zip(cells, scores, compare(scores), strict=True)
    ]


def _verdict(cell: Cell, scores: dict[str, list[float]], comparison: Comparison, criterion: Criterion) -> Verdict:
    middles = {name: median(of_name) if of_name else -inf for name, of_name in scores.items()}
    ranked = sorted(middles, key=lambda name: -middles[name])
    best = ranked[0] if middles[ranked[0]] > -inf else None
    standings = [_standing(name, cell.samples, comparison, criterion, best, middles[name]) for name in ranked]
    return Verdict(cell.point, best, comparison.p, tuple(standings))


def _standing(
    name: str, samples: dict[str, Sample], comparison: Comparison, criterion: Criterion, best: str | None, score: float
) -> Standing:
    sample = samples[name]
    values = sample.values(criterion.metric)
    pair = comparison.pair(best, name) if best and name != best else None
    size = ratio(values, samples[best].values(criterion.metric)) if best and pair else None
    differs = pair is not None and pair.differs
    return Standing(
        name=name,
        relation=_relation(name, sample, best, score, size, differs),
        **vars(sample.numbers(criterion.metric)),
        groups=two_groups(values),
        ratio=size,
        p_holm=pair.p_holm if pair else None,
        repetitions_needed=pair.repetitions_needed(len(comparison.pairs)) if pair and not differs else None,
    )


def _relation(name: str, sample: Sample, best: str | None, score: float, size: Ratio | None, differs: bool) -> Relation:
    if not sample.tried:
        return "not run"
    if score == -inf:
        return "undelivered"
    if name == best:
        return "best"
    if size and not sample.undelivered and _is_within(SIMILAR_WITHIN, size.low, size.high):
        return "equal" if _is_within(EQUAL_WITHIN, size.value) else "similar"
    return "worse" if differs else "unclear"


def _is_within(share: float, *ratios: float) -> bool:
    return all(abs(each - 1) <= share for each in ratios)


@dataclass(frozen=True)
class Summary:
    """One implementation. `farthest` is its greatest difference from the best, as a share of the best, in the cells
    where it does not lead; None if there is no such cell with a value."""

    name: str
    led: int
    planned: int
    """The number of cells in which it is planned."""
    farthest: float | None
    is_farthest_significant: bool
    undelivered: Share | None
    """The share of its files that were delivered; None if no run has a result."""
    suspect: int


def summaries_of(verdicts: Sequence[Verdict], criterion: Criterion) -> tuple[Summary, ...]:
    """All implementations, the one that leads most cells first."""
    names = dict.fromkeys(each.name for verdict in verdicts for each in verdict.standings)
    summaries = [_summary(name, verdicts, criterion) for name in names]
    return tuple(sorted(summaries, key=_order))


def _order(summary: Summary) -> tuple[int, float, float]:
    """The sort key: most led cells first, then most delivered files, then the smallest difference from the best."""
    return -summary.led, summary.undelivered.value if summary.undelivered else 1.0, summary.farthest or 0.0


def behind(verdict: Verdict, best: str, name: str, criterion: Criterion) -> float | None:
    """How far the median of an implementation is behind another, as a share of the other; negative: ahead.

    None if either has no value, or if the other's value is zero.
    """
    ahead, own = verdict.standing(best), verdict.standing(name)
    if ahead is None or own is None or not ahead.median or own.median is None:
        return None
    difference = own.median / ahead.median - 1
    return -difference if criterion.higher_is_better else difference


def _summary(name: str, verdicts: Sequence[Verdict], criterion: Criterion) -> Summary:
    own = [(verdict, standing) for verdict in verdicts if (standing := verdict.standing(name)) is not None]
    differences = [
        (difference, standing.relation == "worse")
        for verdict, standing in own
        if verdict.best and name not in verdict.leaders and standing.relation != "undelivered"
        if (difference := behind(verdict, verdict.best, name, criterion)) is not None
    ]
    farthest, is_significant = max(differences, default=(None, False))
    return Summary(
        name=name,
        led=sum(name in verdict.leaders for verdict, _ in own),
        planned=len(own),
        farthest=farthest,
        is_farthest_significant=is_significant,
        undelivered=share(sum(each.tried - each.delivered for _, each in own), sum(each.tried for _, each in own)),
        suspect=sum(each.suspect for _, each in own),
    )
