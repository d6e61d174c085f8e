"""`owlt channel`: the channels that are known, in words and drawn, and the emulator that has one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from agents.yaml_file import VALUE_ERRORS
from emulator.certification.power import POWER
from emulator.channel import DIRECTIONS, ChannelSpec
from emulator.client import EmulatorClient
from emulator.faults import EmulatorError
from emulator.quantities import parse_delay_ns
from emulator.service.access import read_token
from orchestrator.channel_words import (
    Rows,
    certificate_reasons,
    certificate_rows,
    counter_rows,
    link_rows,
    power_rows,
    step_rows,
)
from orchestrator.channels import channel_files, find_channel
from orchestrator.errors import OwltError

channel_app = typer.Typer(no_args_is_help=True, help="Channels: known ones, drawn, and the one an emulator has.")

out = Console(highlight=False, soft_wrap=True)

Name = Annotated[
    str, typer.Argument(metavar="NAME", help="A channel's name ('owlt channel list'), or the path of a YAML file.")
]
MaybeName = typer.Argument(metavar="NAME", help="A channel's name or file; without one, the emulator's.")
Url = Annotated[
    str, typer.Option("--emulator", envvar="OWLT_EMULATOR", help="The emulator, such as http://192.0.2.1:8765.")
]
TokenFile = Annotated[
    Path | None, typer.Option("--token-file", envvar="OWLT_TOKEN_FILE", help="The file with the emulator's token.")
]
Tolerance = Annotated[
    str | None,
    typer.Option(
        "--tolerance", help='How late packets may be for the clock\'s sake, such as "200 us", which it is if left out.'
    ),
]
Budget = Annotated[
    str | None,
    typer.Option(
        "--budget", help='How long the channel may take to send the probes of one measurement; default: "10 min".'
    ),
]
WIDE = 150
"""Columns for a certificate: a narrower terminal wraps its lines, which are read more easily than cells of a word."""
CaFile = Annotated[Path | None, typer.Option("--ca-file", help="The certificates that an https URL is checked with.")]
Fields = Annotated[list[str] | None, typer.Option(metavar="KEY=VALUE", help="Repeat for more than one.")]


@channel_app.command("list")
def channel_list() -> None:
    """List the channels that come with owlt."""
    rows: Rows = []
    for path in channel_files():
        profile = find_channel(str(path))
        rows.append((profile.name, profile.title))
    _print_table(("name", "what it is"), rows)


@channel_app.command("show")
def channel_show(
    name: Annotated[str | None, MaybeName] = None,
    figure: Annotated[Path | None, typer.Option("--out", help="FILE.svg, .pdf or .png; by default NAME.svg.")] = None,
    emulator: Url = "",
    token_file: TokenFile = None,
    ca_file: CaFile = None,
) -> None:
    """Tell what a channel is, and draw it; without a name, tell what the emulator has at this moment."""
    if name is None:
        if figure is not None:
            raise OwltError(f"--out {figure}: got no channel's name to draw; wanted one of 'owlt channel list'")
        with _talking(emulator, token_file, ca_file) as client:
            has, statistics, timeline = client.describe(), client.statistics(), client.timeline_status()
        out.print(f"the emulator at {client.url} has:")
        _print_channel(has)
        if has.timeline is not None:
            steps = f"{timeline['elapsed_s']:.3f} s, {timeline['steps_applied']} steps applied"
            out.print(f"timeline: {'running' if timeline['running'] else 'not running'}, {steps} {timeline['failure']}")
        if rows := counter_rows(statistics):
            out.print()
            _print_table(("since it was applied", *DIRECTIONS), rows, DIRECTIONS)
        return
    from orchestrator.channel_curves import curves_of
    from reports.channel_figure import FORMATS, draw_channel, save_channel

    profile = find_channel(name)
    path = figure or Path(f"{profile.name}.svg")
    if path.suffix not in FORMATS:
        raise OwltError(f"--out {path}: got {path.suffix or 'no ending'}, wanted one of {', '.join(FORMATS)}")
    canvas = draw_channel(curves_of(profile.channel), profile.title or profile.name)
    try:
        save_channel(canvas, path)
    except OSError as problem:
        raise OwltError(f"--out {path}: cannot be written: {problem.strerror}") from problem
    out.print(escape(f"{profile.name}: {profile.title}" if profile.title else profile.name), style="bold")
    _print_channel(profile.channel)
    if profile.source:
        out.print(f"source: {escape(profile.source)}")
    out.print(f"figure: {path}")


@channel_app.command("set")
def channel_set(
    name: Name,
    forward: Fields = None,
    reverse: Fields = None,
    both: Fields = None,
    start: Annotated[bool, typer.Option("--start", help="Begin the channel's timeline too.")] = False,
    emulator: Url = "",
    token_file: TokenFile = None,
    ca_file: CaFile = None,
) -> None:
    """Give the emulator a channel in place of the one it has, optionally with changed values.

    Values are written as in a profile: --both delay=300ms --forward jitter.amount=5ms --reverse rate=unlimited.
    """
    shared = fields_of(both or [])
    changes = {way: over(shared, fields_of(own or [])) for way, own in (("forward", forward), ("reverse", reverse))}
    channel = find_channel(name, {way: fields for way, fields in changes.items() if fields}).channel
    if start and channel.timeline is None:
        raise OwltError(f"--start: got the channel {name!r}, which has no timeline; next: leave out --start")
    with _talking(emulator, token_file, ca_file) as client:
        has = client.configure(channel)
        if start:
            _start_or_clear(client)
    out.print(f"the emulator at {client.url} has:")
    _print_channel(has)
    if channel.timeline is not None:
        out.print("timeline: begun" if start else "timeline: not begun; 'owlt channel set --start' begins it too")


@channel_app.command("change")
def channel_change(
    direction: Annotated[
        str | None, typer.Argument(metavar="DIRECTION", help="forward or reverse; leave it out with --both.")
    ] = None,
    fields: Annotated[
        list[str] | None, typer.Argument(metavar="KEY=VALUE...", help="As in a profile: delay=300ms.")
    ] = None,
    both: Fields = None,
    emulator: Url = "",
    token_file: TokenFile = None,
    ca_file: CaFile = None,
) -> None:
    """Change some values of one link, or of both with --both; other values and packets in flight stay as they are."""
    if both and (direction or fields):
        raise OwltError(f"--both: got {' '.join([direction or '', *(fields or [])])!r} too, wanted only one of them")
    if not both and (direction not in DIRECTIONS or not fields):
        given = " ".join([direction or "", *(fields or [])]).strip()
        raise OwltError(
            f"change: got {given!r}, wanted {' or '.join(DIRECTIONS)} and KEY=VALUE, or --both KEY=VALUE; "
            "next: owlt channel change forward delay=300ms"
        )
    changes = fields_of(both or fields or [])
    with _talking(emulator, token_file, ca_file) as client:
        has = client.change("both" if both else str(direction), **changes)
    out.print(f"the emulator at {client.url} has:")
    _print_channel(has)


@channel_app.command("clear")
def channel_clear(emulator: Url = "", token_file: TokenFile = None, ca_file: CaFile = None) -> None:
    """Take the emulator's channel away; what is in flight is lost."""
    with _talking(emulator, token_file, ca_file) as client:
        client.clear()
    out.print(f"the emulator at {client.url} has no channel: packets pass as they come")


