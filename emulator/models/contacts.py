"""When something is above a station's horizon, from its elevation over time."""

from __future__ import annotations

from owlt.emulator.models.sky import Values

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
