"""Times, ground points and bodies of the solar system: light times between the Earth and a far body, and contacts.

Positions are those of JPL's ephemeris DE421 (1900 to 2050; the planets' distances from the Earth are good to some km)
and of the library skyfield. Both come as Python packages: nothing is downloaded.

The light time of a packet is that of its own moment of transmission, in its own direction: while light travels, the
receiver moves on, so the two directions differ by up to 0.1 s at Mars. The Sun's gravity, which adds 0.3 ms at most,
and the radius of the far body are not included.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any

import numpy
import skyfield_data
from numpy.typing import NDArray
from scipy.optimize import brentq
from skyfield.api import load, load_file, wgs84

LIGHT_KM_PER_S = 299_792.458
EPHEMERIS = "DE421"
FIRST_YEAR, LAST_YEAR = 1900, 2050
SECONDS_PER_DAY = 86_400

Values = NDArray[numpy.float64]


@dataclass(frozen=True)
class GroundPoint:
    """A point on the Earth (WGS 84)."""

    name: str
    latitude_deg: float
    longitude_deg: float
    height_m: float = 0.0


STATIONS = {
    "goldstone": GroundPoint("Goldstone", 35.42590, -116.88954, 1001),
    "canberra": GroundPoint("Canberra", -35.40243, 148.98127, 689),
    "madrid": GroundPoint("Madrid", 40.43121, -4.24801, 865),
}
"""The 70 m antennas DSS 14, 43 and 63 of the Deep Space Network (DSN 810-005, module 301)."""


@cache
def bodies() -> Any:
    """The ephemeris: its bodies by name."""
    return load_file(str(Path(skyfield_data.__file__).parent / "data" / "de421.bsp"))


def times(start: datetime, seconds: Values) -> Any:
    """Skyfield's time at each number of seconds after `start`, which is in UTC."""
    first = _timescale().from_datetime(start)
    return _timescale().tt_jd(first.whole, first.tt_fraction + seconds / SECONDS_PER_DAY)


def later(time: Any, seconds: Values) -> Any:
    """Each of some times, so many seconds later."""
    return _timescale().tt_jd(time.whole, time.tt_fraction + seconds / SECONDS_PER_DAY)


def position(point: GroundPoint) -> Any:
    """A ground point as skyfield has it, relative to the Earth's centre."""
    return wgs84.latlon(point.latitude_deg, point.longitude_deg, point.height_m)


def elevation_deg(point: GroundPoint, vector_km: Values, time: Any) -> Values:
    """The angle above the horizon of what is at a vector (3 x times, GCRS) from a point; without refraction."""
    rotation = position(point).rotation_at(time)
    up_km = numpy.einsum("jt,jt->t", rotation[2], vector_km)
    sines: Values = up_km / numpy.linalg.norm(vector_km, axis=0)
    return numpy.asarray(numpy.degrees(numpy.arcsin(sines)))


@cache
def _timescale() -> Any:
    return load.timescale(builtin=True)


TARGETS = {
    "mercury": "mercury",
    "venus": "venus",
    "mars": "mars",
    "jupiter": "jupiter barycenter",
    "saturn": "saturn barycenter",
    "uranus": "uranus barycenter",
    "neptune": "neptune barycenter",
    "moon": "moon",
    "l2": "",
}
"""The bodies for which light times are computed, and their names in the ephemeris.

L2 is computed from the Sun and the Earth.
"""
SUN_TO_EARTH_AND_MOON = 328_900.5596
"""The ratio of the masses (IAU 2009)."""
_ROUNDS = 4
"""The light time is a fixed point; each round multiplies its error by v/c, about 1e-4."""


@dataclass(frozen=True)
class LightTimes:
    """Over time, one value for each moment of transmission."""

    seconds: Values
    down_s: Values
    """The light time from the far body to the Earth."""
    up_s: Values
    elevation_deg: Values | None
    """The elevation of the body above the station's horizon; None without a station."""
    sun_angle_deg: float
    """The least angle between the body and the Sun, as the Earth sees them."""


def light_times(target: str, station: GroundPoint | None, start: datetime, seconds: Values) -> LightTimes:
    """Compute the light times of one of TARGETS from a station, or from the Earth's centre."""
    far, near = _far_position(target), _near_position(station)
    at = times(start, seconds)
    vector_km = far(at) - near(at)
    to_sun_km = bodies()["sun"].at(at).position.km - near(at)
    return LightTimes(
        seconds,
        _one_way_s(far, near, at),
        _one_way_s(near, far, at),
        elevation_deg(station, vector_km, at) if station else None,
        float(_angle_deg(vector_km, to_sun_km).min()),
    )


_Position = Callable[[Any], Values]
"""The position of a body at some times: km from the barycentre of the solar system, 3 x times."""


def _far_position(target: str) -> _Position:
    if target == "l2":
        return _l2_km
    return lambda at: numpy.asarray(bodies()[TARGETS[target]].at(at).position.km)


def _near_position(station: GroundPoint | None) -> _Position:
    earth = bodies()["earth"]
    place = earth + position(station) if station else earth
    return lambda at: numpy.asarray(place.at(at).position.km)


def _one_way_s(source: _Position, destination: _Position, at: Any) -> Values:
    source_km = source(at)
    travel_s = numpy.zeros(source_km.shape[1])
    for _ in range(_ROUNDS):
        travel_s = numpy.linalg.norm(destination(later(at, travel_s)) - source_km, axis=0) / LIGHT_KM_PER_S
    return travel_s


def _l2_km(at: Any) -> Values:
    """The position of L2: beyond the Earth, on the line from the Sun through the barycentre of Earth and Moon."""
    sun_km, earth_km = (bodies()[name].at(at).position.km for name in ("sun", "earth barycenter"))
    return numpy.asarray(earth_km + l2_share() * (earth_km - sun_km))


def l2_share() -> float:
    """The distance of L2 beyond the Earth, as a share of the Earth's distance from the Sun.

    The two masses attract what is there as strongly as it needs for the Earth's angular velocity.
    """
    mass = 1 / (1 + SUN_TO_EARTH_AND_MOON)

    def surplus(share: float) -> float:
        return (1 - mass) / (1 + share) ** 2 + mass / share**2 - (1 - mass + share)

    return float(brentq(surplus, 1e-3, 1e-1, xtol=1e-14))


def _angle_deg(one: Values, other: Values) -> Values:
    cosine = (one * other).sum(axis=0) / numpy.linalg.norm(one, axis=0) / numpy.linalg.norm(other, axis=0)
    return numpy.asarray(numpy.degrees(numpy.arccos(numpy.clip(cosine, -1, 1))))


Window = tuple[int, int]
"""Start and end of a contact, in whole seconds."""


def contact_windows(seconds: Values, elevation_deg: Values, least_deg: float) -> list[Window]:
    """The windows with at least an elevation; the crossings between two moments are interpolated.

    A window of less than a second is left out.
    """
    windows: list[Window] = []
    above = elevation_deg >= least_deg
    start = float(seconds[0]) if above[0] else None
    for index in range(1, len(seconds)):
        if above[index] == above[index - 1]:
            continue
        low, high = elevation_deg[index - 1], elevation_deg[index]
        share = (least_deg - low) / (high - low)
        crossing = float(seconds[index - 1] + share * (seconds[index] - seconds[index - 1]))
        if start is None:
            start = crossing
        else:
            windows.append((round(start), round(crossing)))
            start = None
    if start is not None:
        windows.append((round(start), round(float(seconds[-1]))))
    return [(begin, end) for begin, end in windows if begin < end]
