"""A channel drawn: delay and rate over time each way, and the packet error rate over the packets' length."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, MaxNLocator, NullFormatter
from numpy.typing import NDArray

from reports.looks import INK, MUTED, RULE, SERIES, STYLE
from reports.units import probability_text, rate_text

Numbers = NDArray[np.float64]

FORMATS = (".svg", ".pdf", ".png")
WIDTH, HEIGHT = 7.0, 3.5
LEFT, MIDDLE, RIGHT, TOP, BOTTOM = 0.70, 0.80, 0.22, 0.56, 0.52
TIME_WIDTH, GAP, LABEL = 3.55, 0.22, 0.56
"""Inches: the columns of a paper, the panels over time on the left."""

FORWARD, REVERSE = SERIES[0], SERIES[1]
_TIME_UNITS = (
    ("h", 3600.0, 3 * 3600.0),
    ("min", 60.0, 10 * 60.0),
    ("s", 1.0, 5.0),
    ("ms", 1e-3, 1e-3),
    ("µs", 1e-6, 0.0),
)
"""Unit, its seconds, and from how many seconds on it is used."""
_STEPS = [1, 2, 5, 10]
_BEHIND_WORDS: dict[str, Any] = {"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 1.0}
"""So that words are read where a line passes under them."""
_FAR_APART = 20
"""From which ratio of the greatest to the least on rates are drawn on a logarithmic axis."""


class Link(Protocol):
    """The curves of one direction; those over time have a value for each stretch, NaN where there is none."""

    @property
    def delay_s(self) -> Numbers: ...
    @property
    def delay_low_s(self) -> Numbers: ...
    @property
    def delay_high_s(self) -> Numbers: ...
    @property
    def rate_bps(self) -> Numbers: ...
    @property
    def up(self) -> NDArray[np.bool_]: ...
    @property
    def lowest_error_rate(self) -> Numbers: ...
    @property
    def highest_error_rate(self) -> Numbers: ...
    @property
    def errors_listed(self) -> bool: ...


class Channel(Protocol):
    """Both directions; `edges_s` are the ends of the stretches of time, None if nothing changes."""

    @property
    def edges_s(self) -> Numbers | None: ...
    @property
    def loops(self) -> bool: ...
    @property
    def lengths_bytes(self) -> Numbers: ...
    @property
    def forward(self) -> Link: ...
    @property
    def reverse(self) -> Link: ...


def draw_channel(channel: Channel, title: str) -> Canvas:
    """The channel drawn in one figure, for a paper's full width."""
    with matplotlib.rc_context(STYLE):
        canvas = Canvas(figsize=(WIDTH, HEIGHT))
        canvas.text(LEFT / WIDTH, 1 - 0.16 / HEIGHT, title, fontsize=9, fontweight="bold", va="center")
        height = (HEIGHT - TOP - BOTTOM - GAP) / 2
        delay = _place(canvas, LEFT, BOTTOM + height + GAP, TIME_WIDTH, height)
        rate = _place(canvas, LEFT, BOTTOM, TIME_WIDTH, height)
        errors = _place(canvas, LEFT + TIME_WIDTH + MIDDLE, BOTTOM, WIDTH - LEFT - TIME_WIDTH - MIDDLE - RIGHT, None)
        _draw_delay(delay, channel)
        _draw_rate(rate, channel)
        _draw_errors(errors, channel)
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
    """Write the figure in the format that the path ends in: no dates in it, the same bytes every time."""
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


def _links(channel: Channel) -> list[tuple[Link, dict[str, Any]]]:
    """Forward as a line, reverse as a broken one above it, so that both are seen where they are the same."""
    return [
        (channel.forward, {"color": FORWARD, "linewidth": 1.8, "solid_capstyle": "butt"}),
        (channel.reverse, {"color": REVERSE, "linewidth": 1.3, "dashes": (1.7, 1.4), "dash_capstyle": "butt"}),
    ]


def _edges_s(channel: Channel) -> Numbers:
    return np.array([0.0, 1.0]) if channel.edges_s is None else channel.edges_s


def _stairs(edges: Numbers, values: Numbers) -> tuple[Numbers, Numbers]:
    """The corners of a curve that has each value from one edge to the next."""
    return np.repeat(edges, 2)[1:-1], np.repeat(values, 2)


