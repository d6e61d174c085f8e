"""Curves thinned to what print can show: dots that cover each other, and steps too close to tell apart.

Values only; `trace_drawing` draws them, `captures.inspection.traces` has all of them.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from owlt.reports.sessions.trace_axis import LEFT, RIGHT, WIDTH, Period

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
