"""What all computations of orbits share: times, points on the Earth, positions in km, the speed of light.

Positions are those of JPL's ephemeris DE421 (1900 to 2050; the planets' distances from the Earth are good to some km)
and of the library skyfield. Both come as Python packages: nothing is downloaded.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any

import numpy
import skyfield_data
from numpy.typing import NDArray
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
