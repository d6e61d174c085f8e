"""The subcommands of `owlt channel`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from owlt.inputs.mistake import Mistake
from owlt.orchestrator.commands.computed_channels import (
    BothFields,
    LinkOptions,
    add_model,
    fields_of,
    parse_budget_s,
    parse_tolerance_ns,
)
from owlt.orchestrator.commands.link_channels import Coded, LandMobile
from owlt.orchestrator.commands.orbit_channels import L2, Leo, Mars, Moon, Planet, SatellitePass
from owlt.orchestrator.commands.output import Printer
from owlt.orchestrator.commands.usage import (
    Channel,
    ChannelOrNone,
    Json,
    LabRigOption,
    StartTimeline,
    add_command,
    new_app,
)
from owlt.orchestrator.errors import OwltError

if TYPE_CHECKING:
    from owlt.emulator.channel.channel_file import ChannelProfile
    from owlt.emulator.channel.spec import ChannelSpec
    from owlt.emulator.service.client import EmulatorClient

channel_app = new_app("Show, compute and set channels.")

DIRECTIONS = ("forward", "reverse")
CERTIFICATE_COLUMNS = 150
"""The least width of a certificate: wrapped lines are easier to read than cells of one word."""
VERDICT_STYLES = {"ok": "green", "failed": "red"}

Url = Annotated[
    str,
    typer.Option(
        "--emulator", metavar="URL", envvar="OWLT_EMULATOR", help="URL of the emulator, such as http://192.0.2.1:8765."
    ),
]
TokenFile = Annotated[
    Path | None,
    typer.Option("--token-file", metavar="FILE", envvar="OWLT_TOKEN_FILE", help="File with the emulator's token."),
]
CaFile = Annotated[
    Path | None,
    typer.Option(
        "--ca-file",
        metavar="FILE",
        envvar="OWLT_CA_FILE",
        help="CA certificates for an https URL; default: the system's.",
    ),
]
Tolerance = Annotated[
    str | None,
    typer.Option("--tolerance", metavar="TIME", help='Delay error that the clock may cause; default: "200 us".'),
]
Budget = Annotated[
    str | None,
    typer.Option(
        "--budget", metavar="TIME", help='Time limit for sending the probes of one measurement; default: "10 min".'
    ),
]


@dataclass(frozen=True)
class Access:
    """How to reach an emulator: its URL and files, or the inventory of its lab rig."""

    url: Url = ""
    token_file: TokenFile = None
    ca_file: CaFile = None
    rig: LabRigOption = None


NO_ACCESS, NO_LINKS = Access(), LinkOptions()
"""Nothing is given on the command line."""


@add_command(channel_app, "list")
def list_channels(as_json: Json = False) -> None:
    """List the channels that come with owlt."""
    from owlt.orchestrator.profiles.catalogue import channel_files, find_channel

    channels = (
        {"name": profile.name, "title": profile.title, "path": path}
        for path in channel_files()
        for profile in [find_channel(str(path))]
    )
    Printer(as_json).listing(channels, "name", "title")


@add_command(channel_app, "packets")
def list_packets(as_json: Json = False) -> None:
    """List the classes of packets that faults can be aimed at."""
    from owlt.emulator.channel.aimed_fault import named_classes

    classes = (
        {"name": name, "meaning": meaning, "filter": expression}
        for name, (expression, meaning) in named_classes().items()
    )
    Printer(as_json).listing(classes, "name", "meaning")


@add_command(channel_app, "show")
def show_channel(
    channel: ChannelOrNone = None,
    figure: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="Draw the channel too: FILE.svg, .pdf or .png.")
    ] = None,
    access: Access = NO_ACCESS,
    as_json: Json = False,
) -> None:
    """Show a channel, or the emulator's current channel.

    Without CHANNEL, the emulator's counters and the state of its timeline are shown too.
    """
    from owlt.orchestrator.profiles.catalogue import find_channel

    printer = Printer(as_json)
    if channel is not None:
        _show_profile(printer, find_channel(channel), figure)
    elif figure is not None:
        raise OwltError(
            Mistake.of(f"--out {figure}", "CHANNEL is missing", fix="name the channel to draw ('owlt channel list')")
        )
    else:
        _show_emulator(printer, access)


@add_command(channel_app, "check")
def check_channel(channel: Channel, as_json: Json = False) -> None:
    """Check a channel file.

    Exit status: 0 if it is valid, 2 if not; each mistake is printed on a line of its own.
    """
    from owlt.orchestrator.profiles.catalogue import find_channel, profile_path

    printer = Printer(as_json)
    path, profile = profile_path("channel", channel), find_channel(channel)
    printer.json({"name": profile.name, "path": path, "valid": True})
    printer.text(f"{path}: valid")


@add_command(channel_app, "set")
def set_channel(
    channel: Channel,
    links: LinkOptions = NO_LINKS,
    start: StartTimeline = False,
    access: Access = NO_ACCESS,
    as_json: Json = False,
) -> None:
    """Configure the emulator with a channel.

    Values are written as in a profile: --both delay=300ms --forward jitter.amount=5ms --reverse rate=unlimited.
    """
    from owlt.orchestrator.profiles.catalogue import find_channel

    printer = Printer(as_json)
    spec = find_channel(channel, {way: fields for way, fields in links.links.items() if fields}).channel
    if start and spec.timeline is None:
        raise OwltError(Mistake.of("--start", f"the channel {channel!r} has no timeline", fix="leave out --start"))
    with _connected(access) as client:
        configured = client.configure(spec)
        if start:
            _start_or_clear(client)
    _print_current(printer, client, configured)
    if spec.timeline is not None:
        printer.note("timeline: started" if start else "timeline: not started; start it with: owlt channel set --start")


@add_command(channel_app, "change")
def change_channel(
    direction: Annotated[
        str | None, typer.Argument(metavar="DIRECTION", help="forward or reverse; leave it out with --both.")
    ] = None,
    fields: Annotated[
        list[str] | None, typer.Argument(metavar="KEY=VALUE...", help="Values as in a profile, such as delay=300ms.")
    ] = None,
    both: BothFields = None,
    access: Access = NO_ACCESS,
    as_json: Json = False,
) -> None:
    """Change values of one link or of both links.

    Other values stay, and packets in flight are not affected. For example: owlt channel change reverse delay=300ms
    """
    words = " ".join([*filter(None, [direction]), *(fields or [])])
    if both and words:
        raise OwltError(Mistake.of("--both", f"cannot be combined with {words!r}", fix="give one of them"))
    if not both and (direction not in DIRECTIONS or not fields):
        raise OwltError(
            Mistake.of(
                "channel change",
                f"got {words!r}" if words else "DIRECTION is missing",
                f"{' or '.join(DIRECTIONS)} and KEY=VALUE, or --both KEY=VALUE",
                "for example: owlt channel change forward delay=300ms",
            )
        )
    changes = fields_of("--both", both) if both else fields_of("channel change", fields or [])
    with _connected(access) as client:
        changed = client.change("both" if both else str(direction), **changes)
    _print_current(Printer(as_json), client, changed)


@add_command(channel_app, "clear")
def clear_channel(access: Access = NO_ACCESS) -> None:
    """Remove the emulator's channel; packets in flight are lost."""
    with _connected(access) as client:
        client.clear()
    Printer().note(f"the emulator at {client.url} has no channel: packets pass unchanged")


