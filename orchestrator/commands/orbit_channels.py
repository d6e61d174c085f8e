"""Channels computed from orbits: to the bodies of the solar system, through a constellation, passes of a satellite.

Each class is a model: its fields are the options of its command, its docstring is the help page. What is in the sky
belongs to `emulator.models`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

import typer

from owlt.inputs.mistake import Mistake, did_you_mean
from owlt.orchestrator.commands.computed_channels import (
    ComputedChannel,
    Hours,
    Links,
    moments_s,
    option_text,
    parse_altitude_km,
    parse_date,
    parse_point,
    parse_seconds,
    require_orbits,
    seconds_text,
)
from owlt.orchestrator.errors import OwltError

if TYPE_CHECKING:
    from datetime import datetime

    from owlt.emulator.models.constellations import Network, Route
    from owlt.emulator.models.sky import Values


class PlanetName(StrEnum):
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
Step = Annotated[float, typer.Option("--step", metavar="SECONDS", help="Seconds from one value to the next.")]
Station = Annotated[
    str | None,
    typer.Option(
        "--station",
        metavar="PLACE",
        help="Ground station: goldstone, canberra, madrid or LATITUDE,LONGITUDE; default: the Earth's centre.",
    ),
]
Elevation = Annotated[
    float, typer.Option("--elevation", metavar="DEGREES", help="Minimum elevation angle at a ground point.")
]
OutsideContacts = Annotated[
    Outside, typer.Option("--outside", help="What happens to packets between contacts; hold repeats the channel.")
]
Uplink = Annotated[bool, typer.Option("--uplink", help="Forward is the uplink; default: the downlink.")]


@dataclass(frozen=True)
class LightTime:
    """A channel to a body of the solar system, which is given by its name."""

    date: Date
    hours: Hours = 24
    step: Step = 60
    station: Station = None
    elevation: Elevation = 10
    outside: OutsideContacts = Outside.drop
    uplink: Uplink = False

    @property
    def target(self) -> str:
        """The name of the body."""
        raise NotImplementedError

    def compute(self, links: Links) -> ComputedChannel:
        """Compute the light times, and the contacts of a station. Raises OwltError if it has none."""
        target = self.target
        require_orbits(f"channel {target}")
        from owlt.emulator.models.sky import EPHEMERIS, contact_windows, light_times

        start, point = parse_date(self.date), parse_point("--station", self.station) if self.station else None
        times = light_times(target, point, start, _values(self.hours, self.step))
        windows = None
        if times.elevation_deg is not None and point is not None:
            windows = contact_windows(times.seconds, times.elevation_deg, self.elevation)
            if not windows:
                problem = f"{target} is never {self.elevation:g} degrees above the horizon of {point.name}"
                fix = "change --date, --hours, --station or --elevation"
                raise OwltError(Mistake.of(f"channel {target}", problem, fix=fix))
        forward_s, reverse_s = (times.up_s, times.down_s) if self.uplink else (times.down_s, times.up_s)
        name, end = {"l2": "L2"}.get(target, target.capitalize()), point.name if point else "the Earth's centre"
        contacts = f"; contacts from {self.elevation:g} degrees" if point else ""
        command = f"planet {target}" if target in set(PlanetName) else target
        return ComputedChannel(
            f"{name} and {end} from {_moment(start)} UTC, {self.hours:g} h",
            f"Light times computed by owlt channel {command} from the ephemeris {EPHEMERIS}{contacts}. "
            f"{_directions(self.uplink)} The far end is the centre of {name}"
            f"{' (an orbit around L2 is up to 2.5 s wide)' if target == 'l2' else ''}. The least angle between {name} "
            f"and the Sun is {times.sun_angle_deg:.1f} degrees; the Sun's noise and occultations are not included.",
            links,
            ("forward.delay_us", "reverse.delay_us"),
            [
                (seconds_text(at), f"{there * 1e6:.0f}", f"{back * 1e6:.0f}")
                for at, there, back in zip(times.seconds, forward_s, reverse_s, strict=True)
            ],
            _timeline(windows, self.outside, times.seconds),
            {"light_time_s": float(times.down_s[0]), "contacts": len(windows) if windows is not None else None},
            _default_name(target, start),
        )


class Mars(LightTime):
    """Compute a channel to Mars from light time and contacts.

    Values that orbits do not determine are given as in a profile: --forward rate=2Mbit/s --reverse rate=8kbit/s.
    """

    target = "mars"


class Moon(LightTime):
    """Compute a channel to the Moon from light time and contacts."""

    target = "moon"


class L2(LightTime):
    """Compute a channel to the Sun-Earth point L2."""

    target = "l2"


@dataclass(frozen=True, kw_only=True)
class Planet(LightTime):
    """Compute a channel to another planet."""

    name: Annotated[
        PlanetName, typer.Argument(metavar="NAME", help="mercury, venus, jupiter, saturn, uranus or neptune.")
    ]

    @property
    def target(self) -> str:
        """The name of the planet."""
        return self.name.value


@dataclass(frozen=True)
class Satellites:
    """A constellation at the channel's date, and its description."""

    network: Network
    planes: int
    altitude_km: float
    text: str
    """Its planes, and how they are propagated."""


