"""Two-line element sets of ideal constellations, as a text."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

from sgp4.exporter import export_tle
from sgp4.io import fix_checksum

from owlt.emulator.models.constellations import Constellation

FIRST_NUMBER = 10_001


def tle_text(orbits: Constellation, epoch: datetime, order: Callable[[list[Any]], list[Any]] = list) -> str:
    """The elements of each satellite after its name, S10001 and so on, in another order if one is given."""
    sets = []
    for number, satellite in enumerate(orbits.satellites(epoch), FIRST_NUMBER):
        lines = [fix_checksum(f"{line[:2]}{number:05d}{line[7:68]}") for line in export_tle(satellite.model)]
        sets.append("\n".join([f"S{number}", *lines]))
    return "\n".join([*order(sets), ""])
