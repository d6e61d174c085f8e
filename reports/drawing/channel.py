"""A channel drawn: delay and rate over time each way, and the packet error rate over the length of frames."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, MaxNLocator, NullFormatter
from numpy.typing import NDArray

from owlt.reports.looks import INK, MUTED, SERIES, STYLE, draw_grid
from owlt.reports.units import Units, probability_text, rate_text, unit_for

Numbers = NDArray[np.float64]

FORWARD, REVERSE = SERIES[0], SERIES[1]
_TIMES: Units = (
    ("h", 3600.0, 3 * 3600.0),
    ("min", 60.0, 10 * 60.0),
    ("s", 1.0, 5.0),
    ("ms", 1e-3, 1e-3),
    ("µs", 1e-6, 0.0),
)


class Link(Protocol):
    """The curves of one direction; those over time have a value for each period, NaN if there is none."""

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
    """Both directions; `edges_s` are the ends of the periods of time, None if nothing changes."""

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


def links_of(channel: Channel) -> list[tuple[Link, dict[str, Any]]]:
    """Forward as a solid line, reverse as a dashed line above it, so that both are visible if they coincide."""
    return [
        (channel.forward, {"color": FORWARD, "linewidth": 1.8, "solid_capstyle": "butt"}),
        (channel.reverse, {"color": REVERSE, "linewidth": 1.3, "dashes": (1.7, 1.4), "dash_capstyle": "butt"}),
    ]


def edges_s(channel: Channel) -> Numbers:
    """The ends of the periods of time, in s; 0 and 1 if nothing changes."""
    return np.array([0.0, 1.0]) if channel.edges_s is None else channel.edges_s


def stairs(edges: Numbers, values: Numbers) -> tuple[Numbers, Numbers]:
    """The x and y of the corners of a curve that has each value from one edge to the next."""
    return np.repeat(edges, 2)[1:-1], np.repeat(values, 2)


def time_unit(longest_s: float) -> tuple[str, float]:
    """The unit for times up to the longest, and its length in s."""
    return unit_for(_TIMES, longest_s or 1e-3)


_STEPS = [1, 2, 5, 10]
_TEXT_BACKGROUND: dict[str, Any] = {"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 1.0}
"""Text stays legible if a line passes behind it."""
_LOGARITHMIC_FROM = 20
"""The ratio of the greatest to the least rate above which the axis is logarithmic."""


def draw_delay(axes: Axes, channel: Channel) -> None:
    """Draw the one-way delay over time, each way: the configured delay, and the band of 5 to 95 % of packets."""
    links = (channel.forward, channel.reverse)
    longest_s = max(float(link.delay_high_s.max()) for link in links)
    unit, unit_s = time_unit(longest_s)
    edges = edges_s(channel)
    for link, looks in links_of(channel):
        x, middle = stairs(edges, np.where(link.up, link.delay_s, np.nan) / unit_s)
        low, high = (stairs(edges, each / unit_s)[1] for each in (link.delay_low_s, link.delay_high_s))
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


def draw_rate(axes: Axes, channel: Channel) -> None:
    """Draw the rate over time, each way."""
    edges = edges_s(channel)
    for link, looks in links_of(channel):
        x, rate = stairs(edges, np.where(link.up, link.rate_bps, np.nan))
        axes.plot(x, rate, **looks)
    rates = np.concatenate([link.rate_bps for link in (channel.forward, channel.reverse)])
    limited_rates = rates[np.isfinite(rates)]
    axes.set_ylabel("rate (bit/s)")
    if not limited_rates.size:
        axes.set_ylim(0, 1)
        axes.set_yticks([])
        _say(axes, "no rate limit")
        return
    if limited_rates.max() > _LOGARITHMIC_FROM * limited_rates.min():
        axes.set_yscale("log")
        axes.set_ylim(limited_rates.min() / 4, limited_rates.max() * 4)
        axes.yaxis.set_minor_formatter(NullFormatter())
        axes.tick_params(axis="y", which="minor", length=0)
    else:
        axes.set_ylim(0, 1.35 * limited_rates.max())
        axes.yaxis.set_major_locator(MaxNLocator(4, steps=_STEPS))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: _short_rate(value)))
    if channel.edges_s is None:
        _name_values(axes, [float(link.rate_bps[0]) for link in (channel.forward, channel.reverse)], rate_text)
    _note(axes, [_unlimited(link) for link in (channel.forward, channel.reverse)])


def draw_errors(axes: Axes, channel: Channel) -> None:
    """Draw the share of frames lost or damaged over their length, each way: at its highest, and at its lowest."""
    curves = [curve for link, looks in links_of(channel) for curve in _draw_error_curves(axes, channel, link, looks)]
    axes.set_ylabel("share of frames lost or damaged")
    axes.set_xlabel("frame length (bytes)")
    axes.set_xscale("log")
    axes.set_xlim(channel.lengths_bytes[0], channel.lengths_bytes[-1])
    axes.set_xticks([64, 256, 1500, 9000], ["64", "256", "1500", "9000"])
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.tick_params(axis="x", which="minor", length=0)
    if curves:
        _scale_errors(axes, curves)
        _note(axes, _without_a_curve(channel))
        return
    axes.set_ylim(0, 1)
    axes.set_yticks([0])
    if any(link.errors_listed for link in (channel.forward, channel.reverse)):
        _note(axes, _without_a_curve(channel), middle=True)
    else:
        _say(axes, "no errors, no losses")


def _draw_error_curves(axes: Axes, channel: Channel, link: Link, looks: dict[str, Any]) -> list[Numbers]:
    """Draw the curves of one direction and the band between them. Returns those that a logarithmic axis can show."""
    lengths, low, high = channel.lengths_bytes, link.lowest_error_rate, link.highest_error_rate
    if not high.any():
        return []
    axes.plot(lengths, high, **looks)
    if (high > low).any():
        if low.all():
            axes.plot(lengths, low, **(looks | {"linewidth": 0.7}))
        floor = np.maximum(low, high.min() / 10)
        axes.fill_between(lengths, floor, high, color=looks["color"], alpha=0.15, linewidth=0)
    return [high, low] if low.all() else [high]


def _scale_errors(axes: Axes, curves: list[Numbers]) -> None:
    """A logarithmic axis of whole powers of ten around all curves."""
    least, most = min(each.min() for each in curves), max(each.max() for each in curves)
    low_power, high_power = np.floor(np.log10(least / 1.5)), np.ceil(np.log10(min(most * 1.5, 1)))
    axes.set_ylim(10**low_power, 10**high_power)
    axes.set_yscale("log")
    powers = np.arange(low_power, high_power + 1, max(1, (high_power - low_power) // 6))
    axes.set_yticks(10**powers, [probability_text(10.0**power) for power in powers])
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.tick_params(axis="y", which="minor", length=0)


def _unlimited(link: Link) -> str:
    limited = np.isfinite(link.rate_bps)
    return "" if limited.all() else "unlimited where there is no line" if limited.any() else "unlimited"


def _without_a_curve(channel: Channel) -> list[str]:
    """A note for each direction on errors that no curve shows; "" if there is none."""
    links = (channel.forward, channel.reverse)
    return [_listed(link) or ("" if link.highest_error_rate.any() else "none") for link in links]


def _listed(link: Link) -> str:
    return "" if not link.errors_listed else "and as listed" if link.highest_error_rate.any() else "errors as listed"


def _short_rate(rate_bps: float) -> str:
    return (
        "0"
        if rate_bps <= 0
        else rate_text(rate_bps).removesuffix("bit/s").replace(" ", "\N{NARROW NO-BREAK SPACE}").rstrip()
    )


def _name_values(axes: Axes, values: list[float], text: Callable[[float], str]) -> None:
    """Label constant lines with their values, above the upper line and below the lower one."""
    forward, reverse = values
    names = [(forward, INK)] if forward == reverse else [(forward, FORWARD), (reverse, REVERSE)]
    for value, colour in names:
        if np.isfinite(value):
            shift, anchor = (3, "bottom") if value == np.nanmax(values) else (-3, "top")
            axes.annotate(
                text(value),
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
    """Write a note for each direction, in the lower right corner or in the middle."""
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
            bbox=_TEXT_BACKGROUND,
        )


def _say(axes: Axes, text: str) -> None:
    axes.text(0.5, 0.5, text, transform=axes.transAxes, ha="center", va="center", color=MUTED, fontsize=7.5)


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


def _place(canvas: Canvas, left: float, bottom: float, width: float, height: float | None) -> Axes:
    tall = HEIGHT - TOP - bottom if height is None else height
    axes = canvas.add_axes((left / WIDTH, bottom / HEIGHT, width / WIDTH, tall / HEIGHT))
    draw_grid(axes)
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