@add_command(channel_app, "bypass")
def bypass_channel(access: Access = NO_ACCESS) -> None:
    """Make the emulator a transparent bridge: the baseline."""
    with _connected(access) as client:
        client.bypass()
    Printer().note(f"the emulator at {client.url} is a transparent bridge (bypass)")


@add_command(channel_app, "certify")
def certify_channel(
    channel: ChannelOrNone = None,
    tolerance: Tolerance = None,
    budget: Budget = None,
    access: Access = NO_ACCESS,
    as_json: Json = False,
) -> None:
    """Measure whether a channel matches its settings.

    No other traffic may cross the channel during the measurement. Afterwards, the emulator's previous channel is
    restored as it was, including values changed since it was set, and its timeline resumes where it left off. The
    samples are large enough to detect, with a probability of 99 %, an error rate, loss rate or burst length that is
    wrong by a factor of 1.5, and a rate or delay that is wrong by 0.1 %. If that takes longer than --budget, the
    samples are smaller, and the deviations that they can rule out are printed.

    With --rig virtual, the channel is measured in a guest on the clock exact, as a sweep does it, without a kernel with
    netem or a running emulator.

    Exit status: 0 if the channel is as specified or could not be measured, 1 if it failed certification.
    """
    from owlt.orchestrator.profiles.catalogue import find_channel

    options: dict[str, Any] = {} if tolerance is None else {"tolerance_ns": parse_tolerance_ns(tolerance)}
    options |= {} if budget is None else {"budget_s": parse_budget_s(budget)}
    printer = Printer(as_json)
    profile = find_channel(channel) if channel is not None else None
    if access.rig == IN_GUEST:
        certificate = _certified_in_guest(profile, options)
    else:
        from owlt.orchestrator.profiles.inventory import require_inventory

        require_inventory(access.rig, [IN_GUEST])
        with _connected(access) as client:
            certificate = client.certify(profile.channel if profile else client.describe(), options)
    printer.json(certificate)
    _print_certificate(printer, certificate)
    if certificate["verdict"] == "failed":
        raise typer.Exit(1)


