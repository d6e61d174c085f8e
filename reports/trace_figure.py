"""A run drawn over time: throughput each way, offsets and acknowledgements, one-way delay, queue; one axis of time.

Where nearly all of a session is silence, light under way, the silences are left out and the axis shows where. What is
drawn is thinned to what print can show; captures.traces has the values, and their tables.
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

from captures.traces.throughput import choose_interval_ns, shortest_interval_ns, throughput
from captures.traces.tracing import Traces, Way
from reports.looks import AGAIN, DAMAGED, FROM_RECEIVER, FROM_SENDER, INK, MUTED, RULE, STYLE
from reports.units import delay_text, moment_text, number_text

Numbers = NDArray[np.float64]
Indices = NDArray[np.int64]

WIDTH, LEFT, RIGHT, TOP, BOTTOM = 7.0, 0.62, 0.20, 0.56, 0.50
PANEL_GAP, BREAK_GAP, LABEL, TICK_ROOM = 0.40, 0.13, 0.45, 0.52
"""Inches."""

COLUMNS_AN_INCH = 72
_BAND_COLUMNS = 3
"""So many make one of a band that stands for steps too close to be told apart."""
MOST_DOTS = 480
"""Of one kind in one figure; what more there are lie on others at the size of print."""

ROOM = 0.18
"""The part of an axis left free above the curves, for marks."""

SILENCE, LEFT_OVER = 0.08, 0.15
"""Nothing passed either port for that share of the time: a silence. They are left out if no more than that is left."""
_MOST_STRETCHES = 8
_MOST_INTERVALS = 100_000
_TIMES = (("h", 3600.0, 3 * 3600.0), ("min", 60.0, 1200.0), ("s", 1.0, 0.5), ("ms", 1e-3, 0.5e-3), ("µs", 1e-6, 0.0))
_DELAYS = (("s", 1.0, 2.0), ("ms", 1e-3, 1e-3), ("µs", 1e-6, 0.0))
_RATES = (("Gbit/s", 1e9, 1e9), ("Mbit/s", 1e6, 1e6), ("kbit/s", 1e3, 1e3), ("bit/s", 1.0, 0.0))
_SIZES = (("GB", 1e9, 2e9), ("MB", 1e6, 2e6), ("kB", 1e3, 2e3), ("bytes", 1.0, 0.0))
"""Unit, what it stands for, and from what value on it is used."""


def _none() -> Numbers:
    return np.zeros(0)


@dataclass(frozen=True, eq=False)
class Curve:
    """What one colour of a panel shows: steps that hold their value until the next, or dots. Units: those of the axis.

    `label` "" is not named.
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
    """One pair of axes: its height in inches, its curves, and the times of packets that came to harm."""

    title: str
    label: str
    height: float
    curves: list[Curve]
    lost_s: Numbers = field(default_factory=_none)
    damaged_s: Numbers = field(default_factory=_none)
    more_damaged: bool = False
    """Whether more may have been damaged than could be seen."""
    whole_numbers: bool = False
    from_zero: bool = True

    @property
    def ends(self) -> tuple[float, float]:
        """The begin and the end of the axis: all curves, with room for marks above them."""
        values = np.concatenate([_none(), *(curve.y for curve in self.curves)])
        least, greatest = (float(values.min()), float(values.max())) if len(values) else (0.0, 0.0)
        if self.from_zero or least <= 0:
            least, greatest = min(least, 0.0), max(greatest, 0.0)
        span = greatest - least or max(greatest, 1.0)
        return least - ROOM * span * (least != 0), greatest + ROOM * span


@dataclass(frozen=True)
class Stretch:
    """A part of the session that is drawn, in s, and where it lies across the figure, in inches."""

    begin_s: float
    end_s: float
    left: float
    width: float

    def place(self, time_s: float) -> float:
        """Where a time lies across the figure, in inches."""
        return self.left + self.width * (time_s - self.begin_s) / (self.end_s - self.begin_s)


