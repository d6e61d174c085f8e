"""The page of a comparison: one HTML file that needs nothing else."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import ceil
from typing import Any

import matplotlib
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from owlt.reports.answer import change_words as words
from owlt.reports.answer.change_outcome import NightsCompared, TwoCompared
from owlt.reports.answer.change_tests import Series
from owlt.reports.answer.changes import Change, Relation
from owlt.reports.comparison.cells import Criterion, Point
from owlt.reports.drawing.output import inlined, svg_of
from owlt.reports.drawing.scales import apply_scale, scale_for
from owlt.reports.looks import ALARM, INK, MUTED, PAPER, SERIES, STYLE, draw_grid
from owlt.reports.rendering import new_environment

MOST_ROWS = 40
"""Permutations in a figure of ratios: more are only in the table."""
MOST_PANELS = 12
WIDTH, ROW, LETTER, MARGIN, BOTTOM = 7.6, 0.19, 0.068, 0.1, 0.55
PANEL_HEIGHT, PANEL_GAP = 1.35, 0.75
ACROSS = 3
"""Inches, and panels side by side."""
TICKS = (
    (0.9, 0.95, 0.98, 1, 1.02, 1.05, 1.1),
    (0.5, 0.6, 0.7, 0.8, 0.9, 1, 1.1, 1.25, 1.5, 2),
    (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100),
)
"""The ticks of scales of ratios up to 1.2 times or its inverse, up to 2 times, and beyond."""
LEAST_SPAN = 1.04
"""The least range of a scale of ratios on both sides of 1."""
COLOURS: dict[Relation, str] = {"worse": ALARM, "better": SERIES[2]}
PointText = Callable[[Point], str]


def ratios_figure(changes: Sequence[Change], criterion: Criterion, place: PointText) -> str:
    """The ratio of each permutation with its interval, in the order of the list, as SVG; "" if none has one."""
    drawn = [change for change in changes if change.ratio][:MOST_ROWS]
    if not drawn:
        return ""
    labels = [f"{change.implementation}, {place(change.point)}" for change in drawn]
    left = MARGIN + LETTER * max(map(len, labels)) + 0.1
    height = ROW * len(drawn) + BOTTOM + MARGIN
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(WIDTH, height))
        axes = figure.add_axes(
            (left / WIDTH, BOTTOM / height, (WIDTH - left - 2 * MARGIN) / WIDTH, ROW * len(drawn) / height)
        )
        for row, change in enumerate(drawn):
            assert change.ratio is not None
            colour = COLOURS.get(change.relation, MUTED)
            axes.plot([change.ratio.low, change.ratio.high], [row, row], color=colour, linewidth=1.4)
            is_sure = change.relation in COLOURS
            looks: dict[str, Any] = {"marker": "o", "markersize": 4.5, "markeredgecolor": colour}
            axes.plot([change.ratio.value], [row], color=colour, markerfacecolor=colour if is_sure else PAPER, **looks)
        axes.axvline(1, color=INK, linewidth=0.8)
        axes.set_ylim(len(drawn) - 0.5, -0.5)
        axes.set_yticks(range(len(drawn)), labels)
        axes.tick_params(axis="y", length=0)
        better = "right" if criterion.higher_is_better else "left"
        _ratio_scale(axes, drawn)
        axes.set_xlabel(f"{criterion.title}, after over before ({better}: better)")
        draw_grid(axes, "x")
    return svg_of(figure, "changes")


def nights_figure(series: Sequence[Series], criterion: Criterion, place: PointText, labels: Sequence[str]) -> str:
    """The medians of each night of the permutations that changed, with their change points, as SVG; "" if none did."""
    drawn = [each for each in series if each.changes][:MOST_PANELS]
    if not drawn:
        return ""
    rows = ceil(len(drawn) / ACROSS)
    height = rows * (PANEL_HEIGHT + PANEL_GAP) + 0.05
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(WIDTH, height))
        for number, each in enumerate(drawn):
            row, column = divmod(number, ACROSS)
            width = (WIDTH - MARGIN) / ACROSS
            box = (MARGIN + column * width + 0.45, height - (row + 1) * (PANEL_HEIGHT + PANEL_GAP) + 0.3)
            axes = figure.add_axes(
                (box[0] / WIDTH, box[1] / height, (width - 0.6) / WIDTH, (PANEL_HEIGHT - 0.1) / height)
            )
            _draw_nights(axes, each, criterion, labels)
            axes.set_title(f"{each.implementation}\n{place(each.point)}", loc="left", fontsize=8)
    return svg_of(figure, "changes")


def _draw_nights(axes: Axes, series: Series, criterion: Criterion, labels: Sequence[str]) -> None:
    points = [(night, value) for night, value in enumerate(series.medians) if value is not None]
    values = [value for _, value in points]
    axes.plot([night for night, _ in points], values, color=MUTED, linewidth=0.8, marker="o", markersize=3.5)
    for change in series.changes:
        colour = ALARM if change.is_worse else SERIES[2]
        axes.axvline(change.night - 0.5, color=colour, linewidth=1.2, linestyle="-" if change.is_worse else "--")
    if values:
        apply_scale(axes, scale_for("linear", values, criterion.metric.kind), criterion.metric.kind == "count")
    axes.set_xlim(-0.5, len(labels) - 0.5)
    axes.set_xticks([0, len(labels) - 1], [labels[0], labels[-1]])
    first, last = axes.get_xticklabels()
    first.set_horizontalalignment("left")
    last.set_horizontalalignment("right")
    draw_grid(axes)


def _ratio_scale(axes: Axes, changes: Sequence[Change]) -> None:
    bounds = [bound for change in changes if change.ratio for bound in (change.ratio.low, change.ratio.high)]
    reach = max(LEAST_SPAN, max(bounds), 1 / min(bounds)) ** 1.05
    low, high = max(1 / reach, min(bounds) / 1.02, 1e-3), min(reach, max(bounds) * 1.02, 1e3)
    low, high = min(low, 1 / LEAST_SPAN), max(high, LEAST_SPAN)
    reach = max(high, 1 / low)
    ticks = [tick for tick in TICKS[0 if reach < 1.2 else 1 if reach < 2.5 else 2] if low <= tick <= high]
    axes.set_xscale("log")
    axes.set_xlim(low, high)
    axes.xaxis.set_major_locator(FixedLocator(ticks))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.xaxis.set_minor_locator(NullLocator())


MOST_IN_ALT = 12
"""The most permutations in the text of a figure for screen readers."""


def changes_page(compared: TwoCompared | NightsCompared) -> str:
    """The page as HTML."""
    own = _two(compared) if isinstance(compared, TwoCompared) else _nights(compared)
    return (
        new_environment()
        .get_template("changes.html")
        .render(words=words, criterion=compared.criterion, tolerance=compared.tolerance, **own)
    )


def _two(compared: TwoCompared) -> dict[str, Any]:
    place = words.places_of([change.point for change in compared.changes])
    drawn = [change for change in compared.changes if change.ratio]
    texts = [f"{c.implementation}, {place(c.point)}: {words.change_text(c.ratio)}" for c in drawn[:MOST_IN_ALT]]
    return {
        "title": f"{compared.before.label} and {compared.after.label}",
        "headline": words.headline(compared.overall, compared.changes),
        "sources": (compared.before, compared.after),
        "place": place,
        "figure": _inline(ratios_figure(compared.changes, compared.criterion, place), "Ratios. " + "; ".join(texts)),
        "more": max(0, len(drawn) - MOST_ROWS),
        "two": compared,
        "nights": None,
        "labels": [],
    }


def _nights(compared: NightsCompared) -> dict[str, Any]:
    labels = [source.label for source in compared.sources]
    place: PointText = words.places_of([each.point for each in compared.series])
    changed = [each for each in compared.series if each.changes]
    texts = [
        f"{each.implementation}, {place(each.point)}: {words.change_points_text(each, labels)}"
        for each in changed[:MOST_IN_ALT]
    ]
    svg = nights_figure(compared.series, compared.criterion, place, labels)
    return {
        "title": f"{labels[0]} to {labels[-1]}",
        "headline": words.nights_headline(compared.series, labels),
        "sources": compared.sources,
        "place": place,
        "figure": _inline(svg, "Medians of each directory. " + "; ".join(texts)),
        "more": 0,
        "two": None,
        "nights": compared,
        "labels": labels,
    }


def _inline(svg: str, text: str) -> Markup:
    """Our own drawing, whose text is escaped in `inlined`."""
    return Markup(inlined(svg, "changes", text, {})) if svg else Markup("")
