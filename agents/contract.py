"""An implementation as data: how a build is launched, when it is ready, when it is done.

Values only. Reading them from YAML is `agents.load`, filling their {placeholders} is `agents.placeholders`;
starting, stopping and judging programs is left to the orchestrator.
"""

from collections.abc import Iterator
from difflib import get_close_matches
from typing import Annotated, Literal, Self

from pydantic import Field, field_validator, model_validator

from agents.placeholders import (
    LAUNCH_PLACEHOLDERS,
    RECEIVED_PLACEHOLDERS,
    RUN_PLACEHOLDERS,
    as_text,
    check,
    render,
)
from agents.side import Number, PortText, Side, Text, Value, unknown_names

Clock = Literal["exact", "skip", "real"]
Role = Literal["sender", "receiver"]
Name = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_.-]*(\+[A-Za-z0-9_.=-]+)*$")]
"""After each + stands a parameter that a sweep varies, and its value."""
Parameter = int | float | str

ROLES: tuple[Role, Role] = ("sender", "receiver")


class SessionPorts(Value):
    """What belongs to the run in a capture, between the two test addresses. Numbers or {placeholders}."""

    udp_ports: list[PortText] = []
    tcp_ports: list[PortText] = []
    multicast_groups: list[Text] = []


class TimeLimit(Value):
    """How long a run may take: `rtts` round trips, `file_times` ideal transfers and `extra_s` seconds."""

    rtts: Number
    file_times: Number
    extra_s: Number

    def deadline_s(self, rtt_s: float, file_size_bytes: int, rate_bps: float | None) -> float:
        """Seconds of run time. An unlimited rate adds nothing for the file."""
        file_time_s = 8 * file_size_bytes / rate_bps if rate_bps else 0.0
        return self.rtts * rtt_s + self.file_times * file_time_s + self.extra_s


class Limits(Value):
    """What the build is known to be unable to do: a run beyond is "unsupported", and nothing is launched."""

    largest_file_bytes: int | None = Field(default=None, ge=1)
    slowest_rate_bps: Number | None = None
    longest_one_way_delay_s: Number | None = None

    def exceeded(self, file_size_bytes: int, rate_bps: float | None, one_way_delay_s: float) -> str | None:
        """Why a run is beyond the limits; None when it is within."""
        if self.largest_file_bytes is not None and file_size_bytes > self.largest_file_bytes:
            return f"a file of {file_size_bytes} bytes; the profile's largest_file_bytes is {self.largest_file_bytes}"
        if self.slowest_rate_bps is not None and rate_bps is not None and rate_bps < self.slowest_rate_bps:
            return f"{rate_bps:g} bit/s; the profile's slowest_rate_bps is {self.slowest_rate_bps:g}"
        if self.longest_one_way_delay_s is not None and one_way_delay_s > self.longest_one_way_delay_s:
            longest_s = self.longest_one_way_delay_s
            return f"{one_way_delay_s:g} s one way; the profile's longest_one_way_delay_s is {longest_s:g}"
        return None


class KnownLimit(Value):
    """Where the build itself is known to fail although it is launched, and why. All that is given must be exceeded."""

    why: Text
    file_bytes_above: Number | None = None
    one_way_delay_s_above: Number | None = None
    packet_error_rate_above: Number | None = None

    def covers(self, file_size_bytes: int, one_way_delay_s: float, packet_error_rate: float) -> bool:
        """Whether a run lies there."""
        bounds = (
            (self.file_bytes_above, file_size_bytes),
            (self.one_way_delay_s_above, one_way_delay_s),
            (self.packet_error_rate_above, packet_error_rate),
        )
        return all(bound is None or value > bound for bound, value in bounds)


class Space(Value):
    """How much a side may write into its run directory: so many sizes of the file, and so many bytes."""

    file_sizes: Number = 3.0
    extra_bytes: int = Field(default=64_000_000, ge=1)

    def bytes_for(self, file_size_bytes: int) -> int:
        """The size of the run directory for a file."""
        return int(self.file_sizes * file_size_bytes) + self.extra_bytes


class Binary(Value):
    """A program that is not ours, and where each host is searched for it: names on the path, or whole paths."""

    search: Annotated[
        list[Text],
        Field(min_length=1, description="names on the path or whole paths, in this order; may hold {builds}"),
    ]
    mend: Text


class Need(Value):
    """Something a host must have, and the command that mends its lack. Exactly one of the four kinds."""

    file: Text | None = None
    command: Text | None = None
    python_module: Text | None = None
    library: Text | None = Field(default=None, description="soname")
    mend: Text

    @model_validator(mode="after")
    def _is_one_thing(self) -> Self:
        things = (self.file, self.command, self.python_module, self.library)
        if sum(thing is not None for thing in things) != 1:
            raise ValueError("exactly one of file, command, python_module, library")
        return self