def draw_traces(
    traces: Traces, title: str, between_s: tuple[float, float] | None = None, interval_ns: int | None = None
) -> Canvas:
    """The run drawn, for a paper's full width; all of it, or what is `between_s`.

    Throughput is counted in intervals of `interval_ns`, or of what suits the time drawn. Raises ValueError where the
    end is not behind the begin, or the intervals are none or too many.
    """
    with matplotlib.rc_context(STYLE):
        stretches = drawn_stretches(traces, between_s)
        interval_ns = _suiting_interval_ns(traces, stretches) if interval_ns is None else interval_ns
        panels = [_shown(panel, stretches) for panel in _panels(traces, interval_ns)]
        height = TOP + sum(panel.height for panel in panels) + PANEL_GAP * (len(panels) - 1) + BOTTOM
        canvas = Canvas(figsize=(WIDTH, height))
        canvas.text(LEFT / WIDTH, 1 - 0.16 / height, title, fontsize=9, fontweight="bold", va="center")
        unit, unit_s = _time_unit(stretches)
        ticks = _ticks(stretches, unit_s)
        bottom = height - TOP + PANEL_GAP
        for panel in panels:
            bottom -= panel.height + PANEL_GAP
            row = [_place(canvas, stretch, bottom, panel.height) for stretch in stretches]
            _draw_panel(row, stretches, panel)
            for axes, its_ticks in zip(row, ticks, strict=True):
                axes.set_xticks(its_ticks, [number_text(round(tick / unit_s, 9) + 0.0) for tick in its_ticks])
                axes.tick_params(labelbottom=panel is panels[-1])
        silences = ", silences left out" if len(stretches) > 1 else ""
        what = (
            f"time since the session's first packet ({unit}){silences}; "
            f"throughput averaged over {moment_text(interval_ns)}"
        )
        canvas.text((LEFT + WIDTH - RIGHT) / 2 / WIDTH, 0.14 / height, what, ha="center", va="center")
    return canvas


def _suiting_interval_ns(traces: Traces, stretches: list[Stretch]) -> int:
    drawn_ns = int(1e9 * sum(stretch.end_s - stretch.begin_s for stretch in stretches))
    least_ns = traces.length_ns // _MOST_INTERVALS + 1
    return max(choose_interval_ns(drawn_ns, shortest_interval_ns(traces)), choose_interval_ns(200 * least_ns))


def drawn_stretches(traces: Traces, between_s: tuple[float, float] | None = None) -> list[Stretch]:
    """What of the session is drawn, side by side to one scale of time. Raises ValueError as `draw_traces`."""
    if between_s is not None and not -np.inf < between_s[0] < between_s[1] < np.inf:
        raise ValueError(f"from {between_s[0]} s to {between_s[1]} s: wanted an end behind the begin")
    spans = _spoken(traces) if between_s is None else [between_s]
    inches = WIDTH - LEFT - RIGHT - BREAK_GAP * (len(spans) - 1)
    scale = inches / sum(end - begin for begin, end in spans)
    left, stretches = LEFT, []
    for begin, end in spans:
        stretches.append(Stretch(begin, end, left, (end - begin) * scale))
        left += (end - begin) * scale + BREAK_GAP
    return stretches


def _spoken(traces: Traces) -> list[tuple[float, float]]:
    """The parts of the session to draw, in s: all of it, or what is left of it without its silences."""
    ways = (traces.forward, traces.reverse)
    times = np.unique(np.concatenate([each for way in ways for each in (way.sent_ns, way.delivered_ns)])) / 1e9
    length_s = traces.length_ns / 1e9
    if not length_s:
        return [(0.0, 1e-3)]
    gaps = np.diff(times)
    longest = np.sort(np.argsort(gaps, kind="stable")[::-1][: _MOST_STRETCHES - 1])
    silences = longest[gaps[longest] > SILENCE * length_s]
    spoken_s = length_s - float(gaps[silences].sum())
    if not len(silences) or spoken_s > LEFT_OVER * length_s:
        room_s = 0.01 * length_s
        return [(-room_s, length_s + room_s)]
    begins, ends = times[np.append(0, silences + 1)], times[np.append(silences, len(times) - 1)]
    shown_s = max(spoken_s, 1e-3 * length_s / _MOST_STRETCHES)
    room_s = np.maximum(0.02 * shown_s, (0.11 * shown_s - (ends - begins)) / 2)
    return list(zip((begins - room_s).tolist(), (ends + room_s).tolist(), strict=True))


