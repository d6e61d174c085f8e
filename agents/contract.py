"""An implementation as data: how a build is launched, when it is ready, when it is done.

Values only. Reading them from YAML is `agents.load`, filling their {placeholders} is `agents.placeholders`;
starting, stopping and judging programs is left to the orchestrator.
"""

import re
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from agents.placeholders import LAUNCH_PLACEHOLDERS, RUN_PLACEHOLDERS, as_text, check, render

Clock = Literal["exact", "skip", "real"]
Name = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_.-]*$")]
Text = Annotated[str, Field(min_length=1)]
Command = Annotated[list[Text], Field(min_length=1)]
Port = Annotated[int, Field(ge=1, le=65535)]
Number = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class _Value(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Ready(_Value):
    """A sign that a side can be talked to: a line of its output, or a bound UDP port. Exactly one."""

    line: str | None = Field(default=None, description="regular expression that a line of output matches")
    udp_port: Port | Text | None = Field(default=None, description="number or {placeholder}")

    @field_validator("line")
    @classmethod
    def _is_a_regular_expression(cls, line: str | None) -> str | None:
        try:
            re.compile(line or "")
        except re.error as error:
            raise ValueError(f"a regular expression ({error})") from error
        return line

    @model_validator(mode="after")
    def _is_one_sign(self) -> Self:
        if (self.line is None) == (self.udp_port is None):
            raise ValueError("exactly one of line, udp_port; leave ready out where there is no sign")
        return self


class Side(_Value):
    """How one side starts. Without `ready` the other side may start at once."""

    command: Command
    ready: Ready | None = None
    environment: dict[str, str] = {}


class SessionPorts(_Value):
    """What belongs to the run in a capture, between the two test addresses. Numbers or {placeholders}."""

    udp_ports: list[Port | Text] = []
    tcp_ports: list[Port | Text] = []
    multicast_groups: list[Text] = []


class TimeLimit(_Value):
    """How long a run may take: `rtts` round trips, `file_times` ideal transfers and `extra_s` seconds."""

    rtts: Number
    file_times: Number
    extra_s: Number

    def deadline_s(self, rtt_s: float, file_size_bytes: int, rate_bps: float | None) -> float:
        """Seconds of run time. An unlimited rate adds nothing for the file."""
        file_time_s = 8 * file_size_bytes / rate_bps if rate_bps else 0.0
        return self.rtts * rtt_s + self.file_times * file_time_s + self.extra_s


class Need(_Value):
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


class Implementation(_Value):
    """A build that can be tested, and all that is needed to launch it.

    Strings of the sides and of `session` may hold the {placeholders} of `agents.placeholders.RUN_PLACEHOLDERS` and the
    implementation's own `parameters`, those of `version_command` only {python}; a literal brace is doubled.
    `ready.line` is a regular expression and is taken as it stands.
    """

    name: Name
    title: Text
    protocol: Text
    description: Text
    clocks: Annotated[list[Clock], Field(min_length=1)] = ["exact", "skip", "real"]
    starts_first: Literal["receiver", "sender"] = "receiver"
    sender: Side
    receiver: Side
    parameters: dict[str, int | float | str] = {}
    session: SessionPorts
    done: Literal["both_exit", "receiver_exits"] = "both_exit"
    unsupported_exit_status: Annotated[int, Field(ge=1, le=255)] = 127
    time_limit: TimeLimit
    version_command: list[Text] = []
    needs: list[Need] = []
    dissector: list[Text] = []

    @field_validator("parameters")
    @classmethod
    def _parameters_are_placeholders(cls, parameters: dict[str, int | float | str]) -> object:
        for name in parameters:
            if not name.isidentifier():
                raise ValueError(f"names such as segment_bytes; {name!r} cannot stand between braces")
            if name in RUN_PLACEHOLDERS:
                raise ValueError(f"names of its own; {{{name}}} comes from the run: choose another name")
        return parameters

    @model_validator(mode="after")
    def _placeholders_are_known(self) -> Self:
        for where, text in self._templates():
            check(where, text, RUN_PLACEHOLDERS.keys() | self.parameters.keys())
        for position, text in enumerate(self.version_command):
            check(f"version_command[{position}]", text, LAUNCH_PLACEHOLDERS)
        return self

    def _templates(self) -> list[tuple[str, str]]:
        found: list[tuple[str, object]] = []
        for name, side in (("sender", self.sender), ("receiver", self.receiver)):
            found += [(f"{name}.command[{at}]", text) for at, text in enumerate(side.command)]
            found += [(f"{name}.environment.{key}", text) for key, text in side.environment.items()]
            found += [(f"{name}.ready.udp_port", side.ready.udp_port)] if side.ready else []
        for kind in ("udp_ports", "tcp_ports", "multicast_groups"):
            found += [(f"session.{kind}[{at}]", text) for at, text in enumerate(getattr(self.session, kind))]
        return [(where, text) for where, text in found if isinstance(text, str)]

    def with_parameters(self, changes: dict[str, int | float | str]) -> Self:
        """The same build with other parameters. Raises ValueError on a name that it does not have."""
        unknown = sorted(changes.keys() - self.parameters.keys())
        if unknown:
            known = ", ".join(sorted(self.parameters)) or "none"
            raise ValueError(f"{self.name} has no parameter {unknown[0]!r}; it has: {known}")
        return self.model_copy(update={"parameters": {**self.parameters, **changes}})

    def rendered(self, run_values: dict[str, str]) -> Self:
        """The same build with every placeholder filled from the run's values and the parameters."""
        values = run_values | {name: as_text(value) for name, value in self.parameters.items()}
        return self.model_copy(
            update={
                "sender": _rendered_side(self.sender, values),
                "receiver": _rendered_side(self.receiver, values),
                "session": _rendered_session(self.session, values),
            }
        )


def _rendered_side(side: Side, values: dict[str, str]) -> Side:
    ready = side.ready
    if ready and isinstance(ready.udp_port, str):
        ready = Ready(udp_port=int(render([ready.udp_port], values)[0]))
    environment = dict(zip(side.environment, render(list(side.environment.values()), values), strict=True))
    return Side(command=render(side.command, values), ready=ready, environment=environment)


def _rendered_session(session: SessionPorts, values: dict[str, str]) -> SessionPorts:
    def numbers(ports: list[int | str]) -> list[int | str]:
        return [int(text) for text in render([str(port) for port in ports], values)]

    return SessionPorts(
        udp_ports=numbers(session.udp_ports),
        tcp_ports=numbers(session.tcp_ports),
        multicast_groups=render(session.multicast_groups, values),
    )
