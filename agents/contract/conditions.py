"""The conditions of a run of an implementation: what a host must have before it (programs, files, modules, libraries),
and whether this host has it; what both sides must agree on; and the limits of its time, its space and its channel.

Implementations of a family can talk to each other if each term that both name has the same value; the values are
those of the family. `agents.contract.pairs` finds them.
"""

from __future__ import annotations

import ctypes
import importlib.util
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import BeforeValidator, Field, field_validator, model_validator

from owlt.agents.contract.placeholders import as_text
from owlt.agents.contract.side import Number, Text, Value, one_of
from owlt.inputs.mistake import Invalid, Mistake, Place, unexpected
from owlt.inputs.quantities import IpVersion
from owlt.inputs.validation import require_parameter

EMPTY_IN_RUNS = ("/tmp", "/var/tmp", "/dev/shm")
"""Directories of which each run has its own, in memory."""
ELSEWHERE = "for example to ~/.cache/owlt/third-party/NAME/bin: {third_party}/NAME/bin"
"""Where a program can be that is in one of them, and how a profile names this place."""


class Binary(Value):
    """A program that is not part of owlt, and where to find it on each host: names on PATH, or absolute paths."""

    search: Annotated[
        list[Text],
        Field(
            min_length=1,
            description="names, looked for on PATH, and absolute paths, in this order; may hold {third_party}",
        ),
    ]
    fix: Annotated[Text, Field(description="how to install it: a command or a sentence")]

    @field_validator("search")
    @classmethod
    def _check_names_or_absolute_paths(cls, places: list[str]) -> list[str]:
        for place in places:
            if "/" in place and not place.startswith(("/", "{")):
                raise Invalid(Mistake(f"got {place!r}", "a name, to be found on PATH, or an absolute path"))
        if all(place.startswith(tuple(f"{each}/" for each in EMPTY_IN_RUNS)) for place in places):
            fix = f"move the program, {ELSEWHERE} here"
            expected = f"a path not below {', '.join(EMPTY_IN_RUNS)}, which are empty in a run"
            raise Invalid(Mistake(f"got {places[0]!r}", expected, fix))
        return places


class Need(Value):
    """Something a host must have, and the command that installs it. Exactly one of the four kinds."""

    model_config = one_of("file", "command", "python_module", "library")

    file: Text | None = Field(default=None, description="an absolute path")
    command: Text | None = Field(default=None, description="a program on PATH")
    python_module: Text | None = Field(default=None, description="importable by the Python that runs owlt")
    library: Text | None = Field(default=None, description="a shared library by its soname, such as libnorm.so.1")
    fix: Annotated[Text, Field(description="the command that installs it")]

    @model_validator(mode="after")
    def _check_one_kind(self) -> Self:
        things = (self.file, self.command, self.python_module, self.library)
        if sum(thing is not None for thing in things) != 1:
            raise unexpected("exactly one of file, command, python_module, library")
        return self


def unmet(needs: Iterable[Need]) -> list[Need]:
    """The needs that this host does not meet, in the order given. `need.fix` is the command that installs one."""
    return [need for need in needs if not _is_met(need)]


def _is_met(need: Need) -> bool:
    if need.file is not None:
        return Path(need.file).exists()
    if need.command is not None:
        return shutil.which(need.command) is not None
    if need.python_module is not None:
        return importlib.util.find_spec(need.python_module) is not None
    return need.library is not None and _loads(need.library)


def _loads(soname: str) -> bool:
    try:
        ctypes.CDLL(soname)
    except OSError:
        return False
    return True


Parameter = Annotated[int | float | str, BeforeValidator(require_parameter)]


class Term(Value):
    """How an implementation takes one term of its family: a parameter of its profile, or a value that it always has."""

    model_config = one_of("parameter", "fixed")

    parameter: Text | None = Field(default=None, description="the parameter of the profile that has the value")
    fixed: Parameter | None = Field(default=None, description="the value, if the program has no other")
    values: dict[Text, Parameter] = Field(
        default={},
        description="the parameter's value for each value of the term, if they differ or not all are possible",
    )

    @model_validator(mode="after")
    def _check_one_kind(self) -> Self:
        if (self.parameter is None) == (self.fixed is None):
            raise unexpected("exactly one of parameter, fixed")
        if self.values and self.parameter is None:
            raise Invalid(Mistake("requires a parameter", fix="remove it", where=Place(key=("values",))))
        return self

    def of_parameter(self, value: Parameter) -> Parameter | None:
        """The value of the term that the parameter's value means; None: it means none of them."""
        if not self.values:
            return value
        return next((term for term, each in self.values.items() if as_text(each) == as_text(value)), None)

    def to_parameter(self, value: Parameter) -> Parameter | None:
        """The parameter's value for a value of the term; None: the implementation cannot have it."""
        return self.values.get(as_text(value)) if self.values else value


class Pairing(Value):
    """With whom an implementation can talk, and what must agree."""

    family: Annotated[
        Text, Field(description="text: its sender can talk to the receivers of this family, and the other way round")
    ]
    agree: Annotated[
        dict[Text, Term], Field(description="the terms of the family that it has in both roles; default: none")
    ] = {}
    sender: Annotated[dict[Text, Term], Field(description="further terms, of its sender alone; default: none")] = {}
    receiver: Annotated[dict[Text, Term], Field(description="further terms, of its receiver alone; default: none")] = {}

    @property
    def all_terms(self) -> set[str]:
        """The names of its terms, of either role."""
        return {*self.agree, *self.sender, *self.receiver}

    def terms(self, role: str) -> Mapping[str, Term]:
        """The terms that it has in a role."""
        return self.agree | (self.sender if role == "sender" else self.receiver)


