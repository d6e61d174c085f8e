"""The session as a ladder diagram: two hosts, time downwards, an arrow for each message from sending to arrival.

Labels are beside the two lines, at the time at which their message was sent, moved down if another is there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

import matplotlib
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure as Canvas
from matplotlib.lines import Line2D
from matplotlib.patches import FancyArrowPatch

from owlt.captures.frames.session import Host
from owlt.captures.protocols.ladder import Kind, LeftOut, Rung, Step
from owlt.reports.drawing.sweep_figures import FULL_WIDTH
from owlt.reports.looks import AGAIN, BESIDE_DATA, FROM_RECEIVER, FROM_SENDER, INK, MUTED, RULE, STYLE
from owlt.reports.results.channels import ChannelChanges

COLOURS: dict[Kind, str] = {
    "new data": FROM_SENDER,
    "data again": AGAIN,
    "of the sender": BESIDE_DATA,
    "of the receiver": FROM_RECEIVER,
}
MEANINGS: dict[Kind, str] = {
    "new data": "new data",
    "data again": "data retransmitted",
    "of the sender": "other messages of the sender",
    "of the receiver": "messages of the receiver",
}
SIDES: tuple[Host, Host] = ("sender", "receiver")
TOP, BOTTOM, TITLE_LINE = 0.6, 0.12, 0.2
LABEL_LINE, LEAST_HEIGHT, SECTION_HEIGHT = 0.135, 2.2, 6.0
"""Inches: a line of labels, and the least and the greatest height unless the labels need more."""
LADDER_WIDTH, LABEL_POINTS = 1.8, 6.5
LONGEST_LABEL = 44
"""Letters."""
LEGEND_LETTERS = 85
"""The most letters of a legend in one line."""
NO_CHANGES = ChannelChanges()
MOST_FAINT_LINES = 400
LOST_AT, DAMAGED_AT = 0.62, 0.95
"""The ends of the lines of lost and of damaged packets, as parts of the way."""


@dataclass(frozen=True)
class Label:
    """Text beside a line: its time, and the time at which the last message that it names was sent."""

    host: Host
    at_s: float
    until_s: float
    text: str
    colour: str


FATES = {"queue": "dropped, queue full", "mtu": "dropped, too long", "in_flight": "on its way"}
"""The fates of packets that did not arrive, where it is another one than lost."""


def draw_ladder(
    steps: Sequence[Step], title: str = "", first_ns: int | None = None, changes: ChannelChanges = NO_CHANGES
) -> Canvas:
    """The figure of some steps; times, and the `changes` of the channel, count from `first_ns`, the session's start, or
    the first step.

    Raises ValueError if there is none.
    """
    if not steps:
        raise ValueError("no messages to draw; expected at least one")
    start_ns = _left_ns(steps[0])
    rungs = _all_rungs(steps)
    end_s = max((max((rung.left_ns, *rung.arrived_ns)) - start_ns) / 1e9 for rung in rungs) or 1e-3
    since_s = 0.0 if first_ns is None else (start_ns - first_ns) / 1e9
    labels = {host: _labels(steps, start_ns, host, end_s, since_s) for host in SIDES}
    lines = max(len(of_side) for of_side in labels.values())
    height = max(LEAST_HEIGHT, min(SECTION_HEIGHT, LABEL_LINE * 3 * lines), LABEL_LINE * (lines + 1))
    with matplotlib.rc_context(STYLE):
        canvas, axes = _frame(height, title)
        axes.set_ylim(end_s, 0)
        _draw_changes(axes, changes.since(since_s), end_s)
        delay_s = _usual_delay_s(rungs)
        _draw_left_out(axes, [step for step in steps if isinstance(step, LeftOut)], start_ns, delay_s)
        for step in steps:
            if isinstance(step, Rung):
                _draw_rung(axes, step, start_ns, delay_s)
        for host, of_side in labels.items():
            _write(axes, host, of_side, end_s, height)
        _legend(canvas, rungs, bool(title))
    return canvas


def _left_ns(step: Step) -> int:
    return step.left_ns if isinstance(step, Rung) else step.rungs[0].left_ns


def _all_rungs(steps: Sequence[Step]) -> list[Rung]:
    return [rung for step in steps for rung in ([step] if isinstance(step, Rung) else step.rungs)]


def _usual_delay_s(rungs: Sequence[Rung]) -> float:
    """The median delay, for the slope of lost messages."""
    delays_ns = [rung.arrived_ns[0] - rung.left_ns for rung in rungs if rung.arrived_ns]
    return median(delays_ns) / 1e9 if delays_ns else 0


def _labels(steps: Sequence[Step], start_ns: int, host: Host, end_s: float, since_s: float) -> list[Label]:
    """A label for each message of the host; one label for several of the same name that follow each other closely.

    `since_s` is the time from the session's start to the first step.
    """
    closely_s = end_s / 40
    groups: list[list[Step]] = []
    for step in steps:
        if _host(step) != host:
            continue
        last = groups[-1][-1] if groups else None
        is_close = last is not None and (_left_ns(step) - _left_ns(last)) / 1e9 <= closely_s
        if is_close and isinstance(step, Rung) and isinstance(last, Rung) and _group_key(step) == _group_key(last):
            groups[-1].append(step)
        else:
            groups.append([step])
    return [_label(group, start_ns, host, since_s) for group in groups]


def _host(step: Step) -> Host:
    """The host at whose line the label of a step is."""
    return step.message.host if isinstance(step, Rung) else step.host


def _group_key(rung: Rung) -> tuple[str, Kind, bool]:
    return rung.message.name, rung.kind, _fate(rung) != ""


def _label(group: Sequence[Step], start_ns: int, host: Host, since_s: float) -> Label:
    first, last = group[0], group[-1]
    at_s, until_s = (_left_ns(first) - start_ns) / 1e9, (_left_ns(last) - start_ns) / 1e9
    if isinstance(first, LeftOut):
        return Label(host, at_s, (first.rungs[-1].left_ns - start_ns) / 1e9, _fitting("… ", first.text), MUTED)
    name, colour = first.message.name, COLOURS[first.kind]
    if len(group) == 1:
        detail = f": {first.message.detail}" if first.message.detail else ""
        text = _fitting(f"{since_s + at_s:.3f} s  {name}{_fate(first)}", detail)
        return Label(host, at_s, at_s, text, colour)
    fates = {_fate(step) for step in group if isinstance(step, Rung)}
    fate = fates.pop() if len(fates) == 1 else ""
    return Label(host, at_s, until_s, _fitting(f"{since_s + at_s:.3f} s  {len(group)}× {name}{fate}"), colour)


def _fitting(begin: str, detail: str = "") -> str:
    """The label with as many comma-separated parts of a detail as fit."""
    if len(begin) > LONGEST_LABEL:
        return begin[: LONGEST_LABEL - 1].rstrip() + "…"
    parts, rest = detail.split(", "), ""
    while parts and len(begin) + len(", ".join(parts) + rest) > LONGEST_LABEL:
        parts.pop()
        rest = ", …"
    return f"{begin}{', '.join(parts)}{rest if parts else ''}"


def _fate(rung: Rung) -> str:
    if rung.action:
        return f" (fault: {rung.action})"
    if not rung.arrived_ns:
        return f" ({FATES.get(rung.fate, 'lost')})"
    return " (damaged)" if rung.is_damaged else ""


def _frame(height: float, title: str) -> tuple[Canvas, Axes]:
    """The figure with the two lines, laid out in inches."""
    top = TOP + TITLE_LINE * bool(title)
    whole = height + top + BOTTOM
    canvas = Canvas(figsize=(FULL_WIDTH, whole))
    left = (FULL_WIDTH - LADDER_WIDTH) / 2
    axes = canvas.add_axes((left / FULL_WIDTH, BOTTOM / whole, LADDER_WIDTH / FULL_WIDTH, height / whole))
    axes.set_axis_off()
    axes.set_xlim(0, 1)
    for at, host in enumerate(SIDES):
        axes.plot([at, at], [0, 1], transform=axes.transAxes, color=MUTED, linewidth=1.0, clip_on=False)
        axes.annotate(host, (at, 1), (0, 4), "axes fraction", "offset points", ha="center", fontweight="bold")
    if title:
        canvas.text(0.01, 1 - 0.05 / whole, title, va="top", fontweight="bold")
    return canvas, axes


def _draw_rung(axes: Axes, rung: Rung, start_ns: int, usual_delay_s: float) -> None:
    near, far = (0.0, 1.0) if rung.message.host == "sender" else (1.0, 0.0)
    left_s = (rung.left_ns - start_ns) / 1e9
    colour = COLOURS[rung.kind]
    if not rung.arrived_ns:
        _stop(axes, (near, left_s), (far, left_s + usual_delay_s), LOST_AT, colour)
    for number, arrived_ns in enumerate(rung.arrived_ns):
        end = (far, (arrived_ns - start_ns) / 1e9)
        if rung.is_damaged and number == 0:
            _stop(axes, (near, left_s), end, DAMAGED_AT, colour)
        else:
            axes.add_patch(
                FancyArrowPatch(
                    (near, left_s),
                    end,
                    arrowstyle="-|>",
                    mutation_scale=5,
                    shrinkA=0,
                    shrinkB=0,
                    color=colour,
                    linewidth=0.8,
                    linestyle="-" if number == 0 else ":",
                    clip_on=False,
                )
            )


def _draw_left_out(axes: Axes, left_out: Sequence[LeftOut], start_ns: int, usual_delay_s: float) -> None:
    """Faint lines for messages without a label."""
    hidden = [rung for step in left_out for rung in step.rungs]
    lines, colours = [], []
    for rung in hidden[:: len(hidden) // MOST_FAINT_LINES + 1]:
        near, far = (0.0, 1.0) if rung.message.host == "sender" else (1.0, 0.0)
        left_s = (rung.left_ns - start_ns) / 1e9
        on_its_way_s = (rung.arrived_ns[0] - rung.left_ns) / 1e9 if rung.arrived_ns else usual_delay_s
        part = DAMAGED_AT if rung.is_damaged else 1.0 if rung.arrived_ns else LOST_AT
        lines.append([(near, left_s), (near + part * (far - near), left_s + part * on_its_way_s)])
        colours.append(COLOURS[rung.kind])
    axes.add_collection(LineCollection(lines, colors=colours, linewidths=0.5, alpha=0.35, clip_on=False), autolim=False)


def _stop(axes: Axes, begin: tuple[float, float], end: tuple[float, float], part: float, colour: str) -> None:
    """A line that ends in a cross before it reaches the other host."""
    (x, y), (far, late) = begin, end
    at = (x + part * (far - x), y + part * (late - y))
    axes.plot([x, at[0]], [y, at[1]], color=colour, linewidth=0.8, clip_on=False)
    axes.plot(*at, marker="x", color=INK, markersize=4.5, markeredgewidth=1.0, clip_on=False)


def _write(axes: Axes, host: Host, labels: Sequence[Label], end_s: float, height: float) -> None:
    """The labels of a side, without overlap, with a thin line to their time."""
    at, outwards = (0, -1) if host == "sender" else (1, 1)
    places = _apart([label.at_s / end_s * height for label in labels], LABEL_LINE, height)
    for label, place in zip(labels, places, strict=True):
        y = 1 - place / height
        belongs = 1 - label.at_s / end_s
        points = ((at, belongs), (at + outwards * 0.04, belongs), (at + outwards * 0.10, y), (at + outwards * 0.12, y))
        axes.plot(*zip(*points, strict=True), transform=axes.transAxes, color=RULE, linewidth=0.6, clip_on=False)
        if label.until_s > label.at_s:
            until = 1 - min(label.until_s / end_s, 1)
            span = [at + outwards * 0.02] * 2
            axes.plot(
                span, [belongs, until], transform=axes.transAxes, color=label.colour, linewidth=1.6, clip_on=False
            )
        axes.text(
            at + outwards * 0.14,
            y,
            label.text,
            transform=axes.transAxes,
            color=label.colour,
            fontsize=LABEL_POINTS,
            ha="right" if outwards < 0 else "left",
            va="center_baseline",
        )


def _apart(preferred: Sequence[float], least: float, room: float) -> list[float]:
    """Ascending places, as near to the preferred ones as possible with at least `least` between any two."""
    places: list[float] = []
    for place in preferred:
        places.append(max(place, places[-1] + least) if places else place)
    bottom = room
    for index in range(len(places) - 1, -1, -1):
        places[index] = min(places[index], bottom)
        bottom = places[index] - least
    return places


def _draw_changes(axes: Axes, changes: ChannelChanges, end_s: float) -> None:
    """Outages as grey areas between the hosts, other steps as dotted lines."""
    for down_s, up_s in changes.outages:
        begin, end = max(down_s, 0), min(up_s, end_s)
        if begin < end:
            axes.axhspan(begin, end, color=MUTED, alpha=0.25, linewidth=0, zorder=0.5)
    for at_s in changes.steps:
        if 0 <= at_s <= end_s:
            axes.axhline(at_s, color=MUTED, linewidth=0.8, linestyle=":", zorder=0.6)


def _legend(canvas: Canvas, rungs: Sequence[Rung], has_title: bool) -> None:
    drawn = {rung.kind for rung in rungs}
    handles = [
        Line2D([], [], color=COLOURS[kind], linewidth=1.4, label=MEANINGS[kind]) for kind in COLOURS if kind in drawn
    ]
    if any(rung.is_damaged or not rung.arrived_ns for rung in rungs):
        cross = {"marker": "x", "markersize": 4.5, "linestyle": "none", "color": INK}
        handles.append(Line2D([], [], label="lost (midway) or damaged (at arrival)", **cross))  # type: ignore[arg-type]
    height = canvas.get_size_inches()[1]
    is_short = sum(len(str(handle.get_label())) for handle in handles) <= LEGEND_LETTERS
    canvas.legend(
        handles=handles,
        loc="upper left",
        bbox_to_anchor=(0.005, 1 - (0.05 + TITLE_LINE * has_title) / height),
        ncols=len(handles) if is_short else 3,
        fontsize=7,
    )
