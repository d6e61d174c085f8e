"""The looks of groups in figures for a paper: colour, marker, hatch and line, each enough to tell them apart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from owlt.reports.style.looks import MARKERS, SERIES

HATCHES = ("", "////", "....", "xxxx", "\\\\\\\\", "----", "++++", "oooo")
LINES: tuple[Any, ...] = (
    "-",
    (0, (5, 2)),
    (0, (1, 1)),
    (0, (5, 1.5, 1, 1.5)),
    (0, (8, 2)),
    (0, (3, 1, 1, 1, 1, 1)),
    (0, (2, 2)),
    (0, (8, 2, 2, 2)),
)
STYLE_NAME = "owlt.reports.publication.owlt"
"""For matplotlib.style.use."""
BASE_PT = 8.0
"""The font size for which distances are chosen."""


@dataclass(frozen=True)
class GroupLooks:
    """The looks of one group."""

    colour: str
    marker: str
    hatch: str
    line: Any


def looks_of(names: Sequence[Any]) -> dict[Any, GroupLooks]:
    """The looks of each group, in this order; they repeat after eight."""
    return {
        name: GroupLooks(SERIES[place % 8], MARKERS[place % 8], HATCHES[place % 8], LINES[place % 8])
        for place, name in enumerate(names)
    }


def font_style(font_pt: float) -> dict[str, float]:
    """The sizes of type for a base size."""
    return {
        "font.size": font_pt,
        "axes.titlesize": font_pt,
        "axes.labelsize": font_pt,
        "xtick.labelsize": 0.9 * font_pt,
        "ytick.labelsize": 0.9 * font_pt,
        "legend.fontsize": 0.9 * font_pt,
    }