@dataclass(frozen=True)
class Leo:
    """Compute a channel through a constellation in low orbit.

    It connects two places on the ground, with its handovers.

    The satellites have links to their neighbours. A ground point keeps its satellite until that is below --elevation.
    """

    date: Date
    start_point: Annotated[
        str, typer.Option("--from", metavar="PLACE", help="The sender's place: LATITUDE,LONGITUDE, such as 43.6,1.44.")
    ]
    end_point: Annotated[str, typer.Option("--to", metavar="PLACE", help="The receiver's place.")]
    tle: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Two-line element sets of a constellation; default: an ideal one."),
    ] = None
    altitude: Annotated[
        str | None, typer.Option(metavar="LENGTH", help="Altitude of the satellites; default: 800km.")
    ] = None
    planes: Annotated[int | None, typer.Option(metavar="COUNT", min=1, help="Orbital planes; default: 6.")] = None
    satellites: Annotated[
        int | None,
        typer.Option(metavar="COUNT", min=1, help="Total number of satellites; default: 66."),
    ] = None
    inclination: Annotated[
        float | None, typer.Option(metavar="DEGREES", help="Inclination of the planes; default: 86.4.")
    ] = None
    pattern: Annotated[
        Pattern | None,
        typer.Option(help="star (default): nodes over 180 degrees, as for polar orbits; delta: over 360."),
    ] = None
    hop_delay: Annotated[str, typer.Option(metavar="TIME", help="Added for each satellite on the path.")] = "0 s"
    interruption: Annotated[
        str, typer.Option("--interruption", metavar="TIME", help="Outage at each handover of a ground point.")
    ] = "0 s"
    hours: Hours = 1
    step: Step = 1
    elevation: Elevation = 10

    def compute(self, links: Links) -> ComputedChannel:
        """Compute the shortest path. Raises OwltError if there never is one."""
        require_orbits("channel leo")
        from owlt.emulator.models.constellations import route_between

        ends = parse_point("--from", self.start_point), parse_point("--to", self.end_point)
        hop_s, interruption_s = (
            parse_seconds("--hop-delay", self.hop_delay),
            parse_seconds("--interruption", self.interruption),
        )
        start, seconds = parse_date(self.date), _values(self.hours, self.step)
        satellites = self._satellites(start, seconds)
        route = route_between(satellites.network, ends, start, seconds, self.elevation, hop_s)
        known = [delay for delay in route.delay_s if not math.isnan(delay)]
        if not known:
            problem = "the constellation never connects the two places"
            raise OwltError(Mistake.of("channel leo", problem, fix="add satellites, or lower --elevation"))
        count = len(satellites.network.satellites)
        return ComputedChannel(
            f"{ends[0].name} to {ends[1].name} over {count} satellites at {satellites.altitude_km:g} km "
            f"from {_moment(start)} UTC",
            f"Computed by owlt channel leo: {satellites.text}. Shortest path over links within a plane and between "
            f"adjacent planes; least elevation {self.elevation:g} degrees; "
            f"{hop_s * 1000:g} ms for each satellite; {len(route.handovers)} handovers"
            f"{f' with an outage of {interruption_s:g} s each' if interruption_s else ''}.",
            links,
            ("both.delay_us", "both.up"),
            _route_rows(route, interruption_s),
            facts={
                "satellites": count,
                "planes": satellites.planes,
                "least_delay_s": min(known),
                "largest_delay_s": max(known),
                "handovers": len(route.handovers),
                "without_path_s": float((len(route.delay_s) - len(known)) * (seconds[1] - seconds[0])),
            },
            default_name=_default_name("leo", start),
        )

    def _satellites(self, start: datetime, seconds: Values) -> Satellites:
        """The satellites of --tle, or an ideal constellation. Raises OwltError."""
        ideal = {
            "--altitude": self.altitude,
            "--planes": self.planes,
            "--satellites": self.satellites,
            "--inclination": self.inclination,
            "--pattern": self.pattern,
        }
        given = [option for option, value in ideal.items() if value is not None]
        if self.tle is not None and given:
            raise OwltError(Mistake.of(given[0], "the elements of --tle determine it", fix="leave it out"))
        return self._ideal_satellites(start) if self.tle is None else _tle_constellation(self.tle, start, seconds)

    def _ideal_satellites(self, start: datetime) -> Satellites:
        from owlt.emulator.models.constellations import Constellation, network_of

        count, planes = self.satellites or 66, self.planes or 6
        if count % planes:
            expected = f"a multiple of --planes {planes}"
            raise OwltError(Mistake.of("--satellites", f"got {count}", expected, "such as 66 and 6"))
        altitude_km = parse_altitude_km(self.altitude or "800km")
        inclination_deg = 86.4 if self.inclination is None else self.inclination
        pattern = (self.pattern or Pattern.star).value
        spread = cast(Literal["star", "delta"], pattern)
        orbits = Constellation(altitude_km, inclination_deg, planes, count // planes, spread)
        text = (
            f"{planes} planes of {count // planes} satellites, inclination {inclination_deg:g} degrees, "
            f"pattern {pattern}, propagated by SGP4"
        )
        return Satellites(network_of(orbits, start), planes, altitude_km, text)


@dataclass(frozen=True)
class SatellitePass:
    """Compute the passes of one satellite over a ground station."""

    date: Date
    station: Annotated[
        str,
        typer.Option(metavar="PLACE", help="goldstone, canberra, madrid or LATITUDE,LONGITUDE."),
    ]
    tle: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Two-line element sets; default: a circular orbit.")
    ] = None
    satellite: Annotated[str | None, typer.Option(metavar="NAME", help="The one of --tle; default: the first.")] = None
    altitude: Annotated[str, typer.Option(metavar="LENGTH", help="Of the circular orbit, without --tle.")] = "800km"
    inclination: Annotated[float, typer.Option(metavar="DEGREES", help="Of the circular orbit, without --tle.")] = 86.4
    hours: Hours = 24
    step: Step = 10
    elevation: Elevation = 10
    outside: OutsideContacts = Outside.drop
    uplink: Uplink = False

    def compute(self, links: Links) -> ComputedChannel:
        """Compute the passes. Raises OwltError if there are none."""
        require_orbits("channel pass")
        from owlt.emulator.models.constellations import pass_over
        from owlt.emulator.models.sky import contact_windows

        start, point = parse_date(self.date), parse_point("--station", self.station)
        orbit, title, basis = self._orbit(start)
        seen = pass_over(orbit, point, start, _values(self.hours, self.step))
        windows = contact_windows(seen.seconds, seen.elevation_deg, self.elevation)
        if not windows:
            problem = f"the satellite is never {self.elevation:g} degrees above the horizon of {point.name}"
            raise OwltError(Mistake.of("channel pass", problem, fix="change --date, --hours or --elevation"))
        return ComputedChannel(
            f"{title} over {point.name} from {_moment(start)} UTC, {self.hours:g} h",
            f"Computed by owlt channel pass from {basis} (SGP4); contacts from {self.elevation:g} degrees. "
            f"{_directions(self.uplink)}",
            links,
            ("both.delay_us",),
            [(seconds_text(at), f"{delay * 1e6:.3f}") for at, delay in zip(seen.seconds, seen.delay_s, strict=True)],
            _timeline(windows, self.outside, seen.seconds),
            {"contacts": len(windows)},
            _default_name("pass", start),
        )

    def _orbit(self, start: datetime) -> tuple[Any, str, str]:
        """The satellite, its name, and where its orbit is from."""
        from owlt.emulator.models.constellations import Constellation

        if self.tle is not None:
            orbit = _of_tle(self.tle, self.satellite)
            return orbit, str(orbit.name), f"the elements of epoch {orbit.epoch.utc_strftime('%Y-%m-%d')}"
        kilometres = parse_altitude_km(self.altitude)
        (orbit,) = Constellation(kilometres, self.inclination, 1, 1).satellites(start)
        basis = f"a circular orbit at {kilometres:g} km with an inclination of {self.inclination:g} degrees"
        return orbit, f"Satellite at {kilometres:g} km", basis