IN_GUEST = "virtual"


def _certified_in_guest(profile: ChannelProfile | None, options: dict[str, Any]) -> dict[str, Any]:
    from owlt.orchestrator.commands.machine import needed_kernel
    from owlt.orchestrator.hosts.host import HostError
    from owlt.orchestrator.run.launching import certify_in_guest

    if profile is None:
        raise OwltError(Mistake.of("--rig virtual", "CHANNEL is missing", fix="name one ('owlt channel list')"))
    if options:
        problem = "has the tolerance and the budget of a sweep on the clock exact"
        raise OwltError(Mistake.of("--rig virtual", problem, fix="leave out --tolerance and --budget"))
    try:
        return certify_in_guest(profile.channel, needed_kernel()).to_wire()
    except HostError as problem:
        raise OwltError(Mistake(str(problem), fix="check this machine with: owlt rigs check virtual")) from problem


for _name, _model in (
    ("mars", Mars),
    ("moon", Moon),
    ("l2", L2),
    ("planet", Planet),
    ("leo", Leo),
    ("pass", SatellitePass),
    ("land-mobile", LandMobile),
    ("coded", Coded),
):
    add_model(channel_app, _name, _model)


def _show_profile(printer: Printer, profile: ChannelProfile, figure: Path | None) -> None:
    if figure is not None:
        _draw(profile, figure)
    printer.json(
        {
            "name": profile.name,
            "title": profile.title,
            "source": profile.source,
            "channel": profile.channel.to_wire(),
            "figure": figure,
        }
    )
    printer.text(f"{profile.name}: {profile.title}" if profile.title else profile.name, style="bold")
    _print_channel(printer, profile.channel)
    if profile.source:
        printer.text(f"source: {profile.source}")
    if figure is not None:
        printer.note(f"figure: {figure}")


def _draw(profile: ChannelProfile, path: Path) -> None:
    from owlt.orchestrator.commands.channel_text import curves_of
    from owlt.reports.drawing.channel import draw_channel
    from owlt.reports.drawing.output import FORMATS, save_drawing

    suffixes = [f".{each}" for each in FORMATS]
    if path.suffix not in suffixes:
        raise OwltError(
            Mistake.of(f"--out {path}", f"got {path.suffix or 'no suffix'}", f"one of {', '.join(suffixes)}")
        )
    canvas = draw_channel(curves_of(profile.channel), profile.title or profile.name)
    try:
        save_drawing(canvas, path)
    except OSError as problem:
        raise OwltError(Mistake.of(f"--out {path}", f"cannot be written: {problem.strerror}")) from problem


def _show_emulator(printer: Printer, access: Access) -> None:
    from owlt.orchestrator.commands.channel_text import counter_rows

    with _connected(access) as client:
        (current, statistics), timeline = client.snapshot(), client.timeline_status()
    printer.json({"emulator": client.url, "channel": current.to_wire(), "statistics": statistics, "timeline": timeline})
    printer.text(f"the emulator at {client.url} has:")
    _print_channel(printer, current)
    if current.timeline is not None:
        state = "running" if timeline["running"] else "not running"
        steps = f"{timeline['elapsed_s']:.3f} s, {timeline['steps_applied']} steps applied"
        printer.text(f"timeline: {state}, {steps} {timeline['failure']}")
    if rows := counter_rows(statistics):
        printer.text()
        printer.table(("since it was applied", *DIRECTIONS), rows, DIRECTIONS)


def _print_current(printer: Printer, client: EmulatorClient, channel: ChannelSpec) -> None:
    printer.json({"emulator": client.url, "channel": channel.to_wire()})
    printer.text(f"the emulator at {client.url} has:")
    _print_channel(printer, channel)


