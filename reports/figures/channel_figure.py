"""A channel drawn: delay and rate over time each way, and the packet error rate over the length of frames."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator

from owlt.reports.figures.channel_curves import FORWARD, REVERSE, Channel, Numbers, edges_s, links_of, time_unit
from owlt.reports.figures.channel_panels import draw_delay, draw_errors, draw_rate
from owlt.reports.style.looks import INK, MUTED, RULE, STYLE

FORMATS = (".svg", ".pdf", ".png")
WIDTH, HEIGHT = 7.0, 3.5
LEFT, MIDDLE, RIGHT, TOP, BOTTOM = 0.70, 0.80, 0.22, 0.56, 0.52
TIME_WIDTH, GAP, LABEL = 3.55, 0.22, 0.56
"""Inches. The panels over time are on the left."""


def draw_channel(channel: Channel, title: str) -> Canvas:
    """The figure of a channel, 7 inches wide."""
    with matplotlib.rc_context(STYLE):
        canvas = Canvas(figsize=(WIDTH, HEIGHT))
        canvas.text(LEFT / WIDTH, 1 - 0.16 / HEIGHT, title, fontsize=9, fontweight="bold", va="center")
        height = (HEIGHT - TOP - BOTTOM - GAP) / 2
        delay = _place(canvas, LEFT, BOTTOM + height + GAP, TIME_WIDTH, height)
        rate = _place(canvas, LEFT, BOTTOM, TIME_WIDTH, height)
        errors = _place(canvas, LEFT + TIME_WIDTH + MIDDLE, BOTTOM, WIDTH - LEFT - TIME_WIDTH - MIDDLE - RIGHT, None)
        draw_delay(delay, channel)
        draw_rate(rate, channel)
        draw_errors(errors, channel)
        _share_time(delay, rate, channel)
        for axes in (delay, rate):
            axes.yaxis.set_label_coords(-LABEL / TIME_WIDTH, 0.5)
        canvas.legend(
            handles=_legend(channel),
            loc="upper left",
            bbox_to_anchor=(LEFT / WIDTH, 1 - 0.32 / HEIGHT),
            ncols=5,
            handlelength=1.8,
        )
    return canvas


def save_channel(canvas: Canvas, path: Path) -> None:
    """Write a figure in the format of the path's ending, without dates: the same bytes every time. Raises OSError."""
    metadata: dict[str, Any] = {
        ".svg": dict.fromkeys(("Date", "Creator", "Format", "Type")),
        ".pdf": {"CreationDate": None, "Creator": "owlt"},
    }.get(path.suffix, {"Software": None})
    with matplotlib.rc_context(STYLE | {"svg.hashsalt": path.stem}):
        canvas.savefig(path, metadata=metadata, dpi=200)


def _place(canvas: Canvas, left: float, bottom: float, width: float, height: float | None) -> Axes:
    tall = HEIGHT - TOP - bottom if height is None else height
    axes = canvas.add_axes((left / WIDTH, bottom / HEIGHT, width / WIDTH, tall / HEIGHT))
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", color=RULE, linewidth=0.6)
    axes.set_axisbelow(True)
    return axes


def _share_time(delay: Axes, rate: Axes, channel: Channel) -> None:
    edges = edges_s(channel)
    for axes in (delay, rate):
        axes.set_xlim(edges[0], edges[-1])
        _shade_outages(axes, edges, channel)
    delay.tick_params(labelbottom=False)
    if channel.edges_s is None:
        for axes in (delay, rate):
            axes.set_xticks([])
        rate.set_xlabel("time (constant)")
        return
    unit, unit_s = time_unit(float(edges[-1]))
    for axes in (delay, rate):
        locator = MaxNLocator(6, steps=[1, 2, 3, 5, 6, 10])
        ticks = [tick for tick in locator.tick_values(0, edges[-1] / unit_s) if 0 <= tick <= edges[-1] / unit_s]
        axes.set_xticks([tick * unit_s for tick in ticks], [f"{tick:g}" for tick in ticks])
    after = "then repeated" if channel.loops else "then constant"
    rate.set_xlabel(f"time ({unit}), {after}")


def _shade_outages(axes: Axes, edges: Numbers, channel: Channel) -> None:
    for begin, end, forward, reverse in zip(edges, edges[1:], channel.forward.up, channel.reverse.up, strict=False):
        if not (forward and reverse):
            colour, strength = (MUTED, 0.22) if forward == reverse else (REVERSE if forward else FORWARD, 0.16)
            axes.axvspan(begin, end, color=colour, alpha=strength, linewidth=0, zorder=0)


def _legend(channel: Channel) -> list[Line2D | Patch]:
    lines: list[Line2D | Patch] = [
        Line2D([], [], label=name, **looks)
        for name, (_, looks) in zip(("forward", "reverse"), links_of(channel), strict=True)
    ]
    links = (channel.forward, channel.reverse)
    down = [(~link.up).any() for link in links]
    if any((link.delay_high_s > link.delay_low_s).any() for link in links):
        lines.append(Patch(color=INK, alpha=0.15, linewidth=0, label="5 to 95 % of packets"))
    if any((link.highest_error_rate > link.lowest_error_rate).any() for link in links):
        lines.append(Line2D([], [], color=INK, linewidth=0.7, label="at its best"))
    if any(down):
        lines.append(Patch(color=MUTED, alpha=0.22, linewidth=0, label="outage"))
    return lines
