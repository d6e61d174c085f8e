"""The answer of a sweep by each criterion, put together: headline, sureness, summaries, regions, verdicts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from owlt.reports.answer.regions import Dimension, Region, dimensions_of, regions_of
from owlt.reports.answer.sentences import (
    difference_of,
    doubt_of,
    headline,
    percent_text,
    region_sentences,
    signed_text,
    sureness,
)
from owlt.reports.answer.verdicts import (
    EQUAL_WITHIN,
    SIMILAR_WITHIN,
    Standing,
    Summary,
    Verdict,
    behind,
    summaries_of,
    verdicts,
)
from owlt.reports.comparison.cells import Cell, Criterion, criteria_of, implementations_in, misleading_goodput
from owlt.reports.comparison.differences import SIGNIFICANCE, least_repetitions_of
from owlt.reports.comparison.estimates import CONFIDENCE
from owlt.reports.units import listed

LEAST_P = 0.001
"""A smaller probability is written as "p < 0.001"."""

Sureness = Literal["sure", "partly sure", "not sure"]
"""sure: every other implementation is significantly worse, or shown to be equal or close. partly: some are."""


@dataclass(frozen=True)
class Other:
    """An implementation that is not to be taken, in words: its difference from the best, and the interval of that."""

    name: str
    difference: str


@dataclass(frozen=True)
class Line:
    """One cell. `names` are to be taken, or have the best median if it is undecided; () if none delivered enough."""

    verdict: Verdict
    places: tuple[str, ...]
    """Its values of the dimensions of the grid, in words."""
    names: tuple[str, ...]
    is_any: bool
    """Whether all implementations lead."""
    is_undecided: bool
    others: tuple[Other, ...]
    sureness: Sureness
    why: str
    """The reason for the sureness."""

    @property
    def best(self) -> Standing | None:
        """The implementation with the best median, which is shown."""
        return self.verdict.standing(self.verdict.best) if self.verdict.best else None


def lines_of(regions: Sequence[Region], dimensions: Sequence[Dimension], criterion: Criterion) -> tuple[Line, ...]:
    """A line for each cell of the regions, in the order of the dimensions."""
    lines = [_line(verdict, region.take, dimensions, criterion) for region in regions for verdict in region.verdicts]
    return tuple(sorted(lines, key=lambda line: _place(line.verdict, dimensions)))


def certainty(lines: Sequence[Line]) -> str:
    """In how many cells the choice is sure: "Sure in 5 of 8 cells, partly sure in 1, not sure in 2."; "" for one."""
    if len(lines) < 2:
        return ""
    counts = Counter(line.sureness for line in lines)
    if len(counts) == 1:
        return f"{lines[0].sureness.capitalize()} in all {len(lines)} cells."
    degrees = [(degree, counts[degree]) for degree in get_args(Sureness) if counts[degree]]
    (first, number), *rest = degrees
    parts = [f"{first} in {number} of {len(lines)} cells", *(f"{degree} in {count}" for degree, count in rest)]
    return f"{', '.join(parts).capitalize()}."


def _place(verdict: Verdict, dimensions: Sequence[Dimension]) -> list[int]:
    return [each.values.index(each.of(verdict.point)) for each in dimensions]


def _line(verdict: Verdict, take: str | None, dimensions: Sequence[Dimension], criterion: Criterion) -> Line:
    leaders = verdict.leaders
    rest = [each for each in verdict.standings if each.name not in leaders]
    names = tuple(sorted(leaders, key=lambda name: name != take))
    sureness, why = _sureness(verdict, rest)
    return Line(
        verdict=verdict,
        places=tuple(dimension.text(dimension.of(verdict.point)) for dimension in dimensions),
        names=names,
        is_any=not rest and len(names) > 1,
        is_undecided=bool(names and rest) and not verdict.shows_difference,
        others=tuple(
            Other(each.name, difference_text(verdict, each, criterion)) for each in rest if each.relation != "not run"
        ),
        sureness=sureness,
        why=why,
    )


def difference_text(verdict: Verdict, standing: Standing, criterion: Criterion) -> str:
    """How an implementation stands to the best: "−24 % (−20 to −28 %)", "2 of 10 delivered", "no run".

    A question mark follows a difference that is not significant. "": it is the best.
    """
    if standing.relation == "not run":
        return "no run"
    if standing.relation == "undelivered" or verdict.best is None:
        return f"{standing.delivered} of {standing.tried} delivered"
    share = behind(verdict, verdict.best, standing.name, criterion)
    if share is None or standing.name == verdict.best:
        return ""
    return f"{difference_of(share, criterion)}{_interval_text(standing)}{doubt_of(standing)}"


def _interval_text(standing: Standing) -> str:
    """The interval of a significant difference."""
    size = standing.ratio
    if standing.relation != "worse" or size is None or size.confidence < CONFIDENCE:
        return ""
    low, high = (signed_text(bound - 1) for bound in sorted((size.low, size.high), key=lambda bound: abs(1 - bound)))
    return "" if low == high else f" ({low.removesuffix(' %')} to {high})"


def _sureness(verdict: Verdict, rest: Sequence[Standing]) -> tuple[Sureness, str]:
    if verdict.best is None:
        return "sure", "none delivered more than half of its files"
    close = [each for each in verdict.standings if each.relation == "similar"]
    unclear = [each for each in rest if each.relation == "unclear"]
    missing = [each.name for each in rest if each.relation == "not run"]
    shown = [each for each in rest if each.relation in ("worse", "undelivered")]
    most = max(each.tried for each in verdict.standings)
    least = least_repetitions_of(len(verdict.standings))
    if most < least and (unclear or len(verdict.leaders) > 1):
        return "not sure", f"{'one run' if most == 1 else f'{most} runs'} of each; at least {least} are needed"
    reasons = list(_reasons(shown, unclear, close))
    if missing:
        reasons = [*(reasons if shown or unclear else ()), f"no run yet of {listed(missing)}"]
    if not unclear and not missing:
        return "sure", "; ".join(reasons)
    return ("partly sure" if shown else "not sure"), "; ".join(reasons)


def _reasons(shown: Sequence[Standing], unclear: Sequence[Standing], close: Sequence[Standing]) -> Iterator[str]:
    worse = [each for each in shown if each.relation == "worse"]
    undelivered = [each for each in shown if each.relation == "undelivered"]
    if worse:
        p_values = [each.p_holm for each in worse if each.p_holm is not None]
        yield f"{_names(worse)} significantly worse ({_p_text(p_values)})"
    if undelivered:
        yield f"{_names(undelivered)} delivered half of the files or fewer"
    if unclear:
        needed = [each.repetitions_needed for each in unclear if each.repetitions_needed]
        more = (
            f" ({max(needed)} repetitions would show it, if it is as large as it seems)"
            if len(needed) == len(unclear)
            else ""
        )
        yield f"difference from {_names(unclear)} not significant{more}"
    if not shown and not unclear:
        yield f"all are shown to be within {percent_text(SIMILAR_WITHIN if close else EQUAL_WITHIN)} of the best"


def _names(standings: Sequence[Standing]) -> str:
    return listed([each.name for each in standings])


def _p_text(p_values: Sequence[float]) -> str:
    """The p-value, or the largest of several: "p = 0.03", "p ≤ 0.03", "p < 0.001"."""
    p = max(p_values)
    if p < LEAST_P:
        return f"p < {LEAST_P:g}"
    return f"p {'=' if len(p_values) == 1 else '≤'} {f'{p:.2g}' if p < SIGNIFICANCE / 5 else f'{p:.2f}'}"


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
    headline: str
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
    misleading: tuple[str, ...]
    """The implementations for which goodput misleads."""
    dimensions: tuple[Dimension, ...]
    by_criterion: tuple[CriterionAnswer, ...]


def answer_of(cells: Sequence[Cell]) -> Answer | None:
    """The answer; None if there are not at least two implementations to compare."""
    if len(implementations_in(cells)) < 2:
        return None
    dimensions = dimensions_of([cell.point for cell in cells])
    return Answer(
        sureness=sureness(cells),
        misleading=tuple(misleading_goodput(cells)),
        dimensions=dimensions,
        by_criterion=tuple(_by_criterion(cells, criterion, dimensions) for criterion in criteria_of(cells)),
    )


def _by_criterion(cells: Sequence[Cell], criterion: Criterion, dimensions: Sequence[Dimension]) -> CriterionAnswer:
    of_cells = verdicts(cells, criterion)
    summaries = summaries_of(of_cells, criterion)
    regions = regions_of(of_cells)
    enough = _can_be_significant(cells)
    return CriterionAnswer(
        criterion=criterion,
        headline=headline(criterion, summaries, of_cells),
        summaries=summaries,
        regions=tuple(RegionAnswer(region, tuple(region_sentences(region, criterion, enough))) for region in regions),
        verdicts=tuple(of_cells),
        lines=lines_of(regions, dimensions, criterion),
    )


def _can_be_significant(cells: Sequence[Cell]) -> bool:
    """Whether some cell has enough runs for its test to be significant."""
    return any(
        max(sample.tried for sample in cell.samples.values()) >= least_repetitions_of(len(cell.samples))
        for cell in cells
    )
