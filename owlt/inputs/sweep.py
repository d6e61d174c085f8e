"""A sweep as a user writes it: the axes of its grid, the number of repetitions, the rig and the clock.

This module has values only; plan.json has them, too. `orchestrator.profiles.load` reads them from YAML, and
`orchestrator.checks.doctor` reports what this machine is missing for them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from math import isqrt
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from owlt.inputs.axes import BOTH_WAYS, DIRECTED, LOADS, QUEUE, WAYS
from owlt.inputs.axis_values import (
    Axis,
    Delay,
    DelayAxis,
    DelayOneWay,
    DurationAxis,
    IpAxis,
    Name,
    OneOrByAxis,
    OneOrMany,
    OrPair,
    Parameter,
    ProbabilityAxis,
    ProbabilityOneWay,
    Rate,
    RateAxis,
    RateOneWay,
    SizeAxis,
    as_left_out,
    by_axis,
    in_directions,
    one_or_many,
    require_parameters,
)
from owlt.inputs.mistake import Invalid, Mistake, Place, got, unexpected
from owlt.inputs.quantities import DELAY, RATE
from owlt.inputs.rules import Assertion, Baseline, Exclude, Include, Together
from owlt.inputs.validation import Clock, mistakes_in

MOST_REPETITIONS = 10_000
MOST_LOOKS = 3
"""The largest length of `Adaptive.looks`; it is shorter if `at_least` and `at_most` are close."""


def _require_whole(value: object) -> object:
    if isinstance(value, bool) or not isinstance(value, int):
        raise unexpected("a whole number")
    return value


def _require_number(value: object) -> object:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise unexpected("a number of percent, such as 5")
    return value


Count = Annotated[int, BeforeValidator(_require_whole)]


class Adaptive(BaseModel):
    """Repetitions end when the 95 % interval of the permutation's median goodput is narrow enough, or when the choice
    in its cell is decided."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    at_least: Annotated[
        Count, Field(ge=2, le=MOST_REPETITIONS, description="number of repetitions before the first decision")
    ]
    at_most: Annotated[Count, Field(ge=2, le=MOST_REPETITIONS, description="largest number of repetitions")]
    until_interval_percent: (
        Annotated[
            float,
            BeforeValidator(_require_number),
            Field(gt=0, le=100, description="width of the interval in percent of the median, at which repetitions end"),
        ]
        | None
    ) = None
    until: Annotated[
        Literal["decided"] | None,
        Field(description="decided: repetitions end when it is decided which implementation may be taken in the cell"),
    ] = None

    @model_validator(mode="after")
    def _check_order(self) -> Self:
        if self.at_most <= self.at_least:
            expected = f"more than {self.at_least}, the value of 'at_least'"
            raise Invalid(Mistake(got(self.at_most), expected, where=Place(key=("at_most",))))
        if (self.until is None) == (self.until_interval_percent is None):
            problem = "are both given" if self.until else "are missing"
            raise Invalid(Mistake(f"'until' and 'until_interval_percent' {problem}", "one of them"))
        return self

    @property
    def looks(self) -> tuple[int, ...]:
        """The numbers of repetitions after which it may be decided that no more are needed; () without `until`."""
        if self.until is None:
            return ()
        middle = isqrt(self.at_least * self.at_most)
        return tuple(dict.fromkeys((self.at_least, middle, self.at_most)))

    @property
    def text(self) -> str:
        """The rule in words."""
        number = f"{self.at_least} to {self.at_most} repetitions, until"
        if self.until_interval_percent is None:
            return f"{number} the choice in the cell is decided (looked at after {', '.join(map(str, self.looks))})"
        return f"{number} the interval of the median goodput is {self.until_interval_percent:g} % wide"


def parse_repetitions(written: object) -> object:
    """A number, or the keys of `Adaptive`. Raises Invalid for anything else."""
    if isinstance(written, Adaptive):
        return written
    if isinstance(written, dict):
        try:
            return Adaptive.model_validate(written)
        except ValidationError as problem:
            raise Invalid(*mistakes_in(problem, Adaptive)) from None
    if isinstance(written, bool) or not isinstance(written, int) or not 1 <= written <= MOST_REPETITIONS:
        raise unexpected(
            f"a whole number from 1 to {MOST_REPETITIONS}, or {{at_least: 6, at_most: 40, until: decided}}"
        )
    return written