class TimeLimit(Value):
    """The longest duration of a run: `rtts` round trips, `file_times` ideal transfers and `extra_s` seconds.

    A run for a given time has that time in place of the transfers.
    """

    rtts: Annotated[Number, Field(description="a number of round trips at the propagation delay")]
    file_times: Annotated[
        Number, Field(description="a number: multiples of the file's transmission time at the channel's rate")
    ]
    extra_s: Annotated[
        Number, Field(description="a number of additional seconds, for timers that do not depend on the channel")
    ]

    def deadline_s(
        self, rtt_s: float, file_size_bytes: int | None, rate_bps: float | None, duration_s: float = 0.0
    ) -> float:
        """Seconds of run time. An unlimited rate adds nothing for the file."""
        file_time_s = 8 * file_size_bytes / rate_bps if rate_bps and file_size_bytes else 0.0
        return self.rtts * rtt_s + self.file_times * file_time_s + duration_s + self.extra_s


class Limits(Value):
    """What the implementation cannot do: a run beyond these limits is "unsupported", and nothing is launched."""

    largest_file_bytes: int | None = Field(
        default=None, ge=1, description="size of the largest file that it accepts, in bytes; default: no limit"
    )
    slowest_rate_bps: Number | None = Field(
        default=None, description="lowest rate of the forward channel, in bit/s; default: no limit"
    )
    longest_one_way_delay_s: Number | None = Field(
        default=None, description="longest delay of the forward channel, in s; default: no limit"
    )
    ip_versions: tuple[IpVersion, ...] = Field(
        default=(4,), min_length=1, description="versions of IP that it can use; default: [4]"
    )

    def exceeded(
        self, file_size_bytes: int | None, rate_bps: float | None, one_way_delay_s: float, ip: int = 4
    ) -> str | None:
        """Why a run is beyond the limits; None if it is within. `file_size_bytes` None: it sends no file."""
        if ip not in self.ip_versions:
            known = " and ".join(f"IPv{version}" for version in self.ip_versions)
            return f"IPv{ip}; the profile's ip_versions are {known}"
        largest_bytes = self.largest_file_bytes
        if file_size_bytes is not None and largest_bytes is not None and file_size_bytes > largest_bytes:
            return f"a file of {file_size_bytes} bytes; the profile's largest_file_bytes is {largest_bytes}"
        if self.slowest_rate_bps is not None and rate_bps is not None and rate_bps < self.slowest_rate_bps:
            return f"{rate_bps:g} bit/s; the profile's slowest_rate_bps is {self.slowest_rate_bps:g}"
        if self.longest_one_way_delay_s is not None and one_way_delay_s > self.longest_one_way_delay_s:
            longest_s = self.longest_one_way_delay_s
            return f"{one_way_delay_s:g} s one way; the profile's longest_one_way_delay_s is {longest_s:g}"
        return None


Failure = Literal[
    "part_of_file",
    "wrong_file",
    "no_file",
    "unusable_file",
    "ended_early",
    "nothing_reported",
    "not_ready",
    "exited",
    "reported_failure",
    "killed",
    "flooded",
    "time_limit",
    "hung",
]
"""Reason codes of runs that fail because of the implementation: see `results.record`."""
INCOMPLETE_TRANSFER: tuple[Failure, ...] = ("part_of_file", "no_file", "time_limit")


class KnownLimit(Value):
    """Conditions under which the implementation is known to fail, how, and why. All that are given must be met."""

    why: Annotated[Text, Field(description="the reason, a sentence")]
    fails_with: tuple[Failure, ...] = Field(
        default=INCOMPLETE_TRANSFER,
        min_length=1,
        description="reason codes of the failures that it explains; default: part_of_file, no_file, time_limit",
    )
    file_bytes_above: Number | None = Field(
        default=None, description="it fails with files larger than this, in bytes; default: any size"
    )
    one_way_delay_s_above: Number | None = Field(
        default=None, description="it fails if the forward channel's delay is longer, in s; default: any delay"
    )
    packet_error_rate_above: Number | None = Field(
        default=None, description="it fails if the forward channel loses more, 0 to 1; default: any rate"
    )
    parameters: dict[Text, list[Parameter]] = Field(
        default={}, description="it fails if each of these parameters has one of these values; default: any values"
    )
    side: Literal["sender", "receiver"] | None = Field(
        default=None, description="the side that fails, for pairs with the other side; default: either"
    )

    def covers(
        self,
        code: str | None,
        file_size_bytes: int | None,
        one_way_delay_s: float,
        packet_error_rate: float,
        parameters: Mapping[str, Parameter],
    ) -> bool:
        """Whether a run with these conditions failed in this way."""
        bounds = (
            (self.file_bytes_above, file_size_bytes or 0),
            (self.one_way_delay_s_above, one_way_delay_s),
            (self.packet_error_rate_above, packet_error_rate),
        )
        is_beyond = all(bound is None or value > bound for bound, value in bounds)
        return code in self.fails_with and is_beyond and self.applies_to(parameters)

    def applies_to(self, parameters: Mapping[str, Parameter]) -> bool:
        """Whether an implementation with these parameters has the limit."""
        return all(
            name in parameters and as_text(parameters[name]) in map(as_text, values)
            for name, values in self.parameters.items()
        )


class Space(Value):
    """How much a side may write into its run directory: a multiple of the file size, plus a number of bytes."""

    file_sizes: Annotated[Number, Field(description="space for this many times the file size; default: 3")] = 3.0
    extra_bytes: Annotated[int, Field(ge=1, description="plus this many bytes; default: 64000000")] = 64_000_000

    def bytes_for(self, file_size_bytes: int) -> int:
        """The size of the run directory for a file."""
        return int(self.file_sizes * file_size_bytes) + self.extra_bytes