def _draw_delay(axes: Axes, channel: Channel) -> None:
    links = (channel.forward, channel.reverse)
    longest_s = max(float(link.delay_high_s.max()) for link in links)
    unit, unit_s = _time_unit(longest_s)
    edges = _edges_s(channel)
    for link, looks in _links(channel):
        x, middle = _stairs(edges, np.where(link.up, link.delay_s, np.nan) / unit_s)
        low, high = (_stairs(edges, each / unit_s)[1] for each in (link.delay_low_s, link.delay_high_s))
        axes.plot(x, middle, **looks)
        if (high > low).any():
            axes.fill_between(x, low, high, where=np.isfinite(middle), color=looks["color"], alpha=0.15, linewidth=0)
    lowest_s = min(float(link.delay_low_s.min()) for link in links)
    if longest_s == 0:
        axes.set_ylim(0, 1)
        axes.set_yticks([0])
        _say(axes, "no delay")
    elif lowest_s > 0.9 * longest_s and lowest_s < longest_s:
        axes.margins(y=0.12)
    else:
        axes.set_ylim(0, 1.35 * longest_s / unit_s)
    if longest_s:
        axes.yaxis.set_major_locator(MaxNLocator(4, steps=_STEPS))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.10g}"))
    if channel.edges_s is None and longest_s:
        _name_values(axes, [float(link.delay_s[0]) / unit_s for link in links], lambda value: f"{value:.6g} {unit}")
    axes.set_ylabel(f"one-way delay ({unit})")


def _draw_rate(axes: Axes, channel: Channel) -> None:
    edges = _edges_s(channel)
    for link, looks in _links(channel):
        x, rate = _stairs(edges, np.where(link.up, link.rate_bps, np.nan))
        axes.plot(x, rate, **looks)
    rates = np.concatenate([link.rate_bps for link in (channel.forward, channel.reverse)])
    known = rates[np.isfinite(rates)]
    axes.set_ylabel("rate (bit/s)")
    if not known.size:
        axes.set_ylim(0, 1)
        axes.set_yticks([])
        _say(axes, "no rate limit")
        return
    if known.max() > _FAR_APART * known.min():
        axes.set_yscale("log")
        axes.set_ylim(known.min() / 4, known.max() * 4)
        axes.yaxis.set_minor_formatter(NullFormatter())
        axes.tick_params(axis="y", which="minor", length=0)
    else:
        axes.set_ylim(0, 1.35 * known.max())
        axes.yaxis.set_major_locator(MaxNLocator(4, steps=_STEPS))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: _short_rate(value)))
    if channel.edges_s is None:
        _name_values(axes, [float(link.rate_bps[0]) for link in (channel.forward, channel.reverse)], rate_text)
    _note(axes, [_unlimited(link) for link in (channel.forward, channel.reverse)])