def _place(canvas: Canvas, stretch: Stretch, bottom: float, height: float) -> Axes:
    tall = canvas.get_figheight()
    axes = canvas.add_axes((stretch.left / WIDTH, bottom / tall, stretch.width / WIDTH, height / tall))
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", color=RULE, linewidth=0.6)
    axes.set_axisbelow(True)
    axes.set_xlim(stretch.begin_s, stretch.end_s)
    return axes


def _panels(traces: Traces, interval_ns: int) -> list[Panel]:
    panels = [*_throughput_panels(traces, interval_ns)]
    if traces.data is not None:
        panels.append(_offset_panel(traces))
    if any(way.seen_departing and way.seen_arriving for way in (traces.forward, traces.reverse)):
        panels.append(_delay_panel(traces))
    if any(way.queue is not None for way in (traces.forward, traces.reverse)):
        panels.append(_queue_panel(traces))
    return panels


_Flow = tuple[str, NDArray[np.int64] | None, dict[str, Any]]
"""Its name, its bytes in each interval, its looks."""
_AS_A_WHOLE: dict[str, Any] = {"filled": True}
_BEHIND_ITS_PARTS: dict[str, Any] = {"colour": MUTED, "width": 0.5}
_AT_THE_OTHER_END: dict[str, Any] = {"colour": INK, "width": 0.8, "dashed": True}


def _shown(panel: Panel, stretches: list[Stretch]) -> Panel:
    """What of a panel is within the stretches."""
    curves = [_shown_of_curve(curve, stretches) for curve in panel.curves]
    return replace(
        panel,
        curves=[curve for curve in curves if len(curve.x) and (curve.dots or curve.y.any())],
        lost_s=panel.lost_s[_within(panel.lost_s, stretches)],
        damaged_s=panel.damaged_s[_within(panel.damaged_s, stretches)],
    )


def _shown_of_curve(curve: Curve, stretches: list[Stretch]) -> Curve:
    """Of dots those within; of steps also those that hold when a stretch begins."""
    kept = _within(curve.x, stretches)
    if not curve.dots:
        held = np.searchsorted(curve.x, [stretch.begin_s for stretch in stretches], "right") - 1
        kept[held[held >= 0]] = True
    return replace(curve, x=curve.x[kept], y=curve.y[kept])


def _within(times_s: Numbers, stretches: list[Stretch]) -> NDArray[np.bool_]:
    within = np.zeros(len(times_s), np.bool_)
    for stretch in stretches:
        within |= (times_s >= stretch.begin_s) & (times_s <= stretch.end_s)
    return within


def _throughput_panels(traces: Traces, interval_ns: int) -> Iterator[Panel]:
    counted = throughput(traces, interval_ns)
    edges_s = np.append(counted.start_ns, counted.start_ns[-1] + interval_ns) / 1e9

    def panel(title: str, height: float, way: Way, shown: list[_Flow]) -> Panel:
        there = [(label, counted.bps(each), looks) for label, each, looks in shown if each is not None and each.any()]
        unit, one = _unit(_RATES, max((float(bps.max()) for _, bps, _ in there), default=0.0))
        curves = [Curve(label, edges_s, np.append(bps, 0.0) / one, **looks) for label, bps, looks in there]
        return Panel(title, unit, height, curves, way.lost_ns / 1e9, way.damaged_ns / 1e9, way.cut)

    sent, delivered = counted.forward_sent_bytes, counted.forward_delivered_bytes
    how, seen = ("arriving", delivered) if sent is None else ("sent", sent)
    flows: list[_Flow] = [
        _whole(how, seen, FROM_SENDER, counted.new_bytes, counted.again_bytes),
        ("new data", counted.new_bytes, _AS_A_WHOLE | {"colour": FROM_SENDER}),
        (_again(traces), counted.again_bytes, _AS_A_WHOLE | {"colour": AGAIN}),
        ("delivered", None if sent is None else delivered, _AT_THE_OTHER_END),
    ]
    yield panel("Throughput from the sender", 1.15, traces.forward, flows)
    sent, delivered, said = counted.reverse_sent_bytes, counted.reverse_delivered_bytes, counted.acknowledging_bytes
    how, seen = ("sent", sent) if delivered is None else ("arriving", delivered)
    flows = [
        ("sent", None if delivered is None else sent, _AT_THE_OTHER_END),
        _whole(how, seen, FROM_RECEIVER, said),
        (f"acknowledgements {how}", said, _AS_A_WHOLE | {"colour": FROM_RECEIVER}),
    ]
    yield panel("Throughput from the receiver", 0.85, traces.reverse, flows)


