"""What a fault at each packet of a transfer costs, and at each pair of packets: bars, and a map of pairs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas
from matplotlib.patches import Patch

from owlt.reports.looks import ALARM, INK, SERIES, STYLE, draw_grid

_WIDTH, _BARS_HEIGHT, _MAP_HEIGHT = 9.0, 3.4, 5.6
_MOST_NAMES = 60
"""Packets whose names are written below the bars; of more, their numbers."""
_BAR_WIDTH = 0.8
_COLORS = (SERIES[0], SERIES[2], SERIES[3])


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
        axes.bar(middle, height, width, color=ALARM if cost.extra_rtts is None else _COLORS[number])
    axes.set_ylabel("later by (round trips)")
    draw_grid(axes)
    axes.set_xlim(-0.7, len(packets) - 0.3)
    if len(packets) <= _MOST_NAMES:
        axes.set_xticks(range(len(packets)), packets, rotation=90, fontsize=7)
    axes.set_xlabel(f"the packet that is {_any_of(effects)}, in the order of sending")
    failed = [Patch(color=ALARM, label="not delivered")] if any(cost.extra_rtts is None for cost in costs) else []
    kinds = [Patch(color=_COLORS[number], label=effect) for number, effect in enumerate(effects)]
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
