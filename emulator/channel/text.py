"""The written form of values: quantities are text with their unit; a bare number is ambiguous and refused.

Profiles, XML-RPC and the command line share this form. In the code the same values are numbers with the unit in
their name.
"""

import itertools
from collections.abc import Callable
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    FailFast,
    Field,
    PlainSerializer,
    ValidationInfo,
    WithJsonSchema,
)
from pydantic_core import ErrorDetails

from owlt.inputs.axis_values import OrPercent
from owlt.inputs.mistake import unexpected
from owlt.inputs.quantities import (
    format_delay,
    format_rate,
    format_size,
    parse_delay_ns,
    parse_rate_bps,
    parse_size_bytes,
)

LONGEST_DELAY_NS = 24 * 3600 * 10**9
LONGEST_TIMELINE_NS = 366 * 24 * 3600 * 10**9
LARGEST_JITTER_NS = 2**31 - 1
"""netem stores 31 bits, and silently truncates larger values."""
SLOWEST_RATE_BPS = 8.0
"""One byte per second: netem counts whole bytes, and zero means "no limit"."""
FASTEST_RATE_BPS = 1e12
LARGEST_SEED = 2**53 - 1
"""The largest integer that a double, and so XML-RPC, represents exactly."""
SMALLEST_ERROR_RATE = 2 / 2**32
"""netem draws 32 bits for every packet and damages it if they are not above a threshold; 0 means "never"."""
LARGEST_BIT_ERROR_RATE = 0.01
MOST_POSITIONS = 10_000
LARGEST_TABLE = 16_384
"""NETEM_DIST_MAX in include/uapi/linux/pkt_sched.h."""
WIDEST_TABLE_VALUE = 32_767 / 8192
"""A table value has 16 bits, 8192 of them for one (NETEM_DIST_SCALE)."""

FORM = {"form": True}
"""The validation context for the written form: quantities with their unit, never a bare number."""


QUEUE_UNITS = {"queue_packets": "packets", "queue_bytes": "B", "queue_ns": "ns", "queue_bdp": "BDP"}
"""The units of the kinds of a queue."""


def _check_expressible(packet_error_rate: float) -> float:
    if 0 < packet_error_rate < SMALLEST_ERROR_RATE:
        raise unexpected(f"0 or at least {SMALLEST_ERROR_RATE:.3g}, the smallest that netem can draw")
    return packet_error_rate


def unit_text(
    parse: Callable[[Any], Any], write: Callable[[Any], str], *examples: str
) -> tuple[BeforeValidator, PlainSerializer, WithJsonSchema]:
    """A quantity: text with a unit in the written form, a number in the code."""

    def read(value: Any, info: ValidationInfo) -> Any:
        return parse(value) if info.context is FORM else value

    schema = WithJsonSchema({"type": "string", "examples": list(examples)})
    return BeforeValidator(read), PlainSerializer(write, when_used="json"), schema


def _parse_whole(value: Any, info: ValidationInfo) -> Any:
    return int(value) if info.context is FORM and isinstance(value, float) and value.is_integer() else value


def parse_list(value: Any, info: ValidationInfo) -> Any:
    return tuple(value) if info.context is FORM and isinstance(value, list) else value


def _check_rising(positions: tuple[int, ...]) -> tuple[int, ...]:
    if any(later <= earlier for earlier, later in itertools.pairwise(positions)):
        raise unexpected("numbers in increasing order, without duplicates")
    return positions


def _parse_frame_bytes(text: Any) -> int:
    """A size of frames, which the examples of a mistake give in bytes."""
    return parse_size_bytes(text, spelling="1500 B")


def as_written(name: str) -> Any:
    """Name a field differently in the written form: without the unit, which is part of the text."""
    return Field(validation_alias=name, serialization_alias=name)


Delay = Annotated[
    int, *unit_text(parse_delay_ns, format_delay, "25 ms", "1250 ms", "20 min"), Field(ge=0, le=LONGEST_DELAY_NS)
]
Moment = Annotated[int, *unit_text(parse_delay_ns, format_delay, "10 s", "90 min"), Field(ge=0, le=LONGEST_TIMELINE_NS)]
Spread = Annotated[int, *unit_text(parse_delay_ns, format_delay, "5 ms"), Field(gt=0, le=LARGEST_JITTER_NS)]
Rate = Annotated[
    float,
    *unit_text(parse_rate_bps, format_rate, "10 Mbit/s", "8 kbit/s"),
    Field(ge=SLOWEST_RATE_BPS, le=FASTEST_RATE_BPS),
]
Size = Annotated[int, *unit_text(_parse_frame_bytes, format_size, "1500 B", "64 kB")]
Probability = Annotated[float, OrPercent(), AfterValidator(_check_expressible), Field(ge=0, le=1)]
Whole = Annotated[
    int, BeforeValidator(_parse_whole), PlainSerializer(float, when_used="json"), Field(ge=0, le=LARGEST_SEED)
]
Positions = Annotated[
    tuple[Whole, ...],
    FailFast(),
    BeforeValidator(parse_list),
    AfterValidator(_check_rising),
    Field(max_length=MOST_POSITIONS),
]


_TIMES = ("delay", "at", "loop_after", "amount", "by")
_SIZES = ("mtu", "overhead")
_LONG_TIMES_NS = (("days", 24 * 3600 * 10**9), ("h", 3600 * 10**9), ("min", 60 * 10**9))
_LIMITS = {
    "greater_than_equal": ("at least", "ge"),
    "greater_than": ("more than", "gt"),
    "less_than_equal": ("at most", "le"),
    "less_than": ("less than", "lt"),
}
_KINDS = {
    "bool_type": "true or false",
    "float_type": "a number",
    "int_type": "a whole number",
    "finite_number": "a number that is finite",
    "tuple_type": "a list, such as [1, 2]",
    "string_type": "text",
    "invalid_key": "text as a key",
}


def expected_value(error: ErrorDetails, *, in_link: bool) -> str:
    """The value that pydantic expected, as it is written: limits with their unit.

    `in_link`: it is a value of a link itself, where a rate is one of bits, and not a share.
    """
    kind, context = error["type"], error.get("ctx", {})
    name = error["loc"][-1] if error["loc"] else ""
    if kind in _LIMITS:
        words, limit = _LIMITS[kind]
        return f"{words} {_limit_text(name, context[limit], in_link=in_link)}"
    if kind in ("too_short", "too_long"):
        count = f"at least {context['min_length']}" if kind == "too_short" else f"at most {context['max_length']:,}"
        return f"a list of {count}"
    return _KINDS.get(kind, error["msg"].removeprefix("Input should be "))


def _limit_text(name: object, limit: float, *, in_link: bool) -> str:
    if name in _TIMES:
        return _time_text(int(limit))
    if name in _SIZES:
        return f"{limit} B"
    if name == "rate" and in_link:
        return format_rate(limit)
    unit = QUEUE_UNITS.get(str(name), "")
    return f"{limit:.6g} {unit}".rstrip() if isinstance(limit, float) else f"{limit} {unit}".rstrip()


def _time_text(time_ns: int) -> str:
    """A limit in the largest unit that keeps it whole."""
    for unit, unit_ns in _LONG_TIMES_NS:
        if time_ns > unit_ns and time_ns % unit_ns == 0:
            return f"{time_ns // unit_ns} {unit}"
    return format_delay(time_ns)


class Value(BaseModel):
    model_config = ConfigDict(
        frozen=True, extra="forbid", strict=True, allow_inf_nan=False, validate_by_alias=True, validate_by_name=True
    )
