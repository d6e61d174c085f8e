"""Ranges of an axis, {from: 10 ms, to: 1 s, points: 5, scale: log}, expanded into their values.

A range has both ends. It never ends at a value that the user did not write.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from math import inf, isfinite
from typing import Any

from owlt.inputs.mistake import Invalid, Mistake, Place, got, keys_below, unexpected

KEYS = ("from", "to", "step", "factor", "points", "scale")
SPACINGS = ("step", "factor", "points")
MOST_VALUES = 1000
LINEAR_DIGITS, LOG_DIGITS = 6, 3
"""Significant digits of the values between the ends of a range with `points`."""
EXAMPLE = "such as {from: 1, to: 100, factor: 10}, with units where the axis has them"


@dataclass(frozen=True)
class Quantity:
    """How an axis writes its values."""

    parse: Callable[[Any], int | float | None]
    """From a value as written, to a number in the base unit. Raises Invalid."""
    write: Callable[[Any], Any]
    is_whole: bool = False
    """Whether its numbers are whole: nanoseconds and bytes."""


def is_range(value: object) -> bool:
    """Whether a value of an axis is written as a range."""
    return isinstance(value, Mapping) and bool({"from", "to"} & set(value))


def with_ranges_expanded(written: object, quantity: Quantity) -> object:
    """An axis as it is written, each range replaced by its values. Raises Invalid with every mistake."""
    if is_range(written):
        return list(range_values(written, quantity))  # type: ignore[arg-type]
    if not isinstance(written, list) or not any(map(is_range, written)):
        return written
    values: list[object] = []
    mistakes: list[Mistake] = []
    for place, item in enumerate(written):
        try:
            with keys_below(place):
                values += range_values(item, quantity) if is_range(item) else [_checked(item, quantity)]
        except Invalid as problem:
            mistakes += problem.mistakes
    if mistakes:
        raise Invalid(*mistakes)
    return values


def range_values(written: Mapping[str, object], quantity: Quantity) -> Iterator[object]:
    """The values of a range, as they would be written one by one."""
    if unknown := [key for key in written if key not in KEYS]:
        fix = f"a range has {', '.join(KEYS)}"
        raise Invalid(*(Mistake("is not a known key", fix=fix, where=_at(key)) for key in unknown))
    for key in ("from", "to"):
        if key not in written:
            raise Invalid(Mistake(f"a range without {key!r}", "'from' and 'to', both included", where=_at("")))
    spacing = [key for key in SPACINGS if key in written]
    if len(spacing) != 1:
        problem = f"a range with {' and '.join(spacing)}" if spacing else "a range without a spacing"
        raise Invalid(Mistake(problem, "one of 'step', 'factor' and 'points'", EXAMPLE))
    if "scale" in written and spacing != ["points"]:
        raise Invalid(Mistake(f"a range with 'scale' and {spacing[0]!r}", "'scale' with 'points' only"))
    begin, end = _number("from", written, quantity), _number("to", written, quantity)
    if begin >= end:
        raise Invalid(Mistake(got(written["to"]), f"more than {written['from']}, the value of 'from'", where=_at("to")))
    spaced = {"step": _by_step, "factor": _by_factor, "points": _by_points}[spacing[0]]
    for value in spaced(begin, end, written, quantity):
        yield quantity.write(int(value) if quantity.is_whole or value == value.to_integral_value() else float(value))


def _by_step(begin: Decimal, end: Decimal, written: Mapping[str, object], quantity: Quantity) -> list[Decimal]:
    step = _number("step", written, quantity)
    if step <= 0:
        raise Invalid(Mistake(got(written["step"]), "more than 0", where=_at("step")))
    steps = int((end - begin) / step)
    _require_few(steps, "step")
    if begin + steps * step != end:
        _refuse_end(written, quantity, begin + steps * step, begin + (steps + 1) * step)
    return [begin + count * step for count in range(steps + 1)]


def _by_factor(begin: Decimal, end: Decimal, written: Mapping[str, object], quantity: Quantity) -> list[Decimal]:
    factor = written["factor"]
    if isinstance(factor, bool) or not isinstance(factor, int | float) or not 1 < factor < inf:
        raise Invalid(Mistake(got(factor), "a number above 1", where=_at("factor")))
    _require_positive(begin, written)
    values = [begin]
    while values[-1] < end:
        _require_few(len(values), "factor")
        values.append(values[-1] * Decimal(repr(factor)))
    if values[-1] != end:
        _refuse_end(written, quantity, values[-2], values[-1])
    return [_rounded(value, quantity, 15) for value in values]


def _by_points(begin: Decimal, end: Decimal, written: Mapping[str, object], quantity: Quantity) -> list[Decimal]:
    points, scale = written["points"], written.get("scale", "linear")
    if isinstance(points, bool) or not isinstance(points, int) or not 2 <= points <= MOST_VALUES:
        raise Invalid(Mistake(got(points), f"a whole number from 2 to {MOST_VALUES}", where=_at("points")))
    if scale not in ("linear", "log"):
        raise Invalid(Mistake(got(scale), "linear or log", where=_at("scale")))
    if scale == "log":
        _require_positive(begin, written)
        inner = [begin * (end / begin) ** (Decimal(place) / (points - 1)) for place in range(1, points - 1)]
        digits = LOG_DIGITS
    else:
        inner = [begin + place * (end - begin) / (points - 1) for place in range(1, points - 1)]
        digits = LINEAR_DIGITS
    values = [begin, *(_rounded(value, quantity, digits) for value in inner), end]
    if len(set(values)) < points:
        raise Invalid(Mistake(got(points), "fewer points: some are equal after rounding", where=_at("points")))
    return values


def _rounded(value: Decimal, quantity: Quantity, digits: int) -> Decimal:
    rounded = Decimal(f"{value:.{digits - 1}e}")
    return rounded.to_integral_value() if quantity.is_whole else rounded


def _number(key: str, written: Mapping[str, object], quantity: Quantity) -> Decimal:
    with keys_below(key):
        value = quantity.parse(written[key])
        if value is None:
            raise Invalid(Mistake(got(written[key]), "a limited value: a range has both ends"))
        return Decimal(repr(value))


def _checked(item: object, quantity: Quantity) -> object:
    quantity.parse(item)
    return item


def _require_positive(begin: Decimal, written: Mapping[str, object]) -> None:
    if begin <= 0:
        fix = "write 0 as a value of its own: [0, {from: ...}]"
        raise Invalid(Mistake(got(written["from"]), "more than 0 for logarithmic steps", fix, _at("from")))


def _require_few(count: int, key: str) -> None:
    if count >= MOST_VALUES:
        raise Invalid(Mistake("gives too many values", f"at most {MOST_VALUES}", where=_at(key)))


def _refuse_end(written: Mapping[str, object], quantity: Quantity, below: Decimal, above: Decimal) -> None:
    nearest = " or ".join(
        str(quantity.write(int(each) if quantity.is_whole else float(each))) for each in (below, above)
    )
    raise Invalid(Mistake(got(written["to"]), f"a value that the steps reach: {nearest}", where=_at("to")))


def _at(key: str) -> Place:
    return Place(key=(key,) if key else ())


def parse_probability(value: object) -> float:
    """A probability. Raises Invalid for anything but a number from 0 to 1."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise Invalid(Mistake(got(value), "a number from 0 to 1"))
    return value


def parse_number(value: object) -> int | float:
    """The value of a parameter that a range is made of. Raises Invalid for anything but a finite number."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value):
        raise unexpected("a number")
    return value


def same(value: object) -> object:
    """A value that is written as it is."""
    return value


PROBABILITY = Quantity(parse_probability, same)
NUMBER = Quantity(parse_number, same)


def range_schema(value: Mapping[str, Any]) -> dict[str, Any]:
    """The JSON Schema of a range; `value` is that of one value of the axis."""
    ends = dict(value)
    return {
        "type": "object",
        "properties": {
            "from": ends | {"description": "the first value"},
            "to": ends | {"description": "the last value, which is included"},
            "step": ends | {"description": "difference between two neighbouring values"},
            "factor": {"type": "number", "exclusiveMinimum": 1, "description": "ratio of two neighbouring values"},
            "points": {"type": "integer", "minimum": 2, "maximum": MOST_VALUES, "description": "number of values"},
            "scale": {"enum": ["linear", "log"], "description": "spacing of the points; default: linear"},
        },
        "required": ["from", "to"],
        "oneOf": [{"required": [each]} for each in SPACINGS],
        "dependentRequired": {"scale": ["points"]},
        "additionalProperties": False,
    }
