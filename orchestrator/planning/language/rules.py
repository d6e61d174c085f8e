"""Axes that vary together, and the rules that take points out of the grid or add some.

They are read into plain values: for each axis, its values as they are written, ranges expanded.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import BeforeValidator, TypeAdapter, WithJsonSchema

from owlt.inputs.mistake import Invalid, Mistake, Place, got, keys_below
from owlt.inputs.validation import unknown_key
from owlt.orchestrator.planning.language.quantities import (
    DELAY,
    DURATION,
    RATE,
    SIZE,
    DelayAxis,
    DurationAxis,
    ProbabilityAxis,
    RateAxis,
    SizeAxis,
    one_or_many,
)
from owlt.orchestrator.planning.language.ranges import PROBABILITY, Quantity, is_range, same, with_ranges_expanded

AxisValues = dict[str, list[Any]]
"""For each axis, values as they are written; in rules that exclude, also {from: ..., to: ...}."""


def _parse_name(value: object) -> Any:
    if not isinstance(value, str) or not value:
        raise Invalid(Mistake(got(value), "a name"))
    return value


NAME = Quantity(_parse_name, same)
AXES: dict[str, Quantity] = {
    "implementations": NAME,
    "file_size": SIZE,
    "duration": DURATION,
    "channel": NAME,
    "rate": RATE,
    "delay": DELAY,
    "packet_error_rate": PROBABILITY,
}
"""The axes of the grid except for parameters, in their order."""
QUANTITIES = ("file_size", "duration", "rate", "delay", "packet_error_rate")


@dataclass(frozen=True)
class Interval:
    """All values of an axis from one to another, both included; None: no bound."""

    least: float | None
    most: float | None

    def __contains__(self, value: float | None) -> bool:
        number = float("inf") if value is None else value
        return (self.least is None or self.least <= number) and (self.most is None or number <= self.most)


def selected(axis: str, written: list[Any]) -> list[Any]:
    """The values of an axis in a rule, as numbers, names and intervals."""
    quantity = AXES[axis]
    return [_interval(each, quantity) if isinstance(each, Mapping) else quantity.parse(each) for each in written]


def _interval(written: Mapping[str, Any], quantity: Quantity) -> Interval:
    least, most = (quantity.parse(written[end]) if end in written else None for end in ("from", "to"))
    return Interval(least, most)


def _read_together(written: object) -> AxisValues:
    axes = _read_axes(written, QUANTITIES, _listed)
    lengths = {axis: len(values) for axis, values in axes.items()}
    counted = ", ".join(f"{count} of {axis}" for axis, count in lengths.items())
    if len(axes) < 2:
        raise Invalid(Mistake(f"got {', '.join(axes) or 'nothing'} alone", "two or more axes that vary together"))
    if len(set(lengths.values())) > 1:
        raise Invalid(Mistake(f"got {counted}", "the same number of values for each axis"))
    return axes


def _read_include(written: object) -> AxisValues:
    return _read_axes(written, AXES, _listed)


def _read_exclude(written: object) -> AxisValues:
    return _read_axes(written, AXES, listed_or_interval)


def _read_baseline(written: object) -> dict[str, Any]:
    every = written.get("every") if isinstance(written, dict) else None
    if not isinstance(written, dict) or "every" not in written or len(written) < 2:
        expected = "'every' and the values of one point, such as {every: 50, implementations: tcp}"
        raise Invalid(Mistake(got(written), expected))
    if isinstance(every, bool) or not isinstance(every, int) or every < 1:
        raise Invalid(Mistake(got(every), "a whole number of runs, from 1 up", where=Place(key=("every",))))
    axes = {axis: values for axis, values in written.items() if axis != "every"}
    return {"every": every, **_read_axes(axes, AXES, _listed)}


def _read_axes(written: object, known: Collection[str], read: Callable[[object, Quantity], list[Any]]) -> AxisValues:
    if not isinstance(written, dict) or not written:
        raise Invalid(Mistake(got(written), "axes with their values, such as {delay: 25 ms}"))
    axes: AxisValues = {}
    mistakes: list[Mistake] = []
    for axis, values in written.items():
        if axis not in known:
            mistakes.append(unknown_key(Place(key=(str(axis),)), known))
            continue
        try:
            with keys_below(axis):
                axes[axis] = read(values, AXES[axis])
        except Invalid as problem:
            mistakes += problem.mistakes
    if mistakes:
        raise Invalid(*mistakes)
    return axes


def _listed(written: object, quantity: Quantity) -> list[Any]:
    """Values as they are written in plan.json, ranges expanded."""
    values = list(_each(with_ranges_expanded(written, quantity), quantity))
    if not values:
        raise Invalid(Mistake(got(written), "at least one value"))
    if repeated := [value for place, value in enumerate(values) if value in values[:place]]:
        raise Invalid(Mistake(f"{repeated[0]} is listed twice", "each value once"))
    return values


def listed_or_interval(written: object, quantity: Quantity) -> list[Any]:
    """Values as they are written in plan.json, and intervals: {from: ..., to: ...}."""
    if not isinstance(written, list):
        return [_bounds(written, quantity)] if is_range(written) else _listed(written, quantity)
    if not any(map(is_range, written)):
        return _listed(written, quantity)
    values = []
    for place, item in enumerate(written):
        with keys_below(place):
            values.append(_bounds(item, quantity) if is_range(item) else quantity.write(quantity.parse(item)))
    return values


def _bounds(written: object, quantity: Quantity) -> dict[str, Any]:
    """The ends of an interval."""
    assert isinstance(written, dict)
    if quantity is NAME or set(written) - {"from", "to"}:
        raise Invalid(Mistake(got(written), "a value, or an interval with one or both of 'from' and 'to'"))
    bounds = {}
    for end, value in written.items():
        with keys_below(end):
            bounds[end] = quantity.write(quantity.parse(value))
    return bounds


def _each(written: object, quantity: Quantity) -> Iterator[Any]:
    values = one_or_many(written)
    assert isinstance(values, list)
    for place, value in enumerate(values):
        if isinstance(written, list):
            with keys_below(place):
                yield quantity.write(quantity.parse(value))
        else:
            yield quantity.write(quantity.parse(value))


def _schemas() -> dict[str, dict[str, Any]]:
    names = {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}, "minItems": 1}]}
    kinds: dict[str, Any] = {
        "file_size": SizeAxis,
        "duration": DurationAxis,
        "rate": RateAxis,
        "delay": DelayAxis,
        "packet_error_rate": ProbabilityAxis,
    }
    quantities = {axis: TypeAdapter(kind).json_schema() for axis, kind in kinds.items()}
    return {axis: quantities.get(axis, names) for axis in AXES}


def _schema(axes: Mapping[str, Any], least: int = 1) -> WithJsonSchema:
    return WithJsonSchema(
        {"type": "object", "properties": dict(axes), "additionalProperties": False, "minProperties": least}
    )


def _with_interval(axis: dict[str, Any]) -> dict[str, Any]:
    one, _, many = axis["anyOf"]
    ends = {"from": one | {"description": "the least value"}, "to": one | {"description": "the greatest value"}}
    interval = {"type": "object", "properties": ends, "additionalProperties": False, "minProperties": 1}
    return {"anyOf": [one, interval, many]}


_AXIS_SCHEMAS = _schemas()
_OF_QUANTITIES = {axis: _AXIS_SCHEMAS[axis] for axis in QUANTITIES}
INTERVAL_SCHEMAS = _AXIS_SCHEMAS | {axis: _with_interval(schema) for axis, schema in _OF_QUANTITIES.items()}
"""Of each axis, values and intervals, as `listed_or_interval` reads them."""
Together = Annotated[AxisValues, BeforeValidator(_read_together), _schema(_OF_QUANTITIES, least=2)]
Include = Annotated[AxisValues, BeforeValidator(_read_include), _schema(_AXIS_SCHEMAS)]
Exclude = Annotated[
    AxisValues,
    BeforeValidator(_read_exclude),
    _schema(INTERVAL_SCHEMAS),
]
_EVERY = {"type": "integer", "minimum": 1, "description": "number of runs between two runs of the baseline"}
Baseline = Annotated[
    dict[str, Any],
    BeforeValidator(_read_baseline),
    WithJsonSchema(
        {
            "type": "object",
            "properties": {"every": _EVERY, **_AXIS_SCHEMAS},
            "required": ["every"],
            "minProperties": 2,
            "additionalProperties": False,
        }
    ),
]
"""`every`, and the axes of one point."""
