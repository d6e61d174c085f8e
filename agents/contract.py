"""An implementation as data: how a build is launched, when it is ready, when it is done.

Values only. Reading them from YAML is `agents.load`, filling their {placeholders} is `agents.placeholders`;
starting, stopping and judging programs is left to the orchestrator.
"""

import math
import re
from collections.abc import Collection, Iterator
from difflib import get_close_matches
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, field_validator, model_validator

from agents.placeholders import (
    LAUNCH_PLACEHOLDERS,
    RECEIVED_PLACEHOLDERS,
    RUN_PLACEHOLDERS,
    as_text,
    check,
    names_in,
    render,
)
from agents.side import Number, PortsText, RunPath, Side, Text, Value, is_no_truth, one_of, unknown_names

Clock = Literal["exact", "skip", "real"]
Role = Literal["sender", "receiver"]
_NAME = r"^[a-z0-9][a-z0-9_.-]*(\+[A-Za-z0-9_.=-]+)*$"
"""After each + stands a parameter that a sweep varies, and its value."""


def _is_a_name(name: str) -> str:
    if not re.fullmatch(_NAME, name):
        raise ValueError("small letters, digits, . _ and -, of which the first is a letter or a digit")
    return name


def is_a_parameter(value: object) -> object:
    """The value of a parameter. Raises ValueError, with what was wanted, for what cannot be one."""
    if isinstance(value, list):
        raise ValueError("one value here; a list belongs into the sweep's own parameters, as one more axis of its grid")
    if value is None:
        raise ValueError('a number or text; an empty text is ""')
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        raise ValueError("a number or text; put quotes around it")
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError("a finite number or text")
    return value


Name = Annotated[str, AfterValidator(_is_a_name), Field(json_schema_extra={"pattern": _NAME})]
Parameter = Annotated[int | float | str, BeforeValidator(is_a_parameter)]

ROLES: tuple[Role, Role] = ("sender", "receiver")
EVERY_PORT = "1-65535"


_LISTS = ("udp_ports", "tcp_ports", "multicast_groups")
"""Of a session: what may hold placeholders."""


Capability = Literal["IPC_LOCK", "NET_ADMIN", "SYS_NICE"]
"""Of capabilities(7), those that a build may ask for: none of them reaches beyond its host of the rig."""


class SessionPorts(Value):
    """What belongs to the run in a capture, between the two test addresses. Numbers, ranges or {placeholders}."""

    ports: Literal["any"] | None = Field(
        default=None,
        description="any: every UDP and TCP port, for a build that has the kernel choose its ports; "
        "left out: those named here",
    )
    udp_ports: Annotated[
        list[PortsText],
        Field(description='UDP ports of either side; numbers, ranges such as "6000-6999", or {placeholders}'),
    ] = []
    tcp_ports: Annotated[
        list[PortsText],
        Field(description='TCP ports of either side; numbers, ranges such as "6000-6999", or {placeholders}'),
    ] = []
    multicast_groups: Annotated[
        list[Text], Field(description="IPv4 addresses or {placeholders} of groups that are sent to; left out: none")
    ] = []

    @model_validator(mode="after")
    def _names_ports_in_one_way(self) -> Self:
        if self.ports is not None and (self.udp_ports or self.tcp_ports):
            raise ValueError("either ports: any, or udp_ports and tcp_ports; leave one of them out")
        return self

    @property
    def in_captures(self) -> dict[str, list[int | str]]:
        """The fields of `captures.session.Session` that this is; any port is a range of all."""
        every: list[int | str] = [EVERY_PORT] if self.ports is not None else []
        return {
            "udp_ports": every or list(self.udp_ports),
            "tcp_ports": every or list(self.tcp_ports),
            "multicast_groups": list(self.multicast_groups),
        }


class TimeLimit(Value):
    """How long a run may take: `rtts` round trips, `file_times` ideal transfers and `extra_s` seconds."""

    rtts: Annotated[Number, Field(description="a number: how many round trips of light")]
    file_times: Annotated[
        Number, Field(description="a number: how many times what the file takes at the channel's rate")
    ]
    extra_s: Annotated[
        Number, Field(description="a number: s on top, for timers that know nothing of the channel's delay and rate")
    ]

    def deadline_s(self, rtt_s: float, file_size_bytes: int, rate_bps: float | None) -> float:
        """Seconds of run time. An unlimited rate adds nothing for the file."""
        file_time_s = 8 * file_size_bytes / rate_bps if rate_bps else 0.0
        return self.rtts * rtt_s + self.file_times * file_time_s + self.extra_s