def _tle_constellation(path: Path, start: datetime, seconds: Values) -> Satellites:
    """The constellation of the elements in a file. Raises OwltError if they are none."""
    from owlt.emulator.models.constellations import NoConstellation, constellation_of

    satellites = _satellites_of(path)
    try:
        found = constellation_of(satellites, start, seconds)
    except NoConstellation as problem:
        raise OwltError(Mistake.of(f"--tle {path.name}", problem.problem, problem.expected, problem.fix)) from problem
    epochs = sorted(each.epoch.utc_strftime("%Y-%m-%d") for each in satellites)
    counts = [str(each) for each in sorted(found.planes)]
    text = (
        f"{len(found.planes)} planes of {_range(counts)} satellites, inclination "
        f"{found.inclination_deg:.1f} degrees, from the elements in {path.name} of {_range(epochs)}, propagated by SGP4"
    )
    return Satellites(found.network, len(found.planes), round(found.altitude_km), text)


def _range(texts: list[str]) -> str:
    """The first and the last one of sorted texts; one if they are the same."""
    return texts[0] if texts[0] == texts[-1] else f"{texts[0]} to {texts[-1]}"


def _route_rows(route: Route, interruption_s: float) -> list[tuple[str, str, str]]:
    """A row for each moment, and one for the end of each outage at a handover."""
    up_again: dict[float, str] = {}
    rows: dict[float, tuple[str, str]] = {}
    handovers = set(route.handovers) if interruption_s else set()
    down_until = -1.0
    for index, (at, delay) in enumerate(zip(route.seconds, route.delay_s, strict=True)):
        at = float(at)
        if index in handovers:
            down_until = at + interruption_s
            up_again[round(down_until, 9)] = "1"
        connected = not math.isnan(delay)
        rows[at] = (f"{delay * 1e6:.3f}" if connected else "", "1" if connected and at >= down_until else "0")
    for at in up_again:
        index = int((route.seconds <= at).sum()) - 1
        if at <= float(route.seconds[-1]) and not math.isnan(route.delay_s[index]) and at not in rows:
            rows[at] = ("", "1")
    return _only_changes(sorted(rows.items()))


