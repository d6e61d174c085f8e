"""An implementation as data: how it is launched, when it is ready, when it is done, and how it is read from YAML.

limits.py, session_ports.py, requirements.py and side.py define its parts. `placeholders` fills their {placeholders};
starting, stopping and judging programs belongs to the orchestrator.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import jinja2
from pydantic import AfterValidator, BeforeValidator, Field, ValidationError, field_validator, model_validator
from pydantic.json_schema import SkipJsonSchema

from owlt.agents.contract.limits import KnownLimit, Limits, Space, TimeLimit
from owlt.agents.contract.pairing import Pairing
from owlt.agents.contract.pairing import Parameter as Parameter
from owlt.agents.contract.placeholders import (
    ERROR_RATES,
    LAUNCH_PLACEHOLDERS,
    RECEIVED_PLACEHOLDERS,
    RUN_PLACEHOLDERS,
    as_text,
    mistake_in,
    names_in,
    render,
)
from owlt.agents.contract.requirements import Binary, Need
from owlt.agents.contract.session_ports import PORT_KEYS, SessionPorts
from owlt.agents.contract.side import Command, Pattern, RunPath, Side, Text, Value, refuse_boolean, unknown_names
from owlt.inputs.mistake import Invalid, Key, Mistake, Place, did_you_mean, got, not_one_of, unexpected
from owlt.inputs.reader import NotYaml, read_yaml
from owlt.inputs.validation import Clock as Clock
from owlt.inputs.validation import mistakes_in

OF_A_FILE = frozenset({"file", "file_name", "file_dir", "received_file", "received_dir", "file_size_bytes"})
"""The placeholders that have no value if no file is sent."""
OF_A_DURATION = frozenset({"duration_s"})
"""The placeholders that have no value if a file is sent."""


def _check_one_group(pattern: str) -> str:
    if re.compile(pattern).groups != 1:
        raise unexpected("a regular expression with one group, the number of bytes, such as 'received_bytes=([0-9]+)'")
    return pattern


class Duration(Value):
    """The commands of both sides in a run that sends for a given time; everything else is as for a file."""

    sender: Annotated[Command, Field(description="the sender's command in such a run; {duration_s} is the time")]
    receiver: Annotated[Command, Field(description="the receiver's command in such a run; it stores no file")]
    received_bytes: Annotated[
        Pattern,
        AfterValidator(_check_one_group),
        Field(
            description="regular expression for the output of the receiver, with one group: the number of bytes of "
            "data that it received; the last match counts"
        ),
    ]

    def reported_bytes(self, output: str) -> int | None:
        """The number of bytes that a receiver with this output received; None if it does not report one."""
        numbers = [match[1] for match in re.finditer(self.received_bytes, output, re.MULTILINE)]
        return int(numbers[-1]) if numbers and numbers[-1].isdecimal() else None


class SessionNumber(Value):
    """Which parameter numbers the sessions of an implementation, and how many there are."""

    parameter: Annotated[Text, Field(description="the parameter with the number of a run's session or transaction")]
    bits: Annotated[int, Field(ge=1, le=64, description="length of the number; 0 follows the largest")]


Role = Literal["sender", "receiver"]
_NAME = r"^[a-z0-9][a-z0-9_.-]*(\+[A-Za-z0-9_.=-]+)*$"
"""The form of a name. Each + is followed by a parameter that a sweep varies, and its value."""


def _check_name(name: str) -> str:
    if not re.fullmatch(_NAME, name):
        raise unexpected("lower-case letters, digits, . _ and -, of which the first is a letter or a digit")
    return name


Name = Annotated[str, AfterValidator(_check_name), Field(json_schema_extra={"pattern": _NAME})]

ROLES: tuple[Role, Role] = ("sender", "receiver")
_LISTS = (*PORT_KEYS, "multicast_groups")
"""Keys of a session that may hold placeholders."""

Capability = Literal["IPC_LOCK", "NET_ADMIN", "SYS_NICE"]
"""The capabilities(7) that an implementation may have: none has an effect outside its host of the rig."""


class Implementation(Value):
    """An implementation that can be tested, and everything needed to launch it.

    Texts of the sides, of `session` and of `received_file` may hold the {placeholders} of
    `placeholders.RUN_PLACEHOLDERS`, the names under `binary` and the implementation's own `parameters`; those of
    `version_command` only {python}, {third_party} and the names under `binary`; a literal brace is written twice.
    """

    name: Annotated[Name, Field(description="the file name without .yaml: lower-case letters, digits, . _ and -")]
    title: Annotated[Text, Field(description="text: its name in figures")]
    protocol: Annotated[Text, Field(description="text: the name by which reports group implementations")]
    description: Annotated[Text, Field(description="text: what it is, and what users must know about it")]
    clocks: Annotated[
        list[Clock],
        Field(
            min_length=1,
            description="clocks that it works on; a program that waits in a busy loop needs real; default: all",
        ),
    ] = ["exact", "skip", "real"]
    binary: Annotated[
        dict[str, Binary],
        Field(description="programs that are not part of owlt, by placeholder, which becomes the program's path"),
    ] = {}
    needs: Annotated[list[Need], Field(description="what else a host must have; default: nothing")] = []
    version_command: Annotated[
        list[Text],
        Field(
            description="run on the sender, prints the version; {python}, {third_party} and the names under binary "
            "are available; default: version unknown"
        ),
    ] = []
    limits: Annotated[
        Limits, Field(description="what it cannot do: a run beyond is unsupported, and not launched; default: none")
    ] = Limits()
    known_limits: Annotated[
        list[KnownLimit],
        Field(description="conditions under which it is known to fail; shown beside a run that failed under them"),
    ] = []
    run_directory: Annotated[
        Space, Field(description="how much a side may write; default: three times the file size plus 64 MB")
    ] = Space()
    capabilities: Annotated[
        list[Capability],
        Field(
            description="privileges of its programs in addition to files, low ports and raw sockets: any of "
            "IPC_LOCK, NET_ADMIN, SYS_NICE; default: none"
        ),
    ] = []
    starts_first: Annotated[Role, Field(description="the side that is started first; default: receiver")] = "receiver"
    sender: Annotated[Side, Field(description="the side that has the file")]
    receiver: Annotated[Side, Field(description="the side that receives the file")]
    duration: Annotated[
        Duration | None,
        Field(description="how it sends for a given time instead of a file; default: it sends files only"),
    ] = None
    received_file: Annotated[
        Text,
        Field(
            description="path of the receiver's file; {run_dir}, {file_name} and the parameters are available; "
            "default: {run_dir}/received.bin"
        ),
    ] = "{run_dir}/received.bin"
    parameters: Annotated[
        dict[str, Parameter],
        Field(description="its own placeholders with their values, numbers or text, which a sweep may change or vary"),
    ] = {}
    choices: Annotated[
        dict[str, list[Parameter] | Literal["kernel_congestion_controls"]],
        Field(
            exclude=True,  # a plan has only values that were found among them
            description="the values that a parameter can have: a list, or kernel_congestion_controls, those of TCP in "
            "the sender's kernel; a sweep with another value is refused; default: any value",
        ),
    ] = {}
    session_number: Annotated[
        SessionNumber | None,
        Field(
            description="the parameter by which `owlt soak` numbers the transfers; default: they are not numbered",
        ),
    ] = None
    session: Annotated[SessionPorts, Field(description="which packets of a capture belong to it")]
    done: Annotated[
        Literal["both_exit", "receiver_exits", "sender_exits", "file_delivered"],
        Field(
            description="end of the run; file_delivered: the receiver's file has the sender's hash; default: both_exit"
        ),
    ] = "both_exit"
    unsupported_exit_status: Annotated[
        int,
        Field(ge=1, le=255, description="exit status of a side that cannot perform a permutation; default: 127"),
    ] = 127
    time_limit: Annotated[TimeLimit, Field(description="how long a run may take before it times out")]
    hang_s: Annotated[
        float,
        BeforeValidator(refuse_boolean),
        Field(
            ge=1,
            allow_inf_nan=False,
            description="a number of seconds of wall time without output of its guest, plus 30 s for each MB of "
            "the file, after which the run has hung; default: 60",
        ),
    ] = 60.0
    keep: Annotated[
        list[RunPath],
        Field(
            description="files of the run directory, on either side, of which the last 1 MB stays beside the record of "
            "a run that is not completed; default: none"
        ),
    ] = []
    not_repeatable: Annotated[
        Text | None,
        Field(
            description="a sentence: why it does not send the same packets for the same seed on the exact clock; "
            "default: it does"
        ),
    ] = None
    deterministic: Annotated[
        bool | dict[Text, Parameter],
        Field(
            description="whether neither side draws random numbers, or the parameters with which neither does: "
            "{backoff_factor: 0}; runs on the exact clock that differ only in the repetition or the packet error rate "
            "then share the start of their programs, which saves a third of their time or more; default: false"
        ),
    ] = False
    dissector: Annotated[
        list[Text],
        Field(
            description='the protocol of its packets, as options for tshark: [-d, "udp.port==5000,ltp"]; saratoga also '
            'works; [-d, "tcp.port==5000,data"]: the bytes of the connection are the bytes of the file'
        ),
    ] = []
    pairing: Annotated[
        Pairing | None,
        Field(
            exclude=True,  # a plan has the pairs that were made by it
            description="with whom its sides can talk, and what must agree; default: with each other only",
        ),
    ] = None
    pair: SkipJsonSchema[Pair | None] = None
    """The two implementations whose sides it has, if they are not the same one: `agents.contract.pairs` sets it."""

    @field_validator("received_file")
    @classmethod
    def _check_below_run_directory(cls, place: str) -> str:
        if not place.startswith("{run_dir}/") or ".." in place.split("/"):
            raise unexpected("a path below {run_dir}/, where no file of an earlier run can be")
        return place

    @model_validator(mode="after")
    def _check_placeholders(self) -> Self:
        if self.pair is not None:  # its sides are filled, and were checked, with what each has
            return self
        if mistakes := list(self._wrong_names()):
            raise Invalid(*mistakes)
        if shared := sorted(self.parameters.keys() & self.binary.keys()):
            problem = "the name is under binary too"
            raise Invalid(Mistake(problem, fix="rename one", where=Place(key=("parameters", shared[0]))))
        mistakes = list(self._wrong_placeholders()) or list(self._idle_parameters())
        mistakes = mistakes or [*self._wrong_choices(), *self._wrong_terms(), *self._wrong_limits()]
        mistakes += self._wrongly_deterministic()
        if self.session_number and self.session_number.parameter not in self.parameters:
            where = Place(key=("session_number", "parameter"))
            mistakes.append(not_one_of(self.session_number.parameter, self.parameters).at(where))
        if mistakes:
            raise Invalid(*mistakes)
        return self

    def _wrong_names(self) -> Iterator[Mistake]:
        """A mistake for each parameter and program whose name cannot be a placeholder."""
        for key in ("parameters", "binary"):
            for name in getattr(self, key):
                where = Place(key=(key, name))
                if not name.isidentifier():
                    yield Mistake("cannot stand between braces", "a name such as segment_bytes", where=where)
                elif name in RUN_PLACEHOLDERS:
                    yield Mistake(f"{{{name}}} is a placeholder of every run", fix="choose another name", where=where)

    @property
    def is_deterministic(self) -> bool:
        """Whether neither side draws random numbers, with the parameters that they have."""
        if isinstance(self.deterministic, bool):
            return self.deterministic
        return all(as_text(self.parameters[name]) == as_text(value) for name, value in self.deterministic.items())

    @property
    def is_given_error_rates(self) -> bool:
        """Whether a side is given an error rate of the channel."""
        return any(not self.used_by(role).isdisjoint(ERROR_RATES) for role in ROLES)

    def _wrongly_deterministic(self) -> Iterator[Mistake]:
        """A mistake if `deterministic` is true and a side gets the seed of the run; if it has parameters, one for each
        that does not exist, and for each value that a parameter cannot have."""
        if isinstance(self.deterministic, dict):
            yield from self._wrong_values(
                {name: [value] for name, value in self.deterministic.items()}, "deterministic"
            )
        elif self.deterministic and any("seed" in self.used_by(role) for role in ROLES):
            problem = "is true, but a side gets {seed}, which differs from repetition to repetition"
            fix = "remove one of them, or write the parameters with which the seed is not used"
            yield Mistake(problem, fix=fix, where=Place(key=("deterministic",)))

    def _wrong_terms(self) -> Iterator[Mistake]:
        """A mistake for each term under `pairing` with a parameter that does not exist."""
        for key in ("agree", *ROLES) if self.pairing else ():
            for name, term in getattr(self.pairing, key).items():
                if term.parameter is not None and term.parameter not in self.parameters:
                    where = Place(key=("pairing", key, name, "parameter"))
                    fix = did_you_mean(term.parameter, self.parameters)
                    yield Mistake(got(term.parameter), "a parameter of this profile", fix, where)

    def _wrong_limits(self) -> Iterator[Mistake]:
        """A mistake for each parameter under `known_limits` that does not exist, and each value that it cannot have."""
        for place, limit in enumerate(self.known_limits):
            yield from self._wrong_values(limit.parameters, "known_limits", place, "parameters")

    def _wrong_values(self, values: Mapping[str, list[Parameter]], *key: str | int) -> Iterator[Mistake]:
        """A mistake for each parameter below a key that does not exist, and each value that it cannot have."""
        for name, listed in values.items():
            where = Place(key=(*key, name))
            if name not in self.parameters:
                yield not_one_of(name, self.parameters).at(where)
            for value in listed:
                if not self.allows(name, value):
                    yield Mistake(got(value), "a value under 'choices'", where=where)

    def _wrong_choices(self) -> Iterator[Mistake]:
        """A mistake for each parameter under `choices` that does not exist, or whose default is not among them."""
        for name in self.choices:
            where = Place(key=("choices", name))
            if name not in self.parameters:
                expected, fix = f"one of {', '.join(self.parameters)}", did_you_mean(name, self.parameters)
                yield Mistake("is not a parameter", expected, fix, where)
            elif not self.allows(name, self.parameters[name]):
                value = self.parameters[name]
                yield Mistake(f"{value!r}, the value under 'parameters', is missing", fix="add it", where=where)

    def allows(self, parameter: str, value: Parameter) -> bool:
        """Whether a parameter can have a value, as far as its profile tells."""
        listed = self.choices.get(parameter)
        return not isinstance(listed, list) or as_text(value) in map(as_text, listed)

    def _wrong_placeholders(self) -> Iterator[Mistake]:
        """A mistake for each text with a placeholder that has no value."""
        known = RUN_PLACEHOLDERS.keys() | self.parameters.keys() | self.binary.keys()
        for where, text in self._templates():
            yield from _mistakes(where, text, known - OF_A_DURATION)
        yield from self._wrong_in_duration(known)
        for role in ROLES:
            for where, text in self.side(role).templated_files():
                yield from _mistakes_in_file((role, *where), text, set(known))
        yield from _mistakes(("received_file",), self.received_file, RECEIVED_PLACEHOLDERS | self.parameters.keys())
        for position, text in enumerate(self.version_command):
            yield from _mistakes(("version_command", position), text, LAUNCH_PLACEHOLDERS | self.binary.keys())
        for name, program in self.binary.items():
            for position, text in enumerate(program.search):
                yield from _mistakes(("binary", name, "search", position), text, {"third_party"})

    def _wrong_in_duration(self, known: Collection[str]) -> Iterator[Mistake]:
        """A mistake for each text of `duration` with a placeholder that has no value, and if the time is missing."""
        if self.duration is None:
            return
        for where, text in self._duration_templates():
            if mistake := mistake_in(text, known):
                yield mistake.below(*where)
            elif of_a_file := sorted(names_in(text) & OF_A_FILE):
                problem = f"{{{of_a_file[0]}}} has no value in a run that sends no file"
                yield Mistake(problem, fix="send data for {duration_s}, and store nothing", where=Place(key=where))
        texts = [text for _, text in self._duration_templates()]
        if not any("{duration_s}" in text for text in texts):
            where_at = Place(key=("duration",))
            yield Mistake("neither command has {duration_s}", "the time in one of the commands", where=where_at)
        if self.done == "file_delivered":
            fix = "write another 'done', or remove 'duration'"
            yield Mistake("a run that sends no file never delivers one", fix=fix, where=Place(key=("duration",)))

    def _duration_templates(self) -> Iterator[tuple[Key, str]]:
        if self.duration is not None:
            for role in ROLES:
                for place, text in enumerate(getattr(self.duration, role)):
                    yield ("duration", role, place), text

    def _idle_parameters(self) -> Iterator[Mistake]:
        """A mistake for each parameter that has no effect: in a sweep it would be a meaningless axis."""
        texts = [text for _, text in (*self._templates(), *self._duration_templates())]
        used = self.used_by("sender") | self.used_by("receiver")
        files = [text for role in ROLES for _, text in self.side(role).templated_files()]
        for name, value in self.parameters.items():
            if name not in used:
                fix = _use(name, used, texts, files)
                yield Mistake(f"{got(value)}, but nothing uses it", fix=fix, where=Place(key=("parameters", name)))

    def side(self, role: Role) -> Side:
        """The sender's or the receiver's side."""
        return self.sender if role == "sender" else self.receiver

    def has(self, role: Role) -> bool:
        """Whether it has this side: the command of one that it does not have is `exit` with the status for unsupported
        runs."""
        return self.side(role).command[-1] != f"exit {self.unsupported_exit_status}"

    def of(self, role: Role) -> Implementation:
        """The implementation that a side belongs to: itself, except in a pair."""
        return self.pair.side(role) if self.pair else self

    @property
    def members(self) -> tuple[Implementation, ...]:
        """The implementations that its sides belong to: itself, or the two of a pair."""
        return (self.pair.sender, self.pair.receiver) if self.pair else (self,)

    @property
    def planned(self) -> Implementation:
        """The implementation as a plan has it: without what is only needed to make pairs."""
        pair = self.pair and Pair(
            family=self.pair.family, sender=self.pair.sender.planned, receiver=self.pair.receiver.planned
        )
        return self.model_copy(update={"pairing": None, "pair": pair})

    def used_by(self, role: Role) -> set[str]:
        """The placeholders in a side's texts and files, in the session, and with the receiver in the file's path."""
        texts = [text for where, text in (*self._templates(), *self._duration_templates()) if self._is_of(role, where)]
        texts += [self.received_file] if role == "receiver" else []
        return {name for text in texts for name in names_in(text)} | self.side(role).names_in_files()

    @staticmethod
    def _is_of(role: Role, where: Key) -> bool:
        return role in where[:2] or where[0] == "session"

    def _templates(self) -> Iterator[tuple[Key, str]]:
        for role in ROLES:
            yield from (((role, *where), text) for where, text in self.side(role).templates())
        for kind in _LISTS:
            for at, text in enumerate(getattr(self.session, kind)):
                if isinstance(text, str):
                    yield ("session", kind, at), text

    @property
    def for_a_duration(self) -> Self:
        """The implementation with the commands that send for a given time; unchanged if it sends files only."""
        if self.duration is None:
            return self
        changes: dict[str, Any] = {
            role: self.side(role).model_copy(update={"command": getattr(self.duration, role)}) for role in ROLES
        }
        if self.pair is not None:
            changes["pair"] = self.pair.model_copy(update={role: self.of(role).for_a_duration for role in ROLES})
        return self.model_copy(update=changes)

    def with_parameters(self, changes: dict[str, Parameter]) -> Self:
        """The same implementation with other parameters. Raises ValueError for an unknown name."""
        unknown = sorted(changes.keys() - self.parameters.keys())
        if unknown:
            known = ", ".join(sorted(self.parameters)) or "none"
            raise ValueError(f"{self.name} has no parameter {unknown[0]!r}; it has: {known}")
        return self.model_copy(update={"parameters": {**self.parameters, **changes}})

    def received_at(self, run_dir: str, file_name: str) -> str:
        """The path of the receiver's file."""
        return render(
            [self.received_file], self.of("receiver")._parameter_texts | {"run_dir": run_dir, "file_name": file_name}
        )[0]

    def rendered(self, run_values: dict[str, str], programs: dict[str, str]) -> Self:
        """The implementation with every placeholder filled: the run's values, the paths of its programs, the
        parameters."""
        values = run_values | programs | self._parameter_texts
        return self.model_copy(
            update={
                "sender": self.sender.rendered(values),
                "receiver": self.receiver.rendered(values),
                "session": _rendered_session(self.session, values),
            }
        )

    @property
    def session_by_default(self) -> SessionPorts:
        """Ports and groups with the default parameters. Raises KeyError if they depend on a run."""
        if self.pair is not None:
            return self.session
        return _rendered_session(self.session, self._parameter_texts)

    @property
    def _parameter_texts(self) -> dict[str, str]:
        return {name: as_text(value) for name, value in self.parameters.items()}


