"""The path of packets between two ground points through a constellation with inter-satellite links, over time.

Each satellite has links to the two neighbours in its plane, and to the satellite of the same number in each adjacent
plane; in the pattern "star", where the first and the last plane move in opposite directions, there is none between
them. A ground point keeps its satellite until that sinks below the least elevation, and then takes the highest one
(a handover). Packets take the shortest path.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy
from scipy.sparse import coo_array
from scipy.sparse.csgraph import dijkstra

from owlt.emulator.models.orbits import EARTH_RADIUS_KM, Constellation
from owlt.emulator.models.sky import LIGHT_KM_PER_S, GroundPoint, Values, elevation_deg, position, times

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
    """How many the path has at each moment."""
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
