"""The axes of a sweep's grid, one row each: the key of an axis, its values and where they are found.

Sweep files, rules, assertions, `--cell`, the points of a plan, the tables of results and the figures follow from these
rows. How values look on a page (10⁻⁴, "unlimited rate") follows from their quantity: `reports.units.axis_text`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any

from owlt.inputs.quantities import DELAY, DURATION, NAME, PROBABILITY, RATE, SIZE, Quantity

VARIANT = "+"
"""The separator between the name of an implementation and the parameters that a variant of it changes."""


@dataclass(frozen=True)
class Axis:
    """One axis of the grid. Its place in AXES is its place in a sweep file and in a point of the grid."""

    key: str
    """The key in a sweep and in its rules and assertions."""
    name: str
    """The name of one value, in a condition KEY=VALUE and as a setting of a figure."""
    field: str
    """The field of a point of the grid; also the column of the tables of results."""
    quantity: Quantity
    head: str
    """The head of its column in a matrix, or what comes before a value."""
    label: str
    """The label beside the axis of a figure, without unit."""
    unit: str = ""
    """The unit of the numbers along the axis of a figure."""
    per_unit: float = 1
    """One unit of these numbers in the base unit."""

    def of(self, point: object) -> Any:
        """The value of a point of the grid."""
        return getattr(point, self.field)


@dataclass(frozen=True)
class Interval:
    """All values of an axis from one to another, both included; None: no bound."""

    least: float | None
    most: float | None

    def __contains__(self, value: float | None) -> bool:
        number = inf if value is None else value
        return (self.least is None or self.least <= number) and (self.most is None or number <= self.most)


AXES: dict[str, Axis] = {
    axis.key: axis
    for axis in (
        Axis("implementations", "implementation", "implementation", NAME, "implementation", "implementation"),
        Axis("file_size", "file_size", "file_size_bytes", SIZE, "file", "file size", "MB", 1e6),
        Axis("duration", "duration", "duration_ns", DURATION, "duration", "duration", "s", 1e9),
        Axis("channel", "channel", "channel_name", NAME, "channel", "channel"),
        Axis("rate", "rate", "rate_bps", RATE, "rate", "rate", "Mbit/s", 1e6),
        Axis("delay", "delay", "delay_ns", DELAY, "delay", "one-way delay", "ms", 1e6),
        Axis("packet_error_rate", "packet_error_rate", "packet_error_rate", PROBABILITY, "PER", "packet error rate"),
    )
}
"""The axes by key, in their order. The parameters of implementations are further axes, whose values are variants."""
BY_NAME = {axis.name: axis for axis in AXES.values()}
LOADS = ("file_size", "duration")
"""The axes of the load (a file, or a duration): a sweep has one of them."""
CONDITIONS = tuple(sorted(AXES.keys() - {"implementations"}, key=lambda key: (key in LOADS, [*AXES].index(key))))
"""The axes of a cell, which implementations share: the channel, then the load."""
OF_THE_LINK = ("rate", "delay", "packet_error_rate")
"""The axes that make a channel, or replace values of its profile."""
QUANTITIES = tuple(key for key, axis in AXES.items() if axis.quantity is not NAME)
"""The axes whose values are numbers with an order."""


def selected(key: str, written: Sequence[Any]) -> list[Any]:
    """Written values of an axis as numbers, names and intervals; an interval is written {from: ..., to: ...}."""
    parse = AXES[key].quantity.parse
    return [
        Interval(*(parse(each[end]) if end in each else None for end in ("from", "to")))
        if isinstance(each, Mapping)
        else parse(each)
        for each in written
    ]


def matches(key: str, value: Any, allowed: Sequence[Any]) -> bool:
    """Whether a value of an axis is one of those allowed, or in an interval of them; a name stands for its variants."""
    if key == "implementations":
        return is_among(value, allowed)
    return any(value in each if isinstance(each, Interval) else value == each for each in allowed)


def base_name(name: str) -> str:
    """The name of the implementation that a variant belongs to."""
    return name.partition(VARIANT)[0]


def is_among(name: str, names: Sequence[str]) -> bool:
    """Whether an implementation is named, itself or as the one that it is a variant of."""
    return name in names or base_name(name) in names
