"""A run drawn over time: throughput each way, offsets and acknowledgements, one-way delay, queue; one axis of time.

The values belong to `captures.inspection.traces`, the periods that are drawn to `trace_axis`, the content of each panel
to `trace_panels`.
"""

from __future__ import annotations

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas

from owlt.captures.inspection.traces import Traces, choose_interval_ns, shortest_interval_ns
from owlt.reports.looks import RULE, STYLE
from owlt.reports.sessions.trace_axis import LEFT, RIGHT, WIDTH, Period, drawn_periods, ticks_of, time_unit
from owlt.reports.sessions.trace_panels import Panel, draw_panel, panels_of
from owlt.reports.units import moment_text, number_text

TOP, BOTTOM, PANEL_GAP = 0.56, 0.50, 0.40
"""Inches."""
_MOST_INTERVALS = 100_000


def draw_traces(
    traces: Traces, title: str, between_s: tuple[float, float] | None = None, interval_ns: int | None = None
) -> Canvas:
    """The figure of a run, 7 inches wide: all of it, or the time from `between_s[0]` to `between_s[1]`, in s.

    Throughput is counted in intervals of `interval_ns`; by default they suit the time drawn. Raises ValueError if
    `between_s` does not end after it begins, or if the intervals are none or too many.
    """
    with matplotlib.rc_context(STYLE):
        periods = drawn_periods(traces, between_s)
        interval_ns = _suitable_interval_ns(traces, periods) if interval_ns is None else interval_ns
        panels = [panel.within(periods) for panel in panels_of(traces, interval_ns)]
        height = TOP + sum(panel.height for panel in panels) + PANEL_GAP * (len(panels) - 1) + BOTTOM
        canvas = Canvas(figsize=(WIDTH, height))
        canvas.text(LEFT / WIDTH, 1 - 0.16 / height, title, fontsize=9, fontweight="bold", va="center")
        unit, unit_s = time_unit(periods)
        _draw_rows(canvas, panels, periods, unit_s)
        label = _time_label(unit, interval_ns, has_breaks=len(periods) > 1)
        canvas.text((LEFT + WIDTH - RIGHT) / 2 / WIDTH, 0.14 / height, label, ha="center", va="center")
    return canvas


def _suitable_interval_ns(traces: Traces, periods: list[Period]) -> int:
    drawn_ns = int(1e9 * sum(period.length_s for period in periods))
    least_ns = traces.length_ns // _MOST_INTERVALS + 1
    return max(choose_interval_ns(drawn_ns, shortest_interval_ns(traces)), choose_interval_ns(200 * least_ns))


def _draw_rows(canvas: Canvas, panels: list[Panel], periods: list[Period], unit_s: float) -> None:
    """The panels below each other; only the last has the numbers of its ticks."""
    ticks = ticks_of(periods, unit_s)
    bottom = canvas.get_figheight() - TOP + PANEL_GAP
    for panel in panels:
        bottom -= panel.height + PANEL_GAP
        row = [_place(canvas, period, bottom, panel.height) for period in periods]
        draw_panel(row, periods, panel)
        for axes, times in zip(row, ticks, strict=True):
            axes.set_xticks(times, [number_text(round(time / unit_s, 9) + 0.0) for time in times])
            axes.tick_params(labelbottom=panel is panels[-1])


def _place(canvas: Canvas, period: Period, bottom: float, height: float) -> Axes:
    total = canvas.get_figheight()
    axes = canvas.add_axes((period.left / WIDTH, bottom / total, period.width / WIDTH, height / total))
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", color=RULE, linewidth=0.6)
    axes.set_axisbelow(True)
    axes.set_xlim(period.begin_s, period.end_s)
    return axes


def _time_label(unit: str, interval_ns: int, *, has_breaks: bool) -> str:
    omission = ", idle periods omitted" if has_breaks else ""
    return (
        f"time since the session's first packet ({unit}){omission}; throughput averaged over {moment_text(interval_ns)}"
    )
