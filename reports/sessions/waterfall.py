"""A session's critical path over time: a row for each host and each direction of the channel, and the phases above."""

from __future__ import annotations

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas
from matplotlib.patches import Patch

from owlt.captures.inspection.critical_path import KINDS, PHASES, WAITS, CriticalPath, Part
from owlt.reports.drawing.channel import time_unit
from owlt.reports.looks import INK, MUTED, RULE, STYLE, TIME, TIME_TITLES
from owlt.reports.sessions.explanation import spent_ns

ROWS = ("sender", "forward", "reverse", "receiver")
_WIDTH, _HEIGHT = 9.0, 3.0
_LEAST_LABEL = 0.06
"""The smallest share of the session for which a phase is labelled."""


def row_of(part: Part) -> str:
    """The row of a part: the host that waits or processes, or the direction of its packet."""
    if part.kind in WAITS:
        return part.host
    return "forward" if part.host == "sender" else "reverse"


def draw_waterfall(path: CriticalPath, title: str) -> Canvas:
    """The figure of a path; times count from the session's first packet."""
    unit, unit_s = time_unit(path.length_ns / 1e9)
    with matplotlib.rc_context(STYLE):
        canvas = Canvas(figsize=(_WIDTH, _HEIGHT), layout="constrained")
        axes = canvas.subplots()
        for row, name in enumerate(reversed(ROWS)):
            _draw_row(axes, row, [part for part in path.parts if row_of(part) == name], path.begin_ns, unit_s)
        axes.set_yticks(range(len(ROWS)), [*reversed(ROWS)])
        axes.set_ylim(-0.5, len(ROWS) - 0.5)
        axes.set_xlim(0, path.length_ns / 1e9 / unit_s)
        axes.set_xlabel(f"time since the session's first packet ({unit})")
        axes.spines[["top", "right", "left"]].set_visible(False)
        axes.tick_params(left=False)
        _draw_phases(axes, path, unit_s)
        axes.set_title(title, loc="left", color=INK, pad=18, fontweight="bold")
        kinds = [kind for kind in KINDS if any(part.kind == kind for part in path.parts)]
        handles = [Patch(color=TIME[kind], label=TIME_TITLES[kind]) for kind in kinds]
        canvas.legend(handles=handles, loc="outside lower left", ncols=3)
    return canvas


def _draw_row(axes: Axes, row: int, parts: list[Part], begin_ns: int, unit_s: float) -> None:
    for kind in KINDS:
        spans = [
            ((part.begin_ns - begin_ns) / 1e9 / unit_s, part.length_ns / 1e9 / unit_s)
            for part in parts
            if part.kind == kind
        ]
        if spans:
            axes.broken_barh(spans, (row - 0.35, 0.7), color=TIME[kind], linewidth=0)
    axes.axhline(row - 0.5, color=RULE, linewidth=0.5)


def _draw_phases(axes: Axes, path: CriticalPath, unit_s: float) -> None:
    """A line where each phase begins, and the names of those that are long enough."""
    spent, at_ns = spent_ns(path), 0
    for phase in PHASES:
        length_ns = sum(spent[phase].values())
        if at_ns and length_ns:
            axes.axvline(at_ns / 1e9 / unit_s, color=MUTED, linewidth=0.6, linestyle=(0, (3, 2)))
        if length_ns >= _LEAST_LABEL * path.length_ns:
            middle = (at_ns + length_ns / 2) / 1e9 / unit_s
            axes.annotate(
                phase,
                (middle, 1),
                (0, 4),
                xycoords=("data", "axes fraction"),
                textcoords="offset points",
                ha="center",
                color=MUTED,
            )
        at_ns += length_ns
