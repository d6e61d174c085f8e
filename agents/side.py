"""One side of a build as data: its command, its files, what it is typed, its signs, how it is stopped.

Texts may hold {placeholders}; files are Jinja2 templates with the same names; patterns stand as they are written.
"""

import math
import re
from collections.abc import Callable, Iterator, Mapping
from difflib import get_close_matches
from typing import Annotated, Any, Self

import jinja2
import jinja2.meta
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from agents.placeholders import render

SIGNALS = ("TERM", "INT", "KILL", "HUP", "QUIT", "USR1", "USR2")
"""Those that ask a program to end, and those that programs give a meaning of their own; without SIG, as in kill(1)."""


def is_no_truth(value: object) -> object:
    """YAML has true and false, which Python takes for 1 and 0."""
    if isinstance(value, bool):
        raise ValueError("a number")
    return value


def _number_if_filled(value: object) -> object:
    """Text without a placeholder, or in which one was filled, has to read as a number."""
    if isinstance(value, str):
        if "{" in value:
            return value
        value = float(value) if re.fullmatch(r"[0-9]+(\.[0-9]+)?", value) else None
    if not isinstance(value, (int, float)) or isinstance(value, bool) or not 0 <= value < math.inf:
        raise ValueError("a number from 0 up, or a {placeholder}")
    return value


def _port_if_filled(value: object) -> object:
    if isinstance(value, str):
        if "{" in value:
            return value
        value = int(value) if re.fullmatch("[0-9]{1,5}", value) else None
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= 65535:
        raise ValueError("a port from 1 to 65535, or a {placeholder}")
    return value


def _ports_if_filled(value: object) -> object:
    ends = re.fullmatch("([0-9]{1,5})-([0-9]{1,5})", value) if isinstance(value, str) else None
    if ends is None:
        try:
            return _port_if_filled(value)
        except ValueError:
            raise ValueError('a port from 1 to 65535, a range such as "6000-6999", or a {placeholder}') from None
    first, last = int(ends[1]), int(ends[2])
    if not 1 <= first <= last <= 65535:
        raise ValueError("a range of ports from 1 to 65535, the lower one first")
    return f"{first}-{last}" if last > first else first


def _is_a_regular_expression(pattern: str) -> str:
    try:
        re.compile(pattern)
    except re.error as error:
        raise ValueError(f"a regular expression ({error}); a character that means itself has \\ before it") from error
    return pattern


def _is_below_the_run_directory(name: str) -> str:
    if name.startswith("/") or ".." in name.split("/"):
        raise ValueError("the name of a file below the run directory, where nothing outlives the run")
    return name


def _is_a_signal(name: object) -> object:
    if name in SIGNALS:
        return name
    near = get_close_matches(str(name).upper().removeprefix("SIG"), SIGNALS, n=1)
    choice = f"; did you mean {near[0]}?" if near else ""
    raise ValueError(f"a signal, without SIG: one of {', '.join(SIGNALS)}{choice}")


Text = Annotated[str, Field(min_length=1)]
Command = Annotated[list[str], Field(min_length=1)]
Port = Annotated[int, Field(ge=1, le=65535)]
Number = Annotated[float, BeforeValidator(is_no_truth), Field(ge=0, allow_inf_nan=False)]
Pattern = Annotated[str, Field(min_length=1), AfterValidator(_is_a_regular_expression)]
PortText = Annotated[
    Port | Annotated[str, Field(pattern=r"^[0-9]{1,5}$|\{")],
    BeforeValidator(_port_if_filled),
]
PortsText = Annotated[
    Port | Annotated[str, Field(pattern=r"^[0-9]{1,5}(-[0-9]{1,5})?$|\{")],
    BeforeValidator(_ports_if_filled),
]
NumberText = Annotated[
    Number | Annotated[str, Field(pattern=r"^[0-9]+(\.[0-9]+)?$|\{")],
    BeforeValidator(_number_if_filled),
]
RunPath = Annotated[str, Field(min_length=1), AfterValidator(_is_below_the_run_directory)]
Signal = Annotated[str, BeforeValidator(_is_a_signal), Field(json_schema_extra={"enum": list(SIGNALS)})]


class Value(BaseModel):
    """A part of an implementation: frozen, and no key that is not known."""

    model_config = ConfigDict(frozen=True, extra="forbid")


def one_of(*keys: str) -> ConfigDict:
    """What tells editors that exactly one of these keys has to be there."""
    return ConfigDict(json_schema_extra={"oneOf": [{"required": [key]} for key in keys]})


class Ready(Value):
    """A sign that a side can be talked to, exactly one of four; without it in time, the run has failed."""

    model_config = one_of("line", "udp_port", "tcp_port", "file")

    line: Pattern | None = Field(
        default=None, description="regular expression that a line of its output or errors matches"
    )
    udp_port: PortText | None = Field(default=None, description="the UDP port is bound; number or {placeholder}")
    tcp_port: PortText | None = Field(default=None, description="the TCP port listens; number or {placeholder}")
    file: Text | None = Field(
        default=None, description="the file exists, in the run directory unless its path begins with /"
    )
    within_s: NumberText = Field(
        default=30.0, description="how long to wait for it, in s; number or {placeholder}; left out: 30"
    )

    @model_validator(mode="after")
    def _is_one_sign(self) -> Self:
        if sum(sign is not None for sign in (self.line, self.udp_port, self.tcp_port, self.file)) != 1:
            raise ValueError("exactly one of line, udp_port, tcp_port, file; leave ready out where there is no sign")
        return self


