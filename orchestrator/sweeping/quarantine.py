"""Quarantine: an implementation that fails again and again is not launched any more in this start of the sweep.

An implementation may fail at many points of a grid for good reasons: an unreliable protocol on a channel with losses.
So a series of failures counts only if the implementation has never completed a run, if it fails where it had completed
one, or if it costs much time: its programs hung, or timed out for more than LONGEST_SERIES_S.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from owlt.orchestrator.planning.estimate import duration_text
from owlt.orchestrator.planning.plan import Run
from owlt.orchestrator.results.reason_codes import ReasonCode
from owlt.orchestrator.results.record import Outcome, RunRecord

LONGEST_SERIES_S = 3600.0
"""Wall time of a series after which its timed-out runs count in any cell."""
FAILURES_PER_HANG = 4
"""A hang is found by a long silence in wall time, and so counts as so many failures."""
COUNTED = (Outcome.FAILED, Outcome.TIMED_OUT)
"""Others show that packets passed, or are no fault of the implementation."""
ENDING = (Outcome.COMPLETED, Outcome.INCOMPLETE, Outcome.CORRUPT)
"""End a series: the receiver has something."""


@dataclass(frozen=True)
class Failure:
    """A failed run of a series."""

    cell: str
    run_id: str
    is_timed_out: bool
    is_hung: bool
    wall_s: float


class Quarantine:
    """The series of failures of each implementation, and those that are in quarantine.

    Each method is one step for the interpreter's threads, or concerns one implementation of the calling thread's run;
    a lost increment would only make a series longer by one.
    """

    def __init__(self, after: int, completed: Iterable[tuple[str, str]]) -> None:
        """`after` so many failures in a row; 0: never. `completed` are implementations and cells with a completion."""
        self._after = after
        self._completed = set(completed)
        self._series: dict[str, list[Failure]] = defaultdict(list)
        """The failures since the latest other outcome, by implementation."""
        self._reasons: dict[str, str] = {}

    def take(self, run: Run, record: RunRecord, wall_s: float = 0.0) -> str:
        """Take in the record of a run, which took so much wall time.

        Returns the reason if its implementation is quarantined from now on, else "".
        """
        name, cell = run.permutation.implementation, run.permutation.cell
        if record.outcome is Outcome.COMPLETED:
            self._completed.add((name, cell))
        if record.outcome in COUNTED:
            is_timed_out, is_hung = record.outcome is Outcome.TIMED_OUT, record.reason_code is ReasonCode.HUNG
            self._series[name].append(Failure(cell, run.run_id, is_timed_out, is_hung, wall_s))
        elif record.outcome in ENDING:
            self._series[name].clear()
        if name in self._reasons or not self._is_due(name):
            return ""
        series = self._series[name]
        times = "once" if len(series) == 1 else f"{len(series)} times in a row"
        reason = f"not launched: {name} failed {times}, the last time in {series[-1].run_id}"
        if hung := sum(failure.is_hung for failure in series):
            reason += f"; hung: {hung}"
        if (wall_s := _wall_s(series)) > LONGEST_SERIES_S:
            reason += f"; this took {duration_text(wall_s)}"
        self._reasons[name] = reason
        return reason

    def reason(self, run: Run) -> str:
        """Why a run is not launched; "" if it is."""
        return self._reasons.get(run.permutation.implementation, "")

    def _is_due(self, name: str) -> bool:
        series = self._series[name]
        if not self._after:
            return False
        if FAILURES_PER_HANG * sum(failure.is_hung for failure in series) >= self._after:
            return True
        if len(series) < self._after:
            return False
        timed_out = [failure for failure in series if failure.is_timed_out]
        if len(timed_out) >= self._after and _wall_s(timed_out) > LONGEST_SERIES_S:
            return True
        has_completed = any(implementation == name for implementation, _ in self._completed)
        return not has_completed or any((name, failure.cell) in self._completed for failure in series)


def _wall_s(failures: Iterable[Failure]) -> float:
    return sum(failure.wall_s for failure in failures)
