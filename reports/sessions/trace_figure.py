"""A run drawn over time: throughput each way, offsets and acknowledgements, one-way delay, queue; one axis of time.

The values belong to `captures.inspection.traces`, the periods that are drawn to `trace_axis`. First what each panel
shows, as values, then their drawing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas
from matplotlib.lines import Line2D
from matplotlib.patches import PathPatch
from matplotlib.path import Path
from matplotlib.ticker import FuncFormatter, MaxNLocator
from matplotlib.transforms import Transform
from numpy.typing import NDArray

from owlt.captures.inspection.traces import (
    Throughput,
    Traces,
    Way,
    choose_interval_ns,
    shortest_interval_ns,
    throughput,
)
from owlt.reports.looks import AGAIN, DAMAGED, FROM_RECEIVER, FROM_SENDER, INK, MUTED, STYLE, draw_grid
from owlt.reports.results.channels import ChannelChanges
from owlt.reports.sessions.trace_axis import (
    COLUMNS_PER_INCH,
    LEFT,
    RIGHT,
    WIDTH,
    Period,
    drawn_periods,
    most_dots,
    one_per_cell,
    stepped,
    thinned_dots,
    ticks_of,
    time_unit,
)
from owlt.reports.units import Units, delay_text, moment_text, number_text, unit_for

Numbers = NDArray[np.float64]
Counts = NDArray[np.int64]

_ROOM = 0.18
"""The part of an axis that stays free above the curves, for marks."""
_DELAYS: Units = (("s", 1.0, 2.0), ("ms", 1e-3, 1e-3), ("µs", 1e-6, 0.0))
_RATES: Units = (("Gbit/s", 1e9, 1e9), ("Mbit/s", 1e6, 1e6), ("kbit/s", 1e3, 1e3), ("bit/s", 1.0, 0.0))
_SIZES: Units = (("GB", 1e9, 2e9), ("MB", 1e6, 2e6), ("kB", 1e3, 2e3), ("bytes", 1.0, 0.0))


def _none() -> Numbers:
    return np.zeros(0)


@dataclass(frozen=True, eq=False)
class Curve:
    """One colour of a panel: dots, or steps that hold their value until the next.

    `x` is ascending, in s; `y` is in the unit of the axis. A curve whose `label` is "" is not in the legend.
    """

    label: str
    x: Numbers
    y: Numbers
    colour: str
    dots: bool = False
    width: float = 1.0
    filled: bool = False
    dashed: bool = False
    behind: bool = False


@dataclass(frozen=True, eq=False)
class Panel:
    """One pair of axes: its height in inches, its curves, and when packets were sent that were lost or damaged."""

    title: str
    label: str
    height: float
    curves: list[Curve]
    lost_s: Numbers = field(default_factory=_none)
    damaged_s: Numbers = field(default_factory=_none)
    more_damaged: bool = False
    """Whether the captures are cut, so that damage may be missing."""
    integers: bool = False
    from_zero: bool = True

    @property
    def y_limits(self) -> tuple[float, float]:
        """The ends of the axis: all curves, with room for marks above them."""
        values = np.concatenate([_none(), *(curve.y for curve in self.curves)])
        least, greatest = (float(values.min()), float(values.max())) if len(values) else (0.0, 0.0)
        if self.from_zero or least <= 0:
            least, greatest = min(least, 0.0), max(greatest, 0.0)
        span = greatest - least or max(greatest, 1.0)
        return least - _ROOM * span * (least != 0), greatest + _ROOM * span

    def within(self, periods: list[Period]) -> Panel:
        """The panel with what is in the periods; curves of which nothing remains are dropped."""
        curves = [_curve_within(curve, periods) for curve in self.curves]
        return replace(
            self,
            curves=[curve for curve in curves if len(curve.x) and (curve.dots or curve.y.any())],
            lost_s=self.lost_s[_is_within(self.lost_s, periods)],
            damaged_s=self.damaged_s[_is_within(self.damaged_s, periods)],
        )


def panels_of(traces: Traces, interval_ns: int) -> list[Panel]:
    """The panels of a run, from top to bottom; a panel for which the captures have no values is omitted.

    Throughput is counted in intervals of `interval_ns`. Raises ValueError if these are none or too many.
    """
    panels = [*_throughput_panels(traces, interval_ns)]
    if traces.data is not None:
        panels.append(_offset_panel(traces))
    if any(way.seen_departing and way.seen_arriving for way in (traces.forward, traces.reverse)):
        panels.append(_delay_panel(traces))
    if any(way.queue is not None for way in (traces.forward, traces.reverse)):
        panels.append(_queue_panel(traces))
    return panels


def _curve_within(curve: Curve, periods: list[Period]) -> Curve:
    """Dots in the periods; of steps also those that hold when a period begins."""
    shown = _is_within(curve.x, periods)
    if not curve.dots:
        held = np.searchsorted(curve.x, [period.begin_s for period in periods], "right") - 1
        shown[held[held >= 0]] = True
    return replace(curve, x=curve.x[shown], y=curve.y[shown])


def _is_within(times_s: Numbers, periods: list[Period]) -> NDArray[np.bool_]:
    within = np.zeros(len(times_s), np.bool_)
    for period in periods:
        within |= (times_s >= period.begin_s) & (times_s <= period.end_s)
    return within


@dataclass(frozen=True, eq=False)
class _Flow:
    """A curve of throughput: its bytes in each interval, None if the captures do not have it, and its looks."""

    label: str
    interval_bytes: Counts | None
    looks: dict[str, Any]


_FILLED: dict[str, Any] = {"filled": True}
_BEHIND_PARTS: dict[str, Any] = {"colour": MUTED, "width": 0.5}
_FAR_PORT: dict[str, Any] = {"colour": INK, "width": 0.8, "dashed": True}


def _throughput_panels(traces: Traces, interval_ns: int) -> Iterator[Panel]:
    counts = throughput(traces, interval_ns)
    for title, height, way, flows in (
        ("Throughput from the sender", 1.15, traces.forward, _forward_flows(counts, _again(traces))),
        ("Throughput from the receiver", 0.85, traces.reverse, _reverse_flows(counts)),
    ):
        unit, curves = _throughput_curves(counts, flows)
        yield Panel(title, unit, height, curves, way.lost_ns / 1e9, way.damaged_ns / 1e9, way.cut)


def _forward_flows(counts: Throughput, again: str) -> list[_Flow]:
    sent, delivered = counts.forward_sent_bytes, counts.forward_delivered_bytes
    verb, total = ("arriving", delivered) if sent is None else ("sent", sent)
    return [
        _total_flow(verb, total, FROM_SENDER, counts.new_bytes, counts.again_bytes),
        _Flow("new data", counts.new_bytes, _FILLED | {"colour": FROM_SENDER}),
        _Flow(again, counts.again_bytes, _FILLED | {"colour": AGAIN}),
        _Flow("delivered", None if sent is None else delivered, _FAR_PORT),
    ]


def _reverse_flows(counts: Throughput) -> list[_Flow]:
    sent, delivered = counts.reverse_sent_bytes, counts.reverse_delivered_bytes
    verb, total = ("sent", sent) if delivered is None else ("arriving", delivered)
    return [
        _Flow("sent", None if delivered is None else sent, _FAR_PORT),
        _total_flow(verb, total, FROM_RECEIVER, counts.acknowledging_bytes),
        _Flow(f"acknowledgements {verb}", counts.acknowledging_bytes, _FILLED | {"colour": FROM_RECEIVER}),
    ]


def _throughput_curves(counts: Throughput, flows: list[_Flow]) -> tuple[str, list[Curve]]:
    """The unit of the axis, and a curve for each flow that has any bytes."""
    edges_s = np.append(counts.start_ns, counts.start_ns[-1] + counts.interval_ns) / 1e9
    shown = [
        (flow, counts.bps(of_flow)) for flow in flows if (of_flow := flow.interval_bytes) is not None and of_flow.any()
    ]
    unit, one = unit_for(_RATES, max((float(bps.max()) for _, bps in shown), default=0.0))
    return unit, [Curve(flow.label, edges_s, np.append(bps, 0.0) / one, **flow.looks) for flow, bps in shown]


def _total_flow(verb: str, total: Counts | None, colour: str, *parts: Counts | None) -> _Flow:
    """All bytes of a direction. They are drawn behind their parts if these are known, and then not in the legend if
    the parts are nearly all of them."""
    if total is None or parts[0] is None:
        return _Flow(verb, total, _FILLED | {"colour": colour})
    in_parts = sum(int(part.sum()) for part in parts if part is not None)
    return _Flow(f"all {verb}" if in_parts < 0.98 * int(total.sum()) else "", total, _BEHIND_PARTS)


def _again(traces: Traces) -> str:
    """The label of data all of which was in packets before, by the port that saw it."""
    return "retransmitted" if traces.forward.seen_departing else "received again"


def _offset_panel(traces: Traces) -> Panel:
    data, acknowledgements = traces.data, traces.acknowledgements
    assert data is not None
    unit, one = unit_for(_SIZES, float(data.end_byte.max()))
    time_s, end, again = data.sent_ns / 1e9, data.end_byte / one, data.again
    curves = [
        Curve("new data", time_s[~again], end[~again], FROM_SENDER, dots=True, width=1.8),
        Curve(_again(traces), time_s[again], end[again], AGAIN, dots=True, width=2.2),
    ]
    if acknowledgements is not None:
        width = 1.4 if len(acknowledgements.arrived_ns) > 100 else 3.0
        arrived_s, bytes_up_to = acknowledgements.arrived_ns / 1e9, acknowledgements.acknowledged_bytes / one
        label = "acknowledged by each message"
        curves.append(Curve(label, arrived_s, bytes_up_to, FROM_RECEIVER, dots=True, width=width, behind=True))
    return Panel("Offset of data and acknowledgements", unit, 1.5, curves)


def _delay_panel(traces: Traces) -> Panel:
    """The delay beyond propagation if the propagation of each way is known, else the whole delay."""
    ways = _ways(traces)
    measured = [way for _, way, _ in ways if len(way.delays.sent_ns)]
    propagation_ns = [way.link.delay_ns for way in measured if way.link is not None]
    is_known = bool(measured) and len(propagation_ns) == len(measured)
    delays_s = [
        (way.delays.delay_ns - (way.link.delay_ns if is_known and way.link is not None else 0)) / 1e9
        for _, way, _ in ways
    ]
    unit, one = unit_for(_DELAYS, max((float(np.abs(each).max()) for each in delays_s if len(each)), default=0.0))
    curves = [
        Curve(label, way.delays.sent_ns / 1e9, each / one, colour, dots=True, width=1.6)
        for (label, way, colour), each in zip(ways, delays_s, strict=True)
    ]
    propagation = " and ".join(dict.fromkeys(map(delay_text, propagation_ns)))
    title = f"One-way delay beyond {propagation} propagation" if is_known else "One-way delay"
    return Panel(title, unit, 1.0, curves, from_zero=is_known)


def _queue_panel(traces: Traces) -> Panel:
    curves = [
        Curve(label, way.queue.time_ns / 1e9, way.queue.packets.astype(np.float64), colour)
        for label, way, colour in _ways(traces)
        if way.queue is not None
    ]
    return Panel("Queue at the bottleneck (with the packet being sent)", "packets", 0.85, curves, integers=True)


def _ways(traces: Traces) -> tuple[tuple[str, Way, str], tuple[str, Way, str]]:
    return ("from the sender", traces.forward, FROM_SENDER), ("from the receiver", traces.reverse, FROM_RECEIVER)


_LABEL, _DOT, _MARK = 0.45, 1e-4, 0.02
"""Inches: from the axis to its label, the length of a dot's line, half the width of a mark."""
_LOST: dict[str, Any] = {"marker": "x", "markersize": 3, "color": INK, "linestyle": "none", "markeredgewidth": 0.7}
_DAMAGED: dict[str, Any] = {
    "marker": "|",
    "markersize": 4,
    "color": DAMAGED,
    "linestyle": "none",
    "markeredgewidth": 0.9,
}
_BAR = np.array([[(0, -1.4), (0, 1.4)]])
_CROSS = np.array([[(-1, -1), (1, 1)], [(-1, 1), (1, -1)]])
"""The lines of a mark, around its place, in units of _MARK."""


