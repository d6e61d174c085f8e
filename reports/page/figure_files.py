"""The files of the figures over a sweep: drawn on all cores, or taken over from the earlier report; and the section on
the session time of its runs, with its figure and the largest shares in sentences."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from math import isfinite
from pathlib import Path

from markupsafe import Markup

from owlt.captures.pool import Share
from owlt.reports.answer.reasons import largest_shares
from owlt.reports.answer.regions import ACROSS, Dimension, dimensions_of
from owlt.reports.comparison.cells import Cell, Point, has_time, time_use, with_labels
from owlt.reports.comparison.estimates import Box
from owlt.reports.comparison.metrics import FURTHER, METRICS
from owlt.reports.comparison.panels import Figure
from owlt.reports.comparison.theory import Comparison
from owlt.reports.drawing.boxes import Bounds, bounds_of
from owlt.reports.drawing.output import KeptFigures, digest_of_drawing, inlined
from owlt.reports.drawing.paper_figure import draw_figure
from owlt.reports.drawing.specification import WIDTHS_MM, Specification, quantity
from owlt.reports.drawing.sweep_figures import draw, save
from owlt.reports.looks import NAMED, SERIES, Looks
from owlt.reports.rendering import SCRIPT, script
from owlt.reports.results.load import Results, Run
from owlt.reports.sessions.session_figures import SessionFigure
from owlt.results.permutation import Permutation

MOST_INLINE_BYTES = 1_500_000
"""If the figures are larger together, none is inline: a browser loads each when it is scrolled into view, and the page
opens at once."""
MOST_LETTERS = 900
"""The longest text of a figure for screen readers."""


def drawings(results: Results, shown: Sequence[Figure], figures: Path) -> Callable[[Figure], Markup]:
    """A function that gives the markup of a figure in `shown`. `figures` is the directory of the drawn figures.

    Figures in folded sections are not inline, and none is if the others have more than MOST_INLINE_BYTES.
    """
    labels = point_labels(results)
    is_many = len(results.implementations) > NAMED
    unfolded = [
        figure.name
        for figure in shown
        if not (is_many and len(figure.implementations) == 1) and figure.panels[0][0].metric not in FURTHER
    ]
    unfolded_bytes = sum((figures / f"{name}.svg").stat().st_size for name in unfolded)
    inline = frozenset(unfolded if unfolded_bytes <= MOST_INLINE_BYTES else ())

    def drawing(figure: Figure) -> Markup:
        if figure.name not in inline:
            return _replaced_image(figure)
        svg = (figures / f"{figure.name}.svg").read_text()
        return Markup(inlined(svg, figure.name, figure_text(figure), labels))  # our own drawing, escaped in `inlined`

    return drawing


def image(figure: SessionFigure) -> Markup:
    """A figure as a file beside the page."""
    return Markup('<img src="figures/{}.svg" alt="{}" loading="lazy">').format(figure.name, figure.caption)


def _replaced_image(figure: Figure) -> Markup:
    """A figure as a file beside the page, which the page's script replaces with a drawing in it, linked to its runs."""
    image = Markup('<img src="figures/{0}.svg" alt="{1}" loading="lazy" data-script="figures/{0}.js">')
    return image.format(figure.name, figure_text(figure))


def figure_text(figure: Figure) -> str:
    """The caption of a figure, and its medians in words, as far as they are not too many."""
    medians = (
        f"{box.permutation.implementation} {box.metric.quantity_text(box.numbers.median)}"
        + (f" ({where})" if (where := ", ".join(filter(None, (panel.title, category)))) else "")
        for panel in chain(*figure.panels)
        for category, boxes in zip(panel.categories, panel.boxes, strict=True)
        for box in boxes
        if box.numbers
    )
    text = f"{figure.caption} Medians: {'; '.join(medians)}."
    return text if len(text) <= MOST_LETTERS else f"{text[:MOST_LETTERS].rpartition(';')[0]}; more in statistics.csv."


def point_labels(results: Results) -> dict[str, str]:
    """The tooltips of points, by run id."""
    return {run.record.run_id: _point_label(run) for run in results.runs}


def marks(results: Results) -> dict[str, Markup]:
    """The mark before an implementation's name or label: its colour, and its marker's shape if colours repeat."""
    has_shapes = len(results.implementations) > len(SERIES)
    mark = Markup('<span class="mark{}" style="--colour: var(--series-{})"></span>')
    return {
        called: mark.format(f" shape-{looks.shape}" if has_shapes else "", looks.number % len(SERIES))
        for name in results.implementations
        for looks in [Looks(results.series[name])]
        for called in (name, results.labels[name])
    }


def _point_label(run: Run) -> str:
    """The text of a point's tooltip: the run, its numbers, and why it is suspect."""
    values = (
        f"{metric.name}: {'1 packet' if metric.unit == 'packets' and value == 1 else metric.quantity_text(value)}"
        for metric in METRICS
        if (value := metric.of(run)) is not None
    )
    return "\n".join((run.record.run_id, *values, *(f"suspect: {reason}" for reason in run.suspect)))


