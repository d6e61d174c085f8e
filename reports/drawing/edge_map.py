"""What became of a transfer that was interrupted: a map of the moments against the kinds of interruption."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import matplotlib
from matplotlib.figure import Figure as Canvas
from matplotlib.patches import Patch

from owlt.reports.looks import ALARM, INK, RULE, SERIES, STYLE

_WIDTH, _ROW_HEIGHT, _REST_HEIGHT = 9.0, 0.42, 1.6
COLOURS: Mapping[str, str] = {
    "continued": SERIES[0],
    "restarted": SERIES[1],
    "not ended": SERIES[2],
    "gave up": SERIES[4],
    "stuck": ALARM,
    "corrupt": INK,
    "undecided": RULE,
}


@dataclass(frozen=True)
class Cell:
    """One transfer: the kind of its interruption, when it was, after the launch, and what became of it."""

    kind: str
    at_s: float
    state: str


def draw_edges(cells: Sequence[Cell], title: str) -> Canvas:
    """The map: a row for each kind of interruption, in the order of the cells, and a column for each moment."""
    kinds = list(dict.fromkeys(cell.kind for cell in cells))
    times_s = sorted({cell.at_s for cell in cells})
    column = {at_s: number for number, at_s in enumerate(times_s)}
    with matplotlib.rc_context(STYLE):
        canvas = Canvas(figsize=(_WIDTH, _REST_HEIGHT + _ROW_HEIGHT * len(kinds)), layout="constrained")
        axes = canvas.subplots()
        for cell in cells:
            place = column[cell.at_s], len(kinds) - 1 - kinds.index(cell.kind)
            axes.bar(place[0], 0.84, 1, place[1] - 0.42, align="center", color=COLOURS[cell.state], linewidth=0)
        axes.set_yticks(range(len(kinds)), reversed(kinds))
        shown = (
            [round(number * (len(times_s) - 1) / 7) for number in range(8)]
            if len(times_s) > 8
            else [*range(len(times_s))]
        )
        axes.set_xticks(shown, [f"{times_s[place]:.3g} s" for place in shown])
        axes.set_xlabel("when the interruption begins, after the launch; one column for each phase")
        axes.set_xlim(-0.5, len(times_s) - 0.5)
        axes.spines[["top", "right", "left"]].set_visible(False)
        axes.tick_params(left=False)
        axes.set_title(title, loc="left", color=INK)
        states = [state for state in COLOURS if any(cell.state == state for cell in cells)]
        handles = [Patch(color=COLOURS[state], label=state) for state in states]
        canvas.legend(handles=handles, loc="outside lower left", ncols=len(handles), frameon=False)
        return canvas