@channel_app.command("bypass")
def channel_bypass(emulator: Url = "", token_file: TokenFile = None, ca_file: CaFile = None) -> None:
    """Make the emulator a plain bridge, in name too: the baseline."""
    with _talking(emulator, token_file, ca_file) as client:
        client.bypass()
    out.print(f"the emulator at {client.url} is a plain bridge")


@channel_app.command("certify")
def channel_certify(
    name: Annotated[str | None, MaybeName] = None,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the certificate to this file too.")] = None,
    tolerance: Tolerance = None,
    budget: Budget = None,
    emulator: Url = "",
    token_file: TokenFile = None,
    ca_file: CaFile = None,
) -> None:
    """Have the emulator measure a channel in place, and tell whether it is as asked: exit status 1 if it is not.

    No other traffic may pass meanwhile. Afterwards the emulator has its channel from before, changes included, and a
    timeline that was running resumes where it was. Samples are large enough to find, with a probability of 99 %, an
    error rate, loss rate or burst length that is wrong by a factor of 1.5 and a rate or delay that is wrong by 0.1 %;
    where that takes longer than --budget, what the sample can only exclude is printed.
    """
    options: dict[str, Any] = {} if tolerance is None else {"tolerance_ns": tolerance_ns(tolerance)}
    options |= {} if budget is None else {"budget_s": budget_s(budget)}
    profile = find_channel(name) if name is not None else None
    if json_file is not None and not json_file.parent.is_dir():
        raise OwltError(f"--json {json_file}: got a directory that is not there; next: mkdir -p {json_file.parent}")
    with _talking(emulator, token_file, ca_file) as client:
        certificate = client.certify(profile.channel if profile else client.describe(), options)
    numbers = ("asked", "measured", "at least", "at most", "count")
    _print_table(
        ("direction", "quantity", *numbers, "verdict"), certificate_rows(certificate), numbers, least_width=WIDE
    )
    out.print()
    title = f"what a sample of this size finds wrong, with a probability of {POWER:.0%}"
    _print_table(("direction", "quantity", "count", title), power_rows(certificate), ("count",), least_width=WIDE)
    for reason in certificate_reasons(certificate):
        out.print(escape(reason))
    verdict = certificate["verdict"]
    out.print(f"verdict: {verdict}", style={"ok": "green", "failed": "red"}.get(verdict, "yellow"))
    if json_file is not None:
        try:
            json_file.write_text(json.dumps(certificate, indent=2) + "\n", encoding="utf-8")
        except OSError as problem:
            raise OwltError(f"--json {json_file}: cannot be written: {problem.strerror}") from problem
        out.print(f"certificate: {json_file}")
    if verdict == "failed":
        raise typer.Exit(1)