class Implementation(Value):
    """A build that can be tested, and all that is needed to launch it.

    Texts of the sides, of `session` and of `received_file` may hold the {placeholders} of
    `agents.placeholders.RUN_PLACEHOLDERS`, the names under `binary` and the implementation's own `parameters`; those of
    `version_command` only {python}, {builds} and the names under `binary`; a literal brace is doubled.
    """

    name: Name
    title: Text
    protocol: Text
    description: Text
    clocks: Annotated[list[Clock], Field(min_length=1)] = ["exact", "skip", "real"]
    binary: Annotated[
        dict[str, Binary], Field(description="programs by placeholder, which becomes the path that is found")
    ] = {}
    needs: list[Need] = []
    version_command: list[Text] = []
    limits: Limits = Limits()
    known_limits: Annotated[list[KnownLimit], Field(description="told beside a run that failed there")] = []
    run_directory: Space = Space()
    starts_first: Role = "receiver"
    sender: Side
    receiver: Side
    received_file: Annotated[Text, Field(description="where the receiver's file appears")] = "{run_dir}/received.bin"
    parameters: Annotated[dict[str, Parameter], Field(description="of its own, which a sweep may change or vary")] = {}
    session: SessionPorts
    done: Annotated[
        Literal["both_exit", "receiver_exits", "sender_exits", "file_whole"],
        Field(description="file_whole: the receiver's file has the right hash"),
    ] = "both_exit"
    unsupported_exit_status: Annotated[int, Field(ge=1, le=255)] = 127
    time_limit: TimeLimit
    dissector: list[Text] = []

    @field_validator("parameters", "binary")
    @classmethod
    def _are_placeholders(cls, names: dict[str, object]) -> object:
        for name in names:
            if not name.isidentifier():
                raise ValueError(f"names such as segment_bytes; {name!r} cannot stand between braces")
            if name in RUN_PLACEHOLDERS:
                raise ValueError(f"names of its own; {{{name}}} comes from the run: choose another name")
        return names

    @model_validator(mode="after")
    def _placeholders_are_known(self) -> Self:
        if shared := sorted(self.parameters.keys() & self.binary.keys()):
            raise ValueError(f"parameters.{shared[0]}: got a name that stands under binary too; rename one")
        known = RUN_PLACEHOLDERS.keys() | self._own_names
        for where, text in self._templates():
            check(where, text, known)
        for role in ROLES:
            for where, text in self.side(role).templated_files():
                _check_file(f"{role}.{where}", text, set(known))
        check("received_file", self.received_file, RECEIVED_PLACEHOLDERS | self.parameters.keys())
        for position, text in enumerate(self.version_command):
            check(f"version_command[{position}]", text, LAUNCH_PLACEHOLDERS | self.binary.keys())
        for name, program in self.binary.items():
            for position, text in enumerate(program.search):
                check(f"binary.{name}.search[{position}]", text, {"builds"})
        return self

    @property
    def _own_names(self) -> set[str]:
        return {*self.parameters, *self.binary}

    def side(self, role: Role) -> Side:
        """The sender's or the receiver's side."""
        return self.sender if role == "sender" else self.receiver

    def _templates(self) -> Iterator[tuple[str, str]]:
        for role in ROLES:
            yield from ((f"{role}.{where}", text) for where, text in self.side(role).templates())
        for kind in ("udp_ports", "tcp_ports", "multicast_groups"):
            for at, text in enumerate(getattr(self.session, kind)):
                if isinstance(text, str):
                    yield f"session.{kind}[{at}]", text

    def with_parameters(self, changes: dict[str, Parameter]) -> Self:
        """The same build with other parameters. Raises ValueError on a name that it does not have."""
        unknown = sorted(changes.keys() - self.parameters.keys())
        if unknown:
            known = ", ".join(sorted(self.parameters)) or "none"
            raise ValueError(f"{self.name} has no parameter {unknown[0]!r}; it has: {known}")
        return self.model_copy(update={"parameters": {**self.parameters, **changes}})

    def received_at(self, run_dir: str, file_name: str) -> str:
        """Where the receiver's file appears."""
        return render([self.received_file], self._parameter_texts | {"run_dir": run_dir, "file_name": file_name})[0]

    def rendered(self, run_values: dict[str, str], programs: dict[str, str]) -> Self:
        """The same build with every placeholder filled: the run's values, the paths of its programs, the parameters."""
        values = run_values | programs | self._parameter_texts
        return self.model_copy(
            update={
                "sender": self.sender.rendered(values),
                "receiver": self.receiver.rendered(values),
                "session": _rendered_session(self.session, values),
            }
        )

    @property
    def _parameter_texts(self) -> dict[str, str]:
        return {name: as_text(value) for name, value in self.parameters.items()}


def _rendered_session(session: SessionPorts, values: dict[str, str]) -> SessionPorts:
    return SessionPorts.model_validate({kind: render([str(text) for text in texts], values) for kind, texts in session})


def _check_file(where: str, template: str, known: set[str]) -> None:
    try:
        unknown = unknown_names(template, known)
    except ValueError as error:
        raise ValueError(f"{where}: is not a Jinja2 template: {error}") from error
    if unknown:
        near = get_close_matches(unknown[0], known, n=1)
        choice = f"did you mean {near[0]}?" if near else f"known here: {', '.join(sorted(known))}"
        raise ValueError(f"{where}: has {{{{ {unknown[0]} }}}}, which nothing fills; {choice}")
