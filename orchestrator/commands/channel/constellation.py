"""A constellation's path between two ground points as a channel."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, cast

from agents.inputs.mistake import Mistake
from emulator.models.constellation_route import Route, route_between
from emulator.models.orbits import Constellation
from emulator.models.sky import GroundPoint, Values
from orchestrator.commands.channel.computed_files import ComputedChannel, seconds_text
from orchestrator.errors import OwltError


@dataclass(frozen=True)
class ConstellationRequest:
    """What `owlt channel leo` is given."""

    altitude_km: float
    inclination_deg: float
    planes: int
    per_plane: int
    pattern: str
    ends: tuple[GroundPoint, GroundPoint]
    elevation_deg: float
    hop_s: float
    interruption_s: float


def constellation_channel(
    request: ConstellationRequest, start: datetime, seconds: Values, links: dict[str, dict[str, Any]]
) -> tuple[ComputedChannel, dict[str, Any]]:
    """Compute the channel, and what is worth printing about it. Raises OwltError if there never is a path."""
    pattern = cast(Literal["star", "delta"], request.pattern)
    orbits = Constellation(request.altitude_km, request.inclination_deg, request.planes, request.per_plane, pattern)
    route = route_between(orbits, request.ends, start, seconds, request.elevation_deg, request.hop_s)
    known = [delay for delay in route.delay_s if not math.isnan(delay)]
    if not known:
        problem = "the constellation never connects the two places"
        fix = "add satellites, or lower --elevation"
        raise OwltError(Mistake.of("channel leo", problem, fix=fix))
    count = orbits.planes * orbits.per_plane
    title = (
        f"{request.ends[0].name} to {request.ends[1].name} over {count} satellites at {orbits.altitude_km:g} km "
        f"from {start:%Y-%m-%d %H:%M} UTC"
    )
    source = (
        f"Computed by owlt channel leo: {orbits.planes} planes of {orbits.per_plane} satellites, inclination "
        f"{orbits.inclination_deg:g} degrees, pattern {pattern}, propagated by SGP4. Shortest path over links within a "
        f"plane and between adjacent planes; least elevation {request.elevation_deg:g} degrees; "
        f"{request.hop_s * 1000:g} ms for each satellite; {len(route.handovers)} handovers"
        f"{f' with an outage of {request.interruption_s:g} s each' if request.interruption_s else ''}."
    )
    facts = {
        "least_delay_s": min(known),
        "largest_delay_s": max(known),
        "handovers": len(route.handovers),
        "without_path_s": float((len(route.delay_s) - len(known)) * (seconds[1] - seconds[0])),
    }
    rows = _rows(route, request.interruption_s)
    return ComputedChannel(title, source, links, ("both.delay_us", "both.up"), rows), facts


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
