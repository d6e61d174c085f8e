"""The axes of a sweep's grid, one row each: the key of an axis, its values and where they are found.

Sweep files, rules, assertions, `--cell`, the points of a plan, the tables of results and the figures follow from these
rows. How values look on a page (10⁻⁴, "unlimited rate") follows from their quantity: `reports.units.axis_text`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Any

from owlt.inputs.quantities import DELAY, DURATION, IP, NAME, PROBABILITY, RATE, SIZE, Quantity

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
    way: str = ""
    """The direction of a link's axis, "forward" or "reverse"; "": both, or not of a link."""
    both: str = ""
    """The key of the axis of both directions, of an axis of one direction."""

    def of(self, point: Any) -> Any:
        """The value of a point of the grid; None for a reverse link whose value only the channel's profile has."""
        value = getattr(point, self.field)
        if self.way != "reverse":
            return value
        if value is None and not point.channel_name:
            return getattr(point, AXES[self.both].field)
        return None if value == inf else value

    def is_own(self, point: Any) -> bool:
        """Whether a point has a value of the reverse link that is not the forward link's."""
        return getattr(point, self.field) is not None and self.of(point) != getattr(point, AXES[self.both].field)


@dataclass(frozen=True)
class Interval:
    """All values of an axis from one to another, both included; None: no bound."""

    least: float | None
    most: float | None

    def __contains__(self, value: float | None) -> bool:
        number = inf if value is None else value
        return (self.least is None or self.least <= number) and (self.most is None or number <= self.most)


def _with_directions(axes: Iterable[Axis]) -> Iterator[Axis]:
    """The axes, each of a link with those of its two directions; a forward one shares its field."""
    for axis in axes:
        yield axis
        if axis.key in BOTH_WAYS:
            for way in WAYS:
                yield replace(
                    axis,
                    key=f"{way}_{axis.key}",
                    name=f"{way}_{axis.name}",
                    field=axis.field if way == "forward" else f"{way}_{axis.field}",
                    head=f"{way} {axis.head}",
                    label=f"{way} {axis.label}",
                    way=way,
                    both=axis.key,
                )


WAYS = ("forward", "reverse")
PER = "packet_error_rate"
BOTH_WAYS = ("rate", "delay", PER)
"""The axes that make a channel, or replace values of its profile, in both directions."""
AXES: dict[str, Axis] = {
    axis.key: axis
    for axis in _with_directions(
        (
            Axis("implementations", "implementation", "implementation", NAME, "implementation", "implementation"),
            Axis("file_size", "file_size", "file_size_bytes", SIZE, "file", "file size", "MB", 1e6),
            Axis("duration", "duration", "duration_ns", DURATION, "duration", "duration", "s", 1e9),
            Axis("channel", "channel", "channel_name", NAME, "channel", "channel"),
            Axis("ip", "ip", "ip", IP, "IP", "version of IP"),
            Axis("rate", "rate", "rate_bps", RATE, "rate", "rate", "Mbit/s", 1e6),
            Axis("delay", "delay", "delay_ns", DELAY, "delay", "one-way delay", "ms", 1e6),
            Axis(PER, PER, PER, PROBABILITY, "PER", "packet error rate"),
        )
    )
}
"""The axes by key, in their order. The parameters of implementations are further axes, whose values are variants."""
BY_NAME = {axis.name: axis for axis in AXES.values()}
LOADS = ("file_size", "duration")
"""The axes of the load (a file, or a duration): a sweep has one of them."""
CONDITIONS = tuple(sorted(AXES.keys() - {"implementations"}, key=lambda key: (key in LOADS, [*AXES].index(key))))
"""The axes of a cell, which implementations share: the channel, then the load."""
QUEUE = "queue_packets"
DIRECTED = (*BOTH_WAYS, QUEUE)
"""The keys of a sweep that may have a value for each direction."""
OF_THE_LINK = tuple(key for key, axis in AXES.items() if (axis.both or key) in BOTH_WAYS)
"""The axes of both directions, and those of one."""
QUANTITIES = tuple(key for key, axis in AXES.items() if axis.quantity is not NAME)
"""The axes whose values are numbers with an order."""


def conditions_of(points: Iterable[Any]) -> tuple[str, ...]:
    """The axes of the cells of some points: one for both directions of a link, or two if they differ anywhere."""
    points = list(points)
    two = {axis.both for axis in AXES.values() if axis.way == "reverse" and any(map(axis.is_own, points))}
    return tuple(key for key in CONDITIONS if ((AXES[key].both or key) in two) == bool(AXES[key].way))


def fields_of(values: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a point that has these values of axes.

    That of a reverse value is None if it equals the forward one of a channel without a profile, so that a channel that
    is the same both ways is one point however it is written; it is infinite for an unlimited rate.
    """
    fields = {AXES[key].field: value for key, value in values.items() if AXES[key].way != "reverse"}
    for key, value in values.items():
        axis = AXES[key]
        if axis.way == "reverse":
            is_same = not values.get("channel") and value == fields[AXES[axis.both].field]
            fields[axis.field] = None if is_same else inf if value is None else value
    return fields


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
