"""The values of a sweep's axes as a user writes them: one value, a list, or ranges; and the types of its other values.

A range, {from: 10 ms, to: 1 s, points: 5, scale: log}, is expanded into its values. It has both ends, and never ends at
a value that the user did not write. What the axes are belongs to `inputs.axes`, how a quantity is read to
`inputs.quantities`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal
from math import inf
from typing import Annotated, Any, TypeVar

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    PlainSerializer,
    ValidatorFunctionWrapHandler,
    WithJsonSchema,
    WrapValidator,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema
from pydantic_core.core_schema import no_info_before_validator_function

from owlt.inputs.axes import AXES, DIRECTED, WAYS
from owlt.inputs.mistake import Invalid, Key, Mistake, Place, got, keys_below, unexpected
from owlt.inputs.quantities import (
    DELAY,
    DURATION,
    IP,
    NUMBER,
    PERCENT,
    PROBABILITY,
    RATE,
    SIZE,
    UNLIMITED,
    IpVersion,
    Quantity,
    parse_probability,
)
from owlt.inputs.validation import require_parameter, unknown_key

RANGE_KEYS = ("from", "to", "step", "factor", "points", "scale")
RANGE_SPACINGS = ("step", "factor", "points")
MOST_VALUES = 1000
LINEAR_DIGITS, LOG_DIGITS = 6, 3
"""Significant digits of the values between the ends of a range with `points`."""
RANGE_EXAMPLE = "such as {from: 1, to: 100, factor: 10}, with units where the axis has them"


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
    if unknown := [key for key in written if key not in RANGE_KEYS]:
        fix = f"a range has {', '.join(RANGE_KEYS)}"
        raise Invalid(*(Mistake("is not a known key", fix=fix, where=_at(key)) for key in unknown))
    for key in ("from", "to"):
        if key not in written:
            raise Invalid(Mistake(f"a range without {key!r}", "'from' and 'to', both included", where=_at("")))
    spacing = [key for key in RANGE_SPACINGS if key in written]
    if len(spacing) != 1:
        problem = f"a range with {' and '.join(spacing)}" if spacing else "a range without a spacing"
        raise Invalid(Mistake(problem, "one of 'step', 'factor' and 'points'", RANGE_EXAMPLE))
    if "scale" in written and spacing != ["points"]:
        raise Invalid(Mistake(f"a range with 'scale' and {spacing[0]!r}", "'scale' with 'points' only"))
    begin, end = _number("from", written, quantity), _number("to", written, quantity)
    if begin >= end:
        raise Invalid(Mistake(got(written["to"]), f"more than {written['from']}, the value of 'from'", where=_at("to")))
    spaced = {"step": _by_step, "factor": _by_factor, "points": _by_points}[spacing[0]]
    for value in spaced(begin, end, written, quantity):
        yield quantity.write(int(value) if quantity.is_whole or value == value.to_integral_value() else float(value))


def is_pair(value: object) -> bool:
    """Whether a value of an axis is written for the two directions of a link, {forward: ..., reverse: ...}.

    Every mapping that is not a range is taken for one, so that a misspelt direction is reported as such; but not
    {name}, which YAML reads as a mapping: text whose quotes are missing.
    """
    if not isinstance(value, Mapping) or {*WAYS} & set(value):
        return isinstance(value, Mapping)
    return not {*RANGE_KEYS} & set(value) and [*value.values()] != [None]


def in_directions(written: Mapping[str, Any]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Axes as they are written, those with pairs replaced by those of the two directions; and the axes of pairs in
    lists, whose values vary together. Raises Invalid for a pair that is not complete.
    """
    axes: dict[str, Any] = {}
    together: list[dict[str, Any]] = []
    mistakes: list[Mistake] = []
    for key, values in written.items():
        if not _has_pairs(key, values):
            axes[key] = values
            continue
        fix = f"remove it, or '{key}'"
        twice = [_at(f"{way}_{key}") for way in WAYS if f"{way}_{key}" in written]
        found = [Mistake("is given twice", "each axis once", fix, where) for where in twice]
        found += _mistakes_in_pairs(key, values)
        mistakes += found
        if found:
            continue
        if isinstance(values, list):
            pairs = [item if is_pair(item) else dict.fromkeys(WAYS, item) for item in values]
            together.append({f"{way}_{key}": [pair[way] for pair in pairs] for way in WAYS})
        else:
            axes |= {f"{way}_{key}": values[way] for way in WAYS}
    if mistakes:
        raise Invalid(*mistakes)
    return axes, together


