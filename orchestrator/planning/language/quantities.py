"""The types of a sweep's values: quantities with their units, axes of one or many values, parameters."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Annotated, Any, TypeVar

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    GetJsonSchemaHandler,
    PlainSerializer,
    WithJsonSchema,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from owlt.agents.contract.implementation import require_parameter
from owlt.emulator.channel.quantities import (
    format_delay,
    format_rate,
    format_size,
    parse_delay_ns,
    parse_rate_bps,
    parse_size_bytes,
)
from owlt.inputs.mistake import unexpected
from owlt.orchestrator.planning.language.ranges import NUMBER, PROBABILITY, Quantity, range_schema, with_ranges_expanded

UNLIMITED = "unlimited"
LARGEST_BYTES = 10**15
SHORTEST_NS, LONGEST_NS = 10**7, 86_400 * 10**9
"""Of the durations for which a sender may send."""


def parse_rate_or_unlimited(text: object) -> float | None:
    """A rate, or None for "unlimited": the baseline of the papers over a transparent bridge."""
    return None if text == UNLIMITED else parse_rate_bps(text)


def format_rate_or_unlimited(rate_bps: float | None) -> str:
    """The text of a rate, which `parse_rate_or_unlimited` reads."""
    return UNLIMITED if rate_bps is None else format_rate(rate_bps)


def parse_duration_ns(text: object) -> int:
    """A time for which data is sent, in ns. Raises Invalid for less than SHORTEST_NS or more than LONGEST_NS."""
    duration_ns = parse_delay_ns(text)
    if not SHORTEST_NS <= duration_ns <= LONGEST_NS:
        raise unexpected("a duration from 10 ms to 24 h")
    return duration_ns


def one_or_many(value: object) -> object:
    """A list, also for one value written without brackets."""
    return value if isinstance(value, list) else [value]


def _check_distinct(values: list[Any]) -> list[Any]:
    if repeated := [value for position, value in enumerate(values) if value in values[:position]]:
        fix = "to run it more than once, use 'repetitions'"
        raise unexpected(f"each value once: {repeated[0]!r} is listed twice", fix)
    return values


class OneOrMany:
    """A list as it is written: its one value, or several; with ranges if its axis has any."""

    def __init__(self, has_ranges: bool = False) -> None:
        self._has_ranges = has_ranges

    def __get_pydantic_json_schema__(self, core: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        many = handler(core)
        one = many["items"]
        if not self._has_ranges:
            return {"anyOf": [one, many | {"uniqueItems": True}]}
        a_range = range_schema(one)
        return {"anyOf": [one, a_range, many | {"uniqueItems": True, "items": {"anyOf": [one, a_range]}}]}


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


def _written(
    parse: Callable[[Any], int | float | None], write: Callable[[Any], str], units: str, *examples: str
) -> tuple[BeforeValidator, PlainSerializer, WithJsonSchema]:
    """A quantity: text with a unit in every file, a number in the code; `units` is a regular expression.

    An example without a unit is a word that may be written instead.
    """
    number = r" *[0-9]+(\.[0-9]+)?(e[+-]?[0-9]{1,2})? *"
    words = "".join(f"|{example}" for example in examples if " " not in example)
    pattern = f"^({number}({units}) *{words})$"
    schema = WithJsonSchema({"type": "string", "pattern": pattern, "examples": [*examples]})
    return BeforeValidator(parse), PlainSerializer(write, when_used="json"), schema


def by_axis(parse: Callable[[Any], Any], write: Callable[[Any], str]) -> Callable[[object], object]:
    """A parser of one value, or of one value for each value of an axis."""

    def read(given: object) -> object:
        if not isinstance(given, dict):
            return {"": given}
        read_keys = {key: "" if key == "" else write(parse(key)) for key in given}
        if twice := [key for key, same in read_keys.items() if list(read_keys.values()).count(same) > 1]:
            raise unexpected(f"each value of the axis once: {' and '.join(map(str, twice))} are the same")
        return {read_keys[key]: value for key, value in given.items()}

    return read


def require_parameters(value: object) -> object:
    """The values of a parameter, ranges replaced by theirs. Raises Invalid for a value that cannot be one."""
    value = with_ranges_expanded(value, NUMBER)
    values = value if isinstance(value, list) else [value]
    if not values:
        raise unexpected("at least one value")
    for each in values:
        require_parameter(each)
    return value


def _axis(quantity: Quantity) -> tuple[BeforeValidator, AfterValidator, object, OneOrMany]:
    """An axis of quantities: one value, a list of several, or ranges of them."""

    def read(written: object) -> object:
        return one_or_many(with_ranges_expanded(written, quantity))

    return BeforeValidator(read), AfterValidator(_check_distinct), Field(min_length=1), OneOrMany(has_ranges=True)


_TIME_UNITS = "[nu\u00b5\u03bcm]?s|min|h"
"""Both the micro sign and the Greek letter, which look the same."""

SIZE = Quantity(parse_size_bytes, format_size, is_whole=True)
RATE = Quantity(parse_rate_or_unlimited, format_rate_or_unlimited)
DELAY = Quantity(parse_delay_ns, format_delay, is_whole=True)
DURATION = Quantity(parse_duration_ns, format_delay, is_whole=True)

Size = Annotated[int, *_written(parse_size_bytes, format_size, "B|kB|MB|GB", "100 kB"), Field(gt=0, le=LARGEST_BYTES)]
Rate = Annotated[
    float | None, *_written(parse_rate_or_unlimited, format_rate_or_unlimited, "[kMGT]?bit/s", "10 Mbit/s", UNLIMITED)
]
Delay = Annotated[int, *_written(parse_delay_ns, format_delay, _TIME_UNITS, "25 ms")]
Duration = Annotated[int, *_written(parse_duration_ns, format_delay, _TIME_UNITS, "600 s")]
Probability = Annotated[float, Field(ge=0, le=1)]
Value = TypeVar("Value")
Parameter = int | float | str
Axis = Annotated[
    list[Value], BeforeValidator(one_or_many), AfterValidator(_check_distinct), Field(min_length=1), OneOrMany()
]
SizeAxis = Annotated[list[Size], *_axis(SIZE)]
RateAxis = Annotated[list[Rate], *_axis(RATE)]
DelayAxis = Annotated[list[Delay], *_axis(DELAY)]
DurationAxis = Annotated[list[Duration], *_axis(DURATION)]
ProbabilityAxis = Annotated[list[Probability], *_axis(PROBABILITY)]
_NAME = "^[a-z0-9][a-z0-9-]*$"


def _check_name(name: str) -> str:
    if not re.fullmatch(_NAME, name):
        raise unexpected("lower-case letters, digits and hyphens, of which the first is a letter or a digit")
    return name


Name = Annotated[str, AfterValidator(_check_name), Field(json_schema_extra={"pattern": _NAME})]
