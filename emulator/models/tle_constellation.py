"""The planes of a constellation, and its inter-satellite links, from the places of its satellites at one moment.

Satellites are in one plane if their ascending nodes are close together; their order in it is that of their arguments
of latitude. Each satellite has links to both neighbours in its plane, and to one satellite in each adjacent plane:
that at the distance, along the orbit, that the two planes have from each other on average. If satellites of the other
plane are equally near ahead and behind, as in a constellation whose planes are half a distance apart, it is the one
ahead. Planes are adjacent if no other one is between their nodes, and the gap is at most 1.5 times the usual one: in a
"star", the first and the last plane have no links.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from owlt.emulator.models.constellation_route import Network
from owlt.emulator.models.orbits import EARTH_RADIUS_KM, GRAVITATION_KM3_PER_S2
from owlt.emulator.models.sky import Values, times

NODE_GAP_DEG = 2.0
"""Nodes that are further apart from each other than this belong to two planes."""
INCLINATION_RANGE_DEG = 2.0
ALTITUDE_RANGE_KM = 20.0
"""Greatest distances from the median. Two satellites 20 km apart in altitude move 0.9 degrees apart in an hour."""
LEAST_IN_A_PLANE = 3
MOST_DAYS_FROM_EPOCH = 14
"""The place along the orbit that SGP4 gives is wrong by 1 to 3 km more each day."""
USUAL_GAPS = 1.5
MOST_NAMES = 5

Indices = NDArray[numpy.int64]


class NoConstellation(ValueError):
    """Why satellites are not recognised as a constellation, what was expected, and how to fix it."""

    def __init__(self, problem: str, expected: str, fix: str) -> None:
        super().__init__(problem)
        self.problem, self.expected, self.fix = problem, expected, fix


@dataclass(frozen=True)
class TleConstellation:
    """A constellation that was recognised."""

    network: Network
    planes: tuple[int, ...]
    """The number of satellites of each plane, by node."""
    altitude_km: float
    inclination_deg: float
    """Medians."""


@dataclass(frozen=True)
class _Orbits:
    """At one moment, one value for each satellite."""

    node_deg: Values
    inclination_deg: Values
    """The mean one of the elements, as are the altitudes."""
    latitude_deg: Values
    """The argument of latitude: the angle in the orbit from the ascending node."""
    altitude_km: Values
    """Of the semi-major axis."""


def constellation_of(satellites: list[Any], start: datetime, seconds: Values) -> TleConstellation:
    """Recognise a constellation at a date. Raises NoConstellation."""
    _require_distinct(satellites)
    _require_epochs(satellites, start)
    orbits = _orbits(satellites, start, seconds)
    _require_alike(satellites, orbits.inclination_deg, "an inclination", "degrees", INCLINATION_RANGE_DEG)
    _require_alike(satellites, orbits.altitude_km, "a mean altitude", "km", ALTITUDE_RANGE_KM)
    planes = planes_of(orbits.node_deg)
    _require_planes(satellites, planes)
    return TleConstellation(
        Network(satellites, links_of(planes, orbits.node_deg, orbits.latitude_deg)),
        tuple(map(len, planes)),
        float(numpy.median(orbits.altitude_km)),
        float(numpy.median(orbits.inclination_deg)),
    )


def planes_of(node_deg: Values) -> list[Indices]:
    """The satellites of each plane. The planes are in the order of their nodes, from the one after the largest gap."""
    order = numpy.argsort(node_deg % 360, kind="stable")
    nodes = (node_deg % 360)[order]
    gaps = numpy.diff(nodes, append=nodes[0] + 360)  # after each satellite
    order = numpy.roll(order, -(int(gaps.argmax()) + 1))
    gaps = numpy.roll(gaps, -(int(gaps.argmax()) + 1))
    return [numpy.asarray(part) for part in numpy.split(order, numpy.flatnonzero(gaps[:-1] > NODE_GAP_DEG) + 1)]


def links_of(planes: list[Indices], node_deg: Values, latitude_deg: Values) -> list[tuple[int, int]]:
    """The pairs of satellites that have a link."""
    pairs: set[tuple[int, int]] = set()
    for plane in planes:
        ring = plane[numpy.argsort(latitude_deg[plane] % 360)]
        pairs |= {_pair(one, other) for one, other in zip(ring, numpy.roll(ring, -1), strict=True)}
    for west, east in _adjacent(planes, node_deg):
        pairs |= _links_between(west, east, latitude_deg)
    return sorted(pairs)


def _adjacent(planes: list[Indices], node_deg: Values) -> list[tuple[Indices, Indices]]:
    if len(planes) < 2:
        return []
    if len(planes) == 2:
        return [(planes[0], planes[1])]
    middles_deg = [_mean_deg(node_deg[plane], 360.0) for plane in planes]
    gaps = numpy.diff(middles_deg, append=middles_deg[0]) % 360
    usual = float(numpy.median(gaps))
    return [
        (plane, planes[(index + 1) % len(planes)])
        for index, plane in enumerate(planes)
        if gaps[index] <= USUAL_GAPS * usual
    ]


def _links_between(west: Indices, east: Indices, latitude_deg: Values) -> set[tuple[int, int]]:
    """At most one for each satellite: the assignment whose distances along the orbit are the most alike."""
    spacing_deg = 360 / max(len(west), len(east))
    ahead_deg = latitude_deg[east][None, :] - latitude_deg[west][:, None]
    usual_deg = (_mean_deg(ahead_deg, spacing_deg) + spacing_deg / 4) % spacing_deg - spacing_deg / 4
    apart_deg = numpy.abs((ahead_deg - usual_deg + 180) % 360 - 180)
    rows, columns = linear_sum_assignment(apart_deg**2)
    return {
        _pair(west[row], east[column])
        for row, column in zip(rows, columns, strict=True)
        if apart_deg[row, column] <= spacing_deg / 2
    }


def _mean_deg(angles_deg: Values, period_deg: float) -> float:
    """The mean of angles that repeat after a period."""
    turn = numpy.exp(2j * numpy.pi * angles_deg / period_deg).mean()
    return float(numpy.angle(turn) / (2 * numpy.pi) * period_deg)


def _pair(one: Any, other: Any) -> tuple[int, int]:
    return min(int(one), int(other)), max(int(one), int(other))


def _orbits(satellites: list[Any], start: datetime, seconds: Values) -> _Orbits:
    """At the first of some moments. Raises NoConstellation if SGP4 does not reach the last one."""
    at = times(start, numpy.array([seconds[0], seconds[-1]]))
    states = [each.at(at) for each in satellites]
    lost = [each for each, state in zip(satellites, states, strict=True) if not numpy.isfinite(state.position.km).all()]
    if lost:
        problem = f"SGP4 cannot propagate {_names(lost)} to the end of the channel"
        raise NoConstellation(problem, "satellites in orbit", "remove them from the file")
    place_km = numpy.stack([state.position.km[:, 0] for state in states])
    axis = numpy.cross(place_km, numpy.stack([state.velocity.km_per_s[:, 0] for state in states]))
    axis /= numpy.linalg.norm(axis, axis=1)[:, None]
    to_node = numpy.stack([-axis[:, 1], axis[:, 0], numpy.zeros(len(axis))], axis=1)
    to_north = numpy.cross(axis, to_node)
    per_second = numpy.array([each.model.no_kozai / 60 for each in satellites])
    return _Orbits(
        numpy.degrees(numpy.arctan2(to_node[:, 1], to_node[:, 0])),
        numpy.degrees([each.model.inclo for each in satellites]),
        numpy.degrees(numpy.arctan2((place_km * to_north).sum(axis=1), (place_km * to_node).sum(axis=1))),
        numpy.cbrt(GRAVITATION_KM3_PER_S2 / per_second**2) - EARTH_RADIUS_KM,
    )


def _require_distinct(satellites: list[Any]) -> None:
    numbers = [each.model.satnum for each in satellites]
    twice = [each for index, each in enumerate(satellites) if numbers[index] in numbers[:index]]
    if twice:
        raise NoConstellation(f"got {_names(twice)} twice", "each satellite once", "keep the latest elements of each")


def _require_epochs(satellites: list[Any], start: datetime) -> None:
    days = [abs((each.epoch.utc_datetime() - start).total_seconds()) / 86_400 for each in satellites]
    furthest = max(range(len(days)), key=days.__getitem__)
    if days[furthest] > MOST_DAYS_FROM_EPOCH:
        epoch = satellites[furthest].epoch.utc_strftime("%Y-%m-%d")
        problem = f"the elements of {satellites[furthest].name} are from {epoch}, {days[furthest]:.0f} days from --date"
        fix = "get the elements of that date, or use another --date"
        raise NoConstellation(problem, f"at most {MOST_DAYS_FROM_EPOCH} days", fix)


def _require_alike(satellites: list[Any], values: Values, quantity: str, unit: str, most: float) -> None:
    usual = float(numpy.median(values))
    others = [index for index, value in enumerate(values) if abs(value - usual) > most]
    if others:
        low, high = float(values[others].min()), float(values[others].max())
        got = f"{low:.1f}" if len(others) == 1 else f"{low:.1f} to {high:.1f}"
        named = _names([satellites[index] for index in others])
        problem = f"not a constellation: {named} with {quantity} of {got} {unit}"
        fix = "remove them from the file, or write a file for each shell"
        raise NoConstellation(problem, f"within {most:g} {unit} of the median, {usual:.1f}", fix)


def _require_planes(satellites: list[Any], planes: list[Indices]) -> None:
    few = [satellites[index] for plane in planes if len(plane) < LEAST_IN_A_PLANE for index in plane]
    if few:
        problem = f"not a constellation: fewer than {LEAST_IN_A_PLANE} satellites in the planes of {_names(few)}"
        expected = f"at least {LEAST_IN_A_PLANE} satellites in each plane (nodes within {NODE_GAP_DEG:g} degrees)"
        raise NoConstellation(problem, expected, "add the missing satellites, or remove these from the file")


def _names(satellites: list[Any]) -> str:
    """The first ones by name."""
    named = ", ".join(each.name for each in satellites[:MOST_NAMES])
    return named + (f" and {len(satellites) - MOST_NAMES} more" if len(satellites) > MOST_NAMES else "")
