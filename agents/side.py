"""One side of a build as data: its command, its files, what it is typed, its signs, how it is stopped.

Texts may hold {placeholders}; files are Jinja2 templates with the same names; patterns stand as they are written.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, Any, Self

import jinja2
import jinja2.meta
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from agents.placeholders import render

Text = Annotated[str, Field(min_length=1)]
Command = Annotated[list[str], Field(min_length=1)]
Port = Annotated[int, Field(ge=1, le=65535)]
Number = Annotated[float, Field(ge=0, allow_inf_nan=False)]


def _number_if_filled(value: object) -> object:
    """Text without a placeholder, or in which one was filled, has to read as a number."""
    if not isinstance(value, str) or "{" in value:
        return value
    if not re.fullmatch(r"\d+(\.\d+)?", value):
        raise ValueError("a number or a {placeholder}")
    return float(value)


def _port_if_filled(value: object) -> object:
    if not isinstance(value, str) or "{" in value:
        return value
    if not value.isdecimal():
        raise ValueError("a port or a {placeholder}")
    return int(value)


def _is_a_regular_expression(pattern: str) -> str:
    try:
        re.compile(pattern)
    except re.error as error:
        raise ValueError(f"a regular expression ({error})") from error
    return pattern


Pattern = Annotated[str, Field(min_length=1), AfterValidator(_is_a_regular_expression)]
PortText = Annotated[Port | Text, BeforeValidator(_port_if_filled)]
NumberText = Annotated[Number | Text, BeforeValidator(_number_if_filled)]


class Value(BaseModel):
    """A part of an implementation: frozen, and no key that is not known."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Ready(Value):
    """A sign that a side can be talked to, exactly one of four; without it in time, the run has failed."""

    line: Pattern | None = Field(default=None, description="regular expression that a line of output matches")
    udp_port: PortText | None = Field(default=None, description="bound; number or {placeholder}")
    tcp_port: PortText | None = Field(default=None, description="listening; number or {placeholder}")
    file: Text | None = Field(default=None, description="exists, in the run directory unless the path is whole")
    within_s: NumberText = Field(default=30.0, description="number or {placeholder}")

    @model_validator(mode="after")
    def _is_one_sign(self) -> Self:
        if sum(sign is not None for sign in (self.line, self.udp_port, self.tcp_port, self.file)) != 1:
            raise ValueError("exactly one of line, udp_port, tcp_port, file; leave ready out where there is no sign")
        return self


class Exchange(Value):
    """One step of a dialogue: wait until the program has printed something that matches, then type a line."""

    expect: Pattern | None = Field(default=None, description="regular expression; left out: type at once")
    send: str | None = Field(default=None, description="a line without its end; left out: only wait")
    within_s: NumberText = Field(default=10.0, description="number or {placeholder}")

    @model_validator(mode="after")
    def _does_something(self) -> Self:
        if self.expect is None and self.send is None:
            raise ValueError("expect, send, or both")
        return self


class Stop(Value):
    """How a program is asked to end. What has not ended after the grace is killed, with all that it started."""

    signal: Annotated[str, Field(pattern="^[A-Z0-9]+$", description="such as INT")] = "TERM"
    send: Text | None = Field(default=None, description="a line to type instead; needs a dialogue")
    grace_s: Number = 2.0


class Side(Value):
    """How one side is started, talked to and stopped. Without `ready` the other side may start at once."""

    command: Command
    environment: dict[str, str] = {}
    files: Annotated[
        dict[Text, str], Field(description="Jinja2 templates by name; written into the run directory first")
    ] = {}
    prepare: Annotated[list[Command], Field(description="short commands on this host, before the launch")] = []
    sysctls: Annotated[
        dict[Text, str], Field(description="of the host's network namespace, put back afterwards; an empty text: as is")
    ] = {}
    route: Annotated[
        dict[Text, str],
        Field(
            description="options of the route to the peer, see ip-route(8), put back afterwards; an empty text: none"
        ),
    ] = {}
    card_rate_bps: Annotated[
        NumberText | None,
        Field(description="rate of the host's interface, for a build that cannot pace itself; 0 leaves it as it is"),
    ] = None
    ready: Ready | None = None
    dialogue: Annotated[list[Exchange], Field(description="gives the program a terminal")] = []
    done_line: Pattern | None = Field(default=None, description="this side has ended once a line matches")
    stop: Stop = Stop()

    @model_validator(mode="after")
    def _can_be_typed_to(self) -> Self:
        if self.stop.send is not None and not self.dialogue:
            raise ValueError("stop.send only with a dialogue, which gives the program a terminal to type at")
        return self

    def templates(self) -> Iterator[tuple[str, str]]:
        """Where each text with placeholders stands in this side, and the text."""
        yield from _texts("", self.model_dump(exclude={"files"}, exclude_none=True))

    def templated_files(self) -> Iterator[tuple[str, str]]:
        """Each template file: where it stands, and its text."""
        for name, text in self.files.items():
            yield f"files.{name}", text

    def rendered(self, values: Mapping[str, str]) -> Self:
        """The same side with every placeholder filled and its files as they will be written."""
        tree = _filled("", self.model_dump(exclude={"files"}), lambda text: render([text], values)[0])
        tree["files"] = {name: TEMPLATES.from_string(text).render(values) for name, text in self.files.items()}
        return type(self).model_validate(tree)


TEMPLATES = jinja2.Environment(undefined=jinja2.StrictUndefined, keep_trailing_newline=True, autoescape=False)
_AS_WRITTEN = ("ready.line", "dialogue.expect", "done_line", "stop.signal")


def unknown_names(template: str, known: set[str]) -> list[str]:
    """The names in a Jinja2 template that nobody fills. Raises ValueError where it is not a template."""
    try:
        tree = TEMPLATES.parse(template)
    except jinja2.TemplateSyntaxError as error:
        raise ValueError(f"line {error.lineno}: {error.message}") from error
    return sorted(jinja2.meta.find_undeclared_variables(tree) - known)


def _texts(where: str, tree: Any) -> Iterator[tuple[str, str]]:
    if isinstance(tree, dict):
        for key, part in tree.items():
            yield from _texts(f"{where}.{key}" if where else key, part)
    elif isinstance(tree, list):
        for at, part in enumerate(tree):
            yield from _texts(f"{where}[{at}]", part)
    elif isinstance(tree, str) and not _stands_as_written(where):
        yield where, tree


def _filled(where: str, tree: Any, fill: Callable[[str], str]) -> Any:
    if isinstance(tree, dict):
        return {key: _filled(f"{where}.{key}" if where else key, part, fill) for key, part in tree.items()}
    if isinstance(tree, list):
        return [_filled(where, part, fill) for part in tree]
    return fill(tree) if isinstance(tree, str) and not _stands_as_written(where) else tree


def _stands_as_written(where: str) -> bool:
    return re.sub(r"\[\d+\]", "", where) in _AS_WRITTEN
