"""A box plot of one condition as lengths for a template: a row for each implementation, a dot for each run.

The numbers are those of the report (`reports.comparison.statistics`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from matplotlib.ticker import MaxNLocator

from owlt.orchestrator.dashboard.sweeps.cells import RunRow
from owlt.reports.comparison.metrics import METRICS
from owlt.reports.comparison.statistics import BoxNumbers, box_numbers
from owlt.reports.style.units import tick_text

WIDTH, LEFT, RIGHT, ROW, BOTTOM = 720, 150, 70, 40, 46
"""Lengths of the drawing: its width, the margins for names and counts, the height of a row, the axis below."""
FEWEST_FOR_A_BOX = 3
Place = Callable[[float], float]
"""Where a value is on the axis."""
JITTER = (0, -5, 5, -9, 9)
"""How far dots of one row are apart from its middle, in turn, so that equal values stay visible."""


@dataclass(frozen=True)
class Dot:
    """A run."""

    run_id: str
    x: float
    dy: int
    text: str
    suspect: bool


@dataclass(frozen=True)
class Box:
    """The whiskers, quartiles and median of a row, as places on the axis."""

    low: float
    q1: float
    median: float
    q3: float
    high: float


@dataclass(frozen=True)
class PlotRow:
    """An implementation. `box` is None if it has too few values."""

    implementation: str
    number: int
    """Its place in the sweep, which decides its looks."""
    y: float
    box: Box | None
    numbers: BoxNumbers | None
    dots: Sequence[Dot]
    planned: int


@dataclass(frozen=True)
class Plot:
    """The whole drawing."""

    width: int
    height: int
    left: int
    right: int
    """Where the axis ends."""
    axis_y: float
    ticks: Sequence[tuple[float, str]]
    rows: Sequence[PlotRow]


def box_plot(rows: Mapping[str, Sequence[RunRow]], metric: int, numbers: Mapping[str, int]) -> Plot:
    """The box plot of one of `METRICS`; `rows` are the planned runs of each implementation."""
    values = {
        name: [(row, value) for row in of_name if (value := row.value(metric)) is not None]
        for name, of_name in rows.items()
    }
    ticks = _ticks([value for of_name in values.values() for _, value in of_name])

    def place(value: float) -> float:
        return round(LEFT + (value - ticks[0]) / (ticks[-1] - ticks[0]) * (WIDTH - LEFT - RIGHT), 1)

    plotted = []
    for number, (name, of_name) in enumerate(values.items()):
        sample = [value for _, value in of_name]
        box = box_numbers(sample) if sample else None
        dots = [
            Dot(
                run_id=row.state.run_id,
                x=place(value),
                dy=JITTER[place_in_row % len(JITTER)],
                text=METRICS[metric].text(value),
                suspect=bool(row.suspect),
            )
            for place_in_row, (row, value) in enumerate(of_name)
        ]
        plotted.append(
            PlotRow(
                implementation=name,
                number=numbers.get(name, 0),
                y=(number + 0.5) * ROW,
                box=_box(box, place) if box and len(sample) >= FEWEST_FOR_A_BOX else None,
                numbers=box,
                dots=dots,
                planned=len(rows[name]),
            )
        )
    axis_y = len(plotted) * ROW
    return Plot(
        width=WIDTH,
        height=axis_y + BOTTOM,
        left=LEFT,
        right=WIDTH - RIGHT,
        axis_y=axis_y,
        ticks=[(place(tick), tick_text(tick)) for tick in ticks],
        rows=plotted,
    )


def _box(numbers: BoxNumbers, place: Place) -> Box:
    return Box(
        low=place(numbers.whisker_low),
        q1=place(numbers.q1),
        median=place(numbers.median),
        q3=place(numbers.q3),
        high=place(numbers.whisker_high),
    )


def _ticks(values: Sequence[float]) -> list[float]:
    """Round numbers from below the lowest value to above the highest."""
    low, high = (min(values), max(values)) if values else (0.0, 1.0)
    if high - low < 0.02 * high:
        low, high = 0.99 * low, 1.01 * high
    if low == high:
        high = low + 1
    return [float(tick) for tick in MaxNLocator(nbins=6, min_n_ticks=3).tick_values(low, high)]
