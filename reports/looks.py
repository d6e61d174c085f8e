"""The looks of figures: colours, markers, type. report.css has the same colours by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from owlt.reports.units import listed

if TYPE_CHECKING:
    from matplotlib.axes import Axes

INK, MUTED, RULE, PAPER, ALARM = "#1f2328", "#59636e", "#d9dee3", "#ffffff", "#b3261e"
SERIES = ("#0072b2", "#d55e00", "#009e73", "#aa4499", "#b8860b", "#332288", "#882255", "#6b6b6b")
"""Colours that colour-blind readers can distinguish (after Okabe and Ito; Tol), in the order of the sweep."""
FROM_SENDER, FROM_RECEIVER, BESIDE_DATA, AGAIN, DAMAGED = SERIES[:5]
"""Colours in the figures of one session: the sender's (new) data, the receiver's packets, the sender's other packets,
retransmitted data, damaged packets."""
TIME: Mapping[str, str] = {
    "new data": SERIES[0],
    "serialization": "#56b4e9",
    "queueing": SERIES[4],
    "propagation": SERIES[2],
    "in the channel": SERIES[5],
    "processing": SERIES[7],
    "timer": SERIES[1],
    "waiting": SERIES[3],
}
"""Colours of the kinds that the session time is divided into (captures.inspection.critical_path)."""
LEAST_PRINTED_SHARE = 0.0005
"""A kind with a smaller share of the time is not printed: with one decimal, it is 0.0 %."""
TIME_TITLES: Mapping[str, str] = {
    "new data": "transmission of file data (first time)",
    "serialization": "retransmissions and control packets",
    "queueing": "queueing",
    "propagation": "propagation",
    "in the channel": "channel transit (not divided further)",
    "processing": "host processing",
    "timer": "timers",
    "waiting": "unexplained idle time",
}
"""The title of each kind in legends and tables."""
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "p")
NAMED = 6
"""The most implementations that a sentence names, and that are side by side in the table of medians."""


@dataclass(frozen=True)
class Looks:
    """The looks of an implementation in every figure, by its place in the sweep."""

    number: int

    @property
    def colour(self) -> str:
        """A colour of SERIES; colours repeat if there are more implementations."""
        return SERIES[self.number % len(SERIES)]

    @property
    def shape(self) -> int:
        """The place in MARKERS: shifted by one at each repetition of the colours, so that 64 pairs differ."""
        return (self.number + self.number // len(SERIES)) % len(MARKERS)

    @property
    def marker(self) -> str:
        """The shape of its points, which distinguishes implementations in grey print too."""
        return MARKERS[self.shape]


def named_or_counted(titles: Sequence[str]) -> str:
    """The implementations in a sentence: their titles, or their number if there are more than NAMED."""
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


def draw_grid(axes: Axes, axis: Literal["x", "y", "both"] = "y") -> None:
    """Lines behind what is drawn, at the ticks of an axis, and no frame at the top and the right."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis=axis, color=RULE, linewidth=0.6)
    axes.set_axisbelow(True)


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
STYLE_NAME = "owlt.reports.owlt"
"""For matplotlib.style.use."""


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
