"""A drawn figure as part of the page: its colours become the page's, its points say and link to their runs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from html import escape

from reports.boxes import RUN_LINK
from reports.looks import ALARM, INK, MUTED, PAPER, RULE, SERIES

VARIABLES = {INK: "--ink", MUTED: "--muted", RULE: "--rule", PAPER: "--paper", ALARM: "--alarm"} | {
    colour: f"--series-{number}" for number, colour in enumerate(SERIES)
}
"""The style sheet's name of each colour of the figures."""
POINTS = 72
"""In an inch."""


def inlined(svg: str, name: str, label: str, told: Mapping[str, str]) -> str:
    """The SVG element of a file that figures.py wrote, to stand in a page with others.

    `name` begins its ids, so that no two figures of the page share one; `label` is for those who hear the page;
    `told` is what a point says under the pointer, by run id. The style sheet is told its width, `--inches`, so that
    type is of one size in all of them.
    """
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<!--.*?-->|<style.*?</style>|<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(
        r"<svg [^>]*?(viewBox=\"0 0 ([\d.]+) [^\"]*\")[^>]*>",
        lambda found: (
            f'<svg {found[1]} style="--inches: {float(found[2]) / POINTS:.4g}" role="img" aria-label="{escape(label)}">'
        ),
        svg,
    )
    svg = re.sub(r'(id="|href="#|url\(#)', rf"\g<1>{name}.", svg)
    svg = re.sub(r"(fill|stroke): (#[0-9a-f]{6})", lambda found: f"{found[1]}: var({VARIABLES[found[2]]})", svg)
    svg = re.sub(
        rf'<a xlink:href="{re.escape(RUN_LINK)}([^"]*)"[^>]*>',
        lambda found: f'<a href="#run-{found[1]}"><title>{escape(told[found[1]])}</title>',
        svg,
    )
    return re.sub(r">\s+<", "><", svg.replace("xlink:href", "href"))