def _whole(name: str, seen: NDArray[np.int64] | None, colour: str, *parts: NDArray[np.int64] | None) -> _Flow:
    """All bytes seen; behind the parts of which they are made, if these are known, and then without a name where the
    parts leave nearly none."""
    if seen is None or parts[0] is None:
        return name, seen, _AS_A_WHOLE | {"colour": colour}
    named = sum(int(part.sum()) for part in parts if part is not None)
    return (f"all {name}" if named < 0.98 * int(seen.sum()) else ""), seen, _BEHIND_ITS_PARTS


def _again(traces: Traces) -> str:
    """What data is called of which all was seen before."""
    return "sent again" if traces.forward.seen_departing else "come again"


def _offset_panel(traces: Traces) -> Panel:
    data, said = traces.data, traces.acknowledgements
    assert data is not None
    unit, one = _unit(_SIZES, float(data.end_byte.max()))
    time_s, end, again = data.sent_ns / 1e9, data.end_byte / one, data.again
    curves = [
        Curve("new data", time_s[~again], end[~again], FROM_SENDER, dots=True, width=1.8),
        Curve(_again(traces), time_s[again], end[again], AGAIN, dots=True, width=2.2),
    ]
    if said is not None:
        width = 1.4 if len(said.arrived_ns) > 100 else 3.0
        arrived_s, claimed = said.arrived_ns / 1e9, said.acknowledged_bytes / one
        name = "acknowledged by each message"
        curves.append(Curve(name, arrived_s, claimed, FROM_RECEIVER, dots=True, width=width, behind=True))
    return Panel("Offset of data and acknowledgements", unit, 1.5, curves)


def _delay_panel(traces: Traces) -> Panel:
    """Delays as they are, or, where it is known each way, what there is beyond propagation."""
    ways = _ways(traces)
    there = [way for _, way, _ in ways if len(way.delays.sent_ns)]
    propagation_ns = [way.link.delay_ns for way in there if way.link is not None]
    is_known = bool(there) and len(propagation_ns) == len(there)
    beyond_s = [
        (way.delays.delay_ns - (way.link.delay_ns if is_known and way.link is not None else 0)) / 1e9
        for _, way, _ in ways
    ]
    unit, one = _unit(_DELAYS, max((float(np.abs(each).max()) for each in beyond_s if len(each)), default=0.0))
    curves = [
        Curve(label, way.delays.sent_ns / 1e9, each / one, colour, dots=True, width=1.6)
        for (label, way, colour), each in zip(ways, beyond_s, strict=True)
    ]
    how_long = " and ".join(dict.fromkeys(map(delay_text, propagation_ns)))
    title = f"One-way delay beyond {how_long} of propagation" if is_known else "One-way delay"
    return Panel(title, unit, 1.0, curves, from_zero=is_known)


def _ways(traces: Traces) -> tuple[tuple[str, Way, str], tuple[str, Way, str]]:
    return ("from the sender", traces.forward, FROM_SENDER), ("from the receiver", traces.reverse, FROM_RECEIVER)


