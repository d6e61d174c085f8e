"""Satellites in low orbits, and the path of packets between two ground points through a constellation of them.

Satellites come from a TLE, or are in the circular orbits of an ideal constellation. SGP4 propagates both (library
sgp4), so the orbits precess with the Earth's oblateness.

Each satellite has links to the two neighbours in its plane, and to one satellite in each adjacent plane. In an ideal
constellation, that is the satellite of the same number; in the pattern "star", where the first and the last plane move
in opposite directions, there is none between them. A ground point keeps its satellite until that sinks below the least
elevation, and then takes the highest one (a handover). Packets take the shortest path.

In a constellation from TLEs, satellites are in one plane if their ascending nodes are close together; their order in it
is that of their arguments of latitude. The satellite in an adjacent plane is that at the distance, along the orbit,
that the two planes have from each other on average. If satellites of the other plane are equally near ahead and behind,
as in a constellation whose planes are half a distance apart, it is the one ahead. Planes are adjacent if no other one
is between their nodes, and the gap is at most 1.5 times the usual one: in a "star", the first and the last plane have
no links.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from math import pi, radians, sqrt
from typing import Any, Literal

import numpy
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment
from scipy.sparse import coo_array
from scipy.sparse.csgraph import dijkstra
from sgp4.api import WGS72, Satrec
from skyfield.api import EarthSatellite

from owlt.emulator.models.sky import LIGHT_KM_PER_S, GroundPoint, Values, elevation_deg, position, times

EARTH_RADIUS_KM = 6378.135
GRAVITATION_KM3_PER_S2 = 398_600.8
"""The gravitational parameter of WGS 72, which SGP4 uses."""
_EPOCH_JD = 2433281.5
"""The epoch of SGP4's dates: 1949-12-31."""


class NotATle(ValueError):
    """A text that is no two-line element set; its own text says why."""


@dataclass(frozen=True)
class Constellation:
    """Circular orbits: planes with equally many satellites each, at equal distances.

    In the pattern "star" (polar orbits) the ascending nodes are spread over 180 degrees, in "delta" over 360. The
    satellites of each plane are ahead of those of the plane before by `phase` of their distance within the plane.
    """

    altitude_km: float
    inclination_deg: float
    planes: int
    per_plane: int
    pattern: Literal["star", "delta"] = "star"
    phase: float = 0.5

    def satellites(self, epoch: datetime) -> list[Any]:
        """All satellites, plane by plane, as skyfield has them."""
        spread = pi if self.pattern == "star" else 2 * pi
        spacing = 2 * pi / self.per_plane
        return [
            _circular(self, epoch, spread * plane / self.planes, spacing * (number + self.phase * plane))
            for plane in range(self.planes)
            for number in range(self.per_plane)
        ]


@dataclass(frozen=True)
class Pass:
    """A satellite as a station sees it, over time."""

    seconds: Values
    delay_s: Values
    elevation_deg: Values


def tle_satellites(text: str) -> list[Any]:
    """The satellites of a text of two-line element sets, each after a line with its name or not.

    Raises NotATle.
    """
    lines = [line.rstrip() for line in text.splitlines() if line.strip()]
    firsts = [index for index, line in enumerate(lines[:-1]) if line[:2] == "1 " and lines[index + 1][:2] == "2 "]
    if not firsts:
        raise NotATle("no line that begins with '1 ' is followed by one that begins with '2 '")
    satellites = []
    for index in firsts:
        named = index > 0 and lines[index - 1][:2] != "2 "
        name = lines[index - 1].removeprefix("0 ").strip() if named else lines[index][2:7].strip()
        _check_sums(lines[index : index + 2])
        satellites.append(EarthSatellite(lines[index], lines[index + 1], name))
    return satellites


def pass_over(satellite: Any, station: GroundPoint, start: datetime, seconds: Values) -> Pass:
    """Distance as light time, and elevation, of a satellite over a station.

    The satellite's motion during the light time is not included (below 0.1 us).
    """
    at = times(start, seconds)
    vector_km = satellite.at(at).position.km - position(station).at(at).position.km
    distance_km = numpy.linalg.norm(vector_km, axis=0)
    return Pass(seconds, distance_km / LIGHT_KM_PER_S, elevation_deg(station, vector_km, at))


def _circular(orbits: Constellation, epoch: datetime, node: float, anomaly: float) -> Any:
    record = Satrec()
    semi_major_km = EARTH_RADIUS_KM + orbits.altitude_km
    per_minute = 60 * sqrt(GRAVITATION_KM3_PER_S2 / semi_major_km**3)
    days = times(epoch, numpy.zeros(1)).tt[0] - _EPOCH_JD
    elements = (0.0, 0.0, radians(orbits.inclination_deg), anomaly % (2 * pi), per_minute, node)
    record.sgp4init(WGS72, "i", 1, days, 0.0, 0.0, 0.0, *elements)
    return EarthSatellite.from_satrec(record, times(epoch, numpy.zeros(1)).ts)


def _check_sums(lines: list[str]) -> None:
    for line in lines:
        digits = sum(int(each) if each.isdigit() else each == "-" for each in line[:68])
        if len(line) < 69 or not line[68].isdigit() or digits % 10 != int(line[68]):
            raise NotATle(f"the checksum of {line[:24]!r}... is wrong")


LEAST_LINK_HEIGHT_KM = 80.0
"""Inter-satellite links that come closer to the ground than this are interrupted."""
_NOBODY = -1


@dataclass(frozen=True)
class Network:
    """Satellites, as skyfield has them, and the pairs of their indices that have a link."""

    satellites: list[Any]
    links: list[tuple[int, int]]