def _draw_errors(axes: Axes, channel: Channel) -> None:
    lengths = channel.lengths_bytes
    shown = []
    for link, looks in _links(channel):
        low, high = link.lowest_error_rate, link.highest_error_rate
        if not high.any():
            continue
        shown.append(high)
        shown += [low] if low.all() else []
        axes.plot(lengths, high, **looks)
        if (high > low).any():
            if low.all():
                axes.plot(lengths, low, **(looks | {"linewidth": 0.7}))
            floor = np.maximum(low, high.min() / 10)
            axes.fill_between(lengths, floor, high, color=looks["color"], alpha=0.15, linewidth=0)
    axes.set_ylabel("share of frames lost or damaged")
    axes.set_xlabel("frame length (bytes)")
    axes.set_xscale("log")
    axes.set_xlim(lengths[0], lengths[-1])
    axes.set_xticks([64, 256, 1500, 9000], ["64", "256", "1500", "9000"])
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.tick_params(axis="x", which="minor", length=0)
    if not shown:
        axes.set_ylim(0, 1)
        axes.set_yticks([0])
        if any(link.errors_listed for link in (channel.forward, channel.reverse)):
            _note(axes, _without_a_curve(channel), middle=True)
        else:
            _say(axes, "no errors, no losses")
        return
    least, most = min(each.min() for each in shown), max(each.max() for each in shown)
    low_power, high_power = np.floor(np.log10(least / 1.5)), np.ceil(np.log10(min(most * 1.5, 1)))
    axes.set_ylim(10**low_power, 10**high_power)
    axes.set_yscale("log")
    powers = np.arange(low_power, high_power + 1, max(1, (high_power - low_power) // 6))
    axes.set_yticks(10**powers, [probability_text(10.0**power) for power in powers])
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.tick_params(axis="y", which="minor", length=0)
    _note(axes, _without_a_curve(channel))


def _unlimited(link: Link) -> str:
    limited = np.isfinite(link.rate_bps)
    return "" if limited.all() else "unlimited where no line is" if limited.any() else "unlimited"


def _without_a_curve(channel: Channel) -> list[str]:
    """What no curve shows of each direction's errors."""
    links = (channel.forward, channel.reverse)
    return [_listed(link) or ("" if link.highest_error_rate.any() else "none") for link in links]


def _listed(link: Link) -> str:
    return "" if not link.errors_listed else "and as listed" if link.highest_error_rate.any() else "errors as listed"


def _share_time(delay: Axes, rate: Axes, channel: Channel) -> None:
    edges = _edges_s(channel)
    for axes in (delay, rate):
        axes.set_xlim(edges[0], edges[-1])
        _shade_outages(axes, edges, channel)
    delay.tick_params(labelbottom=False)
    if channel.edges_s is None:
        for axes in (delay, rate):
            axes.set_xticks([])
        rate.set_xlabel("time (nothing changes)")
        return
    unit, unit_s = _time_unit(float(edges[-1]))
    for axes in (delay, rate):
        locator = MaxNLocator(6, steps=[1, 2, 3, 5, 6, 10])
        ticks = [tick for tick in locator.tick_values(0, edges[-1] / unit_s) if 0 <= tick <= edges[-1] / unit_s]
        axes.set_xticks([tick * unit_s for tick in ticks], [f"{tick:g}" for tick in ticks])
    after = "then from the beginning" if channel.loops else "then as at the end"
    rate.set_xlabel(f"time ({unit}), {after}")


def _shade_outages(axes: Axes, edges: Numbers, channel: Channel) -> None:
    for begin, end, forward, reverse in zip(edges, edges[1:], channel.forward.up, channel.reverse.up, strict=False):
        if not (forward and reverse):
            colour, strength = (MUTED, 0.22) if forward == reverse else (REVERSE if forward else FORWARD, 0.16)
            axes.axvspan(begin, end, color=colour, alpha=strength, linewidth=0, zorder=0)


def _legend(channel: Channel) -> list[Line2D | Patch]:
    lines: list[Line2D | Patch] = [
        Line2D([], [], label=name, **looks)
        for name, (_, looks) in zip(("forward", "reverse"), _links(channel), strict=True)
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


def _time_unit(longest_s: float) -> tuple[str, float]:
    return next((unit, unit_s) for unit, unit_s, least_s in _TIME_UNITS if (longest_s or 1e-3) >= least_s)


def _short_rate(rate_bps: float) -> str:
    return (
        "0"
        if rate_bps <= 0
        else rate_text(rate_bps).removesuffix("bit/s").replace(" ", "\N{NARROW NO-BREAK SPACE}").rstrip()
    )


def _name_values(axes: Axes, values: list[float], told: Callable[[float], str]) -> None:
    """What lines that never change stand for, above the upper one and below the lower one."""
    forward, reverse = values
    names = [(forward, INK)] if forward == reverse else [(forward, FORWARD), (reverse, REVERSE)]
    for value, colour in names:
        if np.isfinite(value):
            shift, anchor = (3, "bottom") if value == np.nanmax(values) else (-3, "top")
            axes.annotate(
                told(value),
                (0.99, value),
                (0, shift),
                ("axes fraction", "data"),
                "offset points",
                ha="right",
                va=anchor,
                color=colour,
                fontsize=7.5,
            )


def _note(axes: Axes, words: list[str], *, middle: bool = False) -> None:
    """What no line shows forward and reverse, a line each: in the lower right corner, or in the middle."""
    text = "\n".join(f"{name}: {word}" for name, word in zip(("forward", "reverse"), words, strict=True) if word)
    if middle:
        _say(axes, text)
    elif text:
        axes.text(
            0.985,
            0.04,
            text,
            transform=axes.transAxes,
            ha="right",
            va="bottom",
            color=MUTED,
            fontsize=7,
            zorder=5,
            bbox=_BEHIND_WORDS,
        )


def _say(axes: Axes, text: str) -> None:
    axes.text(0.5, 0.5, text, transform=axes.transAxes, ha="center", va="center", color=MUTED, fontsize=7.5)
