"""The files of the figures over a sweep: drawn on all cores, or taken over from the earlier report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from math import isfinite
from pathlib import Path

from owlt.reports.comparison.panels import Figure
from owlt.reports.comparison.statistics import Box
from owlt.reports.cores import Share
from owlt.reports.figures.boxes import Bounds, bounds_of
from owlt.reports.figures.drawing import draw, save
from owlt.reports.figures.kept import KeptFigures, digest_of_drawing
from owlt.reports.page.drawings import figure_text, point_labels
from owlt.reports.page.inline import inlined
from owlt.reports.page.parts import SCRIPT, script
from owlt.reports.results.load import Results
from owlt.reports.theory.expectations import Comparison
from owlt.results.record import Permutation


def draw_figures(
    results: Results, figures: Sequence[Figure], theory: Sequence[Comparison], kept: KeptFigures, share: Share
) -> None:
    """Write NAME.svg of each figure, NAME.js, which adds it to a page, and NAME.pdf if that is wanted. `theory` are the
    medians for which there is one.

    Raises OSError.
    """
    labels, bounds = point_labels(results), bounds_by_permutation(theory)
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


def bounds_by_permutation(theory: Sequence[Comparison]) -> dict[Permutation, tuple[float, float]]:
    """What theory expects of each permutation, in Mbit/s to delivery; not if it has no bound."""
    bounds = {Permutation(implementation=each.name, **each.point._asdict()): each.goodput_bounds_bps for each in theory}
    return {point: (low / 1e6, high / 1e6) for point, (low, high) in bounds.items() if isfinite(high)}


def _values(figure: Figure) -> object:
    """What a figure shows, in values of JSON."""
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
