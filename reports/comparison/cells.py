"""The rows of the table of runs by cell: one channel and file size, all implementations side by side; and the mean
breakdown of session time over the runs of a sample, from the sums of their time accounts.

Means of times are used because, unlike medians, they add up, and because they include waits that occur in a minority of
runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import inf, sqrt
from statistics import fmean, median, stdev
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from owlt.captures.inspection.critical_path import KINDS, Kind
from owlt.inputs.axes import AXES, CONDITIONS, fields_of
from owlt.reports.comparison.choice import Contestant
from owlt.reports.comparison.estimates import (
    CONFIDENCE,
    Box,
    Interval,
    Level,
    PlainRun,
    Share,
    levels,
    median_interval,
    share,
)
from owlt.reports.comparison.metrics import DELIVERED, MEASURES, METRICS, TIME_TO_DELIVERY, Metric
from owlt.reports.results.columns import has_chance, time_column
from owlt.reports.results.load import Results
from owlt.reports.results.rows import Row
from owlt.results.judgements import COMPLETED, Delivery, delivery_of
from owlt.results.permutation import Permutation
from owlt.results.record import Outcome


class Point(NamedTuple):
    """A channel, and a file size or a duration. `rate_bps` None: unlimited; values of the reverse link as in a
    permutation, those of a profile included.
    """

    channel_name: str
    rate_bps: float | None
    delay_ns: int
    file_size_bytes: int | None
    """None: data was sent for a duration."""
    packet_error_rate: float
    duration_ns: int | None = None
    reverse_rate_bps: float | None = None
    reverse_delay_ns: int | None = None
    reverse_packet_error_rate: float | None = None
    ip: int = 4

    @classmethod
    def of_row(cls, row: Row) -> Point:
        """The point of a row of the table of runs."""
        return cls(**fields_of({key: row[AXES[key].field] for key in CONDITIONS}))

    @property
    def values(self) -> dict[str, Any]:
        """The values of all axes by the columns of the table of runs."""
        return {AXES[key].field: AXES[key].of(self) for key in CONDITIONS}


OF_A_RUN = (
    *("outcome", "session_s", "goodput_to_delivery_bps"),
    *("str_sent", "str_sent_bytes", "rts_sent", "rts_sent_bytes"),
)
"""Two runs with the same values of these have the same packets at the same times."""


@dataclass(frozen=True, kw_only=True)
class SampleNumbers:
    """The runs of a permutation in numbers. `median` is of the delivered files, in the unit of the metric; of the
    probability of delivery, which has no value for each run, it is the share of the runs in percent."""

    planned: int
    tried: int
    delivered: int
    unsupported: int
    """Of those tried: the runs that the implementation does not support."""
    unsupported_why: str
    """The reason of the first of them; "" if there are none."""
    suspect: int
    n: int
    """The number of runs that have a value."""
    median: float | None
    interval: Interval | None
    """The interval of the median."""
    mean: float | None = None
    """The mean of the delivered files."""
    levels: tuple[Level, ...] = ()
    """The values, if they are at few levels."""
    is_identical: bool = False
    """Whether several runs have the same value."""


@dataclass(frozen=True)
class Sample:
    """The planned runs of one implementation in a cell."""

    rows: tuple[Row, ...]

    @cached_property
    def _delivery(self) -> Delivery:
        return delivery_of(row["outcome"] for row in self.rows)

    @property
    def tried(self) -> int:
        """The number of runs that have a result of the implementation, delivered or not."""
        return self._delivery.tried

    @property
    def delivered(self) -> int:
        """The number of runs whose file was delivered."""
        return self._delivery.delivered

    @property
    def undelivered(self) -> int:
        """The number of runs whose file was not delivered, for any reason of the implementation."""
        return self._delivery.undelivered

    @property
    def delivered_rows(self) -> list[Row]:
        """The rows of the runs whose file was delivered; suspect or not."""
        return [row for row in self.rows if row["outcome"] == COMPLETED]

    @property
    def suspect(self) -> int:
        """The number of suspect runs."""
        return sum(bool(row["suspect"]) for row in self.rows)

    @property
    def counts(self) -> dict[str, Any]:
        """The numbers of runs that do not depend on a metric, by the names of `SampleNumbers`."""
        return {
            "planned": len(self.rows),
            "tried": self.tried,
            "delivered": self.delivered,
            "unsupported": self._delivery.unsupported,
            "unsupported_why": next(
                (str(row["reason"]) for row in self.rows if row["outcome"] == Outcome.UNSUPPORTED), ""
            ),
            "suspect": self.suspect,
        }

    @property
    def is_unsupported(self) -> bool:
        """Whether the implementation states that it cannot do what is asked: nothing is left to chance."""
        return all(row["outcome"] == Outcome.UNSUPPORTED for row in self.rows)

    @cached_property
    def is_determined(self) -> bool:
        """Whether every further run is the same: at least two runs with different seeds have the same packets on the
        exact clock, and nothing in the channel is left to chance."""
        return (
            self.tried == len(self.rows)
            and len({row["seed"] for row in self.rows}) > 1
            and len({tuple(row[name] for name in OF_A_RUN) for row in self.rows}) == 1
            and all(row["clock"] == "exact" and not has_chance(row) for row in self.rows)
        )

    def values(self, metric: Metric) -> list[float]:
        """The values of a metric, in its unit, of the runs that delivered their file; suspect or not."""
        return [value for row in self.delivered_rows if (value := metric.of_row(row)) is not None]

    def box(self, permutation: Permutation, metric: Metric) -> Box:
        """The box of a metric, with every run that has a value."""
        values = tuple(
            (PlainRun(row["run_id"], row["repetition"], bool(row["suspect"])), value)
            for row in self.delivered_rows
            if (value := metric.of_row(row)) is not None
        )
        return Box(permutation, metric, len(self.rows), values, self.delivered, self.undelivered)

    def numbers(self, metric: Metric) -> SampleNumbers:
        """The sample in numbers, with the median of a metric."""
        values = self.values(metric)
        return SampleNumbers(
            **self.counts,
            n=len(values),
            median=median(values) if values else None,
            interval=median_interval(values),
            mean=fmean(values) if values else None,
            levels=levels(values),
            is_identical=len(values) > 1 and min(values) == max(values),
        )

    def scores(self, metric: Metric, higher_is_better: bool) -> list[float]:
        """The values with a sign that makes higher ones better, and -inf for each run that did not deliver its file."""
        sign = 1 if higher_is_better else -1
        return [sign * value for value in self.values(metric)] + [-inf] * self.undelivered


@dataclass(frozen=True)
class Cell:
    """The samples of a point, by implementation, in the order of the report."""

    point: Point
    samples: dict[str, Sample]


def cells_of(rows: Iterable[Row]) -> list[Cell]:
    """The cells of a table, in its order. An implementation that is not planned in a cell is not in it."""
    by_point: dict[Point, dict[str, list[Row]]] = {}
    for row in rows:
        point = Point.of_row(row)
        by_point.setdefault(point, {}).setdefault(row["implementation"], []).append(row)
    return [
        Cell(point, {name: Sample(tuple(of_name)) for name, of_name in samples.items()})
        for point, samples in by_point.items()
    ]


def with_labels(cells: Iterable[Cell], labels: Mapping[str, str]) -> list[Cell]:
    """The cells with the labels of the implementations in the place of their names."""
    return [Cell(cell.point, {labels[name]: each for name, each in cell.samples.items()}) for cell in cells]


def implementations_in(cells: Sequence[Cell]) -> list[str]:
    """The names of all implementations, in the order of the cells."""
    return list(dict.fromkeys(name for cell in cells for name in cell.samples))


def box_of(results: Results, permutation: Permutation, metric: Metric) -> Box:
    """The box of a permutation; every completed run with a value is in it, suspect or not."""
    return Sample(results.rows_by_permutation.get(permutation, ())).box(permutation, metric)


def boxes_of(results: Results, metric: Metric) -> list[Box]:
    """The boxes of every permutation, in the order of the grid."""
    return [box_of(results, permutation, metric) for permutation in results.planned]


AHEAD = 1.01
"""A goodput this many times the goodput to delivery is of a session that ended before its file was delivered."""


@dataclass(frozen=True)
class Criterion:
    """A metric, and which values of it are better."""

    metric: Metric
    higher_is_better: bool
    title: str
    """As in "the highest goodput", without the adjective."""
    verb: str
    worse: str
    """The words around a difference, such as "is" 33 % "slower"."""
    within_s: float | None = None
    """Of the probability of delivery: the time in which the file has to be delivered; None: any."""

    @property
    def slug(self) -> str:
        """Its name in commands."""
        return self.metric.slug

    @property
    def is_share(self) -> bool:
        """Whether it is the share of the delivered files; otherwise each run has a value."""
        return self.metric is DELIVERED

    @property
    def best(self) -> str:
        """The best value in words: "highest goodput"."""
        return f"{'highest' if self.higher_is_better else 'lowest'} {self.title}{self.within}"

    @property
    def within(self) -> str:
        """The time in which a file has to be delivered, to follow a noun; "" if there is none."""
        return "" if self.within_s is None else f" within {self.within_s:g} s"

    def scores(self, cell: Cell) -> dict[str, list[float]]:
        """The scores of each implementation in a cell, for the tests of `differences`."""
        return {name: sample.scores(self.metric, self.higher_is_better) for name, sample in cell.samples.items()}

    def contestant(self, sample: Sample) -> Contestant:
        """A sample as `choose` compares it."""
        if self.is_share:
            return Contestant(self._successes(sample), is_share=True, is_determined=sample.is_determined)
        with np.errstate(divide="ignore"):
            values = sample.values(self.metric)
            scores = np.asarray(values, float) if self.higher_is_better else 1 / np.asarray(values, float)
        return Contestant(
            np.append(scores, np.zeros(sample.undelivered)),
            is_inverse=not self.higher_is_better,
            is_at_levels=bool(levels(values)),
            is_determined=sample.is_determined,
        )

    def numbers(self, sample: Sample) -> SampleNumbers:
        """A sample in numbers by this criterion."""
        if not self.is_share:
            return sample.numbers(self.metric)
        successes = self._successes(sample)
        found = self._share(sample)
        return SampleNumbers(
            **sample.counts,
            n=len(successes),
            median=100 * found.value if found else None,
            interval=Interval(100 * found.low, 100 * found.high, CONFIDENCE, "Wilson") if found else None,
        )

    def box(self, sample: Sample, permutation: Permutation) -> Box:
        """The box of a sample of a permutation; of the probability of delivery, the interval of the share."""
        if not self.is_share:
            return sample.box(permutation, self.metric)
        numbers = (len(sample.rows), (), sample.delivered, sample.undelivered)
        return Box(permutation, self.metric, *numbers, self._share(sample))

    def _share(self, sample: Sample) -> Share | None:
        """The share of the successes; its interval has no width if every further run is the same."""
        successes = self._successes(sample)
        found = share(int(successes.sum()), len(successes))
        return replace(found, low=found.value, high=found.value) if found and sample.is_determined else found

    def _successes(self, sample: Sample) -> NDArray[np.float64]:
        """1 for each file that was delivered, in time; 0 for each other run with a result."""
        limit_s = inf if self.within_s is None else self.within_s
        times_s = [TIME_TO_DELIVERY.of_row(row) for row in sample.delivered_rows]
        in_time = [self.within_s is None or (time_s is not None and time_s <= limit_s) for time_s in times_s]
        return np.asarray([*in_time, *[False] * sample.undelivered], float)


def _metric(slug: str) -> Metric:
    return next(metric for metric in METRICS + MEASURES if metric.slug == slug)


GOODPUT = Criterion(_metric("goodput"), True, "goodput", "is", "slower")
TO_DELIVERY = Criterion(TIME_TO_DELIVERY, False, "time to delivery", "takes", "more time")
DATA_SENT = Criterion(_metric("total-data"), False, "amount of data sent", "sends", "more")
DELIVERY = Criterion(DELIVERED, True, "probability of delivery", "delivers", "less often")
CRITERIA = (
    GOODPUT,
    TO_DELIVERY,
    DATA_SENT,
    Criterion(_metric("str"), False, "number of packets sent", "sends", "more packets"),
    Criterion(_metric("rts"), False, "number of packets back", "returns", "more packets"),
    Criterion(_metric("data-back"), False, "amount of data back", "returns", "more data"),
    DELIVERY,
)


OF_A_DURATION = ("goodput", "rts", "delivery")
"""The criteria where data is sent for a duration: the others compare the work for one file."""


def misleading_goodput(cells: Sequence[Cell]) -> list[str]:
    """The implementations for which goodput misleads: their sessions end before the file is delivered.

    Without an acknowledgement, the last packet leaves the sender before the file arrives, so goodput omits the delay of
    the channel, and an implementation that never delivers looks as fast as any other.
    """
    names = dict.fromkeys(
        name
        for cell in cells
        for name, sample in cell.samples.items()
        for row in sample.rows
        if row["goodput_bps"]
        and row["goodput_to_delivery_bps"]
        and row["goodput_bps"] > AHEAD * row["goodput_to_delivery_bps"]
    )
    return list(names)


def criteria_of(cells: Sequence[Cell], within_s: float | None = None) -> tuple[Criterion, ...]:
    """The criteria, the one to look at first in front: time to delivery where goodput misleads, else goodput.

    Without those that compare the work for one file, if data is sent for a duration. `within_s`: that of the
    probability of delivery.
    """
    criteria = tuple(replace(each, within_s=within_s) if each.is_share else each for each in CRITERIA)
    if misleading_goodput(cells):
        criteria = (TO_DELIVERY, GOODPUT, *criteria[2:])
    if any(cell.point.duration_ns is None for cell in cells):
        return criteria
    return tuple(each for each in criteria if each.slug in OF_A_DURATION)


@dataclass(frozen=True)
class TimeUse:
    """The sessions of several runs. `totals_ns` is the total time of each kind that took any."""

    sessions_ns: tuple[int, ...]
    totals_ns: Mapping[Kind, int]

    @property
    def runs(self) -> int:
        """The number of runs."""
        return len(self.sessions_ns)

    @property
    def mean_s(self) -> float:
        """The mean time of a session."""
        return sum(self.sessions_ns) / self.runs / 1e9

    @property
    def median_s(self) -> float:
        """The median time of a session."""
        return median(self.sessions_ns) / 1e9

    @property
    def sem_s(self) -> float | None:
        """The standard error of the mean; None for a single run."""
        return stdev(self.sessions_ns) / sqrt(self.runs) / 1e9 if self.runs > 1 else None

    def seconds(self, kind: Kind) -> float:
        """The mean time of a session that one kind took."""
        return self.totals_ns.get(kind, 0) / self.runs / 1e9

    def share(self, kind: Kind) -> float:
        """The share of all sessions that one kind took."""
        return self.totals_ns.get(kind, 0) / sum(self.sessions_ns)


def time_use(sample: Sample) -> TimeUse | None:
    """The time of the sample's delivered files; None if none of these runs has a time account."""
    sessions = [spent for row in sample.delivered_rows if (spent := _spent_ns(row))]
    if not sessions:
        return None
    totals = {kind: sum(spent.get(kind, 0) for spent in sessions) for kind in KINDS}
    return TimeUse(
        sessions_ns=tuple(sum(spent.values()) for spent in sessions),
        totals_ns={kind: total_ns for kind, total_ns in totals.items() if total_ns},
    )


VISIBLE = 0.003
"""The smallest share of a sample's session time for which a kind is drawn: a smaller part of a bar cannot be seen."""


def shown_kinds(uses: Iterable[TimeUse]) -> list[Kind]:
    """The kinds that are visible in at least one of several samples."""
    uses = list(uses)
    return [kind for kind in KINDS if any(use.share(kind) >= VISIBLE for use in uses)]


def has_time(rows: Sequence[Row]) -> bool:
    """Whether any run has a time account."""
    return any(_spent_ns(row) for row in rows)


def _spent_ns(row: Row) -> dict[Kind, int]:
    """How long each kind took in the session of a run; {} without a time account."""
    spent = {kind: row.get(time_column(kind)) for kind in KINDS}
    return {kind: time_ns for kind, time_ns in spent.items() if time_ns is not None}
