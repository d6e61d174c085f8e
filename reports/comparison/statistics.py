"""Boxes: which values of which runs belong to a permutation, and their five numbers.

Quartiles interpolate linearly (numpy's default, type 7 of Hyndman and Fan 1996); whiskers end at the last
value within 1.5 interquartile ranges of the box (Tukey). Figures and tables show these numbers and no others.
"""

from __future__ import annotations

from dataclasses import dataclass

from matplotlib.cbook import boxplot_stats

from reports.comparison.metrics import Metric
from reports.results.load import Results, Run
from reports.results.records import Permutation

FEW = 5
"""With at most this many runs, quartiles say little more than the points."""


@dataclass(frozen=True)
class BoxNumbers:
    """A sample in numbers, in the sample's unit."""

    minimum: float
    q1: float
    median: float
    q3: float
    maximum: float
    whisker_low: float
    whisker_high: float


@dataclass(frozen=True)
class Box:
    """One metric of one permutation: the runs that have a value, and the number of planned runs."""

    permutation: Permutation
    metric: Metric
    planned: int
    values: tuple[tuple[Run, float], ...]
    delivered: int
    """Runs whose file was delivered; `n` of them have a value."""
    undelivered: int
    """Runs whose file was not delivered, for any reason."""

    @property
    def n(self) -> int:
        """The number of runs that have a value."""
        return len(self.values)

    @property
    def n_text(self) -> str:
        """The number of runs, and of planned runs if it differs: "3", "2/3"; "" if none was planned."""
        if not self.planned:
            return ""
        return str(self.n) if self.n == self.planned else f"{self.n}/{self.planned}"

    @property
    def delivered_text(self) -> str:
        """The number of runs that delivered the file, of those planned: "2/3"; "" if none was planned."""
        return f"{self.n or self.delivered}/{self.planned}" if self.planned else ""

    @property
    def is_short(self) -> bool:
        """Whether the numbers leave out a run that has ended; runs that have yet to be performed do not count."""
        return self.undelivered > 0 or 0 < self.n < self.delivered

    @property
    def numbers(self) -> BoxNumbers | None:
        """The box in numbers; None if no run has a value."""
        return box_numbers([value for _, value in self.values]) if self.values else None


def box_numbers(values: list[float]) -> BoxNumbers:
    """The numbers of a sample of at least one value."""
    stats = boxplot_stats(values)[0]
    return BoxNumbers(
        minimum=min(values),
        q1=float(stats["q1"]),
        median=float(stats["med"]),
        q3=float(stats["q3"]),
        maximum=max(values),
        whisker_low=float(stats["whislo"]),
        whisker_high=float(stats["whishi"]),
    )


def box_of(results: Results, permutation: Permutation, metric: Metric) -> Box:
    """The box of a permutation; every completed run with a value is in it, suspect or not."""
    runs = results.by_permutation.get(permutation, ())
    values = tuple((run, value) for run in runs if (value := metric.of(run)) is not None)
    delivered = sum(run.completed for run in runs)
    return Box(permutation, metric, results.planned.get(permutation, 0), values, delivered, len(runs) - delivered)


def boxes_of(results: Results, metric: Metric) -> list[Box]:
    """The boxes of every permutation, in the order of the grid."""
    return [box_of(results, permutation, metric) for permutation in results.planned]
