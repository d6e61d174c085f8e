"""One side of an implementation as data: its command, its files, its dialogue, the signs that it is ready and done, how
it is stopped.

Texts may hold {placeholders}; files are Jinja2 templates with the same names; patterns hold no placeholders.
"""

import math
import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Annotated, Any, Self

import jinja2
import jinja2.meta
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from owlt.agents.contract.placeholders import render
from owlt.agents.contract.ports import parse_ports
from owlt.inputs.mistake import Invalid, Key, Mistake, Place, did_you_mean, unexpected

SIGNALS = ("TERM", "INT", "KILL", "HUP", "QUIT", "USR1", "USR2")
"""Signals that end a program, and those that programs define themselves; without SIG, as in kill(1)."""


def refuse_boolean(value: object) -> object:
    """Refuse true and false, which Python takes for 1 and 0."""
    if isinstance(value, bool):
        raise unexpected("a number")
    return value


def _parse_number_if_filled(value: object) -> object:
    """A number, or text with a placeholder. Text whose placeholder was filled has to be a number."""
    if isinstance(value, str):
        if "{" in value:
            return value
        value = float(value) if re.fullmatch(r"[0-9]+(\.[0-9]+)?", value) else None
    if not isinstance(value, (int, float)) or isinstance(value, bool) or not 0 <= value < math.inf:
        raise unexpected("a number of at least 0, or a {placeholder}")
    return value


def _parse_port_if_filled(value: object) -> object:
    if isinstance(value, str) and "{" in value:
        return value
    try:
        ports = parse_ports(value)
    except Invalid:
        ports = range(0)
    if len(ports) != 1:
        raise unexpected("a port from 1 to 65535, or a {placeholder}")
    return ports[0]


def _parse_ports_if_filled(value: object) -> object:
    if isinstance(value, str) and "{" in value:
        return value
    try:
        ports = parse_ports(value)
    except Invalid:
        raise unexpected(
            'a port from 1 to 65535, a range such as "6000-6999", the lower one first, or a {placeholder}'
        ) from None
    return ports[0] if len(ports) == 1 else f"{ports[0]}-{ports[-1]}"


def _check_regular_expression(pattern: str) -> str:
    try:
        re.compile(pattern)
    except re.error as error:
        raise unexpected(
            f"a valid regular expression ({error})", fix="write \\ before a special character that is meant literally"
        ) from error
    return pattern


def _check_below_run_directory(name: str) -> str:
    if name.startswith("/") or ".." in name.split("/"):
        raise unexpected("the name of a file below the run directory, where nothing outlives the run")
    return name


def _check_signal(name: object) -> object:
    if name in SIGNALS:
        return name
    fix = did_you_mean(str(name).upper().removeprefix("SIG"), SIGNALS)
    raise unexpected(f"a signal, without SIG: one of {', '.join(SIGNALS)}", fix)


Text = Annotated[str, Field(min_length=1)]
Command = Annotated[list[str], Field(min_length=1)]
Port = Annotated[int, Field(ge=1, le=65535)]
Number = Annotated[float, BeforeValidator(refuse_boolean), Field(ge=0, allow_inf_nan=False)]
Pattern = Annotated[str, Field(min_length=1), AfterValidator(_check_regular_expression)]
PortText = Annotated[
    Port | Annotated[str, Field(pattern=r"^[0-9]{1,5}$|\{")],
    BeforeValidator(_parse_port_if_filled),
]
PortsText = Annotated[
    Port | Annotated[str, Field(pattern=r"^[0-9]{1,5}(-[0-9]{1,5})?$|\{")],
    BeforeValidator(_parse_ports_if_filled),
]
NumberText = Annotated[
    Number | Annotated[str, Field(pattern=r"^[0-9]+(\.[0-9]+)?$|\{")],
    BeforeValidator(_parse_number_if_filled),
]
RunPath = Annotated[str, Field(min_length=1), AfterValidator(_check_below_run_directory)]
Signal = Annotated[str, BeforeValidator(_check_signal), Field(json_schema_extra={"enum": list(SIGNALS)})]