def tolerance_ns(text: str) -> int:
    """What --tolerance says. Raises OwltError for what is no time, or none above 0."""
    try:
        given_ns = parse_delay_ns(text)
    except ValueError as problem:
        raise OwltError(f"--tolerance: {str(problem).removeprefix('delay: ')}") from problem
    if not 0 < given_ns <= 2 * 10**9:
        raise OwltError(f"--tolerance: got {text!r}, wanted more than 0 and at most 2 s, such as 200 us")
    return given_ns


def budget_s(text: str) -> float:
    """What --budget says. Raises OwltError for what is no time, or none above 0."""
    try:
        given_ns = parse_delay_ns(text)
    except ValueError as problem:
        raise OwltError(f"--budget: {str(problem).removeprefix('delay: ')}") from problem
    if given_ns <= 0:
        raise OwltError(f"--budget: got {text!r}, wanted more than 0, such as 1 min")
    return given_ns / 1e9


def fields_of(texts: list[str]) -> dict[str, Any]:
    """The keys and values of texts such as "delay=300ms"; "jitter.amount=5ms" is a key of a key.

    Raises OwltError for a text without "=", and for a key that is there twice.
    """
    fields: dict[str, Any] = {}
    for text in texts:
        key, equals, written = text.partition("=")
        if not key or not equals or not written:
            raise OwltError(f"field: got {text!r}, wanted KEY=VALUE, such as delay=300ms")
        *outer, last = key.split(".")
        inside = fields
        for part in outer:
            inside = inside.setdefault(part, {}) if isinstance(inside, dict) else inside
        if not isinstance(inside, dict) or last in inside:
            raise OwltError(f"field: got {key!r} twice, wanted it once")
        inside[last] = _value(key, written)
    return fields


def over(shared: dict[str, Any], own: dict[str, Any]) -> dict[str, Any]:
    """Both, key by key; where both have one, `own` is taken."""
    joined = shared | own
    for key, value in own.items():
        if isinstance(value, dict) and isinstance(shared.get(key), dict):
            joined[key] = over(shared[key], value)
    return joined


def _value(key: str, written: str) -> Any:
    try:
        value = YAML(typ="safe", pure=True).load(written)
    except (YAMLError, *VALUE_ERRORS):
        raise OwltError(f"{key}: got {written!r:.200}, wanted a value as in a profile, such as 300ms or 0.01") from None
    beyond_xml_rpc = isinstance(value, int) and abs(value) >= 2**31
    return float(value) if beyond_xml_rpc else value


def _start_or_clear(client: EmulatorClient) -> None:
    """A channel whose timeline does not begin is not left in place of one whose does."""
    try:
        client.timeline_start()
    except EmulatorError:
        client.clear()
        raise


@contextmanager
def _talking(url: str, token_file: Path | None, ca_file: Path | None) -> Iterator[EmulatorClient]:
    """A client of the emulator, whose errors are those of the command."""
    if not url:
        raise OwltError("--emulator: got none, wanted its URL there or in OWLT_EMULATOR, such as http://192.0.2.1:8765")
    try:
        token = read_token(token_file) if token_file is not None else None
        client = EmulatorClient(url, token=token, ca_file=ca_file)
    except OSError as problem:
        raise OwltError(f"token or CA file: {problem.strerror}: {problem.filename or ca_file}") from problem
    except ValueError as problem:
        raise OwltError(str(problem)) from problem
    try:
        yield client
    except EmulatorError as problem:
        raise OwltError(str(problem)) from problem


def _print_channel(channel: ChannelSpec) -> None:
    if channel.bypass:
        out.print("bypass: a plain bridge")
        return
    _print_table(("", *DIRECTIONS), link_rows(channel))
    if rows := step_rows(channel):
        out.print()
        _print_table(("from", "forward changes to", "reverse changes to"), rows)


def _print_table(headers: tuple[str, ...], rows: Rows, numbers: tuple[str, ...] = (), *, least_width: int = 0) -> None:
    """Print a table in which nothing is cut off, and its first column and those of `numbers` are not broken."""
    table = Table(box=None, header_style="bold")
    for header in headers:
        whole = header in (headers[0], *numbers)
        table.add_column(header, overflow="fold", no_wrap=whole, justify="right" if header in numbers else "left")
    for row in rows:
        table.add_row(*map(escape, row))
    console = Console(highlight=False, soft_wrap=True, width=max(least_width, out.width))
    console.print(table)