class Pair(Value):
    """The two implementations of which a pair has one side each, with the parameters on which they agree."""

    family: str
    """What both talk."""
    sender: Implementation
    receiver: Implementation

    def side(self, role: Role) -> Implementation:
        """The implementation whose side plays this role."""
        return self.sender if role == "sender" else self.receiver


Implementation.model_rebuild()


def _rendered_session(session: SessionPorts, values: dict[str, str]) -> SessionPorts:
    lists = {kind: render(list(map(str, getattr(session, kind))), values) for kind in _LISTS}
    return SessionPorts.model_validate({"ports": session.ports, **lists})


def _mistakes(where: Key, template: str, known: Collection[str]) -> Iterator[Mistake]:
    if mistake := mistake_in(template, known):
        yield mistake.below(*where)


def _mistakes_in_file(where: Key, template: str, known: set[str]) -> Iterator[Mistake]:
    place = Place(key=where)
    try:
        unknown = unknown_names(template, known)
    except jinja2.TemplateSyntaxError as error:
        yield Mistake(f"is not a Jinja2 template: line {error.lineno}: {error.message}", where=place)
        return
    for name in unknown:
        fix = did_you_mean(name, known, f"known: {', '.join(sorted(known))}")
        yield Mistake(f"has {{{{ {name} }}}}, which has no value", fix=fix, where=place)