def _print_channel(printer: Printer, channel: ChannelSpec) -> None:
    from owlt.orchestrator.commands.channel_text import link_rows, step_rows

    if channel.bypass:
        printer.text("bypass: a transparent bridge")
        return
    printer.table(("", *DIRECTIONS), link_rows(channel))
    if rows := step_rows(channel):
        printer.text()
        printer.table(("from", "forward changes to", "reverse changes to"), rows)
    if channel.faults:
        printer.text()
        faults = [(fault.direction, fault.text, fault.action.text) for fault in channel.faults]
        printer.table(("aimed faults", "packets", "action"), faults)


def _print_certificate(printer: Printer, certificate: dict[str, Any]) -> None:
    from owlt.emulator.certification.intervals import POWER
    from owlt.orchestrator.commands.channel_text import certificate_reasons, certificate_rows, power_rows

    numbers = ("specified", "measured", "at least", "at most", "count")
    headers = ("direction", "quantity", *numbers, "verdict")
    printer.table(headers, certificate_rows(certificate), numbers, least_width=CERTIFICATE_COLUMNS)
    printer.text()
    title = f"errors that a sample of this size finds with a probability of {POWER:.0%}"
    printer.table(
        ("direction", "quantity", "count", title),
        power_rows(certificate),
        ("count",),
        least_width=CERTIFICATE_COLUMNS,
    )
    for reason in certificate_reasons(certificate):
        printer.text(reason)
    verdict = certificate["verdict"]
    printer.text(f"verdict: {verdict}", style=VERDICT_STYLES.get(verdict, "yellow"))


def _start_or_clear(client: EmulatorClient) -> None:
    """Start the timeline. If that fails, remove the channel: without its timeline it would be another channel."""
    from owlt.emulator.faults import EmulatorError

    try:
        client.timeline_start()
    except EmulatorError:
        client.clear()
        raise


@contextmanager
def _connected(access: Access) -> Iterator[EmulatorClient]:
    """A client of the emulator; its errors become errors of the command."""
    from owlt.emulator.faults import EmulatorError

    if access.rig is not None:
        client: EmulatorClient = _lab_client(access, access.rig)
    elif access.url:
        client = emulator_client(access)
    else:
        fix = "give the URL there or in OWLT_EMULATOR, such as http://192.0.2.1:8765, or a lab rig with --rig"
        raise OwltError(Mistake("--emulator is missing", fix=fix))
    try:
        yield client
    except EmulatorError as problem:
        raise OwltError(*problem.mistakes) from problem


def _lab_client(access: Access, inventory: str) -> EmulatorClient:
    """A client of a lab rig's emulator, with the lease that this user has reserved.

    The options that say the same as the inventory are refused beside it; their environment variables are not used.
    """
    from owlt.orchestrator.profiles.inventory import lab_rig
    from owlt.orchestrator.rigs.lab.emulator import LabEmulator

    for option, variable, value in (
        ("--emulator", "OWLT_EMULATOR", access.url),
        ("--token-file", "OWLT_TOKEN_FILE", access.token_file),
        ("--ca-file", "OWLT_CA_FILE", access.ca_file),
    ):
        if value and str(value) != str(_of_variable(variable, type(value))):
            fix = f"leave out {option}: the inventory has it"
            raise OwltError(Mistake.of("--rig", f"cannot be combined with {option}", fix=fix))
    client = LabEmulator(lab_rig(inventory)[1].emulator)
    client.adopt_reserved()
    return client


def _of_variable(name: str, kind: type[str] | type[Path]) -> str | Path:
    """The value of an environment variable, written as that of its option."""
    return kind(os.environ.get(name, ""))


def emulator_client(access: Access, timeout_s: float = 10.0) -> EmulatorClient:
    """A client of the emulator, which is not asked yet. Raises OwltError if its token cannot be read."""
    from owlt.emulator.service.access import read_token
    from owlt.emulator.service.client import EmulatorClient

    try:
        token = read_token(access.token_file) if access.token_file is not None else None
        return EmulatorClient(access.url, timeout_s, token, access.ca_file)
    except OSError as problem:
        path = problem.filename or access.ca_file
        option = "--ca-file" if path == access.ca_file else "--token-file"
        reason = "no such file" if isinstance(problem, FileNotFoundError) else f"cannot be read: {problem.strerror}"
        raise OwltError(Mistake.of(option, f"{reason}: {path}")) from problem
    except ValueError as problem:
        raise OwltError(str(problem)) from problem