def draw_figures(
    results: Results, figures: Sequence[Figure], theory: Sequence[Comparison], kept: KeptFigures, share: Share
) -> None:
    """Write NAME.svg of each figure, NAME.js, which adds it to a page, and NAME.pdf if that is wanted. `theory` are the
    medians for which there is one.

    Raises OSError.
    """
    labels, bounds = point_labels(results), bounds_by_permutation(results, theory)
    tasks = [_Task.of(figure, results.series, labels, bounds) for figure in figures]
    missing = [task for task in tasks if not kept.take(task.figure.name, task.drawn_from, (SCRIPT,))]
    for _ in share(partial(_draw, directory=kept.figures, with_pdf=".pdf" in kept.suffixes), missing):
        pass
    for task in missing:
        name = task.figure.name
        kept.note(name, task.drawn_from, [f"{name}{suffix}" for suffix in (*kept.suffixes, SCRIPT)], True)


@dataclass(frozen=True)
class _Task:
    """A figure with all that it is drawn from; `labels` are the tooltips of its points, by run id."""

    figure: Figure
    series: dict[str, int]
    labels: dict[str, str]
    bounds: dict[Permutation, tuple[float, float]]
    drawn_from: str

    @classmethod
    def of(cls, figure: Figure, series: dict[str, int], labels: dict[str, str], bounds: Bounds) -> _Task:
        own_series = {name: series[name] for name in figure.implementations}
        run_ids = {run.run_id for box in figure.boxes for run, _ in box.values}
        own_labels = {run_id: labels[run_id] for run_id in sorted(run_ids)}
        own_bounds = {box.permutation: each for box in figure.boxes if (each := bounds_of(box, bounds))}
        values = [_values(figure), own_series, own_labels, list(own_bounds.values())]
        return cls(figure, own_series, own_labels, own_bounds, digest_of_drawing(values))


def bounds_by_permutation(results: Results, theory: Sequence[Comparison]) -> dict[Permutation, tuple[float, float]]:
    """The bounds of theory for each permutation, in Mbit/s to delivery; without permutations that have no bound."""
    bounds = {(each.name, each.point): each.goodput_bounds_bps for each in theory}
    places = {
        point: (point.implementation, Point.of_row(rows[0])) for point, rows in results.rows_by_permutation.items()
    }
    of_points = {point: bounds[place] for point, place in places.items() if place in bounds}
    return {point: (low / 1e6, high / 1e6) for point, (low, high) in of_points.items() if isfinite(high)}


def _values(figure: Figure) -> object:
    """The values that a figure shows, as JSON values."""
    panels = [
        [[panel.title, panel.heading, panel.metric.slug, panel.categories, _boxes(panel.boxes)] for panel in row]
        for row in figure.panels
    ]
    return [figure.name, figure.caption, figure.axis.slug, figure.implementations, figure.share, figure.lying, panels]


def _boxes(boxes: Sequence[Sequence[Box]]) -> object:
    return [
        [
            [box.permutation.implementation, box.planned, box.n_text, box.undelivered]
            + [[run.run_id, run.repetition, run.is_suspect, value] for run, value in box.values]
            for box in column
        ]
        for column in boxes
    ]


def _draw(task: _Task, directory: Path, with_pdf: bool) -> None:
    figure = task.figure
    save(draw(figure, task.series, task.bounds), directory, figure.name, with_pdf)
    svg = inlined((directory / f"{figure.name}.svg").read_text(), figure.name, figure_text(figure), task.labels)
    (directory / f"{figure.name}{SCRIPT}").write_text(script("drawing", figure.name, svg))


TIME_USE = "time-use"
MOST_BARS = 120
"""The most bars of the figure, which would otherwise be taller than three screens; with more, it is not drawn."""
TIME_CAPTION = (
    "Session time by implementation, divided into the parts of the critical path: means over the runs whose file was "
    "delivered. The parts of a bar add up to the mean session time."
)


@dataclass(frozen=True)
class TimeSection:
    """The content of the section on the session time. `figure` is None if there would be too many bars."""

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
    specification = _time_specification(dimensions, results)
    drawn_from = digest_of_drawing([specification.x.name, results.labels, list(results.series), _time_values(cells)])
    if not kept.take(TIME_USE, drawn_from):
        with_pdf = ".pdf" in kept.suffixes
        save(draw_figure(results.rows, specification), kept.figures, TIME_USE, with_pdf)
        kept.note(TIME_USE, drawn_from, [f"{TIME_USE}{suffix}" for suffix in kept.suffixes], True)
    return TimeSection(SessionFigure(TIME_USE, TIME_CAPTION), tuple(sentences))


def _time_specification(dimensions: Sequence[Dimension], results: Results) -> Specification:
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


def _time_values(cells: Sequence[Cell]) -> object:
    """The values that the figure of the session time shows."""
    return [
        [repr(cell.point), name, sample.tried, sample.delivered, sample.suspect, repr(time_use(sample))]
        for cell in cells
        for name, sample in cell.samples.items()
    ]
