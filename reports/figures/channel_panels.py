"""The panels of a channel's figure: delay and rate over time, the error rate over the length of frames."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, MaxNLocator, NullFormatter

from owlt.reports.figures.channel_curves import (
    FORWARD,
    REVERSE,
    Channel,
    Link,
    Numbers,
    edges_s,
    links_of,
    stairs,
    time_unit,
)
from owlt.reports.style.looks import INK, MUTED
from owlt.reports.style.units import probability_text, rate_text

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