def written_key(key: Key, document: Any) -> Key:
    """The key of a value of a document, from its key in the sweep that was read from it.

    In the sweep, a pair is two keys, a list of pairs is a group of `together`, and one value is a list of one, or has
    the key "".
    """
    match key:
        case ("together", int(group), *inner) if isinstance(document, Mapping):
            groups = one_or_many(document.get("together", []))
            own = len(groups) if isinstance(groups, list) else 0
            lists = [axis for axis, values in document.items() if isinstance(values, list) and _has_pairs(axis, values)]
            if own <= group < own + len(lists):
                return written_key((*inner,) or (lists[group - own],), document)
    if not key:
        return ()
    part, *others = key
    if isinstance(document, list) and isinstance(part, int) and part < len(document):
        return (part, *written_key((*others,), document[part]))
    if isinstance(document, Mapping) and part in document:
        return (part, *written_key((*others,), document[part]))
    if not part or (isinstance(part, int) and not isinstance(document, list)):
        return written_key((*others,), document)
    way, _, axis = str(part).partition("_")
    if way not in WAYS or not isinstance(document, Mapping) or not _has_pairs(axis, document.get(axis)):
        return key
    values = document[axis]
    if not isinstance(values, list):
        return (axis, way, *written_key((*others,), values.get(way)))
    match others:
        case [int(place), *inner] if place < len(values):
            return (axis, place, *([way] if is_pair(values[place]) else []), *inner)
    return (axis,)


def _has_pairs(key: str, values: object) -> bool:
    return key in DIRECTED and any(map(is_pair, values if isinstance(values, list) else [values]))


def _mistakes_in_pairs(key: str, values: Any) -> Iterator[Mistake]:
    """The mistakes in the directions of an axis; those in their values are found when these are read."""
    if isinstance(values, list) and key not in AXES:
        expected = "one value, or {forward: ..., reverse: ...}"
        yield Mistake(got(values), expected, where=_at(key))
        return
    for place, pair in enumerate(values if isinstance(values, list) else [values]):
        where: Key = (key, place) if isinstance(values, list) else (key,)
        if not is_pair(pair):
            continue
        known = WAYS if {*WAYS} & set(pair) or key not in AXES else (*WAYS, *RANGE_KEYS)
        unknown = [way for way in pair if way not in WAYS]
        yield from (unknown_key(Place(key=(*where, way)), known) for way in unknown)
        for way in () if unknown else [way for way in WAYS if pair.get(way) is None]:
            fix = f"'forward_{key}' and 'reverse_{key}' can be given alone"
            expected = "both directions, {forward: ..., reverse: ...}"
            yield Mistake("is missing", expected, fix, Place(key=(*where, way)))
        for way, value in pair.items():
            if isinstance(values, list) and isinstance(value, list | Mapping):
                fix = f"'forward_{key}' and 'reverse_{key}' take lists and ranges"
                yield Mistake(got(value), "one value of each direction", fix, Place(key=(*where, way)))


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
        "oneOf": [{"required": [each]} for each in RANGE_SPACINGS],
        "dependentRequired": {"scale": ["points"]},
        "additionalProperties": False,
    }


LARGEST_BYTES = 10**15


def one_or_many(value: object) -> object:
    """A list, also for one value written without brackets."""
    return value if isinstance(value, list) else [value]


def repeated_at(values: Sequence[Any]) -> int | None:
    """The place of the first value that is listed before; None if each is listed once."""
    return next((place for place, value in enumerate(values) if value in values[:place]), None)


def _require_distinct(values: Sequence[Any], text: Callable[[Any], str] = repr, has_places: bool = True) -> None:
    """Raises Invalid for a value that is listed twice. `has_places`: the values have the places of those written."""
    if (place := repeated_at(values)) is not None:
        expected = f"each value once: {text(values[place])} is listed twice"
        fix = "to run it more than once, use 'repetitions'"
        raise Invalid(Mistake("", expected, fix, Place(key=(place,) if has_places else ())))


def _distinct(values: list[Any]) -> list[Any]:
    _require_distinct(values)
    return values