def _only_changes(rows: list[tuple[float, tuple[str, str]]]) -> list[tuple[str, str, str]]:
    """The rows with the cells that change."""
    written, before = [], ("", "")
    for at, cells in rows:
        now = tuple("" if cell == last else cell for cell, last in zip(cells, before, strict=True))
        before = (cells[0] or before[0], cells[1] or before[1])
        if any(now):
            written.append((seconds_text(at), now[0], now[1]))
    return written


def _timeline(windows: list[tuple[int, int]] | None, outside: Outside, seconds: Values) -> dict[str, Any]:
    """The keys of a timeline with contacts, or without if `windows` is None."""
    timeline: dict[str, Any] = {}
    if windows is not None:
        timeline["contacts"] = [[f"{begin} s", f"{end} s"] for begin, end in windows]
        timeline["outside"] = outside.value
    if outside is Outside.hold:
        timeline["loop_after"] = f"{seconds_text(seconds[-1] + seconds[1] - seconds[0])} s"
    return timeline


def _values(hours: float, step: float) -> Values:
    import numpy

    return numpy.array(moments_s(hours, step))


def _satellites_of(path: Path) -> list[Any]:
    from owlt.emulator.models.constellations import NotATle, tle_satellites

    try:
        return tle_satellites(option_text("--tle", path))
    except NotATle as problem:
        expected = "two-line element sets, each after a line with a name or not"
        raise OwltError(Mistake.of(str(path), str(problem), expected)) from problem


def _of_tle(path: Path, name: str | None) -> Any:
    satellites = _satellites_of(path)
    names = [each.name for each in satellites]
    if name is not None and name not in names:
        mistake = Mistake(f"got {name!r}", f"one of {', '.join(names[:20])}", did_you_mean(name, names))
        raise OwltError(mistake.below("--satellite"))
    return satellites[names.index(name) if name is not None else 0]


def _directions(uplink: bool) -> str:
    return "Forward is the uplink." if uplink else "Forward is the downlink."


def _moment(start: datetime) -> str:
    return f"{start:%Y-%m-%d %H:%M}"


def _default_name(kind: str, start: datetime) -> str:
    clock = f"{start:-%H%M}" if (start.hour, start.minute) != (0, 0) else ""
    return f"{kind}-{start:%Y-%m-%d}{clock}"
