"""Binary search for the first version of a program that behaves differently, and where its packets diverge.

The search assumes that all versions from the first that differs on differ as well. Two versions are compared by what
their programs send: identification fields of IP and the times of whole runs follow from when a program starts, which
differs by microseconds between any two programs.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from owlt.captures.accounting.derived_files import CAPTURES
from owlt.captures.frames.columns import Columns, Rows, by_time, read_columns

SAME_TIME_NS = 1_000_000
"""Packets of two versions whose times from their first packets differ by no more are sent at the same time."""


def first_bad(count: int, is_bad: Callable[[int], bool]) -> int:
    """The number, from 0, of the first bad one of so many versions, of which the first is good and the last bad."""
    return bisect_left(range(count - 1), True, lo=1, key=is_bad)


def first_divergence(run: Path, other: Path) -> str:
    """The first packet with payload at the sender's port in which two runs differ, as a phrase with its number among
    such packets of both directions; "" if there is none: in its direction, in the length or the octets of its payload,
    or in its time from the first one by more than 1 ms.

    Raises NotACapture, OSError.
    """
    captures = [read_columns(each / CAPTURES[0]) for each in (run, other)]
    rows = [_with_payload(each) for each in captures]
    count = min(map(len, rows))
    first, second = ((capture, own[:count]) for capture, own in zip(captures, rows, strict=True))
    differs = np.zeros(count, np.bool_)
    for name in ("source_port", "destination_port", "payload_bytes", "payload_hash"):
        differs |= getattr(first[0], name)[first[1]] != getattr(second[0], name)[second[1]]
    differs |= np.abs(_times(*first) - _times(*second)) > SAME_TIME_NS
    numbers = np.flatnonzero(differs)
    if numbers.size:
        number = int(numbers[0])
        return f"packet with payload {number + 1}: {_text(*first, number)} and {_text(*second, number)}"
    if len(rows[0]) == len(rows[1]):
        return ""
    return f"packet with payload {count + 1}: only in one run, of {len(rows[0])} and {len(rows[1])} packets"


def _with_payload(capture: Columns) -> Rows:
    rows = np.flatnonzero(capture.payload_bytes > 0)
    return by_time(capture, rows)


def _times(capture: Columns, rows: Rows) -> NDArray[np.int64]:
    times: NDArray[np.int64] = capture.time_ns[rows]
    return times - times[:1]


def _text(capture: Columns, rows: Rows, number: int) -> str:
    row = rows[number]
    ports = f"{capture.source_port[row]} to {capture.destination_port[row]}"
    return f"{capture.payload_bytes[row]} B from port {ports} at {_times(capture, rows)[number] / 1e9:.6f} s"
