"""The one-way light time between the Earth and a planet, the Moon or the Sun-Earth point L2, over time.

The light time of a packet is that of its own moment of transmission, in its own direction: while light travels, the
receiver moves on, so the two directions differ by up to 0.1 s at Mars. The Sun's gravity, which adds 0.3 ms at most,
and the radius of the far body are not included.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy
from scipy.optimize import brentq

from owlt.emulator.models.sky import LIGHT_KM_PER_S, GroundPoint, Values, bodies, elevation_deg, later, position, times

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
"""What light times are computed for, and its name in the ephemeris. L2 is computed from the Sun and the Earth."""
SUN_TO_EARTH_AND_MOON = 328_900.5596
"""Ratio of masses (IAU 2009)."""
_ROUNDS = 4
"""The light time is a fixed point; each round multiplies its error by v/c, about 1e-4."""


@dataclass(frozen=True)
class LightTimes:
    """Over time, one value for each moment of transmission."""

    seconds: Values
    down_s: Values
    """From the far body to the Earth."""
    up_s: Values
    elevation_deg: Values | None
    """Of the body above the station's horizon; None without a station."""
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
"""Where something is at some times: km from the barycentre of the solar system, 3 x times."""


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
    """Beyond the Earth, on the line from the Sun through the barycentre of Earth and Moon."""
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
