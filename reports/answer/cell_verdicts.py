"""The verdict on a cell by a criterion: which implementations may be taken, and how each stands to the best one.

All that the answer says follows from it; the rule is in `comparison.choice`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, isfinite
from typing import Literal

from owlt.reports.comparison.cells import Cell, Criterion, Point, SampleNumbers
from owlt.reports.comparison.choice import DEFAULT_RULE, Rule, Standpoint, choose, competing
from owlt.reports.comparison.estimates import Share, share

Relation = Literal["best", "equivalent", "worse", "undecided", "undelivered", "unsupported", "not run"]
"""best, equivalent: may be taken. worse: shown to be behind the best by more than the margin. undecided: neither is
shown. undelivered: it delivered no file; or worse, and half of its files or more were not delivered. unsupported: it
supports none of the runs. not run: no run has a result."""


@dataclass(frozen=True, kw_only=True)
class Standing(SampleNumbers):
    """One implementation in a cell, by the metric of a criterion."""

    name: str
    relation: Relation
    value: float | None
    """What is shown: the median; the mean if its values, or those of the best one, are at few levels, where a median
    jumps from one to the next."""
    is_mean: bool
    behind: float | None
    """How far it is behind the best, as a share of the best; negative: ahead. None: of the best one, and where there is
    no number for it. Of the probability of delivery it is the difference of the shares."""
    behind_low: float | None
    """The least and the greatest share by which it is behind the best of the others, which decide the relation."""
    behind_high: float | None
    p: float | None
    """The p-value of the hypothesis that no other implementation is better; None: nothing is left to chance."""
    repetitions_needed: int | None
    """The runs of each after which an undecided one would be decided, if differences are as they seem; None: unknown.
    """


@dataclass(frozen=True)
class Verdict:
    """A cell by one criterion."""

    point: Point
    least_repetitions: int
    """The runs of each without which no implementation can be excluded."""
    best: str | None
    """The implementation with the best value. None if no implementation delivered more than half of its files."""
    standings: tuple[Standing, ...]
    """The best first, then by their value; in the order of the report where these are equal."""

    @property
    def leaders(self) -> tuple[str, ...]:
        """The implementations that may be taken: shown to be the best, or behind it by no more than the margin."""
        return self._names("best", "equivalent")

    @property
    def undecided(self) -> tuple[str, ...]:
        """The implementations of which neither is shown."""
        return self._names("undecided")

    @property
    def candidates(self) -> tuple[str, ...]:
        """The implementations that may be taken; if there are none, those that are not excluded."""
        return self.leaders or self.undecided

    @property
    def is_undecided(self) -> bool:
        """Whether there are candidates, and none of them is shown to be the best or equivalent to it."""
        return bool(self.undecided) and not self.leaders

    def standing(self, name: str) -> Standing | None:
        """The standing of an implementation; None if it is not planned in the cell."""
        return next((each for each in self.standings if each.name == name), None)

    def _names(self, *relations: Relation) -> tuple[str, ...]:
        return tuple(each.name for each in self.standings if each.relation in relations)


def verdicts(cells: Sequence[Cell], criterion: Criterion, rule: Rule = DEFAULT_RULE) -> list[Verdict]:
    """The verdict on each cell."""
    return [_verdict(cell, criterion, rule) for cell in cells]


def _verdict(cell: Cell, criterion: Criterion, rule: Rule) -> Verdict:
    numbers = {name: criterion.numbers(sample) for name, sample in cell.samples.items()}
    contestants = {name: criterion.contestant(sample) for name, sample in cell.samples.items() if sample.tried}
    eligible = [name for name in competing(contestants, rule) if not cell.samples[name].is_unsupported]
    values = {name: each.mean if each.levels else each.median for name, each in numbers.items()}
    sign = 1 if criterion.higher_is_better else -1
    eligible.sort(key=lambda name: _rank(numbers[name], values[name], sign), reverse=True)
    best = eligible[0] if eligible and numbers[eligible[0]].delivered else None
    if best and criterion.is_share and not values[best]:
        best = None
    by_mean = {name for name, each in numbers.items() if each.levels or (best and numbers[best].levels)}
    standpoints: dict[str, Standpoint] = {}
    if best:
        standpoints = choose({name: contestants[name] for name in eligible}, best, rule, len(contestants))
        if any(not each.tried for each in numbers.values()):
            standpoints = {name: each.as_undecided() for name, each in standpoints.items()}
        if not criterion.is_share:  # without a delivered file there is no value, only the doubt about the others
            standpoints = {name: each for name, each in standpoints.items() if numbers[name].delivered}
    ranked = [*standpoints, *(name for name in numbers if name not in standpoints)]
    standings = []
    for name in ranked:
        standpoint = standpoints.get(name)
        behind, low, high = _behind(standpoint, criterion)
        needed = standpoint.repetitions_needed(numbers[name].tried, len(contestants), rule) if standpoint else None
        standings.append(
            Standing(
                **vars(numbers[name]),
                name=name,
                relation=_relation(numbers[name], standpoint, name == best),
                value=numbers[name].mean if name in by_mean else numbers[name].median,
                is_mean=name in by_mean,
                behind=None if name == best else behind,
                behind_low=low,
                behind_high=high,
                p=standpoint.p if standpoint and name != best else None,
                repetitions_needed=needed,
            )
        )
    return Verdict(cell.point, rule.least_repetitions(len(contestants)), best, tuple(standings))


def _rank(numbers: SampleNumbers, value: float | None, sign: int) -> tuple[bool, float, float]:
    """Those that delivered more than half of their files first, then by their value and their mean."""
    is_usual = 2 * numbers.delivered > numbers.tried
    return is_usual, -inf if value is None else sign * value, sign * (numbers.mean or 0)


def _relation(numbers: SampleNumbers, standpoint: Standpoint | None, is_best: bool) -> Relation:
    if standpoint is None:
        if not numbers.tried:
            return "not run"
        return "unsupported" if numbers.unsupported == numbers.tried else "undelivered"
    if standpoint.position == "take":
        return "best" if is_best else "equivalent"
    if standpoint.position == "undecided":
        return "undecided"
    return "undelivered" if 2 * numbers.delivered <= numbers.tried else "worse"


def _behind(standpoint: Standpoint | None, criterion: Criterion) -> tuple[float | None, float | None, float | None]:
    """How far behind the best, with its bounds, as a share of the best."""
    if standpoint is None:
        return None, None, None
    if criterion.is_share or criterion.higher_is_better:
        shares = [1 - ratio for ratio in (standpoint.value, standpoint.high, standpoint.low)]
    else:
        shares = [1 / ratio - 1 if ratio else inf for ratio in (standpoint.value, standpoint.high, standpoint.low)]
    value, low, high = (share if isfinite(share) else None for share in shares)
    is_bounded = criterion.is_share or standpoint.low > 0
    return value, low, high if is_bounded else None


@dataclass(frozen=True)
class Summary:
    """One implementation. `farthest` is the most by which it is behind the best, as a share of the best, in the cells
    where it may not be taken; None if there is no such cell with a value."""

    name: str
    led: int
    """The number of cells in which it may be taken."""
    undecided: int
    """The number of cells in which that is undecided."""
    planned: int
    """The number of cells in which it is planned."""
    farthest: float | None
    is_farthest_shown: bool
    """Whether it is shown there to be behind by more than the margin."""
    undelivered: Share | None
    """The share of its files that were not delivered, of runs that it supports; None if none of them has a result."""
    unsupported: int
    """The number of runs that it does not support."""
    suspect: int


def summaries_of(verdicts: Sequence[Verdict]) -> tuple[Summary, ...]:
    """All implementations, the one that may be taken in most cells first."""
    names = dict.fromkeys(each.name for verdict in verdicts for each in verdict.standings)
    summaries = [_summary(name, verdicts) for name in names]
    return tuple(sorted(summaries, key=_order))


def _order(summary: Summary) -> tuple[int, int, float, float]:
    """The sort key: most cells in which it may be taken, then undecided, then most delivered files, then the smallest
    difference from the best."""
    undelivered = summary.undelivered.value if summary.undelivered else 1.0
    return -summary.led, -summary.undecided, undelivered, summary.farthest or 0.0


def _summary(name: str, verdicts: Sequence[Verdict]) -> Summary:
    own = [(verdict, standing) for verdict in verdicts if (standing := verdict.standing(name)) is not None]
    differences = [
        (standing.behind, standing.relation == "worse")
        for verdict, standing in own
        if standing.relation in ("worse", "undecided") and standing.behind is not None
    ]
    farthest, is_shown = max(differences, default=(None, False))
    return Summary(
        name=name,
        led=sum(name in verdict.leaders for verdict, _ in own),
        undecided=sum(standing.relation == "undecided" for _, standing in own),
        planned=len(own),
        farthest=farthest,
        is_farthest_shown=is_shown,
        undelivered=share(
            sum(each.tried - each.unsupported - each.delivered for _, each in own),
            sum(each.tried - each.unsupported for _, each in own),
        ),
        unsupported=sum(each.unsupported for _, each in own),
        suspect=sum(each.suspect for _, each in own),
    )