def draw_panel(row: list[Axes], periods: list[Period], panel: Panel) -> None:
    """Draw a panel on its axes, one for each period, left to right."""
    for axes, period in zip(row, periods, strict=True):
        _draw_period(axes, period, panel)
    for axes in row[1:]:
        axes.spines["left"].set_visible(False)
        axes.tick_params(axis="y", length=0, labelleft=False)
    for before, after in pairwise(row):
        _mark_break(before, 1)
        _mark_break(after, 0)
    row[0].set_title(panel.title, loc="left", fontsize=8, pad=4)
    row[0].set_ylabel(panel.label)
    row[0].yaxis.set_label_coords(-_LABEL / periods[0].width, 0.5)
    row[-1].legend(
        handles=_handles(panel),
        loc="lower right",
        bbox_to_anchor=(1, 1, 0, 0.02),
        ncols=5,
        fontsize=7.5,
        handlelength=1.2,
        columnspacing=1.2,
        borderaxespad=0.2,
    )


def _draw_period(axes: Axes, period: Period, panel: Panel) -> None:
    axes.set_ylim(*panel.y_limits)
    axes.yaxis.set_major_locator(MaxNLocator(4, integer=panel.integers, steps=[1, 2, 2.5, 5, 10]))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: number_text(value)))
    for curve in panel.curves:
        if curve.dots:
            _draw_dots(axes, period, curve, panel)
        else:
            _draw_steps(axes, period, curve)
    _draw_marks(axes, period, panel)