RigName = Literal["virtual", "local", "lab"]


class Advertised(BaseModel):
    """Rate and delay given to an implementation instead of the channel's: one value, or one for each value of an axis.

    Keyed by the axis's value as it is written; "" is any.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", json_schema_extra=as_left_out)

    rate: Annotated[
        dict[str, Rate],
        BeforeValidator(by_axis(RATE)),
        OneOrByAxis(),
        Field(description="with its unit; or one for each of the sweep's rates: {1.024 Mbit/s: 1 Mbit/s}"),
    ] = {}
    delay: Annotated[
        dict[str, Delay],
        BeforeValidator(by_axis(DELAY)),
        OneOrByAxis(),
        Field(description="one way, with its unit; or one for each of the sweep's delays"),
    ] = {}


class _AtSide(BaseModel):
    """Something that is done to the program of a side during a run."""

    model_config = ConfigDict(frozen=True, extra="forbid", json_schema_extra=as_left_out)

    side: Annotated[Literal["sender", "receiver"], Field(description="to whose program it is done")]
    at: Annotated[
        Delay,
        Field(
            description="when it is done, from the launch of the run, with its unit; not before both programs have "
            "been started"
        ),
    ]


class Restart(_AtSide):
    """A host that restarts during a run: its program is killed, and started again with the same command."""

    after: Annotated[Delay, Field(description="how long after that it is started again, with its unit")]


CommandName = Literal["suspend", "resume", "cancel"]


class GivenCommand(_AtSide):
    """A command of its profile that a side gets during a run."""

    command: Annotated[CommandName, Field(description="suspend, resume or cancel: a key of that side in the profile")]


class SkippedWaits(BaseModel):
    """Waits of a side that take no time: of each of its threads, the first wait that begins in a window of the run."""

    model_config = ConfigDict(frozen=True, extra="forbid", json_schema_extra=as_left_out)

    side: Annotated[Literal["sender", "receiver"], Field(description="whose waits end immediately")]
    after: Annotated[Delay, Field(description="when the window begins, from the launch of the run, with its unit")]
    before: Annotated[Delay, Field(description="when it ends, likewise")]


OF_CHANNELS = ("restarts", "commands", "skipped_waits")
"""The keys of a sweep with what happens during the runs over a channel, by its name."""


class EachAgainst(BaseModel):
    """An implementation that is paired with each other one, as the sender and as the receiver."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    each_against: Annotated[str, Field(description="name of an implementation of the sweep")]


SidesOfPair = Annotated[list[str], Field(min_length=2, max_length=2)]
"""The names of two implementations: the sender's, the receiver's."""
Pairs = Literal["all"] | list[SidesOfPair] | EachAgainst


def _are_two_names(written: object) -> bool:
    return isinstance(written, list) and [type(name) for name in written] == [str, str]


def parse_pairs(written: object) -> object:
    """all, a list of [sender, receiver], or the keys of `EachAgainst`. Raises Invalid for anything else."""
    if written is None or written == "all" or isinstance(written, EachAgainst):
        return written
    if isinstance(written, dict) and list(written) == ["each_against"] and isinstance(written["each_against"], str):
        return written
    if isinstance(written, list) and written and all(map(_are_two_names, written)):
        return written
    raise unexpected("all, a list such as [[cfdp, mine], [mine, cfdp]], or {each_against: cfdp}")


