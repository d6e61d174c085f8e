"""The page of a comparison: one HTML file that needs nothing else."""

from __future__ import annotations

from typing import Any

from markupsafe import Markup

from owlt.reports.changes import words
from owlt.reports.changes.figures import MOST_ROWS, Place, nights_figure, ratios_figure
from owlt.reports.changes.outcome import NightsCompared, TwoCompared
from owlt.reports.page.inline import inlined
from owlt.reports.rendering import new_environment

MOST_IN_ALT = 12
"""Permutations in the text of a figure for who cannot see it."""


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
    place: Place = words.places_of([each.point for each in compared.series])
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