@dataclass(frozen=True)
class Route:
    """The path over time: its delay in seconds (NaN: there is no path), its satellites and the handovers."""

    seconds: Values
    delay_s: Values
    satellites: tuple[int, ...]
    """The number of satellites on the path at each moment."""
    handovers: tuple[int, ...]
    """The indices of the moments from which either ground point has another satellite."""


def network_of(orbits: Constellation, epoch: datetime) -> Network:
    """A constellation's satellites, and their links."""
    return Network(orbits.satellites(epoch), isl_pairs(orbits))


def route_between(
    network: Network,
    ends: tuple[GroundPoint, GroundPoint],
    start: datetime,
    seconds: Values,
    least_elevation_deg: float,
    hop_s: float = 0.0,
) -> Route:
    """Compute the path; `hop_s` is added for each satellite on it."""
    at = times(start, seconds)
    places_km = numpy.stack([each.at(at).position.km for each in network.satellites])
    grounds_km = [numpy.asarray(position(end).at(at).position.km) for end in ends]
    serving = [
        _serving(places_km - ground_km, end, at, least_elevation_deg)
        for end, ground_km in zip(ends, grounds_km, strict=True)
    ]
    delays, hops = [], []
    for index in range(len(seconds)):
        first, last = int(serving[0][index]), int(serving[1][index])
        if _NOBODY in (first, last):
            delays.append(float("nan"))
            hops.append(0)
            continue
        between_km, count = _shortest(places_km[:, :, index], network.links, first, last)
        edges_km = sum(
            float(numpy.linalg.norm(places_km[satellite, :, index] - ground_km[:, index]))
            for satellite, ground_km in zip((first, last), grounds_km, strict=True)
        )
        delays.append((between_km + edges_km) / LIGHT_KM_PER_S + count * hop_s if count else float("nan"))
        hops.append(count)
    return Route(seconds, numpy.array(delays), tuple(hops), _handovers(serving))


def isl_pairs(orbits: Constellation) -> list[tuple[int, int]]:
    """The pairs of satellites that have a link."""
    pairs = set()
    for plane in range(orbits.planes):
        for number in range(orbits.per_plane):
            own = plane * orbits.per_plane + number
            neighbours = [plane * orbits.per_plane + (number + 1) % orbits.per_plane]
            if plane + 1 < orbits.planes or (orbits.pattern == "delta" and orbits.planes > 2):
                neighbours.append((plane + 1) % orbits.planes * orbits.per_plane + number)
            pairs |= {(min(own, each), max(own, each)) for each in neighbours if each != own}
    return sorted(pairs)


def _serving(vectors_km: Values, end: GroundPoint, at: Any, least_deg: float) -> list[int]:
    """The satellite of a ground point at each moment; _NOBODY if none is high enough."""
    elevations = numpy.stack([elevation_deg(end, each, at) for each in vectors_km])
    serving, current = [], _NOBODY
    for index in range(elevations.shape[1]):
        if current == _NOBODY or elevations[current, index] < least_deg:
            highest = int(elevations[:, index].argmax())
            current = highest if elevations[highest, index] >= least_deg else _NOBODY
        serving.append(current)
    return serving


def _shortest(places_km: Values, links: list[tuple[int, int]], first: int, last: int) -> tuple[float, int]:
    """The length of the shortest path in km, and its number of satellites; 0 of them if there is no path."""
    pairs = numpy.array(links, dtype=int).reshape(-1, 2)
    ends_km = places_km[pairs]
    length_km = numpy.linalg.norm(ends_km[:, 0] - ends_km[:, 1], axis=1)
    height_km = numpy.linalg.norm(ends_km.mean(axis=1), axis=1) - EARTH_RADIUS_KM
    clear = height_km > LEAST_LINK_HEIGHT_KM
    graph = coo_array((length_km[clear], (pairs[clear, 0], pairs[clear, 1])), shape=(len(places_km),) * 2)
    distances_km, before = dijkstra(graph.tocsr(), directed=False, indices=first, return_predecessors=True)
    if not numpy.isfinite(distances_km[last]):
        return 0.0, 0
    count, node = 1, last
    while node != first:
        node = int(before[node])
        count += 1
    return float(distances_km[last]), count


def _handovers(serving: list[list[int]]) -> tuple[int, ...]:
    return tuple(
        index
        for index in range(1, len(serving[0]))
        if any(each[index] != each[index - 1] and each[index] != _NOBODY for each in serving)
    )


NODE_GAP_DEG = 2.0
"""Nodes that are further apart from each other than this belong to two planes."""
INCLINATION_RANGE_DEG = 2.0
ALTITUDE_RANGE_KM = 20.0
"""The greatest distance from the median altitude.

Two satellites 20 km apart in altitude move 0.9 degrees apart in an hour.
"""
LEAST_IN_A_PLANE = 3
MOST_DAYS_FROM_EPOCH = 14
"""The error of SGP4's position along the orbit grows by 1 to 3 km each day."""
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
    """The median inclination."""


@dataclass(frozen=True)
class _Orbits:
    """At one moment, one value for each satellite."""

    node_deg: Values
    inclination_deg: Values
    """The mean inclination of the elements; the altitudes are mean ones too."""
    latitude_deg: Values
    """The argument of latitude: the angle in the orbit from the ascending node."""
    altitude_km: Values
    """The altitude of the semi-major axis."""


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
    """The links between two planes, at most one for each satellite: the assignment with the most equal distances along
    the orbit."""
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
    """The orbits at the first of some moments. Raises NoConstellation if SGP4 cannot compute the last one."""
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
    """The names of the first satellites."""
    named = ", ".join(each.name for each in satellites[:MOST_NAMES])
    return named + (f" and {len(satellites) - MOST_NAMES} more" if len(satellites) > MOST_NAMES else "")