def _use(name: str, used: set[str], texts: list[str], files: list[str]) -> str:
    """How to use a parameter that nothing uses."""
    if any(f"{{{{{name}}}}}" in text for text in texts):
        return f"write {{{name}}}: doubled braces are literal"
    if any(f"{{{name}}}" in text for text in files):
        return f"in a file write {{{{ {name} }}}}"
    suggestion = did_you_mean(name, used)
    return f"{suggestion and f'{suggestion} Else '}write {{{name}}} where it belongs, or leave it out"


class ContractError(Invalid):
    """An implementation file that cannot be used, with every mistake in it."""


def load_implementation(path: Path) -> Implementation:
    """Read one implementation file. It must be named after the implementation.

    Raises:
        ContractError: no such file, not YAML, or not what the contract specifies.
    """
    try:
        document = read_yaml(path)
    except NotYaml as error:
        raise ContractError(*error.mistakes) from error
    if not isinstance(document.value, dict):
        fix = "start from another file of its folder"
        raise ContractError(Mistake(got(document.value), "keys and values", fix, Place(str(path))))
    try:
        implementation = Implementation.model_validate(document.value)
    except ValidationError as error:
        raise ContractError(*map(document.positions.located, mistakes_in(error, Implementation))) from error
    name, where = implementation.name, document.positions.place(("name",))
    if "+" in name:
        raise ContractError(Mistake(got(name), "a name without +, which separates parameters of a sweep", where=where))
    if name != path.stem:
        fix = "change the name or rename the file"
        raise ContractError(Mistake(got(name), f"{path.stem!r}, the name of the file", fix, where))
    return implementation
