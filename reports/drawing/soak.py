"""A soak over virtual time: when each transfer's file was delivered, and what was left on the hosts after it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas

from owlt.reports.looks import ALARM, INK, MUTED, SERIES, STYLE, draw_grid

_SIZE = (9.0, 6.4)
_NS_PER_DAY = 86_400e9
_NS_PER_HOUR = 3600e9


def draw_soak(transfers: Sequence[Mapping[str, Any]], start_ns: int, wraps_ns: Mapping[str, int], title: str) -> Canvas:
    """The figure. `transfers` are the lines of a life; `start_ns` and `wraps_ns`, by name, are uptimes."""
    began_ns = np.array([each["uptime_ns"] for each in transfers], dtype=float) - start_ns
    in_hours = began_ns.size == 0 or began_ns.max() < 2 * _NS_PER_DAY
    unit_ns, unit = (_NS_PER_HOUR, "h") if in_hours else (_NS_PER_DAY, "days")
    at = began_ns / unit_ns
    with matplotlib.rc_context(STYLE):
        canvas = Canvas(figsize=_SIZE, layout="constrained")
        above, below = canvas.subplots(2, 1, sharex=True)
        above.set_title(title, loc="left", color=INK)
        _draw_deliveries(above, at, transfers)
        _draw_left(below, at, transfers)
        below.set_xlabel(f"virtual time since the first transfer ({unit})")
        shown = [
            at_ns
            for at_ns in wraps_ns.values()
            if at.size and at.min() <= (at_ns - start_ns) / unit_ns <= at.max() * 1.01
        ]
        for name, at_ns in wraps_ns.items():
            if at_ns in shown:
                place = (at_ns - start_ns) / unit_ns
                for axes in (above, below):
                    axes.axvline(place, color=MUTED, linewidth=0.8, linestyle="--")
                above.annotate(
                    name,
                    (place, 1.0),
                    xycoords=("data", "axes fraction"),
                    fontsize=8,
                    color=MUTED,
                    xytext=(3, -10),
                    textcoords="offset points",
                )
        return canvas


def _draw_deliveries(axes: Axes, at: Any, transfers: Sequence[Mapping[str, Any]]) -> None:
    delivered = np.array([(each["delivered_after_ns"] or np.nan) / 1e9 for each in transfers], dtype=float)
    failed = np.array([each["outcome"] != "completed" for each in transfers], dtype=bool)
    axes.plot(at[~failed], delivered[~failed], ".", markersize=3, color=SERIES[0], label="delivered")
    if failed.any():
        axes.plot(at[failed], np.zeros(failed.sum()), "x", color=ALARM, label="failed", clip_on=False)
        axes.legend(frameon=False)
    axes.set_ylabel("time to delivery (s)")
    axes.set_ylim(bottom=0)
    _plain(axes)


def _draw_left(axes: Axes, at: Any, transfers: Sequence[Mapping[str, Any]]) -> None:
    known = np.array([bool(each["left"]) for each in transfers], dtype=bool)
    for place, (role, measure, words) in enumerate(
        (role, measure, words)
        for measure, words in (("memory_bytes", "memory of programs"), ("file_bytes", "files"))
        for role in ("sender", "receiver")
    ):
        values = [each["left"][role][measure] / 1e6 for each in transfers if each["left"]]
        axes.plot(at[known], values, color=SERIES[place], linewidth=1.2, label=f"{role}: {words}")
    axes.set_ylabel("left after the transfer (MB)")
    axes.set_ylim(bottom=0)
    axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=4, frameon=False, fontsize=8)
    _plain(axes)


def _plain(axes: Axes) -> None:
    draw_grid(axes)
