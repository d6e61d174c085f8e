"""Boxes: which values of which runs belong to a permutation, and their five numbers.

Quartiles interpolate linearly (numpy's default, type 7 of Hyndman and Fan 1996); whiskers end at the last
value within 1.5 interquartile ranges of the box (Tukey). Figures and tables show these numbers and no others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from owlt.reports.comparison.estimates import TwoGroups, two_groups
from owlt.reports.comparison.metrics import Metric
from owlt.reports.results.load import Results, Run
from owlt.results.record import Permutation

FEW = 5
"""With at most this many runs, quartiles say little more than the points."""
WHISKER = 1.5
"""Whiskers reach so many interquartile ranges beyond the box."""


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


class PlainRun(NamedTuple):
    """What a figure shows of a run: few values, because figures are drawn in other processes."""

    run_id: str
    repetition: int
    is_suspect: bool


@dataclass(frozen=True)
class Box:
    """One metric of one permutation: the runs that have a value, and the number of planned runs."""

    permutation: Permutation
    metric: Metric
    planned: int
    values: tuple[tuple[PlainRun, float], ...]
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

    @cached_property
    def numbers(self) -> BoxNumbers | None:
        """The box in numbers; None if no run has a value."""
        return box_numbers([value for _, value in self.values]) if self.values else None

    @cached_property
    def groups(self) -> TwoGroups | None:
        """The two groups of runs between which the median lies; None if there are none."""
        return two_groups([value for _, value in self.values])


def box_numbers(values: Sequence[float]) -> BoxNumbers:
    """The numbers of a sample of at least one value."""
    ordered = sorted(values)
    q1, middle, q3 = (_quantile(ordered, share) for share in (0.25, 0.5, 0.75))
    reach = WHISKER * (q3 - q1)
    return BoxNumbers(
        minimum=ordered[0],
        q1=q1,
        median=middle,
        q3=q3,
        maximum=ordered[-1],
        whisker_low=min(next(value for value in ordered if value >= q1 - reach), q1),
        whisker_high=max(next(value for value in reversed(ordered) if value <= q3 + reach), q3),
    )


def _quantile(ordered: Sequence[float], share: float) -> float:
    """As numpy computes it, to the last bit."""
    place = share * (len(ordered) - 1)
    below = int(place)
    low, high, part = ordered[below], ordered[min(below + 1, len(ordered) - 1)], place - below
    return float(high - (high - low) * (1 - part) if part >= 0.5 else low + (high - low) * part)


def box_of(results: Results, permutation: Permutation, metric: Metric) -> Box:
    """The box of a permutation; every completed run with a value is in it, suspect or not."""
    runs = results.by_permutation.get(permutation, ())
    values = tuple((_plain(run), value) for run in runs if (value := metric.of(run)) is not None)
    delivered = sum(run.completed for run in runs)
    return Box(permutation, metric, results.planned.get(permutation, 0), values, delivered, len(runs) - delivered)


def _plain(run: Run) -> PlainRun:
    return PlainRun(run.record.run_id, run.record.repetition, bool(run.suspect))


def boxes_of(results: Results, metric: Metric) -> list[Box]:
    """The boxes of every permutation, in the order of the grid."""
    return [box_of(results, permutation, metric) for permutation in results.planned]
