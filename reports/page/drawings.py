"""How a figure is part of the page: inline, its points linked to their runs, or as a file beside the page."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain
from pathlib import Path

from markupsafe import Markup

from owlt.reports.comparison.metrics import FURTHER, METRICS
from owlt.reports.comparison.panels import Figure
from owlt.reports.page.inline import inlined
from owlt.reports.results.load import Results, Run
from owlt.reports.sessions.session_figures import SessionFigure
from owlt.reports.style.looks import NAMED, SERIES, Looks

MOST_INLINE_BYTES = 1_500_000
"""If the figures are larger together, none is inline: a browser loads each when it is scrolled into view, and the page
opens at once."""
MOST_LETTERS = 900
"""Of the text of a figure for who cannot see it."""


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
        f"{box.permutation.implementation} {box.metric.text(box.numbers.median)}"
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
    """The mark before an implementation's name: its colour, and its marker's shape if colours repeat."""
    has_shapes = len(results.implementations) > len(SERIES)
    mark = Markup('<span class="mark{}" style="--colour: var(--series-{})"></span>')
    return {
        name: mark.format(f" shape-{looks.shape}" if has_shapes else "", looks.number % len(SERIES))
        for name in results.implementations
        for looks in [Looks(results.series[name])]
    }


def _point_label(run: Run) -> str:
    """The text of a point's tooltip: the run, its numbers, and why it is suspect."""
    values = (
        f"{metric.name}: {metric.text(value)} {'packet' if metric.unit == 'packets' and value == 1 else metric.unit}"
        for metric in METRICS
        if (value := metric.of(run)) is not None
    )
    return "\n".join((run.record.run_id, *values, *(f"suspect: {reason}" for reason in run.suspect)))
