"""Satellites of constellations and of TLEs, their passes, and paths through constellations."""

from __future__ import annotations

from datetime import UTC, datetime
from math import acos, cos, pi, radians, sqrt

import numpy
import pytest

from owlt.emulator.models.constellations import (
    EARTH_RADIUS_KM,
    GRAVITATION_KM3_PER_S2,
    Constellation,
    NotATle,
    Pass,
    Route,
    isl_pairs,
    network_of,
    pass_over,
    route_between,
    tle_satellites,
)
from owlt.emulator.models.sky import LIGHT_KM_PER_S, GroundPoint, position, times

START = datetime(2026, 11, 22, tzinfo=UTC)
IRIDIUM_LIKE = Constellation(800, 86.4, 6, 11)
TOULOUSE, WELLINGTON = GroundPoint("Toulouse", 43.6, 1.44), GroundPoint("Wellington", -41.3, 174.8)
HOUR = numpy.arange(0.0, 3601.0, 20.0)
TLE = """\
ISS (ZARYA)
1 25544U 98067A   14020.93268519  .00009878  00000-0  18200-3 0  5082
2 25544  51.6498 109.4756 0003572  55.9686 274.8005 15.49815350868473
"""


@pytest.fixture(scope="module")
def seen() -> Pass:
    """The passes of one satellite over Toulouse during a day."""
    seconds = numpy.arange(0.0, 86_401.0, 20.0)
    return pass_over(IRIDIUM_LIKE.satellites(START)[0], TOULOUSE, START, seconds)


@pytest.fixture(scope="module")
def route() -> Route:
    return route_between(network_of(IRIDIUM_LIKE, START), (TOULOUSE, WELLINGTON), START, HOUR, 10)


def test_all_satellites_stay_at_their_altitude() -> None:
    """To 15 km: the Earth's oblateness bends a circular orbit by about 10 km."""
    at = times(START, HOUR)
    heights_km = [
        numpy.linalg.norm(each.at(at).position.km, axis=0) - EARTH_RADIUS_KM for each in IRIDIUM_LIKE.satellites(START)
    ]

    assert numpy.abs(numpy.array(heights_km) - 800).max() < 15


def test_a_satellite_returns_after_keplers_period() -> None:
    """To the precession of a period, which is a few km."""
    period_s = 2 * pi * sqrt((EARTH_RADIUS_KM + 800) ** 3 / GRAVITATION_KM3_PER_S2)
    places_km = IRIDIUM_LIKE.satellites(START)[0].at(times(START, numpy.array([0.0, period_s]))).position.km

    assert numpy.linalg.norm(places_km[:, 1] - places_km[:, 0]) < 0.005 * 2 * pi * (EARTH_RADIUS_KM + 800)


def test_planes_of_a_star_are_spread_over_half_a_turn() -> None:
    one, other = (Constellation(800, 90, 2, 1, pattern, 0.0).satellites(START) for pattern in ("star", "delta"))
    at = times(START, numpy.array([0.0]))
    star, delta = ([each.at(at).position.km[:, 0] / (EARTH_RADIUS_KM + 800) for each in both] for both in (one, other))

    assert float(star[0] @ star[1]) == pytest.approx(0, abs=0.01)
    assert float(delta[0] @ delta[1]) == pytest.approx(-1, abs=0.01)


def test_a_pass_is_no_longer_than_the_one_through_the_zenith(seen: Pass) -> None:
    """The Earth turns below the orbit, by 7 % of the satellite's angular velocity at most."""
    radius_km, least = EARTH_RADIUS_KM + 800, radians(10)
    half_arc = acos(EARTH_RADIUS_KM / radius_km * cos(least)) - least
    longest_s = 2 * half_arc / sqrt(GRAVITATION_KM3_PER_S2 / radius_km**3)
    above = numpy.concatenate(([0], (seen.elevation_deg >= 10).astype(int), [0]))
    begins, ends = numpy.flatnonzero(numpy.diff(above) == 1), numpy.flatnonzero(numpy.diff(above) == -1)

    assert 300 < 20 * (ends - begins).max() <= 1.08 * longest_s + 40


