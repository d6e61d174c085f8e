"""The time axis of a trace figure: the periods of the session that are drawn, their places on the page, their ticks.

On a long link nearly all of a session can be idle while packets are in flight. Idle periods are then omitted, and the
axis is broken there.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import floor, log10

import numpy as np
from numpy.typing import NDArray

from owlt.captures.inspection.traces import Traces
from owlt.reports.units import Units, unit_for

WIDTH, LEFT, RIGHT = 7.0, 0.62, 0.20
BREAK_GAP, TICK_ROOM = 0.13, 0.52
"""Inches: the figure and its margins, the gap where the axis is broken, and the least distance between ticks."""

_IDLE, _BUSY = 0.08, 0.15
"""A gap between packets of more than the first share of the session is idle time. Idle time is omitted if the rest is
at most the second share of the session."""
_MOST_PERIODS = 8
_TIMES: Units = (
    ("h", 3600.0, 3 * 3600.0),
    ("min", 60.0, 1200.0),
    ("s", 1.0, 0.5),
    ("ms", 1e-3, 0.5e-3),
    ("µs", 1e-6, 0.0),
)
_TICKS_IN_SECONDS_S = 1200.0
"""A broken axis counts in seconds up to this drawn time, so that one-way light times can be read from it."""


@dataclass(frozen=True)
class Period:
    """A part of the session that is drawn, in s, and its place across the figure, in inches."""

    begin_s: float
    end_s: float
    left: float
    width: float

    @property
    def length_s(self) -> float:
        """The time from its begin to its end."""
        return self.end_s - self.begin_s

    def place(self, time_s: float) -> float:
        """The place of a time across the figure, in inches."""
        return self.left + self.width * (time_s - self.begin_s) / (self.end_s - self.begin_s)


def drawn_periods(traces: Traces, between_s: tuple[float, float] | None = None) -> list[Period]:
    """The periods of the session to draw, side by side on one scale of time; all of it, or `between_s`.

    Raises ValueError if `between_s` does not end after it begins.
    """
    if between_s is not None and not -np.inf < between_s[0] < between_s[1] < np.inf:
        raise ValueError(f"from {between_s[0]} s to {between_s[1]} s: expected an end after the beginning")
    spans = _busy_spans(traces) if between_s is None else [between_s]
    inches = WIDTH - LEFT - RIGHT - BREAK_GAP * (len(spans) - 1)
    scale = inches / sum(end - begin for begin, end in spans)
    left, periods = LEFT, []
    for begin, end in spans:
        periods.append(Period(begin, end, left, (end - begin) * scale))
        left += (end - begin) * scale + BREAK_GAP
    return periods


def _busy_spans(traces: Traces) -> list[tuple[float, float]]:
    """Begin and end, in s, of each part of the session to draw: all of it, or what remains without idle periods."""
    ways = (traces.forward, traces.reverse)
    times = np.unique(np.concatenate([each for way in ways for each in (way.sent_ns, way.delivered_ns)])) / 1e9
    length_s = traces.length_ns / 1e9
    if not length_s:
        return [(0.0, 1e-3)]
    gaps = np.diff(times)
    longest = np.sort(np.argsort(gaps, kind="stable")[::-1][: _MOST_PERIODS - 1])
    idle = longest[gaps[longest] > _IDLE * length_s]
    busy_s = length_s - float(gaps[idle].sum())
    if not len(idle) or busy_s > _BUSY * length_s:
        margin_s = 0.01 * length_s
        return [(-margin_s, length_s + margin_s)]
    begins, ends = times[np.append(0, idle + 1)], times[np.append(idle, len(times) - 1)]
    drawn_s = max(busy_s, 1e-3 * length_s / _MOST_PERIODS)
    margins_s = np.maximum(0.02 * drawn_s, (0.11 * drawn_s - (ends - begins)) / 2)
    return list(zip((begins - margins_s).tolist(), (ends + margins_s).tolist(), strict=True))


def time_unit(periods: list[Period]) -> tuple[str, float]:
    """The unit of the axis and its length in s, by the time drawn."""
    drawn_s = sum(period.length_s for period in periods)
    if len(periods) > 1 and drawn_s <= _TICKS_IN_SECONDS_S:
        return "s", 1.0
    return unit_for(_TIMES, drawn_s)


def ticks_of(periods: list[Period], unit_s: float) -> list[list[float]]:
    """Round times in s for the ticks of each period: at least one each, at least TICK_ROOM apart."""
    step = _tick_step(periods[0], unit_s)
    ticks, last = [], -np.inf
    for period in periods:
        finer_and_finer = (_multiples(step / finer, period) for finer in (1, 2, 5, 10, 50, 100))
        round_times = next(filter(None, finer_and_finer), [period.begin_s])
        shown: list[float] = []
        for time in round_times:
            if period.place(time) - last >= TICK_ROOM:
                shown.append(time)
                last = period.place(time)
        if not shown:
            shown = [round_times[-1]]
            last = period.place(shown[0])
        ticks.append(shown)
    return ticks


def _tick_step(period: Period, unit_s: float) -> float:
    """The least of 1, 2, 5, 10, 20, ... units that leaves TICK_ROOM between ticks, in s."""
    scale = period.width / period.length_s
    power = 10.0 ** floor(log10(TICK_ROOM / scale / unit_s))
    return unit_s * next(power * factor for factor in (1, 2, 5, 10, 20) if power * factor * unit_s * scale >= TICK_ROOM)


def _multiples(step: float, period: Period) -> list[float]:
    first, last = np.ceil(max(period.begin_s, 0) / step - 1e-9), np.floor(period.end_s / step + 1e-9)
    return [float(number * step) for number in np.arange(first, last + 1)]


Numbers = NDArray[np.float64]
Indices = NDArray[np.int64]

COLUMNS_PER_INCH = 72
_BAND_COLUMNS = 3
"""The width, in columns, of each part of a band that stands for steps too close to tell apart."""
_MOST_DOTS, _LEAST_DOTS = 480, 50
"""Of one curve: at most in the whole width of a figure, and the limit for a narrow period."""


def most_dots(period: Period) -> int:
    """How many dots of one curve are drawn in a period at most; more would cover each other in print."""
    return max(int(_MOST_DOTS * period.width / (WIDTH - LEFT - RIGHT)), _LEAST_DOTS)


def thinned_dots(
    x: Numbers, y: Numbers, period: Period, y_limits: tuple[float, float], height: float, most: int
) -> Indices:
    """The indices of the dots to draw, ascending: one of those that share a cell of the size of a point in print.

    `x` is ascending, in s; `y_limits` are the ends of an axis `height` inches high. The least and the greatest of each
    column are kept. Cells are larger if more than `most` dots would remain.
    """
    columns, rows = period.width * COLUMNS_PER_INCH, height * COLUMNS_PER_INCH
    while True:
        indices = one_per_cell(x, y, period, y_limits, (max(int(columns), 1), max(int(rows), 1)))
        if len(indices) <= most or columns < 1:
            return indices
        columns, rows = columns / 1.4, rows / 1.4


def one_per_cell(
    x: Numbers, y: Numbers, period: Period, y_limits: tuple[float, float], cells: tuple[int, int]
) -> Indices:
    """The indices of one dot in each cell, and of the least and the greatest in each column. `cells`: across, up."""
    columns, rows = cells
    within = np.flatnonzero((x >= period.begin_s) & (x <= period.end_s))
    column = _columns_of(x[within], period, columns)
    row = ((y[within] - y_limits[0]) / (y_limits[1] - y_limits[0]) * rows).astype(np.int64)
    one_of_each = np.unique(column * (rows + 1) + row, return_index=True)[1]
    indices: Indices = within[np.union1d(one_of_each, _extremes(column, y[within]))]
    return indices


def stepped(x: Numbers, y: Numbers, period: Period, columns: int) -> tuple[Numbers, Numbers, Numbers]:
    """The steps of a curve in the period: their n + 1 edges, and n times the lowest and the highest value between them.

    Lowest and highest are equal if there is room for every step. Else edges are those of columns in which values
    change, and the values between two edges lie between the lowest and the highest.
    """
    inside = x[(x > period.begin_s) & (x < period.end_s)]
    edges = np.concatenate([[period.begin_s], inside, [period.end_s]])
    if len(inside) > 2 * columns or _crowded(inside, period, columns):
        edges = _band_edges(inside, period, max(columns // _BAND_COLUMNS, 1))
    x, y = np.append(-np.inf, x), np.append(0.0, y)
    first = np.searchsorted(x, edges[:-1], "right") - 1
    end = np.searchsorted(x, edges[1:], "left")
    low, high = (np.array([pick(y[a:b]) for a, b in zip(first, end, strict=True)]) for pick in (np.min, np.max))
    changes = np.append(True, (np.diff(low) != 0) | (np.diff(high) != 0))
    return np.append(edges[:-1][changes], edges[-1]), low[changes], high[changes]


def _columns_of(times: Numbers, period: Period, columns: int) -> Indices:
    """The column of each time, of `columns` that divide the period."""
    numbers: Indices = ((times - period.begin_s) / period.length_s * columns).astype(np.int64)
    return numbers


def _band_edges(times: Numbers, period: Period, columns: int) -> Numbers:
    """The edges of the columns, and each time that is more than a column away from the next or the previous one."""
    edges, column_s = np.linspace(period.begin_s, period.end_s, columns + 1, retstep=True)
    is_alone = np.diff(times) > column_s
    first, last = times[np.append(True, is_alone)], times[np.append(is_alone, True)]
    return np.unique(np.concatenate([edges, first, last]))


def _crowded(times: Numbers, period: Period, columns: int) -> bool:
    """Whether most of the times share their column with three others or more."""
    column = _columns_of(times, period, columns)
    _, which, shared = np.unique(column, return_inverse=True, return_counts=True)
    return bool(len(times)) and float(np.median(shared[which])) > 3


def _extremes(column: Indices, y: Numbers) -> Indices:
    """The indices of the least and the greatest value in each column."""
    by_value: Indices = np.lexsort((y, column))
    is_first = np.diff(column[by_value], prepend=-1) > 0
    is_last = np.append(is_first[1:], True)[: len(column)]
    extremes: Indices = by_value[is_first | is_last]
    return extremes