class Value(BaseModel):
    """A part of an implementation: frozen, without unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid")


def one_of(*keys: str) -> ConfigDict:
    """Schema for editors: exactly one of these keys is required."""
    return ConfigDict(json_schema_extra={"oneOf": [{"required": [key]} for key in keys]})


class Ready(Value):
    """The sign that a side is ready, exactly one of five; if it does not come in time, the run has failed."""

    model_config = one_of("line", "udp_port", "tcp_port", "sctp_port", "file")

    line: Pattern | None = Field(
        default=None, description="regular expression that matches a line of its output or errors"
    )
    udp_port: PortText | None = Field(default=None, description="the UDP port is bound; number or {placeholder}")
    tcp_port: PortText | None = Field(
        default=None, description="a program listens on the TCP port; number or {placeholder}"
    )
    sctp_port: PortText | None = Field(
        default=None, description="a program listens on the SCTP port; number or {placeholder}"
    )
    file: Text | None = Field(
        default=None, description="the file exists, in the run directory unless its path begins with /"
    )
    within_s: NumberText = Field(
        default=30.0, description="how long to wait for it, in s; number or {placeholder}; default: 30"
    )

    @model_validator(mode="after")
    def _check_one_sign(self) -> Self:
        signs = (self.line, self.udp_port, self.tcp_port, self.sctp_port, self.file)
        if sum(sign is not None for sign in signs) != 1:
            raise unexpected(
                "exactly one of line, udp_port, tcp_port, sctp_port, file",
                fix="remove ready if the program gives none of these signs",
            )
        return self


class Exchange(Value):
    """One step of a dialogue: wait until the program has printed something that matches, then type a line."""

    expect: Pattern | None = Field(
        default=None,
        description="regular expression to match in the output since the last match; default: type at once",
    )
    send: str | None = Field(default=None, description="the line to type, without its line ending; default: only wait")
    within_s: NumberText = Field(
        default=10.0, description="how long to wait for it, in s; number or {placeholder}; default: 10"
    )

    @model_validator(mode="after")
    def _check_not_empty(self) -> Self:
        if self.expect is None and self.send is None:
            raise unexpected("expect, send, or both")
        return self


class Stop(Value):
    """How a program is stopped. A program that has not ended after the grace is killed, with all its children."""

    signal: Annotated[
        Signal, Field(description="for the program and all its children, by name without SIG; default: TERM")
    ] = "TERM"
    send: Text | None = Field(default=None, description="a line to type instead of a signal; needs a dialogue")
    grace_s: Annotated[Number, Field(description="time until it is killed, in s; default: 2")] = 2.0


class Order(Value):
    """What a running program is ordered by: a signal, or a line that is typed into its terminal."""

    model_config = one_of("signal", "send")

    signal: Signal | None = Field(
        default=None, description="a signal for the program and all its children, by name without SIG"
    )
    send: Text | None = Field(default=None, description="a line to type; needs a dialogue")

    @model_validator(mode="after")
    def _check_one(self) -> Self:
        if (self.signal is None) == (self.send is None):
            raise unexpected("either signal or send")
        return self


class Side(Value):
    """How one side is started, controlled and stopped. Without `ready` the other side starts at once."""

    command: Annotated[Command, Field(description='program and arguments, a list; for a shell write [sh, -c, "..."]')]
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
        Field(description="kernel settings of the host by name, restored afterwards; an empty string keeps the value"),
    ] = {}
    route: Annotated[
        dict[Text, str],
        Field(
            description="options of the route to the peer, see ip-route(8), restored afterwards; an empty string: none"
        ),
    ] = {}
    card_rate_bps: Annotated[
        NumberText | None,
        Field(
            description="rate of the host's interface in bit/s, for an implementation without pacing; number or "
            "{placeholder}; default: 0, which leaves 1 Gbit/s"
        ),
    ] = None
    ready: Annotated[
        Ready | None,
        Field(description="how to tell that the other side can be started; default: it is started at once"),
    ] = None
    dialogue: Annotated[
        list[Exchange], Field(description="what is typed to it, step by step; gives the program a terminal")
    ] = []
    done_line: Pattern | None = Field(
        default=None,
        description="regular expression: this side has succeeded if a line of its output matches",
    )
    failed_line: Pattern | None = Field(
        default=None,
        description="regular expression: this side has failed if a line of its output matches",
    )
    stop: Annotated[
        Stop, Field(description="how it is stopped when the run is over; default: TERM, and KILL after 2 s")
    ] = Stop()
    suspend: Annotated[
        Order | None,
        Field(
            description="how its transfer is suspended: when a link goes down, in a sweep with announce_outages, or at "
            "the times given under commands of a sweep or a test; default: not at all"
        ),
    ] = None
    resume: Annotated[
        Order | None,
        Field(description="how it is resumed: when both links are up again, or at the times given under commands"),
    ] = None
    cancel: Annotated[
        Order | None,
        Field(description="how its transfer is cancelled, at the times given under commands; default: not at all"),
    ] = None

    @model_validator(mode="after")
    def _check_terminal(self) -> Self:
        for key in ("stop", "suspend", "resume", "cancel"):
            order = getattr(self, key)
            if order is not None and order.send is not None and not self.dialogue:
                problem = "requires a dialogue, because only then does the program have a terminal"
                fix = f"add one, or {key} the program with a signal"
                raise Invalid(Mistake(problem, fix=fix, where=Place(key=(key, "send"))))
        if (self.suspend is None) != (self.resume is None):
            given, missing = ("suspend", "resume") if self.suspend else ("resume", "suspend")
            raise Invalid(Mistake(f"is given without {missing}", "both or neither", where=Place(key=(given,))))
        return self

    def templates(self) -> Iterator[tuple[Key, str]]:
        """The key of each text of this side that may hold placeholders, and the text."""
        yield from _texts((), self.model_dump(exclude={"files"}, exclude_none=True))

    def templated_files(self) -> Iterator[tuple[Key, str]]:
        """The key of each template file, and its text."""
        for name, text in self.files.items():
            yield ("files", name), text

    def names_in_files(self) -> set[str]:
        """The names that the template files use. They have to be well-formed."""
        return set().union(*(_names(text) for text in self.files.values()))

    def rendered(self, values: Mapping[str, str]) -> Self:
        """The side with every placeholder filled and its files as they will be written.

        Raises ValueError if a filled value is invalid, or if a file cannot be rendered.
        """
        tree = _filled((), self.model_dump(exclude={"files"}), lambda text: render([text], values)[0])
        tree["files"] = {name: _rendered_file(name, text, values) for name, text in self.files.items()}
        return type(self).model_validate(tree)


def _rendered_file(name: str, text: str, values: Mapping[str, str]) -> str:
    try:
        return TEMPLATES.from_string(text).render(values)
    except (jinja2.TemplateError, ArithmeticError, LookupError, TypeError, ValueError) as error:
        raise ValueError(f"files.{name}: {type(error).__name__}: {error}") from error


TEMPLATES = jinja2.Environment(undefined=jinja2.StrictUndefined, keep_trailing_newline=True, autoescape=False)
_LITERAL = (("ready", "line"), ("dialogue", "expect"), ("done_line",), ("failed_line",), ("stop", "signal"))
"""Keys of texts that hold no placeholders, without positions in lists."""


def unknown_names(template: str, known: set[str]) -> list[str]:
    """The names in a Jinja2 template that have no value. Raises jinja2.TemplateSyntaxError if it is not a template."""
    return sorted(_names(template) - known)


@cache
def _names(template: str) -> frozenset[str]:
    """The names that a template uses; of the few templates of a plan, thousands of times."""
    return frozenset(jinja2.meta.find_undeclared_variables(TEMPLATES.parse(template)))


def _texts(where: Key, tree: Any) -> Iterator[tuple[Key, str]]:
    if isinstance(tree, dict):
        for key, part in tree.items():
            yield from _texts((*where, key), part)
    elif isinstance(tree, list):
        for at, part in enumerate(tree):
            yield from _texts((*where, at), part)
    elif isinstance(tree, str) and not _is_literal(where):
        yield where, tree


def _filled(where: Key, tree: Any, fill: Callable[[str], str]) -> Any:
    if isinstance(tree, dict):
        return {key: _filled((*where, key), part, fill) for key, part in tree.items()}
    if isinstance(tree, list):
        return [_filled(where, part, fill) for part in tree]
    return fill(tree) if isinstance(tree, str) and not _is_literal(where) else tree


def _is_literal(where: Key) -> bool:
    return tuple(part for part in where if isinstance(part, str)) in _LITERAL
