"""A sweep as a user writes it: the grid of permutations, how often, on which rig and clock.

Values only. Reading them from YAML is `orchestrator.load`; what this machine lacks for them, `orchestrator.doctor`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    WithJsonSchema,
)

from emulator.quantities import format_delay, format_rate, parse_delay_ns, parse_rate_bps
from orchestrator.clock import Clock

RigName = Literal["virtual", "local"]

BYTES_PER_UNIT = {"B": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9}


def parse_size_bytes(text: object) -> int:
    """Bytes in a size written with its decimal unit: "100 kB" is 100,000.

    Raises ValueError for a bare number, an unknown unit, or part of a byte.
    """
    match = re.fullmatch(r"\s*([0-9][0-9_.]*)\s*(B|kB|MB|GB)\s*", text) if isinstance(text, str) else None
    if match is None:
        raise ValueError(f"got {text!r}; write a size with its decimal unit, for example '100 kB' or '1 MB'")
    try:
        size_bytes = Decimal(match[1].replace("_", "")) * BYTES_PER_UNIT[match[2]]
    except InvalidOperation:
        raise ValueError(f"got {text!r}; {match[1]!r} is not a number") from None
    if size_bytes != int(size_bytes):
        raise ValueError(f"got {text!r}, which is {size_bytes} bytes; a file has whole bytes")
    return int(size_bytes)


def format_size(size_bytes: int) -> str:
    """A size in the largest decimal unit that keeps it whole: 100,000 is "100 kB"."""
    for unit, factor in reversed(BYTES_PER_UNIT.items()):
        if size_bytes >= factor and size_bytes % factor == 0:
            return f"{size_bytes // factor} {unit}"
    return f"{size_bytes} B"


def parse_rate_or_unlimited(text: object) -> float | None:
    """A rate, or None for "unlimited": the papers' baseline over a plain bridge."""
    return None if text in ("unlimited", None) else parse_rate_bps(text)


def format_rate_or_unlimited(rate_bps: float | None) -> str:
    """A rate as `parse_rate_or_unlimited` reads it."""
    return "unlimited" if rate_bps is None else format_rate(rate_bps)


def _one_or_many(value: object) -> object:
    return value if isinstance(value, list) else [value]


def _distinct(values: list[Any]) -> list[Any]:
    if repeated := [value for position, value in enumerate(values) if value in values[:position]]:
        raise ValueError(f"got {repeated[0]!r} twice; wanted each value once (use 'repetitions' to run it again)")
    return values


def _written(
    parse: Callable[[Any], int | float | None], write: Callable[[Any], str], example: str
) -> tuple[BeforeValidator, PlainSerializer, WithJsonSchema]:
    """A quantity that is text with a unit in every file and a number in the value."""
    schema = WithJsonSchema({"type": "string", "examples": [example]})
    return BeforeValidator(parse), PlainSerializer(write, when_used="json"), schema


Size = Annotated[int, *_written(parse_size_bytes, format_size, "100 kB"), Field(gt=0)]
Rate = Annotated[float | None, *_written(parse_rate_or_unlimited, format_rate_or_unlimited, "10 Mbit/s")]
Delay = Annotated[int, *_written(parse_delay_ns, format_delay, "25 ms")]
Value = TypeVar("Value")
Axis = Annotated[list[Value], BeforeValidator(_one_or_many), AfterValidator(_distinct), Field(min_length=1)]
Probability = Annotated[float, Field(ge=0, le=1)]
Name = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]*$")]


class Permutation(BaseModel):
    """One point of the grid: a box in the plot."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    implementation: str
    file_size_bytes: int
    rate_bps: float | None
    delay_ns: int
    packet_error_rate: float

    @property
    def slug(self) -> str:
        """The permutation as a file name; for people, never parsed back."""
        size = format_size(self.file_size_bytes).replace(" ", "")
        rate = format_rate_or_unlimited(self.rate_bps).replace("bit/s", "bps").replace(" ", "")
        delay = format_delay(self.delay_ns).replace(" ", "")
        return f"{self.implementation}_{size}_{rate}_{delay}_per{self.packet_error_rate:g}"


class Sweep(BaseModel):
    """What to compare, over which channels, how often.

    The grid is the product of `implementations`, `file_size`, `rate`, `delay` (one way) and
    `packet_error_rate` (both directions), each a value or a list; every permutation runs `repetitions` times,
    all runs in an order drawn from `seed`.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: Name
    title: str = ""
    seed: Annotated[int, Field(ge=0, lt=2**31)]
    rig: RigName = "virtual"
    clock: Clock = "exact"
    implementations: Axis[str]
    file_size: Axis[Size]
    rate: Axis[Rate]
    delay: Axis[Delay]
    packet_error_rate: Axis[Probability]
    repetitions: Annotated[int, Field(ge=1, le=10_000)] = 1
    parameters: Annotated[
        dict[str, dict[str, int | float | str]],
        Field(description="parameters of implementations to change, by name"),
    ] = {}
    queue_packets: Annotated[int, Field(ge=1, description="the bottleneck queue of each direction")] = 1000
    keep_captures: Annotated[
        Literal["whole", "headers", "none"], Field(description="what stays of the captures once analysed")
    ] = "headers"
    runs_per_guest: Annotated[
        int,
        Field(ge=1, description="runs that share one boot of a virtual guest; their order is part of the seed"),
    ] = 9

    def permutations(self) -> list[Permutation]:
        """Every point of the grid, in the order of the file."""
        return [
            Permutation(
                implementation=Path(implementation).stem,
                file_size_bytes=size,
                rate_bps=rate,
                delay_ns=delay,
                packet_error_rate=error_rate,
            )
            for implementation in self.implementations
            for size in self.file_size
            for rate in self.rate
            for delay in self.delay
            for error_rate in self.packet_error_rate
        ]
