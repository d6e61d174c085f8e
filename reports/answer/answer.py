"""The answer of a sweep by each criterion, put together: headline, sureness, summaries, regions, verdicts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from owlt.reports.answer.lines import Line, certainty, lines_of
from owlt.reports.answer.regions import Dimension, Region, dimensions_of, regions_of
from owlt.reports.answer.sentences import headline, region_sentences, sureness
from owlt.reports.answer.summaries import Summary, summaries_of
from owlt.reports.answer.verdicts import Verdict, verdicts
from owlt.reports.comparison.cells import Cell, implementations_in
from owlt.reports.comparison.criteria import Criterion, criteria_of, misleading_goodput
from owlt.reports.comparison.differences import least_repetitions_of


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
    """One for each verdict."""

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
        max(len(sample.tried) for sample in cell.samples.values()) >= least_repetitions_of(len(cell.samples))
        for cell in cells
    )
