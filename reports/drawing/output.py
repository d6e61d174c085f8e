"""A drawn figure as a file, the same bytes every time, and as a part of a page, in its colours and with its links."""

from __future__ import annotations

import re
from collections.abc import Mapping
from html import escape
from io import StringIO
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.figure import Figure

from owlt.reports.drawing.boxes import RUN_LINK
from owlt.reports.looks import ALARM, INK, MUTED, PAPER, RULE, SERIES, STYLE

FORMATS = ("pdf", "svg", "png")
_WITHOUT_DATES: Mapping[str, dict[str, Any]] = {
    "pdf": {"CreationDate": None, "Creator": "owlt"},
    "svg": dict.fromkeys(("Date", "Creator", "Format", "Type")),
    "png": {"Software": None},
}
_DOTS_PER_INCH = 200


def write_figure(
    figure: Figure, target: Path | StringIO, file_format: str, salt: str, dots_per_inch: float | None = None
) -> None:
    """Write a figure in matplotlib's current style, in one of the FORMATS, without dates; the ids of an SVG depend only
    on its content and the salt. `dots_per_inch`: None is that of the style. Raises OSError."""
    with matplotlib.rc_context({"svg.hashsalt": salt}):
        figure.savefig(target, format=file_format, metadata=_WITHOUT_DATES[file_format], dpi=dots_per_inch)


def save_drawing(figure: Figure, path: Path) -> None:
    """Write a figure in the style of pages, in the format of the path's ending. Raises OSError."""
    with matplotlib.rc_context(STYLE):
        write_figure(figure, path, path.suffix[1:], path.stem, _DOTS_PER_INCH)


def svg_of(figure: Figure, salt: str) -> str:
    """The text of a figure's SVG file, in the style of pages."""
    text = StringIO()
    with matplotlib.rc_context(STYLE):
        write_figure(figure, text, "svg", salt)
    return text.getvalue()


VARIABLES = {INK: "--ink", MUTED: "--muted", RULE: "--rule", PAPER: "--paper", ALARM: "--alarm"} | {
    colour: f"--series-{number}" for number, colour in enumerate(SERIES)
}
"""The style sheet's name of each colour of the figures."""
POINTS = 72
"""Points per inch."""


def inlined(svg: str, name: str, label: str, tooltips: Mapping[str, str]) -> str:
    """The SVG element of a figure's file, for a page with others.

    `name` is the prefix of its ids, which are unique in the page; `label` is for screen readers; `tooltips` are the
    tooltips of points, by run id. The width in inches is given to the style sheet as `--inches`, so that type has one
    size in all figures.
    """
    svg = svg[svg.index("<svg") :]
    role = "group" if RUN_LINK in svg else "img"  # an image has no links in it
    svg = re.sub(r"<!--.*?-->|<style.*?</style>|<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(
        r"<svg [^>]*?(viewBox=\"0 0 ([\d.]+) [^\"]*\")[^>]*>",
        lambda match: (
            f'<svg {match[1]} style="--inches: {float(match[2]) / POINTS:.4g}" '
            f'role="{role}" aria-label="{escape(label)}">'
        ),
        svg,
    )
    svg = re.sub(r'(id="|href="#|url\(#)', rf"\g<1>{name}.", svg)
    svg = re.sub(r"(fill|stroke): (#[0-9a-f]{6})", lambda match: f"{match[1]}: var({VARIABLES[match[2]]})", svg)
    svg = re.sub(
        rf'<a xlink:href="{re.escape(RUN_LINK)}([^"]*)"[^>]*>',
        lambda match: f'<a href="#run-{match[1]}"><title>{escape(tooltips[match[1]])}</title>',
        svg,
    )
    return re.sub(r">\s+<", "><", svg.replace("xlink:href", "href"))