def _queue_panel(traces: Traces) -> Panel:
    curves = [
        Curve(label, way.queue.time_ns / 1e9, way.queue.packets.astype(np.float64), colour)
        for label, way, colour in _ways(traces)
        if way.queue is not None
    ]
    return Panel("Queue at the bottleneck, the packet being sent included", "packets", 0.85, curves, whole_numbers=True)


def _draw_panel(row: list[Axes], stretches: list[Stretch], panel: Panel) -> None:
    ends = panel.ends
    for axes, stretch in zip(row, stretches, strict=True):
        axes.set_ylim(*ends)
        axes.yaxis.set_major_locator(MaxNLocator(4, integer=panel.whole_numbers, steps=[1, 2, 2.5, 5, 10]))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: number_text(value)))
        for curve in panel.curves:
            draw = _draw_dots if curve.dots else _draw_steps
            draw(axes, stretch, curve, ends, panel.height)
        _draw_marks(axes, stretch, panel)
    for axes in row[1:]:
        axes.spines["left"].set_visible(False)
        axes.tick_params(axis="y", length=0, labelleft=False)
    for before, after in pairwise(row):
        _mark_break(before, 1)
        _mark_break(after, 0)
    row[0].set_title(panel.title, loc="left", fontsize=8, pad=4)
    row[0].set_ylabel(panel.label)
    row[0].yaxis.set_label_coords(-LABEL / stretches[0].width, 0.5)
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


def _mark_break(axes: Axes, at: float) -> None:
    slash = [(-0.4, -1), (0.4, 1)]
    axes.plot(at, 0, marker=slash, markersize=6, color=MUTED, mew=0.6, transform=axes.transAxes, clip_on=False)


def _handles(panel: Panel) -> list[Line2D]:
    handles = []
    for curve in panel.curves:
        if not curve.label or not len(curve.x):
            continue
        if curve.dots:
            looks: dict[str, Any] = {"marker": "o", "linestyle": "none", "markersize": 3.5, "markeredgewidth": 0}
        else:
            looks = _line_looks(curve)
        handles.append(Line2D([], [], color=curve.colour, label=curve.label, **looks))
    if len(panel.lost_s):
        handles.append(Line2D([], [], label=f"lost: {number_text(len(panel.lost_s))}", **_LOST))
    if len(panel.damaged_s):
        more = " or more" if panel.more_damaged else ""
        handles.append(Line2D([], [], label=f"damaged: {number_text(len(panel.damaged_s))}{more}", **_DAMAGED))
    return handles


_DOT_INCHES, _MARK = 1e-4, 0.02
_LOST: dict[str, Any] = {"marker": "x", "markersize": 3, "color": INK, "linestyle": "none", "markeredgewidth": 0.7}
_DAMAGED: dict[str, Any] = {
    "marker": "|",
    "markersize": 4,
    "color": DAMAGED,
    "linestyle": "none",
    "markeredgewidth": 0.9,
}


def _line_looks(curve: Curve) -> dict[str, Any]:
    looks: dict[str, Any] = {"linewidth": curve.width, "solid_capstyle": "butt"}
    return looks | ({"dashes": (2.2, 1.2), "dash_capstyle": "butt"} if curve.dashed else {})


def _draw_marks(axes: Axes, stretch: Stretch, panel: Panel) -> None:
    """When packets were sent that came to harm, along the top of the panel: a bar if damaged, a cross if lost."""
    columns = max(int(stretch.width * COLUMNS_AN_INCH / 2), 1)
    wide, high = _MARK * (stretch.end_s - stretch.begin_s) / stretch.width, _MARK / panel.height
    bar, cross = [[(0, -1.4), (0, 1.4)]], [[(-1, -1), (1, 1)], [(-1, 1), (1, -1)]]
    for times, shape, marks in ((panel.damaged_s, bar, _DAMAGED), (panel.lost_s, cross, _LOST)):
        drawn = times[_cells_kept(times, np.zeros(len(times)), stretch, (0, 1), columns, 1)]
        places = np.column_stack([drawn, np.full(len(drawn), 0.95)])
        lines = np.array(shape).reshape(1, -1, 2) * (wide, high) + places[:, None]
        _draw_lines(axes, lines.reshape(-1, 2), marks["color"], marks["markeredgewidth"], axes.get_xaxis_transform())


