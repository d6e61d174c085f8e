"""The figures of fault tests: interruptions and what follows (edges), what a fault at each packet costs (prove), and
the life of two hosts (soak)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas
from matplotlib.patches import Patch

from owlt.reports.looks import ALARM, INK, MUTED, RULE, SERIES, STYLE, draw_grid

_WIDTH = 9.0
_ROW_HEIGHT, _REST_HEIGHT = 0.42, 1.6
_BARS_HEIGHT, _MAP_HEIGHT, _SOAK_HEIGHT = 3.4, 5.6, 6.4
"""Inches."""
_BAR_WIDTH = 0.8
_EFFECT_COLORS = (SERIES[0], SERIES[2], SERIES[3])
_MOST_NAMES = 60
"""Packets whose names are written below the bars; of more, their numbers."""
_NS_PER_DAY = 86_400e9
_NS_PER_HOUR = 3600e9
STATE_COLORS: Mapping[str, str] = {
    "continued": SERIES[0],
    "restarted": SERIES[1],
    "not ended": SERIES[2],
    "gave up": SERIES[4],
    "stuck": ALARM,
    "corrupt": INK,
    "undecided": RULE,
}


@dataclass(frozen=True)
class Cell:
    """One transfer: the kind of its interruption, when it was, after the launch, and what became of it."""

    kind: str
    at_s: float
    state: str


def draw_edges(cells: Sequence[Cell], title: str) -> Canvas:
    """The map: a row for each kind of interruption, in the order of the cells, and a column for each moment."""
    kinds = list(dict.fromkeys(cell.kind for cell in cells))
    times_s = sorted({cell.at_s for cell in cells})
    column = {at_s: number for number, at_s in enumerate(times_s)}
    with matplotlib.rc_context(STYLE):
        canvas = Canvas(figsize=(_WIDTH, _REST_HEIGHT + _ROW_HEIGHT * len(kinds)), layout="constrained")
        axes = canvas.subplots()
        for cell in cells:
            place = column[cell.at_s], len(kinds) - 1 - kinds.index(cell.kind)
            axes.bar(place[0], 0.84, 1, place[1] - 0.42, align="center", color=STATE_COLORS[cell.state], linewidth=0)
        axes.set_yticks(range(len(kinds)), reversed(kinds))
        shown = (
            [round(number * (len(times_s) - 1) / 7) for number in range(8)]
            if len(times_s) > 8
            else [*range(len(times_s))]
        )
        axes.set_xticks(shown, [f"{times_s[place]:.3g} s" for place in shown])
        axes.set_xlabel("when the interruption begins, after the launch; one column for each phase")
        axes.set_xlim(-0.5, len(times_s) - 0.5)
        axes.spines[["top", "right", "left"]].set_visible(False)
        axes.tick_params(left=False)
        axes.set_title(title, loc="left", color=INK)
        states = [state for state in STATE_COLORS if any(cell.state == state for cell in cells)]
        handles = [Patch(color=STATE_COLORS[state], label=state) for state in states]
        canvas.legend(handles=handles, loc="outside lower left", ncols=len(handles), frameon=False)
        return canvas


@dataclass(frozen=True)
class Cost:
    """The packets that were hit, by their places in the order in which the run with the faults before them sent them,
    counted from 0, and how many round trips later the file was delivered; None: it was not. `effects` are the numbers
    of what happened to them."""

    places: tuple[int, ...]
    extra_rtts: float | None
    effects: tuple[int, ...]


def draw_losses(
    costs: Sequence[Cost], packets: Sequence[str], title: str, effects: Sequence[str] = ("lost",)
) -> Canvas:
    """The figure: bars for what each of the `effects` on one of the `packets` costs, named in their order,
    and below them, if there are any, a map of the pairs. Sets of three and more are not drawn."""
    pairs = [cost for cost in costs if len(cost.places) == 2]
    with matplotlib.rc_context(STYLE):
        height = _BARS_HEIGHT + (_MAP_HEIGHT if pairs else 0)
        canvas = Canvas(figsize=(_WIDTH, height), layout="constrained")
        ratios = [_BARS_HEIGHT, _MAP_HEIGHT] if pairs else [1]
        grid = canvas.subplots(len(ratios), 1, squeeze=False, height_ratios=ratios)[:, 0]
        _draw_bars(canvas, grid[0], [cost for cost in costs if len(cost.places) == 1], packets, effects)
        grid[0].set_title(title, loc="left", color=INK)
        if pairs:
            _draw_map(canvas, grid[1], pairs, len(packets), effects)
        return canvas


def _draw_bars(
    canvas: Canvas, axes: Axes, costs: Sequence[Cost], packets: Sequence[str], effects: Sequence[str]
) -> None:
    most = max((cost.extra_rtts or 0.0 for cost in costs), default=0.0) or 1.0
    width = _BAR_WIDTH / len(effects)
    for cost in costs:
        (place,), (number,) = cost.places, cost.effects
        middle = place + (number - (len(effects) - 1) / 2) * width
        height = most if cost.extra_rtts is None else cost.extra_rtts
        axes.bar(middle, height, width, color=ALARM if cost.extra_rtts is None else _EFFECT_COLORS[number])
    axes.set_ylabel("later by (round trips)")
    draw_grid(axes)
    axes.set_xlim(-0.7, len(packets) - 0.3)
    if len(packets) <= _MOST_NAMES:
        axes.set_xticks(range(len(packets)), packets, rotation=90, fontsize=7)
    axes.set_xlabel(f"the packet that is {_any_of(effects)}, in the order of sending")
    failed = [Patch(color=ALARM, label="not delivered")] if any(cost.extra_rtts is None for cost in costs) else []
    kinds = [Patch(color=_EFFECT_COLORS[number], label=effect) for number, effect in enumerate(effects)]
    handles = [*(kinds if len(effects) > 1 else []), *failed]
    if handles:
        canvas.legend(handles=handles, loc="outside upper right", ncols=len(handles), frameon=False)


def _draw_map(canvas: Canvas, axes: Axes, pairs: Sequence[Cost], packets: int, effects: Sequence[str]) -> None:
    """A square for each pair; with several effects, a packet has a row and a column for each of them."""
    each = len(effects)
    size = max(cost.places[1] for cost in pairs) + 1
    values = np.full((size * each, packets * each), np.nan)
    cells = [
        tuple(place * each + number for place, number in zip(cost.places, cost.effects, strict=True)) for cost in pairs
    ]
    for cost, (first, second) in zip(pairs, cells, strict=True):
        values[second, first] = np.nan if cost.extra_rtts is None else cost.extra_rtts
    extent = (-0.5, packets - 0.5, -0.5, size - 0.5)
    image = axes.imshow(values, origin="lower", aspect="auto", cmap="viridis", interpolation="nearest", extent=extent)
    failed = [cell for cost, cell in zip(pairs, cells, strict=True) if cost.extra_rtts is None]
    if failed:
        across, up = ((np.array(numbers) + 0.5) / each - 0.5 for numbers in zip(*failed, strict=True))
        axes.scatter(across, up, marker="s", s=14 / each, color=ALARM, label="not delivered")
        axes.legend(loc="lower right", frameon=False)
    order = f"; in a packet's square: {', '.join(effects)}" if each > 1 else ""
    axes.set_xlabel(f"the packet that is {_any_of(effects)} first, in the order of sending{order}")
    axes.set_ylabel(f"the packet that is {_any_of(effects)} then")
    canvas.colorbar(image, ax=axes, label="later by (round trips)")


def _any_of(effects: Sequence[str]) -> str:
    return effects[0] if len(effects) == 1 else "hit"


def draw_soak(transfers: Sequence[Mapping[str, Any]], start_ns: int, wraps_ns: Mapping[str, int], title: str) -> Canvas:
    """The figure. `transfers` are the lines of a life; `start_ns` and `wraps_ns`, by name, are uptimes."""
    began_ns = np.array([each["uptime_ns"] for each in transfers], dtype=float) - start_ns
    in_hours = began_ns.size == 0 or began_ns.max() < 2 * _NS_PER_DAY
    unit_ns, unit = (_NS_PER_HOUR, "h") if in_hours else (_NS_PER_DAY, "days")
    at = began_ns / unit_ns
    with matplotlib.rc_context(STYLE):
        canvas = Canvas(figsize=(_WIDTH, _SOAK_HEIGHT), layout="constrained")
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
    draw_grid(axes)


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
    draw_grid(axes)