def _mark_break(axes: Axes, at: float) -> None:
    """A slash on the time axis, where idle time is omitted."""
    slash = [(-0.4, -1), (0.4, 1)]
    axes.plot(at, 0, marker=slash, markersize=6, color=MUTED, mew=0.6, transform=axes.transAxes, clip_on=False)


def _handles(panel: Panel) -> list[Line2D]:
    """The entries of the legend: curves with a label, then how many packets were lost and damaged."""
    handles = [
        Line2D([], [], color=curve.colour, label=curve.label, **_legend_looks(curve))
        for curve in panel.curves
        if curve.label and len(curve.x)
    ]
    if len(panel.lost_s):
        handles.append(Line2D([], [], label=f"lost: {number_text(len(panel.lost_s))}", **_LOST))
    if len(panel.damaged_s):
        more = " or more" if panel.more_damaged else ""
        handles.append(Line2D([], [], label=f"damaged: {number_text(len(panel.damaged_s))}{more}", **_DAMAGED))
    return handles


def _legend_looks(curve: Curve) -> dict[str, Any]:
    if curve.dots:
        return {"marker": "o", "linestyle": "none", "markersize": 3.5, "markeredgewidth": 0}
    return _line_looks(curve)


def _line_looks(curve: Curve) -> dict[str, Any]:
    looks: dict[str, Any] = {"linewidth": curve.width, "solid_capstyle": "butt"}
    return looks | ({"dashes": (2.2, 1.2), "dash_capstyle": "butt"} if curve.dashed else {})


