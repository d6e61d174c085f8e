"""The subcommands of `owlt channel` that compute a channel, from orbits or fading, and write its files."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from owlt.inputs.mistake import Mistake
from owlt.orchestrator.commands.channel.arguments import (
    moments_s,
    parse_altitude_km,
    parse_date,
    parse_point,
    require_orbits,
)
from owlt.orchestrator.commands.channel.options import BothFields, ForwardFields, ReverseFields
from owlt.orchestrator.commands.channel.values import fields_of, merged
from owlt.orchestrator.errors import NoSuchFile, OwltError
from owlt.orchestrator.terminal.options import Json
from owlt.orchestrator.terminal.output import Printer

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from owlt.emulator.models.sky import Values
    from owlt.orchestrator.commands.channel.computed_files import ComputedChannel


class Planet(StrEnum):
    """The planets beside Mars and the Earth."""

    mercury = "mercury"
    venus = "venus"
    jupiter = "jupiter"
    saturn = "saturn"
    uranus = "uranus"
    neptune = "neptune"


class Outside(StrEnum):
    """What happens to packets between contacts."""

    drop = "drop"
    hold = "hold"


class Pattern(StrEnum):
    """How the planes of a constellation are spread."""

    star = "star"
    delta = "delta"


Date = Annotated[
    str, typer.Option("--date", metavar="DATE", help="Start, in UTC, such as 2026-11-22 or 2026-11-22T14:30.")
]
Hours = Annotated[float, typer.Option("--hours", metavar="COUNT", help="Length of the channel in hours.")]
Step = Annotated[float, typer.Option("--step", metavar="SECONDS", help="Seconds from one value to the next.")]
Out = Annotated[
    Path | None,
    typer.Option("--out", metavar="FILE.yaml", help="Channel file to write, its trace beside it; default: its name."),
]
Station = Annotated[
    str | None,
    typer.Option(
        "--station",
        metavar="PLACE",
        help="Ground station: goldstone, canberra, madrid or LATITUDE,LONGITUDE; default: the Earth's centre.",
    ),
]
Elevation = Annotated[
    float, typer.Option("--elevation", metavar="DEGREES", help="Least elevation above a ground point's horizon.")
]
OutsideContacts = Annotated[
    Outside, typer.Option("--outside", help="What happens to packets between contacts; hold repeats the channel.")
]
Uplink = Annotated[bool, typer.Option("--uplink", help="Forward is the uplink; default: the downlink.")]


def _light_time_command(target: str, text: str) -> Callable[..., None]:
    def command(
        date: Date,
        hours: Hours = 24,
        step: Step = 60,
        station: Station = None,
        elevation: Elevation = 10,
        outside: OutsideContacts = Outside.drop,
        uplink: Uplink = False,
        forward: ForwardFields = None,
        reverse: ReverseFields = None,
        both: BothFields = None,
        out: Out = None,
        as_json: Json = False,
    ) -> None:
        links = compute_links(forward, reverse, both)
        _light_time(target, date, hours, step, station, elevation, outside, uplink, links, out, as_json)

    command.__doc__ = text
    return command


mars = _light_time_command(
    "mars",
    """Compute a channel to Mars from light time and contacts.

    Values that orbits do not determine are given as in a profile: --forward rate=2Mbit/s --reverse rate=8kbit/s.
    """,
)
moon = _light_time_command("moon", "Compute a channel to the Moon from light time and contacts.")
l2 = _light_time_command("l2", "Compute a channel to the Sun-Earth point L2.")


def planet(
    name: Annotated[Planet, typer.Argument(metavar="NAME", help="mercury, venus, jupiter, saturn, uranus or neptune.")],
    date: Date,
    hours: Hours = 24,
    step: Step = 60,
    station: Station = None,
    elevation: Elevation = 10,
    outside: OutsideContacts = Outside.drop,
    uplink: Uplink = False,
    forward: ForwardFields = None,
    reverse: ReverseFields = None,
    both: BothFields = None,
    out: Out = None,
    as_json: Json = False,
) -> None:
    """Compute a channel to another planet."""
    links = compute_links(forward, reverse, both)
    _light_time(name.value, date, hours, step, station, elevation, outside, uplink, links, out, as_json)


def leo(
    date: Date,
    start_point: Annotated[
        str, typer.Option("--from", metavar="PLACE", help="The sender's place: LATITUDE,LONGITUDE, such as 43.6,1.44.")
    ],
    end_point: Annotated[str, typer.Option("--to", metavar="PLACE", help="The receiver's place.")],
    tle: Annotated[
        Path | None,
        typer.Option("--tle", metavar="FILE", help="Two-line element sets of a constellation; default: an ideal one."),
    ] = None,
    altitude: Annotated[
        str | None, typer.Option("--altitude", metavar="LENGTH", help="Of all satellites; default: 800km.")
    ] = None,
    planes: Annotated[
        int | None, typer.Option("--planes", metavar="COUNT", min=1, help="Orbital planes; default: 6.")
    ] = None,
    satellites: Annotated[
        int | None,
        typer.Option("--satellites", metavar="COUNT", min=1, help="Satellites in all planes together; default: 66."),
    ] = None,
    inclination: Annotated[
        float | None, typer.Option("--inclination", metavar="DEGREES", help="Of all planes; default: 86.4.")
    ] = None,
    pattern: Annotated[
        Pattern | None,
        typer.Option("--pattern", help="star (default): nodes over 180 degrees, as for polar orbits; delta: over 360."),
    ] = None,
    hop_delay: Annotated[
        str, typer.Option("--hop-delay", metavar="TIME", help="Added for each satellite on the path.")
    ] = "0 s",
    interruption: Annotated[
        str, typer.Option("--interruption", metavar="TIME", help="Outage at each handover of a ground point.")
    ] = "0 s",
    hours: Hours = 1,
    step: Step = 1,
    elevation: Elevation = 10,
    forward: ForwardFields = None,
    reverse: ReverseFields = None,
    both: BothFields = None,
    out: Out = None,
    as_json: Json = False,
) -> None:
    """Compute a channel through a constellation in low orbit.

    It connects two places on the ground, with its handovers.

    The satellites have links to their neighbours. A ground point keeps its satellite until that is below --elevation.
    """
    require_orbits("channel leo")
    from owlt.orchestrator.commands.channel.constellation import (
        RouteRequest,
        constellation_channel,
        ideal_satellites,
        tle_constellation,
    )

    request = RouteRequest(
        (parse_point("--from", start_point), parse_point("--to", end_point)), elevation,
        _seconds("--hop-delay", hop_delay), _seconds("--interruption", interruption),
    )  # fmt: skip
    start, seconds = parse_date(date), _values(hours, step)
    ideal = {
        "--altitude": altitude, "--planes": planes, "--satellites": satellites, "--inclination": inclination,
        "--pattern": pattern,
    }  # fmt: skip
    if tle is not None:
        given = [option for option, value in ideal.items() if value is not None]
        if given:
            raise OwltError(Mistake.of(given[0], "the elements of --tle determine it", fix="leave it out"))
        orbits = tle_constellation(_satellites_of(tle), tle.name, start, seconds)
    else:
        count, in_planes = satellites or 66, planes or 6
        if count % in_planes:
            expected = f"a multiple of --planes {in_planes}"
            raise OwltError(Mistake.of("--satellites", f"got {count}", expected, "such as 66 and 6"))
        orbits = ideal_satellites(
            parse_altitude_km(altitude or "800km"), 86.4 if inclination is None else inclination,
            in_planes, count // in_planes, (pattern or Pattern.star).value, start,
        )  # fmt: skip
    channel, facts = constellation_channel(orbits, request, start, seconds, compute_links(forward, reverse, both))
    write_computed(channel, out or _default_file("leo", start), facts, as_json)


def satellite_pass(
    date: Date,
    station: Annotated[
        str,
        typer.Option("--station", metavar="PLACE", help="goldstone, canberra, madrid or LATITUDE,LONGITUDE."),
    ],
    tle: Annotated[
        Path | None, typer.Option("--tle", metavar="FILE", help="Two-line element sets; default: a circular orbit.")
    ] = None,
    satellite: Annotated[
        str | None, typer.Option("--satellite", metavar="NAME", help="The one of --tle; default: the first.")
    ] = None,
    altitude: Annotated[
        str, typer.Option("--altitude", metavar="LENGTH", help="Of the circular orbit, without --tle.")
    ] = "800km",
    inclination: Annotated[
        float, typer.Option("--inclination", metavar="DEGREES", help="Of the circular orbit, without --tle.")
    ] = 86.4,
    hours: Hours = 24,
    step: Step = 10,
    elevation: Elevation = 10,
    outside: OutsideContacts = Outside.drop,
    uplink: Uplink = False,
    forward: ForwardFields = None,
    reverse: ReverseFields = None,
    both: BothFields = None,
    out: Out = None,
    as_json: Json = False,
) -> None:
    """Compute the passes of one satellite over a ground station."""
    require_orbits("channel pass")
    from owlt.emulator.models.contacts import contact_windows
    from owlt.emulator.models.orbits import Constellation, pass_over
    from owlt.orchestrator.commands.channel.computed_files import seconds_text

    start, point = parse_date(date), parse_point("--station", station)
    if tle is not None:
        orbit = _of_tle(tle, satellite)
        title = str(orbit.name)
        basis = f"the elements of epoch {orbit.epoch.utc_strftime('%Y-%m-%d')}"
    else:
        kilometres = parse_altitude_km(altitude)
        (orbit,) = Constellation(kilometres, inclination, 1, 1).satellites(start)
        title = f"Satellite at {kilometres:g} km"
        basis = f"a circular orbit at {kilometres:g} km with an inclination of {inclination:g} degrees"
    seen = pass_over(orbit, point, start, _values(hours, step))
    windows = contact_windows(seen.seconds, seen.elevation_deg, elevation)
    if not windows:
        problem = f"the satellite is never {elevation:g} degrees above the horizon of {point.name}"
        raise OwltError(Mistake.of("channel pass", problem, fix="change --date, --hours or --elevation"))
    computed = _with_contacts(
        f"{title} over {point.name} from {_moment(start)} UTC, {hours:g} h",
        f"Computed by owlt channel pass from {basis} (SGP4); contacts from {elevation:g} degrees. "
        f"{_directions(uplink)}",
        compute_links(forward, reverse, both),
        ("both.delay_us",),
        [(seconds_text(at), f"{delay * 1e6:.3f}") for at, delay in zip(seen.seconds, seen.delay_s, strict=True)],
        windows, outside, seen.seconds,
    )  # fmt: skip
    write_computed(computed, out or _default_file("pass", start), {"contacts": len(windows)}, as_json)


def land_mobile(
    snr: Annotated[float, typer.Option("--snr", metavar="DB", help="Mean signal-to-noise ratio in dB.")],
    seed: Annotated[int, typer.Option("--seed", metavar="NUMBER", min=0, help="Seed of the fading.")] = 1,
    speed: Annotated[
        float, typer.Option("--speed", metavar="M/S", min=0.1, max=100, help="Speed of the terminal in m/s.")
    ] = 1,
    attempts: Annotated[
        int, typer.Option("--attempts", metavar="COUNT", help="How many times a packet is sent at most.")
    ] = 4,
    first_attempt: Annotated[
        str, typer.Option("--first-attempt", metavar="TIME", help="Duration of the first attempt.")
    ] = "10 ms",
    retransmission: Annotated[
        str, typer.Option("--retransmission", metavar="TIME", help="Duration of each further attempt.")
    ] = "20 ms",
    step: Annotated[
        str | None,
        typer.Option(
            "--step",
            metavar="TIME",
            help="From one value to the next: a multiple of --retransmission; default: five times it.",
        ),
    ] = None,
    table: Annotated[
        Path | None,
        typer.Option("--table", metavar="FILE.csv", help="Success probability by SNR and attempt; default: computed."),
    ] = None,
    average: Annotated[
        bool,
        typer.Option(
            "--average", help="Use the averages over --hours: the same shares of attempts and losses at every moment."
        ),
    ] = False,
    in_order: Annotated[
        bool, typer.Option("--in-order", help="Packets wait for those before them; default: they overtake.")
    ] = False,
    base: Annotated[
        str | None, typer.Option("--base", metavar="CHANNEL", help="Channel whose links, delays and outages are added.")
    ] = None,
    hours: Hours = 0.2,
    forward: ForwardFields = None,
    reverse: ReverseFields = None,
    both: BothFields = None,
    out: Out = None,
    as_json: Json = False,
) -> None:
    """Compute a fading channel to a land-mobile terminal.

    Its forward link has type II HARQ.

    The fading is that of trees (Perez-Fontan's three-state model, S band). --base adds a channel of 'owlt channel leo'.
    With --average, attempts are drawn for each packet independently, as if fading were fast against the packet rate.
    """
    from owlt.orchestrator.commands.channel.land_mobile import (
        STEP_ATTEMPTS,
        HarqRequest,
        average_channel,
        default_table,
        land_mobile_channel,
        read_success_table,
    )
    from owlt.orchestrator.profiles.catalogue import find_channel

    again_ns = round(_seconds("--retransmission", retransmission) * 1e9)
    if not 10**6 <= again_ns <= 10**9:
        raise OwltError(Mistake.of("--retransmission", f"got {retransmission!r}", "1 ms to 1 s"))
    moments_s(hours, again_ns / 1e9)
    step_ns = round(_seconds("--step", step) * 1e9) if step else STEP_ATTEMPTS * again_ns
    if step_ns < again_ns or step_ns % again_ns:
        raise OwltError(Mistake.of("--step", f"got {step!r}", f"a multiple of --retransmission, {retransmission}"))
    request = HarqRequest(
        snr, speed, round(_seconds("--first-attempt", first_attempt) * 1e9), again_ns, step_ns, in_order, seed,
        hours * 3600,
        read_success_table(table) if table else default_table(attempts), compute_links(forward, reverse, both),
    )  # fmt: skip
    compute, kind = (average_channel, "average-") if average else (land_mobile_channel, "")
    computed, facts = compute(request, find_channel(base) if base else None)
    write_computed(computed, out or Path(f"land-mobile-{kind}{snr:g}dB-{seed}.yaml"), facts, as_json)


def _light_time(
    target: str, date: str, hours: float, step: float, place: str | None, elevation: float, outside: Outside,
    uplink: bool, links: dict[str, dict[str, Any]], out: Path | None, as_json: bool,
) -> None:  # fmt: skip
    require_orbits(f"channel {target}")
    from owlt.emulator.models.contacts import contact_windows
    from owlt.emulator.models.light_time import light_times
    from owlt.emulator.models.sky import EPHEMERIS
    from owlt.orchestrator.commands.channel.computed_files import seconds_text

    start, point = parse_date(date), parse_point("--station", place) if place else None
    times = light_times(target, point, start, _values(hours, step))
    windows = None
    if times.elevation_deg is not None and point is not None:
        windows = contact_windows(times.seconds, times.elevation_deg, elevation)
        if not windows:
            problem = f"{target} is never {elevation:g} degrees above the horizon of {point.name}"
            fix = "change --date, --hours, --station or --elevation"
            raise OwltError(Mistake.of(f"channel {target}", problem, fix=fix))
    forward_s, reverse_s = (times.up_s, times.down_s) if uplink else (times.down_s, times.up_s)
    name, end = {"l2": "L2"}.get(target, target.capitalize()), point.name if point else "the Earth's centre"
    contacts = f"; contacts from {elevation:g} degrees" if point else ""
    computed = _with_contacts(
        f"{name} and {end} from {_moment(start)} UTC, {hours:g} h",
        f"Light times computed by owlt channel {'planet ' if target in set(Planet) else ''}{target} from the ephemeris "
        f"{EPHEMERIS}{contacts}. {_directions(uplink)} The far end is the centre of {name}"
        f"{' (an orbit around L2 is up to 2.5 s wide)' if target == 'l2' else ''}. The least angle between {name} and "
        f"the Sun is {times.sun_angle_deg:.1f} degrees; the Sun's noise and occultations are not included.",
        links,
        ("forward.delay_us", "reverse.delay_us"),
        [
            (seconds_text(at), f"{there * 1e6:.0f}", f"{back * 1e6:.0f}")
            for at, there, back in zip(times.seconds, forward_s, reverse_s, strict=True)
        ],
        windows, outside, times.seconds,
    )  # fmt: skip
    facts = {"light_time_s": float(times.down_s[0]), "contacts": len(windows) if windows is not None else None}
    write_computed(computed, out or _default_file(target, start), facts, as_json)


def _with_contacts(
    title: str, source: str, links: dict[str, dict[str, Any]], columns: tuple[str, ...], rows: list[tuple[str, ...]],
    windows: list[tuple[int, int]] | None, outside: Outside, seconds: Values,
) -> ComputedChannel:  # fmt: skip
    from owlt.orchestrator.commands.channel.computed_files import ComputedChannel, seconds_text

    timeline: dict[str, Any] = {}
    if windows is not None:
        timeline["contacts"] = [[f"{begin} s", f"{end} s"] for begin, end in windows]
        timeline["outside"] = outside.value
    if outside is Outside.hold:
        timeline["loop_after"] = f"{seconds_text(seconds[-1] + seconds[1] - seconds[0])} s"
    return ComputedChannel(title, source, links, columns, rows, timeline)


def write_computed(channel: ComputedChannel, path: Path, facts: dict[str, Any], as_json: bool) -> None:
    """Write the files of a channel, and print what is worth knowing about it. Raises OwltError, ProfileError."""
    from owlt.orchestrator.commands.channel.computed_files import write_channel

    printer = Printer(as_json)
    profile = write_channel(channel, path)
    printer.json({"name": profile.name, "title": profile.title, "path": path, "steps": len(channel.rows), **facts})
    printer.text(profile.title, style="bold")
    printer.keys({key: value for key, value in facts.items() if value is not None})
    trace = f", trace: {path.with_suffix('.csv').name}" if channel.columns else ""
    printer.note(f"channel: {path}{trace}")


def compute_links(
    forward: list[str] | None, reverse: list[str] | None, both: list[str] | None
) -> dict[str, dict[str, Any]]:
    shared = fields_of("--both", both or [])
    own = {"forward": fields_of("--forward", forward or []), "reverse": fields_of("--reverse", reverse or [])}
    return {way: merged(shared, keys) for way, keys in own.items()}


def _values(hours: float, step: float) -> Values:
    import numpy

    return numpy.array(moments_s(hours, step))


def _seconds(option: str, text: str) -> float:
    from owlt.inputs.mistake import Invalid
    from owlt.inputs.quantities import parse_delay_ns

    try:
        return parse_delay_ns(text) / 1e9
    except Invalid as problem:
        raise OwltError(*(mistake.below(option) for mistake in problem.mistakes)) from problem


def _satellites_of(path: Path) -> list[Any]:
    from owlt.emulator.models.orbits import NotATle, tle_satellites

    try:
        return tle_satellites(path.read_text())
    except (OSError, UnicodeDecodeError):
        raise NoSuchFile(Mistake.of(f"--tle {path}", "no such file, or it is not text")) from None
    except NotATle as problem:
        expected = "two-line element sets, each after a line with a name or not"
        raise OwltError(Mistake.of(str(path), str(problem), expected)) from problem


def _of_tle(path: Path, name: str | None) -> Any:
    satellites = _satellites_of(path)
    names = [each.name for each in satellites]
    if name is not None and name not in names:
        raise OwltError(Mistake.of("--satellite", f"got {name!r}", f"one of {', '.join(names[:20])}"))
    return satellites[names.index(name) if name is not None else 0]


def _directions(uplink: bool) -> str:
    return "Forward is the uplink." if uplink else "Forward is the downlink."


def _moment(start: datetime) -> str:
    return f"{start:%Y-%m-%d %H:%M}"


def _default_file(kind: str, start: datetime) -> Path:
    clock = f"{start:-%H%M}" if (start.hour, start.minute) != (0, 0) else ""
    return Path(f"{kind}-{start:%Y-%m-%d}{clock}.yaml")