class Exchange(Value):
    """One step of a dialogue: wait until the program has printed something that matches, then type a line."""

    expect: Pattern | None = Field(
        default=None,
        description="regular expression, to be found in what was printed since the last match; left out: type at once",
    )
    send: str | None = Field(default=None, description="the line to type, without its end; left out: only wait")
    within_s: NumberText = Field(
        default=10.0, description="how long to wait for it, in s; number or {placeholder}; left out: 10"
    )

    @model_validator(mode="after")
    def _does_something(self) -> Self:
        if self.expect is None and self.send is None:
            raise ValueError("expect, send, or both")
        return self


class Stop(Value):
    """How a program is asked to end. What has not ended after the grace is killed, with all that it started."""

    signal: Annotated[
        Signal, Field(description="for the program and all its children, by name without SIG; left out: TERM")
    ] = "TERM"
    send: Text | None = Field(default=None, description="a line to type instead of a signal; needs a dialogue")
    grace_s: Annotated[Number, Field(description="how long it has until it is killed, in s; left out: 2")] = 2.0


class Side(Value):
    """How one side is started, talked to and stopped. Without `ready` the other side may start at once."""

    command: Annotated[
        Command, Field(description='program and arguments, a list; no shell: for one write [sh, -c, "..."]')
    ]
    environment: Annotated[dict[str, str], Field(description="variables by name; values are text")] = {}
    files: Annotated[
        dict[RunPath, str], Field(description="Jinja2 templates by name; written into the run directory first")
    ] = {}
    prepare: Annotated[
        list[Command],
        Field(description="commands on this host before the launch, one after the other; each ends within 600 s"),
    ] = []
    sysctls: Annotated[
        dict[Text, str],
        Field(
            description="kernel settings of the host by name, put back afterwards; an empty text leaves one as it is"
        ),
    ] = {}
    route: Annotated[
        dict[Text, str],
        Field(
            description="options of the route to the peer, see ip-route(8), put back afterwards; an empty text: none"
        ),
    ] = {}
    card_rate_bps: Annotated[
        NumberText | None,
        Field(
            description="rate of the host's interface in bit/s, for a build that cannot pace itself; number or "
            "{placeholder}; 0 or left out: as it is, 1 Gbit/s"
        ),
    ] = None
    ready: Annotated[
        Ready | None,
        Field(description="the sign that the other side can be started; left out: it is started at once"),
    ] = None
    dialogue: Annotated[
        list[Exchange], Field(description="what it is typed, step by step; gives the program a terminal")
    ] = []
    done_line: Pattern | None = Field(
        default=None,
        description="regular expression: this side has ended well once a line of its output matches",
    )
    failed_line: Pattern | None = Field(
        default=None,
        description="regular expression: this side has ended badly once a line of its output matches",
    )
    stop: Annotated[
        Stop, Field(description="how it is asked to end when the run is over; left out: TERM, and 2 s later KILL")
    ] = Stop()

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

    def names_in_files(self) -> set[str]:
        """What the template files ask for. They have to be well-formed."""
        return set().union(*(_names(text) for text in self.files.values()))

    def rendered(self, values: Mapping[str, str]) -> Self:
        """The same side with every placeholder filled and its files as they will be written.

        Raises ValueError where something is filled with what it cannot be, or a file cannot be made.
        """
        tree = _filled("", self.model_dump(exclude={"files"}), lambda text: render([text], values)[0])
        tree["files"] = {name: _rendered_file(name, text, values) for name, text in self.files.items()}
        return type(self).model_validate(tree)


def _rendered_file(name: str, text: str, values: Mapping[str, str]) -> str:
    try:
        return TEMPLATES.from_string(text).render(values)
    except (jinja2.TemplateError, ArithmeticError, LookupError, TypeError, ValueError) as error:
        raise ValueError(f"files.{name}: {type(error).__name__}: {error}") from error


TEMPLATES = jinja2.Environment(undefined=jinja2.StrictUndefined, keep_trailing_newline=True, autoescape=False)
_AS_WRITTEN = ("ready.line", "dialogue.expect", "done_line", "failed_line", "stop.signal")


def unknown_names(template: str, known: set[str]) -> list[str]:
    """The names in a Jinja2 template that nobody fills. Raises ValueError where it is not a template."""
    try:
        return sorted(_names(template) - known)
    except jinja2.TemplateSyntaxError as error:
        raise ValueError(f"line {error.lineno}: {error.message}") from error


def _names(template: str) -> set[str]:
    return jinja2.meta.find_undeclared_variables(TEMPLATES.parse(template))


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
