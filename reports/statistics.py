"""Boxes: which values of which runs belong to a permutation, and their five numbers.

Quartiles interpolate linearly (numpy's default, type 7 of Hyndman and Fan 1996); whiskers end at the last
value within 1.5 interquartile ranges of the box (Tukey). Figures and tables show these numbers and no others.
"""

from __future__ import annotations

from dataclasses import dataclass

from matplotlib.cbook import boxplot_stats

from reports.load import Results, Run
from reports.metrics import Metric
from reports.records import Permutation

FEW = 5
"""Up to so many runs, quartiles say little that the points themselves do not."""


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
    """One metric of one permutation: the runs that have a value, and how many were asked for."""

    permutation: Permutation
    metric: Metric
    asked: int
    values: tuple[tuple[Run, float], ...]
    delivered: int
    """Runs whose file was delivered; `n` of them have a value."""
    undelivered: int
    """Runs whose file was not delivered, for whatever reason."""

    @property
    def n(self) -> int:
        """How many runs the numbers are of."""
        return len(self.values)

    @property
    def n_text(self) -> str:
        """The number of runs, with that asked for where it differs: "3", "2/3"; "" if none was."""
        if not self.asked:
            return ""
        return str(self.n) if self.n == self.asked else f"{self.n}/{self.asked}"

    @property
    def delivered_text(self) -> str:
        """Of how many runs the file was delivered, of how many asked for: "2/3"; "" if none was asked for."""
        return f"{self.n or self.delivered}/{self.asked}" if self.asked else ""

    @property
    def is_short(self) -> bool:
        """Whether the numbers are not those of all that were asked for."""
        return self.delivered < self.asked or 0 < self.n < self.asked

    @property
    def numbers(self) -> BoxNumbers | None:
        """None where no run has a value."""
        return box_numbers([value for _, value in self.values]) if self.values else None


def box_numbers(values: list[float]) -> BoxNumbers:
    """The numbers of a sample of one value or more."""
    found = boxplot_stats(values)[0]
    return BoxNumbers(
        minimum=min(values),
        q1=float(found["q1"]),
        median=float(found["med"]),
        q3=float(found["q3"]),
        maximum=max(values),
        whisker_low=float(found["whislo"]),
        whisker_high=float(found["whishi"]),
    )


def box_of(results: Results, permutation: Permutation, metric: Metric) -> Box:
    """The box of a permutation; every completed run with a value is in it, suspect or not."""
    runs = results.by_permutation.get(permutation, ())
    values = tuple((run, value) for run in runs if (value := metric.of(run)) is not None)
    delivered = sum(run.completed for run in runs)
    return Box(permutation, metric, results.asked.get(permutation, 0), values, delivered, len(runs) - delivered)


def boxes_of(results: Results, metric: Metric) -> list[Box]:
    """The boxes of every permutation that was asked for, in the order of the grid."""
    return [box_of(results, permutation, metric) for permutation in results.asked]
