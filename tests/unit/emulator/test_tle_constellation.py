"""Constellations that are recognised in two-line element sets: planes, links, and the delays of paths."""

from __future__ import annotations

import random
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from math import radians

import numpy
import pytest

from owlt.emulator.models.constellations import (
    EARTH_RADIUS_KM,
    Constellation,
    NoConstellation,
    Route,
    constellation_of,
    isl_pairs,
    links_of,
    network_of,
    planes_of,
    route_between,
    tle_satellites,
)
from owlt.emulator.models.sky import LIGHT_KM_PER_S, GroundPoint
from tests.unit.emulator.tle_files import tle_text

START = datetime(2026, 11, 22, tzinfo=UTC)
IRIDIUM_LIKE = Constellation(800, 86.4, 6, 11)
ENDS = (GroundPoint("Toulouse", 43.6, 1.44), GroundPoint("Wellington", -41.3, 174.8))
HOUR = numpy.arange(0.0, 3601.0, 20.0)
ROUNDED_KM = 3 * radians(0.5e-4) * (EARTH_RADIUS_KM + 800) + 7.5 * 0.5e-8 * 86_400
"""The farthest that rounding moves a satellite: inclination, node and anomaly to 0.0001 degrees, the epoch to 1e-8 days
at 7.5 km/s."""


def route_of(text: str, start: datetime = START) -> Route:
    network = constellation_of(tle_satellites(text), start, HOUR).network
    return route_between(network, ENDS, start, HOUR, 10)


def shuffled(sets: list[str]) -> list[str]:
    return random.Random(1).sample(sets, len(sets))


def bound_s(route: Route) -> float:
    """A path has one end at a ground point or another satellite twice for each of its satellites."""
    return 2 * max(route.satellites) * ROUNDED_KM / LIGHT_KM_PER_S


@pytest.fixture(scope="module")
def ideal() -> Route:
    return route_between(network_of(IRIDIUM_LIKE, START), ENDS, START, HOUR, 10)


@pytest.mark.parametrize("order", [list, shuffled])
def test_elements_of_66_satellites_make_the_delays_of_the_ideal_constellation(ideal: Route, order) -> None:
    route = route_of(tle_text(IRIDIUM_LIKE, START, order))

    assert numpy.abs(route.delay_s - ideal.delay_s).max() <= bound_s(ideal)
    assert bound_s(ideal) < 2e-6
    assert (route.handovers, route.satellites) == (ideal.handovers, ideal.satellites)


@pytest.mark.parametrize(
    "other",
    [replace(IRIDIUM_LIKE, altitude_km=801), replace(IRIDIUM_LIKE, phase=0.4995), replace(IRIDIUM_LIKE, phase=0.0)],
)
def test_elements_of_another_constellation_make_other_delays(ideal: Route, other: Constellation) -> None:
    """The control: 1 km higher, and planes 0.016 or 16 degrees (2 or 2,000 km) closer to each other along the orbit."""
    assert numpy.abs(route_of(tle_text(other, START)).delay_s - ideal.delay_s).max() > 2 * bound_s(ideal)


def test_elements_are_propagated_from_their_epoch_to_the_date() -> None:
    """Ten days: the rounded mean motion, to 0.5e-8 turns a day, moves a satellite by 2.3 m more."""
    before = START - timedelta(days=10)
    route = route_of(tle_text(IRIDIUM_LIKE, before))
    ideal = route_between(network_of(IRIDIUM_LIKE, before), ENDS, START, HOUR, 10)

    assert numpy.abs(route.delay_s - ideal.delay_s).max() <= 1.2 * bound_s(ideal)