class Sweep(BaseModel):
    """A sweep: the implementations, the channels, and the number of repetitions.

    The grid is the product of `implementations`, `file_size` or `duration`, `channel`, `rate`, `delay` (one way) and
    `packet_error_rate`, each a value, a list or a range, and of every parameter that has several values; `together`,
    `exclude` and `include` make it a part of that product (`orchestrator.planning.grid`). Rate, delay and packet error
    rate can be given for each direction, by keys with `forward_` or `reverse_` in front, or as a value {forward: ...,
    reverse: ...}, which becomes these keys; in a list, such values vary together. Every permutation runs
    `repetitions` times, all runs in an order drawn from `seed`. `channel` names profiles; without it, rate, delay and
    packet error rate make the channel, the same both ways. With it, the given values replace those of the profile, in
    both directions.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", json_schema_extra=as_left_out)

    name: Annotated[Name, Field(description="lower-case letters, digits and hyphens; results go to results/NAME")]
    title: Annotated[str, Field(description="one line about the sweep, the heading of the report")] = ""
    seed: Annotated[
        int,
        Field(
            ge=0, le=2**31 - 1, description="an integer that determines the order of the runs and all channel errors"
        ),
    ]
    rig: Annotated[
        RigName,
        Field(
            description="virtual: guests, no root; local: this machine's kernel, needs root and the real clock; "
            "lab: three machines of an inventory, needs --rig and the real clock"
        ),
    ] = "virtual"
    clock: Annotated[
        Clock,
        Field(
            description="exact: computation is free, idle time skipped; "
            "skip: computation takes real time, idle time skipped; real: wall clock"
        ),
    ] = "exact"
    implementations: Annotated[
        Axis[str],
        Field(
            description="implementations to compare: names that `owlt implementations list` prints, or paths of files"
        ),
    ]
    pairs: Annotated[
        Pairs | None,
        BeforeValidator(parse_pairs),
        Field(
            description="pairs of these implementations, the sender of one with the receiver of another: all, a list "
            "of [sender, receiver], or {each_against: NAME}"
        ),
    ] = None
    file_size: Annotated[
        SizeAxis | None, Field(description="size of the file to send, with its unit: B, kB, MB, GB")
    ] = None
    duration: Annotated[
        DurationAxis | None,
        Field(description="how long the sender sends, instead of a file, with its unit: ms, s, min, h"),
    ] = None
    channel: Annotated[
        Axis[str] | None,
        Field(description="channel profiles: names that `owlt channel list` prints, or paths of files"),
    ] = None
    faults: Annotated[
        list[dict[str, Any]],
        Field(
            description="aimed faults, in addition to those of the channel: which packets are dropped, delayed or "
            "changed, written as in a channel"
        ),
    ] = []
    restarts: Annotated[
        dict[str, Restart],
        Field(description="a host that restarts during the runs over a channel: {CHANNEL: {side, at, after}}"),
    ] = {}
    commands: Annotated[
        dict[str, Annotated[list[GivenCommand], Field(max_length=64)]],
        Field(
            description="commands of its profile that a side gets during the runs over a channel: "
            "{CHANNEL: [{side, at, command}]}"
        ),
    ] = {}
    skipped_waits: Annotated[
        dict[str, Annotated[list[SkippedWaits], Field(max_length=64)]],
        Field(
            description="waits that end immediately during the runs over a channel, on the clock exact of the virtual "
            "rig: {CHANNEL: [{side, after, before}]}"
        ),
    ] = {}
    announce_outages: Annotated[
        bool,
        Field(
            description="true: when a link goes down, each side gets the command suspend of its profile, and resume "
            "when both links are up again"
        ),
    ] = False
    ip: Annotated[
        IpAxis | None,
        Field(description="version of IP on the test path, 4 or 6, or both: [4, 6]; default: 4"),
    ] = None
    rate: Annotated[
        RateAxis | None,
        Field(
            description="rate in both directions, with its unit: bit/s, kbit/s, Mbit/s, Gbit/s, Tbit/s; or unlimited"
        ),
    ] = None
    forward_rate: Annotated[RateOneWay | None, Field(description="rate from sender to receiver")] = None
    reverse_rate: Annotated[RateOneWay | None, Field(description="rate from receiver to sender")] = None
    delay: Annotated[
        DelayAxis | None,
        Field(description="one-way delay in both directions, with its unit: ns, us, ms, s, min, h"),
    ] = None
    forward_delay: Annotated[DelayOneWay | None, Field(description="delay from sender to receiver")] = None
    reverse_delay: Annotated[DelayOneWay | None, Field(description="delay from receiver to sender")] = None
    packet_error_rate: Annotated[
        ProbabilityAxis | None,
        Field(description="probability, 0 to 1 or in percent, that one bit of a frame is flipped, in both directions"),
    ] = None
    forward_packet_error_rate: Annotated[
        ProbabilityOneWay | None, Field(description="packet error rate from sender to receiver")
    ] = None
    reverse_packet_error_rate: Annotated[
        ProbabilityOneWay | None, Field(description="packet error rate from receiver to sender")
    ] = None
    together: Annotated[
        list[Together],
        BeforeValidator(one_or_many),
        OneOrMany(),
        Field(description="axes that vary together: their first values, their second values, and so on"),
    ] = []
    exclude: Annotated[
        list[Exclude],
        BeforeValidator(one_or_many),
        OneOrMany(),
        Field(description="points to leave out of the grid: all that have these values, or values in these intervals"),
    ] = []
    include: Annotated[
        list[Include],
        BeforeValidator(one_or_many),
        OneOrMany(),
        Field(description="further grids: the axes given here replace those of the sweep"),
    ] = []
    baseline: Annotated[
        Baseline | None,
        Field(description="a point that is performed again every so many runs, to show whether conditions drift"),
    ] = None
    repetitions: Annotated[
        Annotated[int, Field(ge=1, le=10_000)] | Adaptive,
        BeforeValidator(parse_repetitions),
        Field(
            description="number of runs of each permutation, each with its own channel errors; or bounds, and how "
            "narrow the interval of the median must be"
        ),
    ] = 1
    parameters: Annotated[
        dict[str, dict[str, Annotated[Parameter | Axis[Parameter], BeforeValidator(require_parameters)]]],
        Field(description="parameters to change, by implementation; a list is another axis of the grid"),
    ] = {}
    advertised: Annotated[
        dict[str, Advertised],
        Field(description="rate and delay given to an implementation instead of the channel's, by implementation"),
    ] = {}
    assertions: Annotated[
        list[Assertion],
        BeforeValidator(one_or_many),
        OneOrMany(),
        Field(description="what the results have to show, checked after the sweep and by the report"),
    ] = []
    margin_percent: Annotated[
        float,
        BeforeValidator(_require_number),
        Field(ge=0, le=50, description="how far behind the best an implementation may be and still be taken"),
    ] = 1
    queue_packets: Annotated[
        int | None,
        OrPair(),
        Field(ge=1, description="capacity of the bottleneck's queue in each direction, in packets"),
    ] = None
    forward_queue_packets: Annotated[int | None, Field(ge=1, description="the same from sender to receiver only")] = (
        None
    )
    reverse_queue_packets: Annotated[int | None, Field(ge=1, description="the same from receiver to sender only")] = (
        None
    )
    certify: Annotated[
        bool, Field(description="certify each channel before its first run; runs on a channel that fails are suspect")
    ] = True
    quarantine_after: Annotated[
        int,
        Field(ge=0, description="failures in a row after which an implementation is no longer launched; 0: never"),
    ] = 20
    keep_captures: Annotated[
        Literal["full", "headers", "none"], Field(description="which part of the captures is kept after the analysis")
    ] = "headers"
    host_captures: Annotated[
        bool,
        Field(description="on a lab rig: capture at sender and receiver too, for documentation and cross-checks"),
    ] = False
    runs_per_guest: Annotated[
        int,
        Field(
            ge=1,
            description="number of runs that share one boot of a guest on the clocks skip and real",
        ),
    ] = 9

    @model_validator(mode="before")
    @classmethod
    def _replace_pairs(cls, written: Any) -> Any:
        """The keys of each direction instead of values for both."""
        if not isinstance(written, dict):
            return written
        axes, together = in_directions(written)
        if together:
            others = one_or_many(axes.get("together", []))
            axes["together"] = [*(others if isinstance(others, list) else []), *together]
        return axes

    @model_validator(mode="after")
    def _check_axes(self) -> Self:
        loads = [axis for axis in LOADS if self.gives(axis)]
        if not loads:
            fix = "add it (size of the file to send, with its unit: B, kB, MB, GB), or 'duration'"
            raise Invalid(Mistake("is missing", fix=fix, where=Place(key=("file_size",))))
        if len(loads) > 1:
            expected = "either 'file_size' or 'duration'"
            fix = "write one of them; a sweep of its own can have the other"
            raise Invalid(Mistake("a sweep with both", expected, fix, Place(key=("duration",))))
        ways = {name: [way for way in WAYS if not self.gives_way(way, name)] for name in BOTH_WAYS}
        missing = [name for name, none in ways.items() if len(none) == len(WAYS)]
        missing += [f"{none[0]}_{name}" for name, none in ways.items() if len(none) == 1]
        if self.channel is None and missing:
            expected = "all three of rate, delay and packet_error_rate, or a channel profile"
            fix = "add what is missing, or 'channel: NAME'"
            raise Invalid(Mistake(f"{', '.join(missing)}: got none", expected, fix))
        return self

    @model_validator(mode="after")
    def _check_each_axis_given_once(self) -> Self:
        mistakes = [
            Mistake("is given twice", "each axis once", "remove it here or above", Place(key=("together", group, axis)))
            for group, axes in enumerate(self.together)
            for axis in axes
            if getattr(self, axis) is not None or any(axis in other for other in self.together[:group])
        ]
        mistakes += [
            Mistake("is given twice", "each axis once", f"write 'forward_{key}' and 'reverse_{key}', or '{key}'", place)
            for key in DIRECTED
            for way in WAYS
            if self.gives(key) and self.gives(f"{way}_{key}")
            for place in [Place(key=(f"{way}_{key}",))]
        ]
        if mistakes:
            raise Invalid(*mistakes)
        return self

    @model_validator(mode="after")
    def _check_baseline_with_fixed_repetitions(self) -> Self:
        if self.adaptive and self.baseline:
            fix = "write a number of repetitions, or remove 'baseline'"
            where = Place(key=("baseline",))
            raise Invalid(Mistake("needs a number of runs that is known before", "fixed repetitions", fix, where))
        return self

    @model_validator(mode="after")
    def _check_where_waits_are_skipped(self) -> Self:
        if self.skipped_waits and (self.rig, self.clock) != ("virtual", "exact"):
            problem = f"got rig: {self.rig} and clock: {self.clock}, where waits cannot be skipped"
            raise Invalid(Mistake(problem, "rig: virtual and clock: exact", where=Place(key=("skipped_waits",))))
        return self

    @property
    def adaptive(self) -> Adaptive | None:
        """The rule by which repetitions end; None if their number is fixed."""
        return None if isinstance(self.repetitions, int) else self.repetitions

    @property
    def most_repetitions(self) -> int:
        """The number of repetitions, or the largest number."""
        return self.repetitions if isinstance(self.repetitions, int) else self.repetitions.at_most

    @property
    def margin(self) -> float:
        """The share of the best value by which an implementation may be behind and still be taken."""
        return self.margin_percent / 100

    def may_suspend(self, channel: str) -> bool:
        """Whether sides may be suspended and resumed during the runs over a channel."""
        return self.announce_outages or any(each.command != "cancel" for each in self.commands.get(channel, []))

    def of_channel(self, channel: str, names: Iterable[str]) -> dict[str, dict[str, Any]]:
        """What happens during the runs over a channel (OF_CHANNELS), for the same channel under other names."""
        each = {key: getattr(self, key) for key in OF_CHANNELS}
        return {key: dict.fromkeys(names, of[channel]) if channel in of else {} for key, of in each.items()}

    def gives(self, axis: str) -> bool:
        """Whether the sweep has values of an axis, alone or together with others."""
        return getattr(self, axis) is not None or any(axis in axes for axes in self.together)

    def gives_way(self, way: str, axis: str) -> bool:
        """Whether the sweep has values of an axis of a link in a direction, for both or for this one."""
        return self.gives(axis) or self.gives(f"{way}_{axis}")

    def queue_of(self, way: str) -> int | None:
        """The capacity of the queue of a direction, in packets; None: the channel's."""
        return self.queue_packets or getattr(self, f"{way}_{QUEUE}")

    @property
    def channel_names(self) -> tuple[str, ...]:
        """The names of the channels in their order; () where rate, delay and packet error rate make them."""
        return tuple(dict.fromkeys(re.sub(r".*/|\.ya?ml$", "", name) for name in self.channel or ()))
