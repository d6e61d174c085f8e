"""Arguments of the commands that compute a channel: dates, ground points, altitudes and lengths of time."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from owlt.inputs.mistake import Mistake
from owlt.orchestrator.errors import Missing, OwltError

if TYPE_CHECKING:
    from owlt.emulator.models.sky import GroundPoint

MOST_STEPS = 100_000


def require_orbits(command: str) -> None:
    """Raise Missing if the Python packages that compute orbits are not installed."""
    try:
        import skyfield
        import skyfield_data  # noqa: F401
    except ImportError as problem:
        name = (problem.name or "skyfield").replace("_", "-")
        fix = "install the extra 'orbits': pip install 'owlt[orbits]'"
        raise Missing(Mistake.of(command, f"the Python package {name} is missing", fix=fix)) from problem
    del skyfield


def parse_date(text: str) -> datetime:
    """The moment of "2026-11-22" or "2026-11-22T14:30", which is in UTC. Raises OwltError."""
    from owlt.emulator.models.sky import FIRST_YEAR, LAST_YEAR

    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        expected = "a date, and a time in UTC if it is not midnight, such as 2026-11-22 or 2026-11-22T14:30"
        raise OwltError(Mistake.of("--date", f"got {text!r}", expected)) from None
    moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    if not FIRST_YEAR <= moment.year < LAST_YEAR:
        expected = f"a year from {FIRST_YEAR} to {LAST_YEAR - 1}, which the ephemeris covers"
        raise OwltError(Mistake.of("--date", f"got {text!r}", expected))
    return moment


def parse_point(option: str, text: str) -> GroundPoint:
    """A station by its name, or a point as "LATITUDE,LONGITUDE" in degrees, with a height in m or without.

    Raises OwltError.
    """
    from owlt.emulator.models.sky import STATIONS, GroundPoint

    if text.lower() in STATIONS:
        return STATIONS[text.lower()]
    expected = f"LATITUDE,LONGITUDE in degrees, such as 43.6,1.44, or one of {', '.join(STATIONS)}"
    try:
        latitude, longitude, *height = (float(part) for part in text.split(","))
        within = abs(latitude) <= 90 and abs(longitude) <= 360 and len(height) <= 1
    except ValueError:
        within = False
    if not within:
        raise OwltError(Mistake.of(option, f"got {text!r}", expected))
    return GroundPoint(f"{latitude:g},{longitude:g}", latitude, longitude, *height)


def parse_altitude_km(text: str) -> float:
    """The kilometres of "800km". Raises OwltError unless it is between 160 and 36,000 km."""
    match = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]+)?)\s*km\s*", text)
    if match is None or not 160 <= float(match[1]) <= 36_000:
        raise OwltError(Mistake.of("--altitude", f"got {text!r}", "160 km to 36000 km, such as 800km"))
    return float(match[1])


def moments_s(hours: float, step_s: float) -> list[float]:
    """The times of the steps in seconds, from 0 to the end. Raises OwltError if there are none or too many."""
    if hours <= 0:
        raise OwltError(Mistake.of("--hours", f"got {hours:g}", "more than 0"))
    if step_s < 0.001:
        raise OwltError(Mistake.of("--step", f"got {step_s:g}", "at least 0.001 (seconds)"))
    count = int(hours * 3600 / step_s) + 1
    if count < 2 or count > MOST_STEPS:
        problem = f"got {hours:g} h in steps of {step_s:g} s: {count} steps"
        raise OwltError(Mistake.of("--hours", problem, f"2 to {MOST_STEPS} steps", "change --hours or --step"))
    return [round(number * step_s, 9) for number in range(count)]
