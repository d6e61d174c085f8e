"""A sweep as a user writes it: the grid of permutations, how often, on which rig and clock.

Values only. Reading them from YAML is `orchestrator.load`; what this machine lacks for them, `orchestrator.doctor`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import product
from typing import Annotated, Any, Literal, Self, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    PlainSerializer,
    WithJsonSchema,
    model_validator,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from agents.contract import is_a_parameter
from emulator.channel import ChannelSpec, LinkSpec
from emulator.quantities import (
    format_delay,
    format_rate,
    format_size,
    parse_delay_ns,
    parse_rate_bps,
    parse_size_bytes,
)
from orchestrator.clock import Clock

RigName = Literal["virtual", "local"]
UNLIMITED = "unlimited"
LARGEST_BYTES = 10**15


def parse_rate_or_unlimited(text: object) -> float | None:
    """A rate, or None for "unlimited": the papers' baseline over a plain bridge."""
    return None if text == UNLIMITED else parse_rate_bps(text)


def format_rate_or_unlimited(rate_bps: float | None) -> str:
    """A rate as `parse_rate_or_unlimited` reads it."""
    return UNLIMITED if rate_bps is None else format_rate(rate_bps)


def _one_or_many(value: object) -> object:
    return value if isinstance(value, list) else [value]


def _distinct(values: list[Any]) -> list[Any]:
    if repeated := [value for position, value in enumerate(values) if value in values[:position]]:
        raise ValueError(f"each value once; {repeated[0]!r} is there twice (use 'repetitions' to run it again)")
    return values