def _draw_dots(axes: Axes, period: Period, curve: Curve, panel: Panel) -> None:
    """Dots as very short lines with round ends."""
    shown = thinned_dots(curve.x, curve.y, period, panel.y_limits, panel.height, most_dots(period))
    lines = np.repeat(np.column_stack([curve.x[shown], curve.y[shown]]), 2, axis=0)
    lines[1::2, 0] += period.length_s * _DOT / period.width
    _draw_lines(axes, lines, curve.colour, curve.width, axes.transData, zorder=2.2 if curve.behind else 2.5)


def _draw_steps(axes: Axes, period: Period, curve: Curve) -> None:
    """The highest value of each step, or of each column if steps are too many, and the band between it and the
    lowest."""
    columns = max(int(period.width * COLUMNS_PER_INCH), 1)
    x, low, high = stepped(curve.x, curve.y, period, columns)
    if curve.filled:
        axes.stairs(high, x, fill=True, color=curve.colour, alpha=0.2, linewidth=0)
    elif (high > low).any():
        axes.stairs(high, x, baseline=low, fill=True, color=curve.colour, alpha=0.3, linewidth=0)
    axes.plot(np.repeat(x, 2)[1:-1], np.repeat(high, 2), color=curve.colour, **_line_looks(curve))


def _draw_marks(axes: Axes, period: Period, panel: Panel) -> None:
    """Along the top of the panel, when packets were sent that were damaged (a bar) or lost (a cross)."""
    columns = max(int(period.width * COLUMNS_PER_INCH / 2), 1)
    size = (_MARK * period.length_s / period.width, _MARK / panel.height)
    for times, shape, looks in ((panel.damaged_s, _BAR, _DAMAGED), (panel.lost_s, _CROSS, _LOST)):
        shown = times[one_per_cell(times, np.zeros(len(times)), period, (0, 1), (columns, 1))]
        places = np.column_stack([shown, np.full(len(shown), 0.95)])
        lines = shape.reshape(1, -1, 2) * size + places[:, None]
        _draw_lines(axes, lines.reshape(-1, 2), looks["color"], looks["markeredgewidth"], axes.get_xaxis_transform())


