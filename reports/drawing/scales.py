"""The scale that a group of panels shares: linear or logarithmic, and its ends.

Logarithmic if the values span more than a decade; then linear below one if some are zero, because a logarithmic scale
has no zero.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain
from math import log10
from types import MappingProxyType
from typing import Literal

from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.markers import TICKDOWN, TICKLEFT, MarkerStyle
from matplotlib.scale import LogTransform, SymmetricalLogTransform
from matplotlib.ticker import FuncFormatter, Locator, LogLocator, MaxNLocator, NullLocator, SymmetricalLogLocator
from matplotlib.transforms import IdentityTransform, Transform

from owlt.reports.comparison.metrics import Metric, MetricKind
from owlt.reports.comparison.panels import Figure, Panel
from owlt.reports.drawing.boxes import Bounds, bounds_of
from owlt.reports.looks import INK
from owlt.reports.units import tick_text

Kind = Literal["linear", "log", "log above 1"]

DECADE = 10.0
MINOR_TICK = 2
"""Points: the length of a minor tick."""
ROOM = 0.12
"""The part of the axis that stays free above and below the values."""


@dataclass(frozen=True)
class Scale:
    """A kind of scale and its ends, in the unit of the values."""

    kind: Kind
    low: float
    high: float


def scales_of(figure: Figure, bounds: Bounds = MappingProxyType({})) -> list[Scale]:
    """A scale for each panel, row by row: equal in panels that share it, of one kind for all panels of a metric. It
    reaches the bounds of theory, too."""
    panels = [
        (_group(figure, row, column), panel)
        for row, across in enumerate(figure.panels)
        for column, panel in enumerate(across)
    ]
    values: dict[tuple[int, int], list[float]] = {}
    for group, panel in panels:
        values.setdefault(group, []).extend([*panel.values, *_bounds(panel, bounds)])

    def scale(group: tuple[int, int], metric: Metric) -> Scale:
        alike = {other for other, panel in panels if panel.metric == metric}
        return scale_for(kind_for([values[other] for other in alike]), values[group], metric.kind)

    return [scale(group, panel.metric) for group, panel in panels]


def _bounds(panel: Panel, bounds: Bounds) -> list[float]:
    found = [each for box in chain(*panel.boxes) if (each := bounds_of(box, bounds))]
    return [bound for each in found for bound in each if bound]


def _group(figure: Figure, row: int, column: int) -> tuple[int, int]:
    """The group of a panel: panels of the same group share their scale."""
    return (0 if figure.share in ("column", "all") else row, 0 if figure.share in ("row", "all") else column)


def kind_for(groups: Sequence[Sequence[float]]) -> Kind:
    """One kind for all groups of a metric: that of the group with the widest range."""
    positive = [[value for value in group if value > 0] for group in groups]
    if not any(group and max(group) > DECADE * min(group) for group in positive):
        return "linear"
    return "log" if all(value > 0 for group in groups for value in group) else "log above 1"


def scale_for(kind: Kind, values: list[float], values_are: MetricKind) -> Scale:
    """The scale that shows all values with room around them; any scale if there are none."""
    if not values:
        return Scale(kind, 1 if kind == "log" else 0, 10)
    least, greatest = min(values), max(values)
    if kind == "linear":
        return _linear(least, greatest, values_are)
    if kind == "log above 1":
        return Scale(kind, -0.5, 1.5 * max(greatest, 1))
    factor = max(greatest / least, 1.5) ** ROOM
    return Scale(kind, least / factor, greatest * factor)


def _linear(least: float, greatest: float, values_are: MetricKind) -> Scale:
    """From zero; counts and amounts that differ little from near the least, because the difference matters."""
    few, grain = (10, 1.5) if values_are == "count" else (0, 0)
    if values_are == "rate" or least <= max(greatest / 2, few):
        return Scale("linear", 0, greatest * (1 + ROOM) or 1)
    room = max(ROOM * (greatest - least), 0.005 * greatest, grain)
    return Scale("linear", max(least - room, 0), greatest + room)


def shown_metrics(figure: Figure) -> dict[str, Metric]:
    """Each metric of a figure in the unit for its greatest value, by slug."""
    values: dict[Metric, list[float]] = {}
    for panel in chain(*figure.panels):
        values.setdefault(panel.metric, []).extend(panel.values)
    return {metric.slug: metric.scaled(max(of_metric, default=1.0)) for metric, of_metric in values.items()}


def apply_scale(axes: Axes, scale: Scale, is_count: bool, lying: bool = False, per_tick: float = 1.0) -> None:
    """Give the axes the scale, upwards or, lying, to the right: few ticks, their numbers written out (0.01), in units
    of `per_tick`."""
    axis = axes.xaxis if lying else axes.yaxis
    set_scale, set_ends = (axes.set_xscale, axes.set_xlim) if lying else (axes.set_yscale, axes.set_ylim)
    if scale.kind == "log":
        set_scale("log")
    elif scale.kind == "log above 1":
        set_scale("symlog", linthresh=1)
    axis.set_major_locator(_locator(scale, is_count))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(lambda value, _: tick_text(value / per_tick)))
    set_ends(scale.low, scale.high)
    if minor := minor_ticks_of(scale, axis.get_tick_space()):
        transform = axes.get_xaxis_transform() if lying else axes.get_yaxis_transform()
        axes.add_artist(ticks_as_line(minor, MINOR_TICK, lying, transform))


def transform_of(kind: Kind) -> Transform:
    """The transform of a kind of scale, the same as of matplotlib's axes with it."""
    if kind == "log":
        return LogTransform(10)
    return SymmetricalLogTransform(10, linthresh=1, linscale=1) if kind == "log above 1" else IdentityTransform()


