"""A constellation's path between two ground points as a channel."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, cast

from owlt.emulator.models.constellation_route import Network, Route, network_of, route_between
from owlt.emulator.models.orbits import Constellation
from owlt.emulator.models.sky import GroundPoint, Values
from owlt.emulator.models.tle_constellation import NoConstellation, constellation_of
from owlt.inputs.mistake import Mistake
from owlt.orchestrator.commands.channel.computed_files import ComputedChannel, seconds_text
from owlt.orchestrator.errors import OwltError


@dataclass(frozen=True)
class Satellites:
    """A constellation at the channel's date, and its description."""

    network: Network
    planes: int
    altitude_km: float
    text: str
    """Its planes, and how they are propagated."""


@dataclass(frozen=True)
class RouteRequest:
    """The places that a constellation connects, and the conditions."""

    ends: tuple[GroundPoint, GroundPoint]
    elevation_deg: float
    hop_s: float
    interruption_s: float


def ideal_satellites(
    altitude_km: float, inclination_deg: float, planes: int, per_plane: int, pattern: str, start: datetime
) -> Satellites:
    """A constellation in circular orbits."""
    orbits = Constellation(altitude_km, inclination_deg, planes, per_plane, cast(Literal["star", "delta"], pattern))
    text = (
        f"{planes} planes of {per_plane} satellites, inclination {inclination_deg:g} degrees, pattern {pattern}, "
        "propagated by SGP4"
    )
    return Satellites(network_of(orbits, start), planes, altitude_km, text)


def tle_constellation(satellites: list[Any], file: str, start: datetime, seconds: Values) -> Satellites:
    """The constellation of the elements in a file. Raises OwltError if they are none."""
    try:
        found = constellation_of(satellites, start, seconds)
    except NoConstellation as problem:
        raise OwltError(Mistake.of(f"--tle {file}", problem.problem, problem.expected, problem.fix)) from problem
    epochs = sorted(each.epoch.utc_strftime("%Y-%m-%d") for each in satellites)
    counts = [str(each) for each in sorted(found.planes)]
    text = (
        f"{len(found.planes)} planes of {_range(counts)} satellites, inclination "
        f"{found.inclination_deg:.1f} degrees, from the elements in {file} of {_range(epochs)}, propagated by SGP4"
    )
    return Satellites(found.network, len(found.planes), round(found.altitude_km), text)


def constellation_channel(
    satellites: Satellites, request: RouteRequest, start: datetime, seconds: Values, links: dict[str, dict[str, Any]]
) -> tuple[ComputedChannel, dict[str, Any]]:
    """Compute the channel, and what is worth printing about it. Raises OwltError if there never is a path."""
    route = route_between(satellites.network, request.ends, start, seconds, request.elevation_deg, request.hop_s)
    known = [delay for delay in route.delay_s if not math.isnan(delay)]
    if not known:
        problem = "the constellation never connects the two places"
        fix = "add satellites, or lower --elevation"
        raise OwltError(Mistake.of("channel leo", problem, fix=fix))
    count = len(satellites.network.satellites)
    title = (
        f"{request.ends[0].name} to {request.ends[1].name} over {count} satellites at {satellites.altitude_km:g} km "
        f"from {start:%Y-%m-%d %H:%M} UTC"
    )
    source = (
        f"Computed by owlt channel leo: {satellites.text}. Shortest path over links within a plane and between "
        f"adjacent planes; least elevation {request.elevation_deg:g} degrees; "
        f"{request.hop_s * 1000:g} ms for each satellite; {len(route.handovers)} handovers"
        f"{f' with an outage of {request.interruption_s:g} s each' if request.interruption_s else ''}."
    )
    facts = {
        "satellites": count,
        "planes": satellites.planes,
        "least_delay_s": min(known),
        "largest_delay_s": max(known),
        "handovers": len(route.handovers),
        "without_path_s": float((len(route.delay_s) - len(known)) * (seconds[1] - seconds[0])),
    }
    rows = _rows(route, request.interruption_s)
    return ComputedChannel(title, source, links, ("both.delay_us", "both.up"), rows), facts


def _range(texts: list[str]) -> str:
    """The first and the last one of sorted texts; one if they are the same."""
    return texts[0] if texts[0] == texts[-1] else f"{texts[0]} to {texts[-1]}"


def _rows(route: Route, interruption_s: float) -> list[tuple[str, str, str]]:
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