@pytest.mark.parametrize(
    "orbits",
    [
        IRIDIUM_LIKE,
        replace(IRIDIUM_LIKE, phase=0.0),
        replace(IRIDIUM_LIKE, phase=0.25),
        Constellation(550, 53, 8, 12, "delta", 0.5),
        Constellation(550, 53, 5, 7, "delta", 0.0),
        Constellation(1200, 87.9, 12, 20),
        Constellation(800, 86.4, 1, 9),
        Constellation(800, 86.4, 2, 9),
        Constellation(800, 86.4, 2, 9, "delta"),
    ],
    ids=str,
)
def test_links_are_those_of_the_ideal_constellation(orbits: Constellation) -> None:
    """Around a whole turn, the first plane is not half a distance ahead: its links are to the nearest satellites."""
    network = constellation_of(tle_satellites(tle_text(orbits, START)), START, HOUR).network
    seam = {(0, orbits.planes - 1)} if orbits.pattern == "delta" and orbits.planes > 2 else set()
    planes = [{(one // orbits.per_plane, other // orbits.per_plane) for one, other in [pair]} for pair in network.links]
    within = [pair for pair, of in zip(network.links, planes, strict=True) if not of <= seam]

    expected = [p for p in isl_pairs(orbits) if not {(p[0] // orbits.per_plane, p[1] // orbits.per_plane)} <= seam]
    assert within == expected
    assert len(network.links) == len(isl_pairs(orbits))


def test_satellites_that_are_off_their_places_have_the_same_links() -> None:
    """By up to 0.5 degrees across the plane and 2 along it, of 32.7 to the next one."""
    generator = numpy.random.default_rng(1)
    planes, places = numpy.divmod(numpy.arange(66), 11)
    nodes = 30.0 * planes + generator.uniform(-0.5, 0.5, 66)
    latitudes = 360 / 11 * (places + planes / 2) + generator.uniform(-2, 2, 66)

    assert links_of(planes_of(nodes), nodes, latitudes) == isl_pairs(IRIDIUM_LIKE)


def test_a_missing_satellite_takes_its_links_with_it() -> None:
    """Two within its plane, between whose ends there is one now, and one to each adjacent plane."""
    sets = tle_text(IRIDIUM_LIKE, START).split("S10030\n")
    text = sets[0] + "".join(sets[1].splitlines(keepends=True)[2:])
    found = constellation_of(tle_satellites(text), START, HOUR)

    assert found.planes == (11, 11, 10, 11, 11, 11)
    assert len(found.network.links) == len(isl_pairs(IRIDIUM_LIKE)) - 3


def test_a_plane_may_lie_across_the_direction_from_which_nodes_count() -> None:
    assert sorted(map(len, planes_of(numpy.array([359.5, 0.2, 0.9, 90.0, 90.1, 89.0])))) == [3, 3]


def test_altitude_and_inclination_are_those_of_the_elements() -> None:
    found = constellation_of(tle_satellites(tle_text(IRIDIUM_LIKE, START)), START, HOUR)

    assert found.altitude_km == pytest.approx(800, abs=0.1)
    assert found.inclination_deg == pytest.approx(86.4, abs=0.1)


def refused(text: str, start: datetime = START) -> NoConstellation:
    with pytest.raises(NoConstellation) as error:
        constellation_of(tle_satellites(text), start, HOUR)
    return error.value


def test_two_satellites_are_too_few() -> None:
    assert (
        "fewer than 3 satellites in the planes of S10001, S10002"
        in refused(tle_text(Constellation(800, 86.4, 2, 1), START)).problem
    )


def test_satellites_without_common_planes_are_no_constellation() -> None:
    problem = refused(tle_text(Constellation(800, 86.4, 40, 1), START)).problem

    assert problem.startswith("not a constellation: fewer than 3 satellites in the planes of S10001, ")
    assert problem.endswith(" and 35 more")


@pytest.mark.parametrize(
    ("other", "problem", "expected"),
    [
        (replace(IRIDIUM_LIKE, altitude_km=625), "a mean altitude of 625.0 km", "within 20 km of the median, 800.0"),
        (replace(IRIDIUM_LIKE, inclination_deg=53), "an inclination of 53.0", "within 2 degrees of the median, 86.4"),
    ],
    ids=["altitude", "inclination"],
)
def test_satellites_of_another_shell_are_named(other: Constellation, problem: str, expected: str) -> None:
    text = tle_text(IRIDIUM_LIKE, START)
    spare = tle_text(replace(other, planes=1, per_plane=1), START).replace("10001", "20001")
    lines = [spare.splitlines()[0], *(line[:-1] + str(checksum(line)) for line in spare.splitlines()[1:])]
    error = refused(text + "\n".join([*lines, ""]))

    assert "S20001 with" in error.problem
    assert problem in error.problem
    assert error.expected.startswith(expected)


def checksum(line: str) -> int:
    return sum(int(each) if each.isdigit() else each == "-" for each in line[:68]) % 10


@pytest.mark.parametrize("days", [-20, 20])
def test_elements_that_are_far_from_the_date_are_refused(days: int) -> None:
    error = refused(tle_text(IRIDIUM_LIKE, START), START + timedelta(days=days))

    assert "are from 2026-11-22, 20 days from --date" in error.problem
    assert error.expected == "at most 14 days"


def test_a_satellite_that_is_in_the_file_twice_is_named() -> None:
    text = tle_text(IRIDIUM_LIKE, START)

    assert refused(text + "\n".join(text.splitlines()[:3])).problem == "got S10001 twice"