class OneOrMany:
    """A list as it is written: its one value, or several; with ranges if its axis has any."""

    def __init__(self, has_ranges: bool = False, has_pairs: bool = False) -> None:
        """`has_pairs`: it may have a value for each direction."""
        self._has_ranges, self._has_pairs = has_ranges, has_pairs

    def __get_pydantic_json_schema__(self, core: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        many = handler(core)
        one = many["items"]
        if not self._has_ranges:
            return {"anyOf": [one, many | {"uniqueItems": True}]}
        a_range = range_schema(one)
        plain = {"anyOf": [one, a_range, many | {"uniqueItems": True, "items": {"anyOf": [one, a_range]}}]}
        if not self._has_pairs:
            return plain
        items = {"anyOf": [one, a_range, _pair_schema(one)]}
        return {"anyOf": [one, a_range, many | {"uniqueItems": True, "items": items}, _pair_schema(plain)]}


def _pair_schema(value: Mapping[str, Any]) -> dict[str, Any]:
    """The JSON Schema of values for each direction; `value` is that of one."""
    properties = {way: dict(value) for way in WAYS}
    return {"type": "object", "properties": properties, "required": [*WAYS], "additionalProperties": False}


class OrPair:
    """A value that may also be written for each direction of a link."""

    def __get_pydantic_json_schema__(self, core: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        one = handler(core)["anyOf"][0]
        return {"anyOf": [one, _pair_schema(one)]}


class OrPercent:
    """A probability that may also be written in percent, as text."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return no_info_before_validator_function(parse_probability, handler(source))

    def __get_pydantic_json_schema__(self, core: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return {"anyOf": [handler(core), {"type": "string", "pattern": f"^ *{PERCENT} *$", "examples": ["1 %"]}]}


class OneOrByAxis:
    """An advertised quantity as it is written: one value, or one for each value of an axis."""

    def __get_pydantic_json_schema__(self, core: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        by_axis = handler(core)
        return {"anyOf": [by_axis["additionalProperties"], by_axis]}


def as_left_out(schema: dict[str, Any]) -> None:
    """An optional key without a value is omitted, not written as null or empty."""
    for key in schema["properties"].values():
        if key.get("default") in (None, {}, ""):
            key.pop("default", None)
        kinds = [kind for kind in key.get("anyOf", ()) if kind != {"type": "null"}]
        if kinds:
            key |= {"anyOf": kinds}


def _written(quantity: Quantity, units: str, *examples: str) -> tuple[BeforeValidator, PlainSerializer, WithJsonSchema]:
    """A quantity: text with a unit in every file, a number in the code; `units` is a regular expression.

    An example without a unit is a word that may be written instead.
    """
    number = r" *[0-9]+(\.[0-9]+)?(e[+-]?[0-9]{1,2})? *"
    words = "".join(f"|{example}" for example in examples if " " not in example)
    pattern = f"^({number}({units}) *{words})$"
    schema = WithJsonSchema({"type": "string", "pattern": pattern, "examples": [*examples]})
    return BeforeValidator(quantity.parse), PlainSerializer(quantity.write, when_used="json"), schema


def by_axis(quantity: Quantity) -> Callable[[object], object]:
    """A parser of one value, or of one value for each value of an axis."""

    def read(given: object) -> object:
        if not isinstance(given, dict):
            return {"": given}
        read_keys = {key: "" if key == "" else quantity.write(quantity.parse(key)) for key in given}
        if twice := [key for key, same in read_keys.items() if list(read_keys.values()).count(same) > 1]:
            raise unexpected(f"each value of the axis once: {' and '.join(map(str, twice))} are the same")
        return {read_keys[key]: value for key, value in given.items()}

    return read


def require_parameters(value: object) -> object:
    """The values of a parameter, ranges replaced by theirs. Raises Invalid for a value that cannot be one."""
    values = with_ranges_expanded(value, NUMBER)
    if not isinstance(values, list):
        return require_parameter(values)
    if not values:
        raise unexpected("at least one value")
    for place, each in enumerate(values):
        with keys_below(place):
            require_parameter(each)
    _require_distinct(values, has_places=values is value)
    return values


def _axis(quantity: Quantity, has_pairs: bool = False) -> tuple[object, WrapValidator, OneOrMany]:
    """An axis of quantities: one value, a list of several, or ranges of them; of a link, also pairs."""

    def read(written: object, convert: ValidatorFunctionWrapHandler) -> list[Any]:
        expanded = with_ranges_expanded(written, quantity)
        values: list[Any] = convert(one_or_many(expanded))
        _require_distinct(values, quantity.text, has_places=expanded is written)
        return values

    return Field(min_length=1), WrapValidator(read), OneOrMany(has_ranges=True, has_pairs=has_pairs)


_TIME_UNITS = "[nu\u00b5\u03bcm]?s|min|h"
"""Both the micro sign and the Greek letter, which look the same."""

Size = Annotated[int, *_written(SIZE, "B|kB|MB|GB", "100 kB"), Field(gt=0, le=LARGEST_BYTES)]
Rate = Annotated[float | None, *_written(RATE, "[kMGT]?bit/s", "10 Mbit/s", UNLIMITED)]
Delay = Annotated[int, *_written(DELAY, _TIME_UNITS, "25 ms")]
Duration = Annotated[int, *_written(DURATION, _TIME_UNITS, "600 s")]
Probability = Annotated[float, OrPercent(), Field(ge=0, le=1)]
Value = TypeVar("Value")
Parameter = int | float | str
Axis = Annotated[list[Value], BeforeValidator(one_or_many), AfterValidator(_distinct), Field(min_length=1), OneOrMany()]
SizeAxis = Annotated[list[Size], *_axis(SIZE)]
RateAxis = Annotated[list[Rate], *_axis(RATE, has_pairs=True)]
DelayAxis = Annotated[list[Delay], *_axis(DELAY, has_pairs=True)]
DurationAxis = Annotated[list[Duration], *_axis(DURATION)]
IpAxis = Annotated[list[IpVersion], *_axis(IP)]
ProbabilityAxis = Annotated[list[Probability], *_axis(PROBABILITY, has_pairs=True)]
RateOneWay = Annotated[list[Rate], *_axis(RATE)]
DelayOneWay = Annotated[list[Delay], *_axis(DELAY)]
ProbabilityOneWay = Annotated[list[Probability], *_axis(PROBABILITY)]
_NAME = "^[a-z0-9][a-z0-9-]*$"


def _check_name(name: str) -> str:
    if not re.fullmatch(_NAME, name):
        raise unexpected("lower-case letters, digits and hyphens, of which the first is a letter or a digit")
    return name


Name = Annotated[str, AfterValidator(_check_name), Field(json_schema_extra={"pattern": _NAME})]
