"""What a figure shows, as a value: quantities, kind, groups, facets, filters, size."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, get_args

from owlt.reports.publication.quantities import Quantity, quantity
from owlt.reports.publication.selection import Filter

Kind = Literal["box", "bar", "cdf", "heatmap", "line", "map"]
KINDS: tuple[str, ...] = get_args(Kind)
WIDTHS_MM = {
    "ieee-column": 88.9,
    "ieee-page": 181.9,
    "nasa-column": 82.55,
    "nasa-page": 165.1,
}
"""The widths of a column and of the text of the page, of IEEE transactions and NASA technical memoranda."""


@dataclass(frozen=True)
class Specification:
    """A figure. `height_mm` None: from the number of panels.

    A map has the grid of the answer: `y` is its criterion; x, facets and theory are not used.
    """

    y: Quantity
    x: Quantity
    kind: Kind = "box"
    group: Quantity = field(default_factory=lambda: quantity("implementation"))
    facets: tuple[Quantity, ...] = ()
    filters: tuple[Filter, ...] = ()
    theory: tuple[str, ...] = ()
    """The names of theories to draw, of `reports.publication.curves`; of a figure of goodput."""
    order: tuple[str, ...] = ()
    """Groups in the order that decides their looks; the others follow in the order of the rows."""
    width_mm: float = WIDTHS_MM["ieee-column"]
    height_mm: float | None = None
    font_pt: float = 8.0
