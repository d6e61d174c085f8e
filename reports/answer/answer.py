"""The answer of a sweep by each criterion, put together: headline, sureness, summaries, regions, verdicts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal, get_args

from owlt.reports.answer.cell_verdicts import Standing, Summary, Verdict, summaries_of, verdicts
from owlt.reports.answer.reasons import Accounts, reasons
from owlt.reports.answer.regions import Dimension, Region, dimensions_of, regions_of
from owlt.reports.answer.sentences import Headline, difference_of, difference_text, headline, region_sentences, sureness
from owlt.reports.comparison.cells import Cell, Criterion, criteria_of, implementations_in, misleading_goodput
from owlt.reports.comparison.choice import DEFAULT_RULE, Rule
from owlt.reports.units import all_of, listed

LEAST_P = 0.001
"""A smaller probability is written as "p < 0.001"."""

Sureness = Literal["sure", "partly sure", "not sure"]
"""sure: it is shown what may be taken. partly sure: it is shown only that some may not be taken."""


@dataclass(frozen=True)
class Other:
    """An implementation that is not to be taken, in words: its difference from the best, and the interval of that."""

    name: str
    difference: str


@dataclass(frozen=True)
class Line:
    """One cell. `names` are to be taken, or are not excluded if it is undecided; () if none delivered enough."""

    verdict: Verdict
    places: tuple[str, ...]
    """Its values of the dimensions of the grid, in words."""
    names: tuple[str, ...]
    is_any: bool
    """Whether all implementations may be taken."""
    is_undecided: bool
    others: tuple[Other, ...]
    sureness: Sureness
    why: str
    """The reason for the sureness."""

    @property
    def best(self) -> Standing | None:
        """The implementation with the best value, which is shown."""
        return self.verdict.standing(self.verdict.best) if self.verdict.best else None


def lines_of(regions: Sequence[Region], dimensions: Sequence[Dimension], criterion: Criterion) -> tuple[Line, ...]:
    """A line for each cell of the regions, in the order of the dimensions."""
    lines = [
        _line(verdict, region.take[:1], dimensions, criterion) for region in regions for verdict in region.verdicts
    ]
    return tuple(sorted(lines, key=lambda line: _place(line.verdict, dimensions)))


def certainty(lines: Sequence[Line]) -> str:
    """In how many cells the choice is sure: "Sure in 5 of 8 cells, partly sure in 1, not sure in 2."; "" for one."""
    if len(lines) < 2:
        return ""
    counts = Counter(line.sureness for line in lines)
    if len(counts) == 1:
        return f"{lines[0].sureness.capitalize()} in {all_of(len(lines), 'cells')}."
    degrees = [(degree, counts[degree]) for degree in get_args(Sureness) if counts[degree]]
    (first, number), *rest = degrees
    parts = [f"{first} in {number} of {len(lines)} cells", *(f"{degree} in {count}" for degree, count in rest)]
    return f"{', '.join(parts).capitalize()}."


def _place(verdict: Verdict, dimensions: Sequence[Dimension]) -> list[int]:
    return [each.values.index(each.of(verdict.point)) for each in dimensions]


def _line(verdict: Verdict, first: Sequence[str], dimensions: Sequence[Dimension], criterion: Criterion) -> Line:
    names = tuple(sorted(verdict.candidates, key=lambda name: name not in first))
    rest = [each for each in verdict.standings if each.name not in names]
    sureness, why = _sureness(verdict, rest, criterion)
    return Line(
        verdict=verdict,
        places=tuple(dimension.text(dimension.of(verdict.point)) for dimension in dimensions),
        names=names,
        is_any=not rest and len(names) > 1 and not verdict.is_undecided,
        is_undecided=verdict.is_undecided,
        others=tuple(Other(each.name, difference_text(each, criterion, True)) for each in rest if each.tried),
        sureness=sureness,
        why=why,
    )


def _sureness(verdict: Verdict, rest: Sequence[Standing], criterion: Criterion) -> tuple[Sureness, str]:
    if verdict.best is None:
        return "sure", "none delivered more than half of its files"
    missing = [each.name for each in verdict.standings if each.relation == "not run"]
    shown = [each for each in rest if each.relation in ("worse", "undelivered", "unsupported")]
    reasons = list(_reasons(verdict, shown))
    if missing:
        return "not sure", "; ".join([*reasons, f"no run yet of {listed(missing)}"])
    most = max(each.tried for each in verdict.standings)
    if verdict.is_undecided and most < verdict.least_repetitions:
        runs = "one run" if most == 1 else f"{most} runs"
        return "not sure", "; ".join([*reasons, f"{runs} of each; at least {verdict.least_repetitions} are needed"])
    if verdict.is_undecided:
        return ("partly sure" if shown else "not sure"), "; ".join([*reasons, _undecided(verdict, criterion)])
    return "sure", "; ".join(reasons)


def _reasons(verdict: Verdict, shown: Sequence[Standing]) -> Iterator[str]:
    worse = [each for each in shown if each.relation == "worse"]
    nothing = [each.name for each in shown if each.relation == "undelivered" and not each.delivered]
    undelivered = [each.name for each in shown if each.relation == "undelivered" and each.delivered]
    if worse:
        p_values = [each.p for each in worse if each.p is not None]
        yield f"{_names(worse)} worse ({_p_text(p_values) if p_values else 'the runs of each are identical'})"
    if nothing:
        yield f"{listed(nothing)} delivered nothing"
    for each in shown:
        if each.relation == "unsupported":
            yield f"{each.name} is unsupported: {each.unsupported_why}"
    if undelivered:
        yield f"{listed(undelivered)} delivered half of the files or fewer"
    if verdict.leaders and verdict.undecided:
        names = listed(list(verdict.undecided))
        yield f"whether {names} {'is' if len(verdict.undecided) == 1 else 'are'} as good is undecided"
    if not shown and not verdict.undecided and len(verdict.leaders) > 1:
        yield "all are shown to be equivalent"


def _amount(share: float, criterion: Criterion) -> str:
    return difference_of(max(share, 0), criterion).lstrip("+−")


def _undecided(verdict: Verdict, criterion: Criterion) -> str:
    best = verdict.standing(verdict.best) if verdict.best else None
    bound = None if best is None else best.behind_high
    most = ""
    if bound is not None:
        amount = _amount(bound, criterion)
        behind = f"{amount} the value of" if amount.endswith("times") else f"{amount} behind"
        most = f": {verdict.best}, the best so far, is at most {behind} whichever is the best"
    needed = [each.repetitions_needed for each in verdict.standings if each.repetitions_needed]
    more = f" ({max(needed)} repetitions would decide it if the differences are as large as measured)" if needed else ""
    first, *rest = verdict.undecided
    what = f"between {listed([first, *rest])}" if rest else f"whether {first} is the best"
    return f"undecided {what}{most}{more}"


def _names(standings: Sequence[Standing]) -> str:
    return listed([each.name for each in standings])


def _p_text(p_values: Sequence[float]) -> str:
    """The p-value, or the largest of several: "p = 0.03", "p ≤ 0.03", "p < 0.001"."""
    p = max(p_values)
    if p < LEAST_P:
        return f"p < {LEAST_P:g}"
    return f"p {'=' if len(p_values) == 1 else '≤'} {p:.2g}"


@dataclass(frozen=True)
class RegionAnswer:
    """A region with its sentences."""

    region: Region
    sentences: tuple[str, ...]

    @property
    def where(self) -> str:
        """Its place: "1250 ms, PER 0.01"; all of a grid is "All cells"."""
        return self.region.phrase or ("All cells" if len(self.region.verdicts) > 1 else "Result")


@dataclass(frozen=True)
class CriterionAnswer:
    """The answer by one criterion."""

    criterion: Criterion
    headline: Headline
    summaries: tuple[Summary, ...]
    regions: tuple[RegionAnswer, ...]
    verdicts: tuple[Verdict, ...]
    lines: tuple[Line, ...]
    """A line for each verdict."""

    @property
    def certainty(self) -> str:
        """In how many cells the choice is sure, in words."""
        return certainty(self.lines)


@dataclass(frozen=True)
class Answer:
    """The answer of a sweep; the criterion to look at first is the first one."""

    sureness: str
    rule: Rule
    misleading: tuple[str, ...]
    """The implementations for which goodput misleads."""
    dimensions: tuple[Dimension, ...]
    by_criterion: tuple[CriterionAnswer, ...]


def answer_of(
    cells: Sequence[Cell],
    rule: Rule = DEFAULT_RULE,
    within_s: float | None = None,
    accounts: Accounts = MappingProxyType({}),
) -> Answer | None:
    """The answer; None if there are not at least two implementations to compare. `within_s`: the time in which a file
    has to be delivered to count as delivered, by the criterion of the probability of delivery. `accounts`: where the
    time of the runs went, as far as that is known."""
    if len(implementations_in(cells)) < 2:
        return None
    dimensions = dimensions_of([cell.point for cell in cells])
    criteria = criteria_of(cells, within_s)
    return Answer(
        sureness=sureness(cells, rule),
        rule=rule,
        misleading=tuple(misleading_goodput(cells)),
        dimensions=dimensions,
        by_criterion=tuple(_by_criterion(cells, criterion, rule, dimensions, accounts) for criterion in criteria),
    )


def _by_criterion(
    cells: Sequence[Cell], criterion: Criterion, rule: Rule, dimensions: Sequence[Dimension], accounts: Accounts
) -> CriterionAnswer:
    of_cells = verdicts(cells, criterion, rule)
    summaries = summaries_of(of_cells)
    regions = regions_of(of_cells)
    why = reasons(regions, cells, criterion, dimensions, accounts)
    return CriterionAnswer(
        criterion=criterion,
        headline=headline(criterion, summaries, regions, rule.margin),
        summaries=summaries,
        regions=tuple(
            RegionAnswer(region, (*region_sentences(region, criterion), *([reason] if reason else [])))
            for region, reason in zip(regions, why, strict=True)
        ),
        verdicts=tuple(of_cells),
        lines=lines_of(regions, dimensions, criterion),
    )
