"""The mean breakdown of session time over the runs of a sample, from the sums of their time accounts.

Means are used because, unlike medians, they add up, and because they include waits that occur in a minority of runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import median, stdev

from owlt.captures.inspection.critical_path import KINDS, Kind
from owlt.reports.comparison.cells import Sample
from owlt.reports.results.columns import time_column
from owlt.reports.results.rows import Row


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