def test_the_delay_of_a_satellite_at_10_degrees_follows_from_the_triangle_with_the_earths_centre(seen: Pass) -> None:
    nearest = numpy.abs(seen.elevation_deg - 10).argmin()
    elevation, ground_km, radius_km = radians(float(seen.elevation_deg[nearest])), 6368.0, EARTH_RADIUS_KM + 800
    sine = ground_km * numpy.sin(elevation)
    slant_km = sqrt(sine**2 + radius_km**2 - ground_km**2) - sine

    assert seen.delay_s[nearest] * LIGHT_KM_PER_S == pytest.approx(slant_km, abs=15)


def test_a_tle_is_propagated_from_its_epoch() -> None:
    """The station's height is published as 415 to 425 km above the equator's radius, at the middle of 2014-01."""
    (station,) = tle_satellites(TLE)
    at = times(datetime(2014, 1, 20, 22, 23, tzinfo=UTC), numpy.arange(0.0, 5600.0, 60.0))

    assert station.name == "ISS (ZARYA)"
    assert numpy.linalg.norm(station.at(at).position.km, axis=0).mean() - EARTH_RADIUS_KM == pytest.approx(417, abs=5)


def test_a_tle_without_a_name_is_named_after_its_number() -> None:
    (station,) = tle_satellites(TLE.partition("\n")[2])

    assert station.name == "25544"


@pytest.mark.parametrize(
    ("text", "problem"),
    [("nothing", "no line that begins with '1 '"), (TLE.replace("55.9686", "55.9687"), "the checksum of '2 25544")],
)
def test_what_is_no_tle_is_refused(text: str, problem: str) -> None:
    with pytest.raises(NotATle, match=problem):
        tle_satellites(text)


def test_66_satellites_in_a_star_have_121_links() -> None:
    """66 within the 6 planes, and 11 in each of the 5 gaps between planes."""
    assert len(isl_pairs(IRIDIUM_LIKE)) == 121


def test_a_delta_has_links_between_its_last_and_its_first_plane() -> None:
    assert len(isl_pairs(Constellation(800, 53, 6, 11, "delta"))) == 132


def test_66_satellites_connect_two_places_at_all_times(route: Route) -> None:
    assert numpy.isfinite(route.delay_s).all()


def test_a_path_is_longer_than_the_way_over_the_ground(route: Route) -> None:
    """Twice up and down, 800 km each at least, and along a circle above the ground."""
    at = times(START, HOUR[:1])
    ends_km = [position(each).at(at).position.km[:, 0] for each in (TOULOUSE, WELLINGTON)]
    angle = acos(float(ends_km[0] @ ends_km[1]) / 6368**2)

    assert route.delay_s.min() * LIGHT_KM_PER_S > angle * 6368


def test_the_delay_between_antipodes_over_66_satellites_is_that_of_the_paper(route: Route) -> None:
    """Seed 003, section 2.1: 66 satellites at 800 km make 70 to 90 ms."""
    assert 0.070 < route.delay_s.min() < route.delay_s.max() < 0.093


def test_a_place_keeps_its_satellite_for_minutes(route: Route) -> None:
    """No pass is longer than 12 min from 10 degrees; two places have at least twice 5 handovers an hour."""
    assert 8 <= len(route.handovers) <= 40


def test_a_delay_for_each_satellite_is_added(route: Route) -> None:
    slower = route_between(network_of(IRIDIUM_LIKE, START), (TOULOUSE, WELLINGTON), START, HOUR[:3], 10, hop_s=0.001)

    assert slower.delay_s - route.delay_s[:3] == pytest.approx(numpy.array(slower.satellites) * 0.001)


def test_one_satellite_connects_places_only_while_both_see_it() -> None:
    orbits = Constellation(800, 86.4, 1, 1)
    route = route_between(network_of(orbits, START), (TOULOUSE, TOULOUSE), START, numpy.arange(0.0, 86_401.0, 60.0), 10)

    share = numpy.isfinite(route.delay_s).mean()
    assert 0.005 < share < 0.05


def test_links_through_the_earth_are_interrupted() -> None:
    """Four satellites in a plane are 90 degrees apart: their links would pass 1,300 km below the ground."""
    orbits = Constellation(800, 86.4, 1, 4)
    route = route_between(network_of(orbits, START), (TOULOUSE, WELLINGTON), START, HOUR, 0)

    assert numpy.isnan(route.delay_s).all()