def ticks_on(scale: Scale, is_count: bool, room: int) -> list[float]:
    """The values at the ticks of a scale in a figure that has room for the texts of so many."""
    return _within(scale, _with_room(_locator(scale, is_count), room))


def minor_ticks_of(scale: Scale, room: int) -> list[float]:
    """The values at the ticks between those of a logarithmic scale; [] for a linear one."""
    if scale.kind == "linear":
        return []
    subs = range(2, 10)
    if scale.kind == "log":
        return _within(scale, _with_room(LogLocator(subs=subs), room))
    return _within(scale, SymmetricalLogLocator(base=10, linthresh=1, subs=subs))


def _with_room(locator: Locator, room: int) -> Locator:
    """A locator as it is on an axis that has room for the texts of so many ticks."""
    if isinstance(locator, LogLocator):
        locator.set_params(numticks=min(max(room, 2), 9))
    return locator


def _within(scale: Scale, locator: Locator) -> list[float]:
    values = locator.tick_values(scale.low, scale.high)
    return [float(value) for value in values if scale.low <= value <= scale.high]


def log_locator(low: float, high: float) -> LogLocator:
    """Ticks of a logarithmic axis: at the powers of ten, and between them if there are few of these."""
    return LogLocator(subs=(1, 2, 5) if high / low < 50 else (1,))


def _locator(scale: Scale, is_count: bool) -> Locator:
    if scale.kind == "linear":
        return MaxNLocator(4, integer=is_count, steps=[1, 2, 2.5, 5, 10])
    if scale.kind == "log":
        return log_locator(scale.low, scale.high)
    return SymmetricalLogLocator(base=10, linthresh=1)


def ticks_of(scale: Scale, is_count: bool) -> list[float]:
    """The values at the ticks of a scale."""
    is_short = scale.kind == "log" and scale.high / scale.low < 200
    return _within(scale, LogLocator(subs=(1, 2, 5)) if is_short else _locator(scale, is_count))


def places_on(scale: Scale) -> Callable[[float], float]:
    """The function that gives the place of a value on a scale: 0 at its low end, 1 at its high end."""
    transformed = _TRANSFORMED[scale.kind]
    low = transformed(scale.low)
    span = transformed(scale.high) - low
    return lambda value: (transformed(value) - low) / span


_TRANSFORMED: dict[Kind, Callable[[float], float]] = {
    "linear": float,
    "log": log10,
    "log above 1": lambda value: value if value <= 1 else 1 + log10(value),
}


def ticks_as_line(values: Sequence[float], length_points: float, lying: bool, transform: Transform) -> Line2D:
    """Ticks as the markers of one line without a line: matplotlib's own ticks take half of the time of a figure.
    `transform` is from values on the scale, and parts of the panel across it."""
    zeros = [0.0] * len(values)
    return Line2D(
        *((values, zeros) if lying else (zeros, values)),
        linestyle="",
        marker=MarkerStyle(TICKDOWN if lying else TICKLEFT),
        markersize=length_points,
        markeredgewidth=0.6,
        color=INK,
        transform=transform,
        clip_on=False,
    )
