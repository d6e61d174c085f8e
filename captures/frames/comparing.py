"""Whether two captures have the same frames: times, lengths, and the octets that both have."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from owlt.captures.files.pcap import read_frames
from owlt.captures.frames.columns import Columns, read_columns


def first_difference(one: Path, other: Path) -> str:
    """Where two captures first differ, as a phrase; "" if they have the same frames.

    Captures that keep only headers are compared as far as both go. Raises NotACapture, OSError.
    """
    a, b = read_columns(one), read_columns(other)
    frames = min(len(a.time_ns), len(b.time_ns))
    differing = [place for place in (_first_of_columns(a, b, frames), _first_of_octets(a, b, frames)) if place]
    if differing:
        number, what = min(differing)
        return f"frame {number + 1}: {what}"
    if len(a.time_ns) != len(b.time_ns):
        return f"{len(a.time_ns)} frames and {len(b.time_ns)}"
    return ""


def _first_of_columns(a: Columns, b: Columns, frames: int) -> tuple[int, str] | None:
    """The first frame with another length or time, and what differs."""
    for values, others, what, unit in (
        (a.wire_bytes, b.wire_bytes, "lengths", "bytes"),
        (a.time_ns, b.time_ns, "times", "ns"),
    ):
        places = np.flatnonzero(values[:frames] != others[:frames])
        if places.size:
            number = int(places[0])
            return number, f"{what} {values[number]} and {others[number]} {unit}"
    return None


def _first_of_octets(a: Columns, b: Columns, frames: int) -> tuple[int, str] | None:
    """The first frame with other octets, as far as both captures have them."""
    lengths = np.minimum(a.captured_bytes[:frames], b.captured_bytes[:frames])
    pairs = zip(
        read_frames(a.path, a.offset[:frames], lengths), read_frames(b.path, b.offset[:frames], lengths), strict=True
    )
    number = next((number for number, (octets, others) in enumerate(pairs) if octets != others), None)
    return None if number is None else (number, "other octets")