def _draw_dots(axes: Axes, stretch: Stretch, curve: Curve, ends: tuple[float, float], height: float) -> None:
    """Dots as very short lines with round ends."""
    most = max(int(MOST_DOTS * stretch.width / (WIDTH - LEFT - RIGHT)), 50)
    kept = thinned_dots(curve.x, curve.y, stretch, ends, height, most)
    lines = np.repeat(np.column_stack([curve.x[kept], curve.y[kept]]), 2, axis=0)
    lines[1::2, 0] += (stretch.end_s - stretch.begin_s) * _DOT_INCHES / stretch.width
    _draw_lines(axes, lines, curve.colour, curve.width, axes.transData, zorder=2.2 if curve.behind else 2.5)


def _draw_lines(
    axes: Axes, ends: Numbers, colour: str, width: float, transform: Transform, zorder: float = 2.5
) -> None:
    """Lines from each first to each second point, as one path: half of what markers take in an SVG."""
    path = Path(ends, np.tile([Path.MOVETO, Path.LINETO], len(ends) // 2))
    path.should_simplify = False
    looks: dict[str, Any] = {"capstyle": "round", "fill": False, "snap": False, "zorder": zorder}
    if len(ends):
        axes.add_patch(PathPatch(path, edgecolor=colour, linewidth=width, transform=transform, **looks))


def _draw_steps(axes: Axes, stretch: Stretch, curve: Curve, ends: tuple[float, float], height: float) -> None:
    """The steps within the stretch, with the value that held when it began; where they are too many to be told apart,
    the highest of each column, and what lies between the lowest and that."""
    columns = max(int(stretch.width * COLUMNS_AN_INCH), 1)
    x, low, high = stepped(curve.x, curve.y, stretch, columns)
    if curve.filled:
        axes.stairs(high, x, fill=True, color=curve.colour, alpha=0.2, linewidth=0)
    elif (high > low).any():
        axes.stairs(high, x, baseline=low, fill=True, color=curve.colour, alpha=0.3, linewidth=0)
    axes.plot(np.repeat(x, 2)[1:-1], np.repeat(high, 2), color=curve.colour, **_line_looks(curve))


def thinned_dots(
    x: Numbers, y: Numbers, stretch: Stretch, ends: tuple[float, float], height: float, most: int
) -> Indices:
    """The indices of dots, in their order, without those that would lie on others at the size of print.

    The least and the greatest of every column are among them. Columns and rows are a point wide, or wider where
    that leaves more than `most`.
    """
    columns, rows = stretch.width * COLUMNS_AN_INCH, height * COLUMNS_AN_INCH
    while True:
        kept = _cells_kept(x, y, stretch, ends, max(int(columns), 1), max(int(rows), 1))
        if len(kept) <= most or columns < 1:
            return kept
        columns, rows = columns / 1.4, rows / 1.4


def _cells_kept(
    x: Numbers, y: Numbers, stretch: Stretch, ends: tuple[float, float], columns: int, rows: int
) -> Indices:
    """Of each cell of the grid over the stretch one dot, and of each column the lowest and the highest."""
    within = np.flatnonzero((x >= stretch.begin_s) & (x <= stretch.end_s))
    column = ((x[within] - stretch.begin_s) / (stretch.end_s - stretch.begin_s) * columns).astype(np.int64)
    row = ((y[within] - ends[0]) / (ends[1] - ends[0]) * rows).astype(np.int64)
    one_of_each = np.unique(column * (rows + 1) + row, return_index=True)[1]
    kept: Indices = within[np.union1d(one_of_each, _extremes(column, y[within]))]
    return kept


def stepped(x: Numbers, y: Numbers, stretch: Stretch, columns: int) -> tuple[Numbers, Numbers, Numbers]:
    """The steps within the stretch: their n + 1 edges, and n times the lowest and the highest value between them.

    These are the same where there is room for every step; else an edge is that of a column in which values change, and
    between two is all that was there.
    """
    inside = x[(x > stretch.begin_s) & (x < stretch.end_s)]
    edges = np.concatenate([[stretch.begin_s], inside, [stretch.end_s]])
    if len(inside) > 2 * columns or _crowded(inside, stretch, columns):
        edges = _band_edges(inside, stretch, max(columns // _BAND_COLUMNS, 1))
    x, y = np.append(-np.inf, x), np.append(0.0, y)
    held = np.searchsorted(x, edges[:-1], "right") - 1
    until = np.searchsorted(x, edges[1:], "left")
    low, high = (np.array([pick(y[a:b]) for a, b in zip(held, until, strict=True)]) for pick in (np.min, np.max))
    changes = np.append(True, (np.diff(low) != 0) | (np.diff(high) != 0))
    return np.append(edges[:-1][changes], edges[-1]), low[changes], high[changes]


def _band_edges(times: Numbers, stretch: Stretch, columns: int) -> Numbers:
    """The edges of the columns, and those times before or after which nothing happens for longer than a column."""
    edges, column_s = np.linspace(stretch.begin_s, stretch.end_s, columns + 1, retstep=True)
    is_alone = np.diff(times) > column_s
    first, last = times[np.append(True, is_alone)], times[np.append(is_alone, True)]
    return np.unique(np.concatenate([edges, first, last]))


def _crowded(times: Numbers, stretch: Stretch, columns: int) -> bool:
    """Whether most of the times share their column with three others or more."""
    column = ((times - stretch.begin_s) / (stretch.end_s - stretch.begin_s) * columns).astype(np.int64)
    _, which, shared = np.unique(column, return_inverse=True, return_counts=True)
    return bool(len(times)) and float(np.median(shared[which])) > 3


def _extremes(column: Indices, y: Numbers) -> Indices:
    """Of each column the places of its least and its greatest value."""
    by_value: Indices = np.lexsort((y, column))
    is_first = np.diff(column[by_value], prepend=-1) > 0
    is_last = np.append(is_first[1:], True)[: len(column)]
    extremes: Indices = by_value[is_first | is_last]
    return extremes


def _time_unit(stretches: list[Stretch]) -> tuple[str, float]:
    """By the time drawn; seconds where silences are left out, so that light times are read off."""
    drawn_s = sum(stretch.end_s - stretch.begin_s for stretch in stretches)
    unit, one = _unit(_TIMES, drawn_s)
    return (unit, one) if len(stretches) == 1 or drawn_s > 1200 else ("s", 1.0)


def _ticks(stretches: list[Stretch], unit_s: float) -> list[list[float]]:
    """Round times for the ticks of each stretch: at least one each, and room for their numbers."""
    scale = stretches[0].width / (stretches[0].end_s - stretches[0].begin_s)
    step = 10.0 ** np.floor(np.log10(TICK_ROOM / scale / unit_s))
    step = unit_s * next(step * factor for factor in (1, 2, 5, 10, 20) if step * factor * unit_s * scale >= TICK_ROOM)
    ticks, last = [], -np.inf
    for stretch in stretches:
        finer_and_finer = (_multiples(step / finer, stretch) for finer in (1, 2, 5, 10, 50, 100))
        round_times = next(filter(None, finer_and_finer), [stretch.begin_s])
        kept: list[float] = []
        for time in round_times:
            if stretch.place(time) - last >= TICK_ROOM:
                kept.append(time)
                last = stretch.place(time)
        if not kept:
            kept = [round_times[-1]]
            last = stretch.place(kept[0])
        ticks.append(kept)
    return ticks


def _multiples(step: float, stretch: Stretch) -> list[float]:
    first, last = np.ceil(max(stretch.begin_s, 0) / step - 1e-9), np.floor(stretch.end_s / step + 1e-9)
    return [float(number * step) for number in np.arange(first, last + 1)]


def _unit(units: tuple[tuple[str, float, float], ...], greatest: float) -> tuple[str, float]:
    return next((unit, one) for unit, one, least in units if greatest >= least)
