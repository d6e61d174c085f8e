"""What the loss of each packet of a transfer costs, and of each pair of packets: bars, and a map of pairs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas
from matplotlib.patches import Patch

from owlt.reports.looks import ALARM, INK, RULE, SERIES, STYLE

_WIDTH, _BARS_HEIGHT, _MAP_HEIGHT = 9.0, 3.4, 5.6
_MOST_NAMES = 60
"""Packets whose names are written below the bars; of more, their numbers."""


@dataclass(frozen=True)
class Cost:
    """The packets that were lost, by their places in the order in which the run with the losses before them sent them,
    counted from 0, and how many round trips later the file was delivered; None: it was not."""

    places: tuple[int, ...]
    extra_rtts: float | None


def draw_losses(costs: Sequence[Cost], packets: Sequence[str], title: str) -> Canvas:
    """The figure: a bar for each single loss of the `packets`, which are named in their order, and below it, if there
    are any, a map of the pairs. Sets of three and more are not drawn."""
    pairs = [cost for cost in costs if len(cost.places) == 2]
    with matplotlib.rc_context(STYLE):
        height = _BARS_HEIGHT + (_MAP_HEIGHT if pairs else 0)
        canvas = Canvas(figsize=(_WIDTH, height), layout="constrained")
        ratios = [_BARS_HEIGHT, _MAP_HEIGHT] if pairs else [1]
        grid = canvas.subplots(len(ratios), 1, squeeze=False, height_ratios=ratios)[:, 0]
        _draw_bars(grid[0], [cost for cost in costs if len(cost.places) == 1], packets)
        grid[0].set_title(title, loc="left", color=INK)
        if pairs:
            _draw_map(canvas, grid[1], pairs, len(packets))
        return canvas


def _draw_bars(axes: Axes, costs: Sequence[Cost], packets: Sequence[str]) -> None:
    most = max((cost.extra_rtts or 0.0 for cost in costs), default=0.0) or 1.0
    for cost in costs:
        height = most if cost.extra_rtts is None else cost.extra_rtts
        axes.bar(cost.places[0], height, color=ALARM if cost.extra_rtts is None else SERIES[0])
    axes.set_ylabel("later by (round trips)")
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", color=RULE, linewidth=0.6)
    axes.set_axisbelow(True)
    axes.set_xlim(-0.7, len(packets) - 0.3)
    if len(packets) <= _MOST_NAMES:
        axes.set_xticks(range(len(packets)), packets, rotation=90, fontsize=7)
    axes.set_xlabel("the packet that is lost, in the order of sending")
    if any(cost.extra_rtts is None for cost in costs):
        axes.legend(handles=[Patch(color=ALARM, label="not delivered")], frameon=False)


def _draw_map(canvas: Canvas, axes: Axes, pairs: Sequence[Cost], packets: int) -> None:
    size = max(cost.places[1] for cost in pairs) + 1
    values = np.full((size, packets), np.nan)
    for cost in pairs:
        values[cost.places[1], cost.places[0]] = np.nan if cost.extra_rtts is None else cost.extra_rtts
    image = axes.imshow(values, origin="lower", aspect="auto", cmap="viridis", interpolation="nearest")
    failed = [cost.places for cost in pairs if cost.extra_rtts is None]
    if failed:
        first, second = zip(*failed, strict=True)
        axes.scatter(first, second, marker="s", s=14, color=ALARM, label="not delivered")
        axes.legend(loc="upper left", frameon=False)
    axes.set_xlabel("the packet that is lost first, in the order of sending")
    axes.set_ylabel("the packet that is lost then")
    canvas.colorbar(image, ax=axes, label="later by (round trips)")
