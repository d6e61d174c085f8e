"""The curves of a channel that a figure shows, and how they are drawn as lines over time.

`orchestrator` computes the curves from a channel; here is what a figure needs of them.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from owlt.reports.style.looks import SERIES
from owlt.reports.style.units import Units, unit_for

Numbers = NDArray[np.float64]

FORWARD, REVERSE = SERIES[0], SERIES[1]
_TIMES: Units = (
    ("h", 3600.0, 3 * 3600.0),
    ("min", 60.0, 10 * 60.0),
    ("s", 1.0, 5.0),
    ("ms", 1e-3, 1e-3),
    ("µs", 1e-6, 0.0),
)


class Link(Protocol):
    """The curves of one direction; those over time have a value for each period, NaN if there is none."""

    @property
    def delay_s(self) -> Numbers: ...
    @property
    def delay_low_s(self) -> Numbers: ...
    @property
    def delay_high_s(self) -> Numbers: ...
    @property
    def rate_bps(self) -> Numbers: ...
    @property
    def up(self) -> NDArray[np.bool_]: ...
    @property
    def lowest_error_rate(self) -> Numbers: ...
    @property
    def highest_error_rate(self) -> Numbers: ...
    @property
    def errors_listed(self) -> bool: ...


class Channel(Protocol):
    """Both directions; `edges_s` are the ends of the periods of time, None if nothing changes."""

    @property
    def edges_s(self) -> Numbers | None: ...
    @property
    def loops(self) -> bool: ...
    @property
    def lengths_bytes(self) -> Numbers: ...
    @property
    def forward(self) -> Link: ...
    @property
    def reverse(self) -> Link: ...


def links_of(channel: Channel) -> list[tuple[Link, dict[str, Any]]]:
    """Forward as a solid line, reverse as a dashed line above it, so that both are visible if they coincide."""
    return [
        (channel.forward, {"color": FORWARD, "linewidth": 1.8, "solid_capstyle": "butt"}),
        (channel.reverse, {"color": REVERSE, "linewidth": 1.3, "dashes": (1.7, 1.4), "dash_capstyle": "butt"}),
    ]


def edges_s(channel: Channel) -> Numbers:
    """The ends of the periods of time, in s; 0 and 1 if nothing changes."""
    return np.array([0.0, 1.0]) if channel.edges_s is None else channel.edges_s


def stairs(edges: Numbers, values: Numbers) -> tuple[Numbers, Numbers]:
    """The x and y of the corners of a curve that has each value from one edge to the next."""
    return np.repeat(edges, 2)[1:-1], np.repeat(values, 2)


def time_unit(longest_s: float) -> tuple[str, float]:
    """The unit for times up to the longest, and its length in s."""
    return unit_for(_TIMES, longest_s or 1e-3)
