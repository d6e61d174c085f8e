"""The section on the session time of a sweep's runs: its figure, and the largest shares in sentences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from owlt.reports.answer.reasons import largest_shares
from owlt.reports.answer.regions import ACROSS, Dimension, dimensions_of
from owlt.reports.comparison.cells import Cell, with_labels
from owlt.reports.comparison.time_use import has_time, time_use
from owlt.reports.drawing.output import KeptFigures, digest_of_drawing
from owlt.reports.drawing.paper_figure import draw_figure
from owlt.reports.drawing.specification import WIDTHS_MM, Specification, quantity
from owlt.reports.drawing.sweep_figures import save
from owlt.reports.results.load import Results
from owlt.reports.sessions.session_figures import SessionFigure

NAME = "time-use"
MOST_BARS = 120
"""The most bars of the figure, which would otherwise be taller than three screens; with more, it is not drawn."""
CAPTION = (
    "Session time by implementation, divided into the parts of the critical path: means over the runs whose file was "
    "delivered. The parts of a bar add up to the mean session time."
)


@dataclass(frozen=True)
class TimeSection:
    """The content of the section. `figure` is None if there would be too many bars."""

    figure: SessionFigure | None
    sentences: tuple[str, ...]


def time_section(results: Results, cells: Sequence[Cell], kept: KeptFigures) -> TimeSection | None:
    """The section, with its figure drawn; None if no run has a time account. Raises OSError."""
    if not has_time(results.rows):
        return None
    dimensions = dimensions_of([cell.point for cell in cells])
    sentences = largest_shares(with_labels(cells, results.labels), dimensions, results.accounts)
    if sum(len(cell.samples) for cell in cells) > MOST_BARS:
        return TimeSection(None, tuple(sentences))
    specification = _specification(dimensions, results)
    drawn_from = digest_of_drawing([specification.x.name, results.labels, list(results.series), _values(cells)])
    if not kept.take(NAME, drawn_from):
        with_pdf = ".pdf" in kept.suffixes
        save(draw_figure(results.rows, specification), kept.figures, NAME, with_pdf)
        kept.note(NAME, drawn_from, [f"{NAME}{suffix}" for suffix in kept.suffixes], True)
    return TimeSection(SessionFigure(NAME, CAPTION), tuple(sentences))


def _specification(dimensions: Sequence[Dimension], results: Results) -> Specification:
    """The figure along one dimension of the grid, with a panel for each value of the others."""
    along = [each for each in dimensions if each.axis.key in ACROSS] or list(dimensions[-1:])
    return Specification(
        y=quantity("session_s"),
        x=quantity(along[0].axis.name if along else "packet_error_rate"),
        kind="time",
        group=replace(quantity("implementation"), text=results.labels.__getitem__),
        facets=tuple(quantity(each.axis.name) for each in dimensions if each not in along[:1]),
        order=tuple(results.series),
        width_mm=WIDTHS_MM["ieee-page"],
    )


def _values(cells: Sequence[Cell]) -> object:
    """The values that the figure shows."""
    return [
        [repr(cell.point), name, sample.tried, sample.delivered, sample.suspect, repr(time_use(sample))]
        for cell in cells
        for name, sample in cell.samples.items()
    ]
