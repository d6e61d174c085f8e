"""The criteria by which implementations are compared, and which of them is offered first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from owlt.reports.comparison.cells import Cell
from owlt.reports.comparison.metrics import FURTHER, METRICS, Metric

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
    """The words around a difference: "is" 33 % "slower"."""

    @property
    def slug(self) -> str:
        """Its name in commands."""
        return self.metric.slug

    @property
    def best(self) -> str:
        """The best value in words: "highest goodput"."""
        return f"{'highest' if self.higher_is_better else 'lowest'} {self.title}"

    def scores(self, cell: Cell) -> dict[str, list[float]]:
        """The scores of each implementation in a cell."""
        return {name: sample.scores(self.metric, self.higher_is_better) for name, sample in cell.samples.items()}


def _metric(slug: str) -> Metric:
    return next(metric for metric in METRICS + FURTHER if metric.slug == slug)


GOODPUT = Criterion(_metric("goodput"), True, "goodput", "is", "slower")
TO_DELIVERY = Criterion(_metric("goodput-to-delivery"), True, "goodput to delivery", "is", "slower")
DATA_SENT = Criterion(_metric("total-data"), False, "amount of data sent", "sends", "more")
CRITERIA = (
    GOODPUT,
    TO_DELIVERY,
    DATA_SENT,
    Criterion(_metric("rts"), False, "number of packets back", "returns", "more"),
)


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


def criteria_of(cells: Sequence[Cell]) -> tuple[Criterion, ...]:
    """The criteria, the one to look at first in front: goodput to delivery where goodput misleads, else goodput.

    Without those that compare the work for one file, if data is sent for a duration.
    """
    criteria = (TO_DELIVERY, GOODPUT, *CRITERIA[2:]) if misleading_goodput(cells) else CRITERIA
    if any(cell.point.duration_ns is None for cell in cells):
        return criteria
    return tuple(criterion for criterion in criteria if not criterion.metric.needs_file and criterion != DATA_SENT)