class Limits(Value):
    """What the build is known to be unable to do: a run beyond is "unsupported", and nothing is launched."""

    largest_file_bytes: int | None = Field(
        default=None, ge=1, description="size of the largest file that it takes, in bytes; left out: none"
    )
    slowest_rate_bps: Number | None = Field(
        default=None, description="slowest rate of the forward channel, in bit/s; left out: none"
    )
    longest_one_way_delay_s: Number | None = Field(
        default=None, description="longest delay of the forward channel, in s; left out: none"
    )

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

    why: Annotated[Text, Field(description="the reason, a sentence")]
    file_bytes_above: Number | None = Field(
        default=None, description="it fails with files larger than this, in bytes; left out: any"
    )
    one_way_delay_s_above: Number | None = Field(
        default=None, description="it fails where the forward channel's delay is longer, in s; left out: any"
    )
    packet_error_rate_above: Number | None = Field(
        default=None, description="it fails where the forward channel loses more, 0 to 1; left out: any"
    )

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

    file_sizes: Annotated[Number, Field(description="room for so many times the file; left out: 3")] = 3.0
    extra_bytes: Annotated[int, Field(ge=1, description="and so many bytes; left out: 64000000")] = 64_000_000

    def bytes_for(self, file_size_bytes: int) -> int:
        """The size of the run directory for a file."""
        return int(self.file_sizes * file_size_bytes) + self.extra_bytes


class Binary(Value):
    """A program that is not ours, and where each host is searched for it: names on PATH, or absolute paths."""

    search: Annotated[
        list[Text],
        Field(
            min_length=1,
            description="names, which are looked for on PATH, and absolute paths, in this order; may hold {builds}",
        ),
    ]
    mend: Annotated[Text, Field(description="the command, or the sentence, that says how to get it")]

    @field_validator("search")
    @classmethod
    def _are_names_or_absolute(cls, places: list[str]) -> list[str]:
        for place in places:
            if "/" in place and not place.startswith(("/", "{")):
                raise ValueError(f"names, which are looked for on PATH, and absolute paths; {place!r} is neither")
        return places


