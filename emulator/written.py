"""How values are written: quantities are text with their unit, and a bare number is refused, since it could mean any.

Profiles, XML-RPC and the command line share this form. In the code the same values are numbers with the unit in
their name.
"""

import itertools
import re
from collections.abc import Callable
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    ValidationInfo,
    WithJsonSchema,
)

from emulator.quantities import (
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
"""netem keeps it in 31 bits, and cuts off without a word what is above."""
SLOWEST_RATE_BPS = 8.0
"""One byte a second: netem counts whole bytes, and takes zero for "no limit"."""
FASTEST_RATE_BPS = 1e12
LARGEST_SEED = 2**53 - 1
"""What a double, and so XML-RPC, carries exactly."""
SMALLEST_ERROR_RATE = 2 / 2**32
"""netem draws 32 bits for every packet and damages it if they are not above a threshold; 0 means "never"."""
LARGEST_BIT_ERROR_RATE = 0.01
MOST_POSITIONS = 10_000
LARGEST_TABLE = 16_384
"""NETEM_DIST_MAX in include/uapi/linux/pkt_sched.h."""
WIDEST_TABLE_VALUE = 32_767 / 8192
"""A table value has 16 bits, 8192 of them for one (NETEM_DIST_SCALE)."""

FORM = {"form": True}
"""The context in which values are read as written: quantities with their unit, never a bare number."""


QUEUE_UNITS = {"queue_packets": "packets", "queue_bytes": "B", "queue_ns": "ns", "queue_bdp": "BDP"}
"""How the kinds of a queue are written."""


def _expressible(packet_error_rate: float) -> float:
    if 0 < packet_error_rate < SMALLEST_ERROR_RATE:
        raise ValueError(f"0 or at least {SMALLEST_ERROR_RATE:.3g}, the smallest that netem can draw")
    return packet_error_rate


def _written(
    parse: Callable[[Any], Any], write: Callable[[Any], str], *examples: str
) -> tuple[BeforeValidator, PlainSerializer, WithJsonSchema]:
    """A quantity that is text with a unit as written and a number in the value."""

    def read(value: Any, info: ValidationInfo) -> Any:
        return parse(value) if info.context is FORM else value

    schema = WithJsonSchema({"type": "string", "examples": list(examples)})
    return BeforeValidator(read), PlainSerializer(write, when_used="json"), schema


def _whole(value: Any, info: ValidationInfo) -> Any:
    return int(value) if info.context is FORM and isinstance(value, float) and value.is_integer() else value


def listed(value: Any, info: ValidationInfo) -> Any:
    return tuple(value) if info.context is FORM and isinstance(value, list) else value


def _sorted_positions(positions: tuple[int, ...]) -> tuple[int, ...]:
    if any(later <= earlier for earlier, later in itertools.pairwise(positions)):
        raise ValueError("positions in rising order, each once")
    return positions


def _parse_frame_bytes(text: Any) -> int:
    """A size of frames: who leaves out the unit means bytes, not kilobytes."""
    try:
        return parse_size_bytes(text)
    except ValueError as error:
        told, hint, example = str(error).rpartition('as in "')
        raise ValueError(told + hint + example.replace("100 kB", "1500 B").replace(" kB", " B")) from None


def as_written(name: str) -> Any:
    """Name a field otherwise where it is written: without the unit, which stands in the text."""
    return Field(validation_alias=name, serialization_alias=name)


Delay = Annotated[
    int, *_written(parse_delay_ns, format_delay, "25 ms", "1250 ms", "20 min"), Field(ge=0, le=LONGEST_DELAY_NS)
]
Moment = Annotated[int, *_written(parse_delay_ns, format_delay, "10 s", "90 min"), Field(ge=0, le=LONGEST_TIMELINE_NS)]
Spread = Annotated[int, *_written(parse_delay_ns, format_delay, "5 ms"), Field(gt=0, le=LARGEST_JITTER_NS)]
Rate = Annotated[
    float,
    *_written(parse_rate_bps, format_rate, "10 Mbit/s", "8 kbit/s"),
    Field(ge=SLOWEST_RATE_BPS, le=FASTEST_RATE_BPS),
]
Size = Annotated[int, *_written(_parse_frame_bytes, format_size, "1500 B", "64 kB")]
Probability = Annotated[float, AfterValidator(_expressible), Field(ge=0, le=1)]
Whole = Annotated[int, BeforeValidator(_whole), PlainSerializer(float, when_used="json"), Field(ge=0, le=LARGEST_SEED)]
Positions = Annotated[
    tuple[Whole, ...],
    BeforeValidator(listed),
    AfterValidator(_sorted_positions),
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


def wanted_value(error: Any, *, in_link: bool) -> str:
    """What pydantic's `error` says was wanted, as it is written: limits with their unit.

    `in_link`: it is a value of a link itself, where a rate is one of bits, and not a share.
    """
    kind, context = error["type"], error.get("ctx", {})
    name = error["loc"][-1] if error["loc"] else ""
    if kind in _LIMITS:
        words, limit = _LIMITS[kind]
        return f"{words} {_told_limit(name, context[limit], in_link=in_link)}"
    if kind in ("too_short", "too_long"):
        count = f"at least {context['min_length']}" if kind == "too_short" else f"at most {context['max_length']:,}"
        return f"a list of {count}"
    message = error["msg"].removeprefix("Value error, ").removeprefix("Input should be ").rpartition("wanted ")[2]
    return _KINDS.get(kind, re.sub(r"\bqueue_(packets|bytes|ns|bdp)\b", "queue", message))


def _told_limit(name: object, limit: float, *, in_link: bool) -> str:
    if name in _TIMES:
        return _told_time(int(limit))
    if name in _SIZES:
        return f"{limit} B"
    if name == "rate" and in_link:
        return format_rate(limit)
    unit = QUEUE_UNITS.get(str(name), "")
    return f"{limit:.6g} {unit}".rstrip() if isinstance(limit, float) else f"{limit} {unit}".rstrip()


def _told_time(time_ns: int) -> str:
    """A limit in the largest unit that keeps it whole."""
    for unit, unit_ns in _LONG_TIMES_NS:
        if time_ns > unit_ns and time_ns % unit_ns == 0:
            return f"{time_ns // unit_ns} {unit}"
    return format_delay(time_ns)


class Value(BaseModel):
    model_config = ConfigDict(
        frozen=True, extra="forbid", strict=True, allow_inf_nan=False, validate_by_alias=True, validate_by_name=True
    )
