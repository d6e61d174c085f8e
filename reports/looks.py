"""What figures look like: colours, markers, type. The page gives the same colours names of its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from reports.units import listed

INK, MUTED, RULE, PAPER, ALARM = "#1f2328", "#59636e", "#d9dee3", "#ffffff", "#b3261e"
SERIES = ("#0072b2", "#d55e00", "#009e73", "#aa4499", "#b8860b", "#56b4e9", "#882255", "#6b6b6b")
"""Colours that eyes of all kinds can tell apart (after Okabe and Ito; Tol), in the order of the sweep."""
FROM_SENDER, FROM_RECEIVER, BESIDE_DATA, AGAIN, DAMAGED = SERIES[:5]
"""What colours mean in the figures of one session: the sender's (new) data, the receiver's packets, the sender's other
packets, data that is sent again, packets that came damaged."""
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "p")
NAMED = 6
"""So many implementations are named one by one in a sentence, and stand side by side in the table of medians."""


@dataclass(frozen=True)
class Looks:
    """How an implementation looks in every figure: its place in the sweep decides."""

    number: int

    @property
    def colour(self) -> str:
        """A colour of SERIES; they begin again where there are more implementations."""
        return SERIES[self.number % len(SERIES)]

    @property
    def shape(self) -> int:
        """The place in MARKERS: one further at each round of the colours, so that 64 pairs are all different."""
        return (self.number + self.number // len(SERIES)) % len(MARKERS)

    @property
    def marker(self) -> str:
        """The shape of its points, which tells implementations apart in grey too."""
        return MARKERS[self.shape]


def named_or_counted(titles: Sequence[str]) -> str:
    """The implementations in a sentence: each by its title, or how many where those are more than one can take in."""
    if len(titles) > NAMED:
        return f"{len(titles)} implementations"
    return listed(list(titles), "; " if any("," in title for title in titles) else ", ")


STYLE: dict[Any, Any] = {
    "font.family": "DejaVu Sans",
    "font.size": 8,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": MUTED,
    "axes.linewidth": 0.6,
    "xtick.color": INK,
    "ytick.color": INK,
    "ytick.major.width": 0.6,
    "legend.frameon": False,
    "legend.borderpad": 0,
    "legend.borderaxespad": 0,
    "legend.handletextpad": 0.3,
    "legend.columnspacing": 1.6,
    "text.parse_math": False,
    "svg.fonttype": "path",
    "pdf.fonttype": 42,
}