class Need(Value):
    """Something a host must have, and the command that mends its lack. Exactly one of the four kinds."""

    model_config = one_of("file", "command", "python_module", "library")

    file: Text | None = Field(default=None, description="an absolute path")
    command: Text | None = Field(default=None, description="a program on PATH")
    python_module: Text | None = Field(default=None, description="importable by the Python that runs owlt")
    library: Text | None = Field(default=None, description="a shared library by its soname, such as libnorm.so.1")
    mend: Annotated[Text, Field(description="the command that gets it")]

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

    name: Annotated[Name, Field(description="as the file is called, without .yaml: small letters, digits, . _ and -")]
    title: Annotated[Text, Field(description="text: as figures name it")]
    protocol: Annotated[Text, Field(description="text: as reports group it")]
    description: Annotated[Text, Field(description="text: what it is, and what one must know of it")]
    clocks: Annotated[
        list[Clock],
        Field(
            min_length=1,
            description="those that it works on; one that waits without sleeping works on real alone; left out: all",
        ),
    ] = ["exact", "skip", "real"]
    binary: Annotated[
        dict[str, Binary],
        Field(description="programs that are not owlt's, by placeholder, which becomes the path that is found"),
    ] = {}
    needs: Annotated[list[Need], Field(description="what else a host must have; left out: nothing")] = []
    version_command: Annotated[
        list[Text],
        Field(
            description="run on the sender, prints the version; knows {python}, {builds} and the names under binary; "
            "left out: version unknown"
        ),
    ] = []
    limits: Annotated[
        Limits, Field(description="what it cannot do: a run beyond is unsupported, and not launched; left out: none")
    ] = Limits()
    known_limits: Annotated[
        list[KnownLimit],
        Field(description="where it is known to fail although it is launched; told beside a run that failed there"),
    ] = []
    run_directory: Annotated[
        Space, Field(description="how much a side may write; left out: three sizes of the file and 64 MB")
    ] = Space()
    capabilities: Annotated[
        list[Capability],
        Field(
            description="privileges of its programs beside those over files, low ports and raw sockets: any of "
            "IPC_LOCK, NET_ADMIN, SYS_NICE; left out: none"
        ),
    ] = []
    starts_first: Annotated[Role, Field(description="the side that is started first; left out: receiver")] = "receiver"
    sender: Annotated[Side, Field(description="the side that has the file")]
    receiver: Annotated[Side, Field(description="the side that gets the file")]
    received_file: Annotated[
        Text,
        Field(
            description="where the receiver's file appears; knows {run_dir}, {file_name} and the parameters; "
            "left out: {run_dir}/received.bin"
        ),
    ] = "{run_dir}/received.bin"
    parameters: Annotated[
        dict[str, Parameter],
        Field(
            description="placeholders of its own with their values, numbers or text, which a sweep may change or vary"
        ),
    ] = {}
    session: Annotated[SessionPorts, Field(description="which packets of a capture are its own")]
    done: Annotated[
        Literal["both_exit", "receiver_exits", "sender_exits", "file_whole"],
        Field(
            description="when the run is over; file_whole: the receiver's file has the right hash; left out: both_exit"
        ),
    ] = "both_exit"
    unsupported_exit_status: Annotated[
        int,
        Field(ge=1, le=255, description="a side that ends so says: I cannot do this permutation; left out: 127"),
    ] = 127
    time_limit: Annotated[TimeLimit, Field(description="how long a run may take before it has timed out")]
    hang_s: Annotated[
        float,
        BeforeValidator(is_no_truth),
        Field(
            ge=1,
            allow_inf_nan=False,
            description="a number: s of wall time without a sign of life of its guest, and 30 s more for each MB of "
            "the file, after which the run has hung; left out: 60",
        ),
    ] = 60.0
    keep: Annotated[
        list[RunPath],
        Field(
            description="files of the run directory, on either side, that stay beside the record of a run that is not "
            "completed, the last 1 MB of each; left out: none"
        ),
    ] = []
    not_repeatable: Annotated[
        Text | None,
        Field(
            description="why it does not send the same packets again for the same seed on the clock exact, a sentence; "
            "left out: it does"
        ),
    ] = None
    dissector: Annotated[
        list[Text],
        Field(
            description='what its packets are, as options for tshark: [-d, "udp.port==5000,ltp"]; also saratoga, which '
            'tshark lacks; [-d, "tcp.port==5000,data"]: the bytes of the connection are those of the file'
        ),
    ] = []

    @field_validator("received_file")
    @classmethod
    def _is_fresh_in_every_run(cls, place: str) -> str:
        if not place.startswith("{run_dir}/") or ".." in place.split("/"):
            raise ValueError("a place below {run_dir}/, where no file of an earlier run can lie")
        return place

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
        if wrong := list(self._wrong_placeholders()) or list(self._idle_parameters()):
            raise ValueError("\n".join(wrong))
        return self

    def _wrong_placeholders(self) -> Iterator[str]:
        """A line for each text that has a placeholder which nothing fills."""
        known = RUN_PLACEHOLDERS.keys() | self.parameters.keys() | self.binary.keys()
        for where, text in self._templates():
            yield from _complaint(where, text, known)
        for role in ROLES:
            for where, text in self.side(role).templated_files():
                yield from _complaint_of_file(f"{role}.{where}", text, set(known))
        yield from _complaint("received_file", self.received_file, RECEIVED_PLACEHOLDERS | self.parameters.keys())
        for position, text in enumerate(self.version_command):
            yield from _complaint(f"version_command[{position}]", text, LAUNCH_PLACEHOLDERS | self.binary.keys())
        for name, program in self.binary.items():
            for position, text in enumerate(program.search):
                yield from _complaint(f"binary.{name}.search[{position}]", text, {"builds"})

    def _idle_parameters(self) -> Iterator[str]:
        """A line for each parameter that changes nothing: in a sweep it would be an axis without a meaning."""
        texts = [text for _, text in self._templates()]
        used = {name for text in [*texts, self.received_file] for name in names_in(text)}
        used |= self.sender.names_in_files() | self.receiver.names_in_files()
        files = [text for role in ROLES for _, text in self.side(role).templated_files()]
        for name, value in self.parameters.items():
            if name not in used:
                yield f"parameters.{name}: got {value!r}, but nothing uses it; {_use(name, used, texts, files)}"

    def side(self, role: Role) -> Side:
        """The sender's or the receiver's side."""
        return self.sender if role == "sender" else self.receiver

    def _templates(self) -> Iterator[tuple[str, str]]:
        for role in ROLES:
            yield from ((f"{role}.{where}", text) for where, text in self.side(role).templates())
        for kind in _LISTS:
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
    def session_by_default(self) -> SessionPorts:
        """Ports and groups as the parameters' defaults make them. Raises KeyError where they depend on a run."""
        return _rendered_session(self.session, self._parameter_texts)

    @property
    def _parameter_texts(self) -> dict[str, str]:
        return {name: as_text(value) for name, value in self.parameters.items()}


def _rendered_session(session: SessionPorts, values: dict[str, str]) -> SessionPorts:
    lists = {kind: render(list(map(str, getattr(session, kind))), values) for kind in _LISTS}
    return SessionPorts.model_validate({"ports": session.ports, **lists})


def _complaint(where: str, template: str, known: Collection[str]) -> Iterator[str]:
    try:
        check(where, template, known)
    except ValueError as error:
        yield str(error)


def _complaint_of_file(where: str, template: str, known: set[str]) -> Iterator[str]:
    try:
        unknown = unknown_names(template, known)
    except ValueError as error:
        yield f"{where}: is not a Jinja2 template: {error}"
        return
    for name in unknown:
        near = get_close_matches(name, known, n=1)
        choice = f"did you mean {near[0]}?" if near else f"known here: {', '.join(sorted(known))}"
        yield f"{where}: has {{{{ {name} }}}}, which nothing fills; {choice}"


def _use(name: str, used: set[str], texts: list[str], files: list[str]) -> str:
    """How a parameter that nothing uses would be used."""
    if any(f"{{{{{name}}}}}" in text for text in texts):
        return f"it is written {{{name}}}: doubled braces are literal ones"
    if any(f"{{{name}}}" in text for text in files):
        return f"in a file it is written {{{{ {name} }}}}"
    near = get_close_matches(name, used, n=1)
    choice = f"did you mean {near[0]}? Else " if near else ""
    return f"{choice}write {{{name}}} where it belongs, or leave it out"
