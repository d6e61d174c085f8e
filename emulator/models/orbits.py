"""Satellites in low orbits: from a TLE, or in the circular orbits of a constellation. SGP4 propagates both (library
sgp4), so the orbits precess with the Earth's oblateness.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from math import pi, radians, sqrt
from typing import Any, Literal

import numpy
from sgp4.api import WGS72, Satrec
from skyfield.api import EarthSatellite

from owlt.emulator.models.sky import LIGHT_KM_PER_S, GroundPoint, Values, elevation_deg, position, times

EARTH_RADIUS_KM = 6378.135
GRAVITATION_KM3_PER_S2 = 398_600.8
"""Of WGS 72, which SGP4 uses."""
_EPOCH_JD = 2433281.5
"""Of SGP4's dates: 1949-12-31."""


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
