"""What commands that compute a channel share: how a model becomes a command, options, and the files that are written.

The files are those of an ordinary channel: a profile, and beside it the trace that it names.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Protocol

import typer

from owlt.inputs.mistake import Invalid, Mistake
from owlt.orchestrator.commands.output import Printer
from owlt.orchestrator.commands.usage import Json, add_command, parsed
from owlt.orchestrator.errors import Missing, NoSuchFile, OwltError, ProfileError

if TYPE_CHECKING:
    from owlt.emulator.channel.channel_file import ChannelProfile
    from owlt.emulator.models.sky import GroundPoint


LINE_LENGTH = 115
BothFields = Annotated[
    list[str] | None,
    typer.Option("--both", metavar="KEY=VALUE", help="Value for both links, such as delay=300ms; repeat for more."),
]
ReverseFields = Annotated[
    list[str] | None,
    typer.Option(
        "--reverse", metavar="KEY=VALUE", help="Value for the reverse link, such as rate=2Mbit/s; repeat for more."
    ),
]
ForwardFields = Annotated[
    list[str] | None,
    typer.Option(
        "--forward", metavar="KEY=VALUE", help="Value for the forward link, such as rate=2Mbit/s; repeat for more."
    ),
]

Out = Annotated[
    Path | None,
    typer.Option("--out", metavar="FILE.yaml", help="Channel file to write, its trace beside it; default: its name."),
]
Hours = Annotated[float, typer.Option("--hours", metavar="COUNT", help="Length of the channel in hours.")]


Links = dict[str, dict[str, Any]]
"""The keys that are given for each link, forward and reverse."""


@dataclass(frozen=True)
class LinkOptions:
    """Values of the links that a model does not determine, as given on the command line."""

    forward: ForwardFields = None
    reverse: ReverseFields = None
    both: BothFields = None

    @property
    def links(self) -> Links:
        """Raises OwltError for a text that is not KEY=VALUE."""
        shared = fields_of("--both", self.both or [])
        own = {"forward": self.forward, "reverse": self.reverse}
        return {way: merged(shared, fields_of(f"--{way}", texts or [])) for way, texts in own.items()}


@dataclass(frozen=True)
class ComputedChannel:
    """The contents of the files of a channel."""

    title: str
    source: str
    links: Mapping[str, Mapping[str, Any]]
    """Keys of the links as written, below both, forward and reverse."""
    columns: Sequence[str] = ()
    """The columns of the trace, beside the time. None: the channel does not change, and has no trace."""
    rows: Sequence[Sequence[str]] = ()
    """The rows of the trace: the time in seconds, and a cell for each column."""
    timeline: Mapping[str, Any] = field(default_factory=dict)
    """Other keys of the timeline: contacts, outside, loop_after."""
    facts: Mapping[str, Any] = field(default_factory=dict)
    """What is worth printing about it."""
    default_name: str = ""
    """The name of the channel file, without its suffix."""


def seconds_text(seconds: float) -> str:
    """A time in the first column of a trace, to the microsecond."""
    return f"{seconds:.6f}".rstrip("0").rstrip(".")


def write_channel(channel: ComputedChannel, path: Path) -> ChannelProfile:
    """Write the two files, and return the profile as it is read back.

    Raises OwltError if either exists or cannot be written, ProfileError if the profile would be refused.
    """
    from owlt.emulator.channel.channel_file import parse_channel
    from owlt.emulator.faults import InvalidChannel
    from owlt.results.plain_files import real_root, write_whole

    trace = path.with_suffix(".csv")
    text, rows = _profile_text(channel, path.stem, trace.name), _trace_text(channel)
    try:
        profile = parse_channel(text, str(path), lambda _: rows)
    except InvalidChannel as problem:
        in_profile = [mistake for mistake in problem.mistakes if mistake.where.file == str(path)]
        raise ProfileError(*(in_profile or problem.mistakes)) from problem  # each row of the trace repeats them
    files = {path: text} | ({trace: rows} if channel.columns else {})
    for file in files:
        if file.exists():
            fix = "remove it, or give another name with --out"
            raise OwltError(Mistake.of(str(file), "this file exists already", fix=fix))
    try:
        for file in reversed(files):
            write_whole(real_root(file), files[file])
    except OSError as problem:
        raise OwltError(Mistake.of(f"--out {path}", f"cannot be written: {problem.strerror}")) from problem
    return profile


def _profile_text(channel: ComputedChannel, name: str, trace: str) -> str:
    links = {way: dict(keys) for way, keys in channel.links.items() if keys}
    timeline = {"trace": trace, **channel.timeline} if channel.columns else {}
    lines = [
        _line("name", name),
        _line("title", channel.title),
        "source: >",
        *_folded(channel.source),
        "",
        *(_line(way, keys) for way, keys in links.items()),
        *(["timeline:"] if timeline else []),
        *(f"  {_line(key, value)}" for key, value in timeline.items()),
    ]
    return "\n".join([*lines, ""])


def _trace_text(channel: ComputedChannel) -> str:
    lines = [f"# {channel.title}", ",".join(["t", *channel.columns]), *(",".join(row) for row in channel.rows)]
    return "\n".join([*lines, ""])


def _folded(text: str) -> list[str]:
    lines = [""]
    for word in text.split():
        if len(lines[-1]) + len(word) + 1 > LINE_LENGTH:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    return [f"  {line}" for line in lines]


def _line(key: str, value: Any) -> str:
    """A key and its value on one line of YAML."""
    from ruamel.yaml import YAML

    yaml = YAML(typ="safe", pure=True)
    yaml.default_flow_style = True
    yaml.width = 10**6
    stream = io.StringIO()
    yaml.dump({key: value}, stream)
    return stream.getvalue().strip()[1:-1]


def option_text(option: str, path: Path) -> str:
    """The text of a file that an option names. Raises NoSuchFile."""
    try:
        return path.read_text()
    except (OSError, UnicodeDecodeError):
        raise NoSuchFile(Mistake.of(f"{option} {path}", "no such file, or it is not text")) from None


def table_rows(path: Path) -> list[list[str]]:
    """The rows of the CSV file of --table, without comments. Raises NoSuchFile."""
    return [row for row in csv.reader(option_text("--table", path).splitlines()) if row and not row[0].startswith("#")]


MOST_STEPS = 100_000


def require_orbits(command: str) -> None:
    """Raise Missing if the Python packages that compute orbits are not installed."""
    try:
        import skyfield
        import skyfield_data  # noqa: F401
    except ImportError as problem:
        name = (problem.name or "skyfield").replace("_", "-")
        fix = "install the extra 'orbits': pip install 'owlt[orbits]'"
        raise Missing(Mistake.of(command, f"the Python package {name} is missing", fix=fix)) from problem
    del skyfield


def parse_date(text: str) -> datetime:
    """The moment of "2026-11-22" or "2026-11-22T14:30", which is in UTC. Raises OwltError."""
    from owlt.emulator.models.sky import FIRST_YEAR, LAST_YEAR

    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        expected = "a date, and a time in UTC if it is not midnight, such as 2026-11-22 or 2026-11-22T14:30"
        raise OwltError(Mistake.of("--date", f"got {text!r}", expected)) from None
    moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    if not FIRST_YEAR <= moment.year < LAST_YEAR:
        expected = f"a year from {FIRST_YEAR} to {LAST_YEAR - 1}, which the ephemeris covers"
        raise OwltError(Mistake.of("--date", f"got {text!r}", expected))
    return moment


def parse_point(option: str, text: str) -> GroundPoint:
    """A station by its name, or a point as "LATITUDE,LONGITUDE" in degrees, with a height in m or without.

    Raises OwltError.
    """
    from owlt.emulator.models.sky import STATIONS, GroundPoint

    if text.lower() in STATIONS:
        return STATIONS[text.lower()]
    expected = f"LATITUDE,LONGITUDE in degrees, such as 43.6,1.44, or one of {', '.join(STATIONS)}"
    try:
        latitude, longitude, *height = (float(part) for part in text.split(","))
        within = abs(latitude) <= 90 and abs(longitude) <= 360 and len(height) <= 1
    except ValueError:
        within = False
    if not within:
        raise OwltError(Mistake.of(option, f"got {text!r}", expected))
    return GroundPoint(f"{latitude:g},{longitude:g}", latitude, longitude, *height)


def parse_altitude_km(text: str) -> float:
    """The kilometres of "800km". Raises OwltError unless it is between 160 and 36,000 km."""
    match = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]+)?)\s*km\s*", text)
    if match is None or not 160 <= float(match[1]) <= 36_000:
        raise OwltError(Mistake.of("--altitude", f"got {text!r}", "160 km to 36000 km, such as 800km"))
    return float(match[1])


def moments_s(hours: float, step_s: float) -> list[float]:
    """The times of the steps in seconds, from 0 to the end. Raises OwltError if there are none or too many."""
    if hours <= 0:
        raise OwltError(Mistake.of("--hours", f"got {hours:g}", "more than 0"))
    if step_s < 0.001:
        raise OwltError(Mistake.of("--step", f"got {step_s:g}", "at least 0.001 (seconds)"))
    count = int(hours * 3600 / step_s) + 1
    if count < 2 or count > MOST_STEPS:
        problem = f"got {hours:g} h in steps of {step_s:g} s: {count} steps"
        raise OwltError(Mistake.of("--hours", problem, f"2 to {MOST_STEPS} steps", "change --hours or --step"))
    return [round(number * step_s, 9) for number in range(count)]


def fields_of(option: str, texts: list[str]) -> dict[str, Any]:
    """The keys and values of texts such as "delay=300ms"; "jitter.amount=5ms" is a key inside a key.

    `option` is where they were given. Raises OwltError for a text without "=", and for a key that appears twice.
    """
    fields: dict[str, Any] = {}
    for text in texts:
        key, equals, written = text.partition("=")
        if not key or not equals or not written:
            raise OwltError(Mistake.of(option, f"got {text!r}", "KEY=VALUE, such as delay=300ms"))
        *outer, last = key.split(".")
        inside = fields
        for part in outer:
            inside = inside.setdefault(part, {}) if isinstance(inside, dict) else inside
        if not isinstance(inside, dict) or last in inside:
            raise OwltError(Mistake.of(option, f"got {key!r} twice", "it once"))
        inside[last] = _value(key, written)
    return fields


def merged(shared: dict[str, Any], own: dict[str, Any]) -> dict[str, Any]:
    """The fields of both, key by key; if both have one, that of `own`."""
    fields = shared | own
    for key, value in own.items():
        if isinstance(value, dict) and isinstance(shared.get(key), dict):
            fields[key] = merged(shared[key], value)
    return fields


def parse_tolerance_ns(text: str) -> int:
    """The value of --tolerance in ns. Raises OwltError if it is not a duration above 0 and at most 2 s."""
    tolerance_ns = _parse_duration_ns("--tolerance", text)
    if not 0 < tolerance_ns <= 2 * 10**9:
        raise OwltError(Mistake.of("--tolerance", f"got {text!r}", "more than 0 and at most 2 s, such as 200 us"))
    return tolerance_ns


def parse_budget_s(text: str) -> float:
    """The value of --budget in seconds. Raises OwltError if it is not a duration above 0."""
    budget_ns = _parse_duration_ns("--budget", text)
    if budget_ns <= 0:
        raise OwltError(Mistake.of("--budget", f"got {text!r}", "more than 0, such as 1 min"))
    return budget_ns / 1e9


def _parse_duration_ns(option: str, text: str) -> int:
    from owlt.inputs.quantities import parse_delay_ns

    return round(parsed(option, text, parse_delay_ns))


def _value(key: str, written: str) -> Any:
    from ruamel.yaml.error import YAMLError

    from owlt.inputs.reader import VALUE_ERRORS, new_yaml

    try:
        value = new_yaml().load(written)
    except (Invalid, YAMLError, *VALUE_ERRORS):
        raise OwltError(
            Mistake.of(key, f"got {written!r:.200}", "a value as in a profile, such as 300ms or 0.01")
        ) from None
    beyond_xml_rpc = isinstance(value, int) and abs(value) >= 2**31
    return float(value) if beyond_xml_rpc else value


class Model(Protocol):
    """A model of a channel: a dataclass whose fields are its parameters, as options of the command line."""

    def compute(self, links: Links) -> ComputedChannel:
        """Compute the channel. Raises OwltError for parameters that do not go together."""
        ...


def add_model(app: typer.Typer, name: str, model: type[Model]) -> None:
    """Add the command of a model to a group. The text of its help page is the docstring of the model."""

    def command(model: Model, links: LinkOptions, out: Out = None, as_json: Json = False) -> None:
        channel = model.compute(links.links)
        path = out or Path(f"{channel.default_name}.yaml")
        printer = Printer(as_json)
        profile = write_channel(channel, path)
        about = {"name": profile.name, "title": profile.title, "path": path, "steps": len(channel.rows)}
        printer.json({**about, **channel.facts})
        printer.text(profile.title, style="bold")
        printer.keys({key: value for key, value in channel.facts.items() if value is not None})
        trace = f", trace: {path.with_suffix('.csv').name}" if channel.columns else ""
        printer.note(f"channel: {path}{trace}")

    command.__annotations__["model"] = model
    command.__doc__ = model.__doc__
    add_command(app, name)(command)


def parse_seconds(option: str, text: str) -> float:
    """The seconds of a duration such as "300 ms". Raises OwltError."""
    from owlt.inputs.quantities import parse_delay_ns

    return parsed(option, text, parse_delay_ns) / 1e9