def _draw_lines(
    axes: Axes, ends: Numbers, colour: str, width: float, transform: Transform, zorder: float = 2.5
) -> None:
    """Lines from each first to each second point, as one path: half the size of markers in an SVG."""
    path = Path(ends, np.tile([Path.MOVETO, Path.LINETO], len(ends) // 2))
    path.should_simplify = False
    looks: dict[str, Any] = {"capstyle": "round", "fill": False, "snap": False, "zorder": zorder}
    if len(ends):
        axes.add_patch(PathPatch(path, edgecolor=colour, linewidth=width, transform=transform, **looks))


TOP, BOTTOM, PANEL_GAP = 0.56, 0.50, 0.40
"""Inches."""
_MOST_INTERVALS = 100_000
NO_CHANGES = ChannelChanges()


def draw_traces(
    traces: Traces,
    title: str,
    between_s: tuple[float, float] | None = None,
    interval_ns: int | None = None,
    changes: ChannelChanges = NO_CHANGES,
) -> Canvas:
    """The figure of a run, 7 inches wide: all of it, or the time from `between_s[0]` to `between_s[1]`, in s.

    Throughput is counted in intervals of `interval_ns`; by default they suit the time drawn. `changes` of the channel
    are drawn: outages as grey areas, other steps as dotted lines. Raises ValueError if
    `between_s` does not end after it begins, or if there would be no interval or too many.
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
        for axes in canvas.axes:
            _draw_changes(axes, changes)
        label = _time_label(unit, interval_ns, has_breaks=len(periods) > 1)
        canvas.text((LEFT + WIDTH - RIGHT) / 2 / WIDTH, 0.14 / height, label, ha="center", va="center")
    return canvas


def _draw_changes(axes: Axes, changes: ChannelChanges) -> None:
    begin_s, end_s = axes.get_xlim()
    for down_s, up_s in changes.outages:
        if down_s < end_s and up_s > begin_s:
            axes.axvspan(max(down_s, begin_s), min(up_s, end_s), color=MUTED, alpha=0.25, linewidth=0, zorder=0.5)
    for at_s in changes.steps:
        if begin_s <= at_s <= end_s:
            axes.axvline(at_s, color=MUTED, linewidth=0.8, linestyle=":", zorder=0.6)


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
    draw_grid(axes)
    axes.set_xlim(period.begin_s, period.end_s)
    return axes


def _time_label(unit: str, interval_ns: int, *, has_breaks: bool) -> str:
    omission = ", idle periods omitted" if has_breaks else ""
    return (
        f"time since the session's first packet ({unit}){omission}; throughput averaged over {moment_text(interval_ns)}"
    )
