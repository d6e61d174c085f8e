"""Light times against published distances, and the contacts of a station."""

from __future__ import annotations

from datetime import UTC, datetime

import numpy
import pytest

from owlt.emulator.models.sky import LIGHT_KM_PER_S, STATIONS, TARGETS, contact_windows, l2_share, light_times

ASTRONOMICAL_UNIT_KM = 149_597_870.7
NOW = numpy.array([0.0])
DAY = numpy.arange(0.0, 86_401.0, 3600.0)


@pytest.mark.parametrize(
    ("target", "moment", "published_km", "tolerance_km"),
    [
        ("mars", datetime(2003, 8, 27, 9, 51, tzinfo=UTC), 0.372_719_25 * ASTRONOMICAL_UNIT_KM, 200),
        ("moon", datetime(2016, 11, 14, 11, 23, tzinfo=UTC), 356_509, 3),
        ("moon", datetime(2020, 3, 24, 15, 23, tzinfo=UTC), 406_692, 3),
        ("jupiter", datetime(2022, 9, 26, tzinfo=UTC), 591.3e6, 0.1e6),
    ],
)
def test_a_light_time_is_that_of_the_published_distance(
    target: str, moment: datetime, published_km: float, tolerance_km: float
) -> None:
    """Closest approaches and apogees. Both directions together: the common motion of both ends cancels out."""
    times = light_times(target, None, moment, NOW)

    assert (times.down_s[0] + times.up_s[0]) / 2 * LIGHT_KM_PER_S == pytest.approx(published_km, abs=tolerance_km)


def test_l2_is_about_a_hundredth_of_the_way_to_the_sun_away() -> None:
    """1.50 million km at 1 au."""
    assert l2_share() * ASTRONOMICAL_UNIT_KM == pytest.approx(1.50e6, rel=0.01)


def test_l2_is_opposite_to_the_sun() -> None:
    assert light_times("l2", None, datetime(2026, 11, 22, tzinfo=UTC), NOW).sun_angle_deg > 179


def test_mars_is_beside_the_sun_at_its_conjunction() -> None:
    """2023-11-18: 0.1 degrees beside the Sun's centre."""
    assert light_times("mars", None, datetime(2023, 11, 18, 5, tzinfo=UTC), NOW).sun_angle_deg < 0.3


def test_the_directions_differ_by_the_motion_of_the_receivers() -> None:
    """Earth and Mars move at 30 and 24 km/s, 1e-4 of the speed of light."""
    times = light_times("mars", None, datetime(2026, 11, 22, tzinfo=UTC), NOW)

    assert 0.01 < abs(times.up_s[0] - times.down_s[0]) < 2e-4 * times.down_s[0]


def test_an_answer_arrives_when_its_own_light_time_has_passed() -> None:
    """A light time down from the moment at which light sent up arrives closes the round trip at the distance then."""
    start = datetime(2026, 11, 22, tzinfo=UTC)
    first = light_times("mars", None, start, NOW)
    later = light_times("mars", None, start, first.up_s)

    assert later.down_s[0] - first.down_s[0] == pytest.approx((later.up_s[0] - first.up_s[0]), rel=0.01)


@pytest.mark.parametrize("target", TARGETS)
def test_a_body_is_above_some_station_of_the_deep_space_network_at_any_time(target: str) -> None:
    start = datetime(2026, 11, 22, tzinfo=UTC)
    highest = numpy.max([light_times(target, each, start, DAY).elevation_deg for each in STATIONS.values()], axis=0)

    assert highest.min() > 5


def test_a_station_is_at_most_the_earths_radius_nearer() -> None:
    start = datetime(2026, 11, 22, tzinfo=UTC)
    centre = light_times("moon", None, start, DAY).down_s
    station = light_times("moon", STATIONS["madrid"], start, DAY).down_s

    assert 0.3 * 6378 / LIGHT_KM_PER_S < numpy.abs(station - centre).max() <= 6379 / LIGHT_KM_PER_S


@pytest.mark.parametrize(
    ("elevations", "windows"),
    [
        ([0, 20, 20, 0], [(5, 25)]),
        ([20, 20, 0, 0], [(0, 15)]),
        ([0, 0, 0, 40], [(22, 30)]),
        ([20, 0, 20, 0], [(0, 5), (15, 25)]),
        ([0, 0, 0, 0], []),
        ([20, 20, 20, 20], [(0, 30)]),
    ],
)
def test_contacts_begin_and_end_where_the_elevation_crosses_the_least_one(
    elevations: list[float], windows: list[tuple[int, int]]
) -> None:
    assert contact_windows(numpy.arange(0.0, 40.0, 10.0), numpy.array(elevations, dtype=float), 10) == windows