class _OneOrMany:
    """An axis as it is written: its one value, or a list of several."""

    def __get_pydantic_json_schema__(self, core: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        many = handler(core)
        return {"anyOf": [many["items"], many | {"uniqueItems": True}]}


class _OneOrByAxis:
    """What is told as it is written: its one value, or one for each value of an axis."""

    def __get_pydantic_json_schema__(self, core: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        by_axis = handler(core)
        return {"anyOf": [by_axis["additionalProperties"], by_axis]}


def _as_left_out(schema: dict[str, Any]) -> None:
    """A key that may be left out is left out, not written as null or empty."""
    for key in schema["properties"].values():
        if key.get("default") in (None, {}, ""):
            key.pop("default", None)
        kinds = [kind for kind in key.get("anyOf", ()) if kind != {"type": "null"}]
        if kinds:
            key |= {"anyOf": kinds}


def _read(parse: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """The same reader, whose complaint says only what was wanted: who tells it knows what was got, and where."""

    def read(text: Any) -> Any:
        try:
            return parse(text)
        except ValueError as problem:
            raise ValueError(str(problem).partition("wanted ")[2]) from None

    return read


def _written(
    parse: Callable[[Any], int | float | None], write: Callable[[Any], str], units: str, *examples: str
) -> tuple[BeforeValidator, PlainSerializer, WithJsonSchema]:
    """A quantity that is text with a unit in every file and a number in the value; `units` is a regular expression.

    An example without a unit is a word that may be written instead.
    """
    number = r" *[0-9]+(\.[0-9]+)?(e[+-]?[0-9]{1,2})? *"
    words = "".join(f"|{example}" for example in examples if " " not in example)
    pattern = f"^({number}({units}) *{words})$"
    schema = WithJsonSchema({"type": "string", "pattern": pattern, "examples": [*examples]})
    return BeforeValidator(_read(parse)), PlainSerializer(write, when_used="json"), schema


def _by_axis(parse: Callable[[Any], Any], write: Callable[[Any], str]) -> Callable[[object], object]:
    """A reader of one value for all, or of a value for each value of an axis."""

    def read(given: object) -> object:
        if not isinstance(given, dict):
            return {"": given}
        read_keys = {key: "" if key == "" else write(_read(parse)(key)) for key in given}
        if twice := [key for key, same in read_keys.items() if list(read_keys.values()).count(same) > 1]:
            raise ValueError(f"each value of the axis once; {' and '.join(map(str, twice))} are the same")
        return {read_keys[key]: value for key, value in given.items()}

    return read


def _are_parameters(value: object) -> object:
    values = value if isinstance(value, list) else [value]
    if not values:
        raise ValueError("at least one value")
    for each in values:
        is_a_parameter(each)
    return value


Size = Annotated[int, *_written(parse_size_bytes, format_size, "B|kB|MB|GB", "100 kB"), Field(gt=0, le=LARGEST_BYTES)]
Rate = Annotated[
    float | None, *_written(parse_rate_or_unlimited, format_rate_or_unlimited, "[kMGT]?bit/s", "10 Mbit/s", UNLIMITED)
]
Delay = Annotated[int, *_written(parse_delay_ns, format_delay, "[nuµm]?s|min|h", "25 ms")]
Value = TypeVar("Value")
Parameter = int | float | str
Axis = Annotated[
    list[Value], BeforeValidator(_one_or_many), AfterValidator(_distinct), Field(min_length=1), _OneOrMany()
]
Probability = Annotated[float, Field(ge=0, le=1)]
Name = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]*$")]


class Told(BaseModel):
    """What a build is told of the channel where that is not the channel's own: a value, or one for each of an axis.

    Kept by the axis's value as it is written; "" is any.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", json_schema_extra=_as_left_out)

    rate: Annotated[
        dict[str, Rate],
        BeforeValidator(_by_axis(parse_rate_or_unlimited, format_rate_or_unlimited)),
        _OneOrByAxis(),
        Field(description="with its unit; or for each of the sweep's rates one: {1.024 Mbit/s: 1 Mbit/s}"),
    ] = {}
    delay: Annotated[
        dict[str, Delay],
        BeforeValidator(_by_axis(parse_delay_ns, format_delay)),
        _OneOrByAxis(),
        Field(description="one way, with its unit; or for each of the sweep's delays one"),
    ] = {}


_AXES = ("rate", "delay", "packet_error_rate")
_OWN = object()
"""Stands for the channel's own value, where None is an unlimited rate."""


class Permutation(BaseModel):
    """One point of the grid: a box in the plot.

    With a channel from a profile, named by `channel_name`, rate, delay and packet error rate are those of its forward
    link at the beginning.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    implementation: str
    file_size_bytes: int
    channel_name: str = ""
    rate_bps: float | None
    delay_ns: int
    packet_error_rate: float

    @property
    def slug(self) -> str:
        """The permutation as a file name; for people, never parsed back."""
        size = format_size(self.file_size_bytes).replace(" ", "")
        rate = format_rate_or_unlimited(self.rate_bps).replace("bit/s", "bps").replace(" ", "")
        delay = format_delay(self.delay_ns).replace(" ", "")
        errors = f"_per{self.packet_error_rate:g}" if self.packet_error_rate or not self.channel_name else ""
        channel = f"{self.channel_name}_" if self.channel_name else ""
        return f"{self.implementation}_{size}_{channel}{rate}_{delay}{errors}"


class Sweep(BaseModel):
    """What to compare, over which channels, how often.

    The grid is the product of `implementations`, `file_size`, `channel`, `rate`, `delay` (one way) and
    `packet_error_rate`, each a value or a list, and of every parameter that is a list; every permutation runs
    `repetitions` times, all runs in an order drawn from `seed`. `channel` names profiles; without it, rate, delay and
    packet error rate make the channel, the same both ways. With it, those that are given take the place of the
    profile's, both ways.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", json_schema_extra=_as_left_out)

    name: Annotated[Name, Field(description="small letters, digits and hyphens; results go to results/NAME")]
    title: Annotated[str, Field(description="one line about it, the report's heading")] = ""
    seed: Annotated[
        int, Field(ge=0, lt=2**31, description="whole number; the order of the runs and all errors are drawn from it")
    ]
    rig: Annotated[
        RigName, Field(description="virtual: guests, no root; local: this machine's kernel, needs root and clock real")
    ] = "virtual"
    clock: Annotated[
        Clock,
        Field(description="exact: computing takes no time; skip: it does; real: so does waiting"),
    ] = "exact"
    implementations: Annotated[
        Axis[str], Field(description="what is compared: names that `owlt implementations` lists, or paths of files")
    ]
    file_size: Annotated[Axis[Size], Field(description="of the file that is sent, with its unit: B, kB, MB, GB")]
    channel: Annotated[
        Axis[str] | None,
        Field(description="channel profiles: names that `owlt channel list` lists, or paths of files"),
    ] = None
    rate: Annotated[
        Axis[Rate] | None,
        Field(
            description="of the channel, both ways, with its unit: bit/s, kbit/s, Mbit/s, Gbit/s, Tbit/s; or unlimited"
        ),
    ] = None
    delay: Annotated[
        Axis[Delay] | None,
        Field(description="of the channel, one way, the same both ways, with its unit: ns, us, ms, s, min, h"),
    ] = None
    packet_error_rate: Annotated[
        Axis[Probability] | None,
        Field(description="of the channel, both ways: probability, 0 to 1, that one bit of a frame is flipped"),
    ] = None
    repetitions: Annotated[
        int, Field(ge=1, le=10_000, description="how often every permutation runs, each time with errors of its own")
    ] = 1
    parameters: Annotated[
        dict[str, dict[str, Annotated[Parameter | Axis[Parameter], BeforeValidator(_are_parameters)]]],
        Field(description="parameters of implementations to change, by name; a list is one more axis of the grid"),
    ] = {}
    told: Annotated[
        dict[str, Told],
        Field(description="what implementations are told of rate and delay, by name, where it is not the channel's"),
    ] = {}
    queue_packets: Annotated[
        int | None, Field(ge=1, description="room of the bottleneck's queue in each direction, in packets")
    ] = None
    certify: Annotated[
        bool, Field(description="measure each channel before its first run; runs on one that fails are suspect")
    ] = True
    keep_captures: Annotated[
        Literal["whole", "headers", "none"], Field(description="what stays of the captures once analysed")
    ] = "headers"
    runs_per_guest: Annotated[
        int, Field(ge=1, description="runs that share one boot of a guest; part of what is drawn at random")
    ] = 9

    @model_validator(mode="after")
    def _has_a_channel(self) -> Self:
        missing = [name for name in _AXES if getattr(self, name) is None]
        if self.channel is None and missing:
            raise ValueError(
                f"{', '.join(missing)}: got none, wanted all three of rate, delay and packet_error_rate, "
                "or a channel profile; add what is missing, or 'channel: NAME'"
            )
        return self

    def told_in_vain(self, points: Sequence[Permutation]) -> Iterator[str]:
        """A line for each rate and delay at which a build is told something, and at which no run is."""
        rates = dict.fromkeys(format_rate_or_unlimited(point.rate_bps) for point in points)
        delays = dict.fromkeys(format_delay(point.delay_ns) for point in points)
        for name, told in self.told.items():
            for axis, values, here in (("rate", told.rate, rates), ("delay", told.delay, delays)):
                for stranger in (key for key in values if key and key not in here):
                    yield f"told.{name}.{axis}: got {stranger!r}, wanted one of this sweep's: {', '.join(here)}"

    def permutations(self, builds: Iterable[str], channels: Mapping[str, ChannelSpec]) -> list[Permutation]:
        """Every point of the grid, in the order of the file; `channels` has those of `channel`, by their own names.

        `builds` are the names of the implementations, each variant by its own.
        """
        return [
            self._point(implementation, size, name, channel.forward, at)
            for implementation in builds
            for size in self.file_size
            for name, channel in (channels or {"": ChannelSpec()}).items()
            for at in product(*(getattr(self, axis) or [_OWN] for axis in _AXES))
        ]

    def _point(self, implementation: str, size: int, name: str, link: LinkSpec, at: tuple[Any, ...]) -> Permutation:
        own = (link.rate_bps, link.delay_ns, link.packet_error_rate)
        rate_bps, delay_ns, packet_error_rate = (
            mine if given is _OWN else given for mine, given in zip(own, at, strict=True)
        )
        return Permutation(
            implementation=implementation,
            file_size_bytes=size,
            channel_name=name,
            rate_bps=rate_bps,
            delay_ns=delay_ns,
            packet_error_rate=packet_error_rate,
        )
