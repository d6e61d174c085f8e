"""Quarantine: an implementation that fails again and again is not launched any more in this start of the sweep.

An implementation may fail at many points of a grid for good reasons: an unreliable protocol on a channel with losses.
So a series of failures counts only if the implementation has never completed a run, or if it fails where it had
completed one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from orchestrator.planning.plan import Run
from orchestrator.results.record import Outcome, RunRecord

COUNTED = (Outcome.FAILED, Outcome.TIMED_OUT)
"""Others show that packets passed, or are no fault of the implementation."""
ENDING = (Outcome.COMPLETED, Outcome.INCOMPLETE, Outcome.CORRUPT)
"""End a series: the receiver has something."""


class Quarantine:
    """The series of failures of each implementation, and those that are in quarantine.

    Each method is one step for the interpreter's threads, or concerns one implementation of the calling thread's run;
    a lost increment would only make a series longer by one.
    """

    def __init__(self, after: int, completed: Iterable[tuple[str, str]]) -> None:
        """`after` so many failures in a row; 0: never. `completed` are implementations and cells with a completion."""
        self._after = after
        self._completed = set(completed)
        self._series: dict[str, list[tuple[str, str]]] = defaultdict(list)
        """Cell and run of each failure since the latest other outcome."""
        self._reasons: dict[str, str] = {}

    def take(self, run: Run, record: RunRecord) -> str:
        """Take in the record of a run. Returns the reason if its implementation is quarantined from now on, else ""."""
        name, cell = run.permutation.implementation, run.permutation.cell
        if record.outcome is Outcome.COMPLETED:
            self._completed.add((name, cell))
        if record.outcome in COUNTED:
            self._series[name].append((cell, run.run_id))
        elif record.outcome in ENDING:
            self._series[name].clear()
        if name in self._reasons or not self._is_due(name):
            return ""
        series = self._series[name]
        reason = f"not launched: {name} failed {len(series)} times in a row, the last time in {series[-1][1]}"
        self._reasons[name] = reason
        return reason

    def reason(self, run: Run) -> str:
        """Why a run is not launched; "" if it is."""
        return self._reasons.get(run.permutation.implementation, "")

    def _is_due(self, name: str) -> bool:
        series = self._series[name]
        if not self._after or len(series) < self._after:
            return False
        has_completed = any(implementation == name for implementation, _ in self._completed)
        return not has_completed or any((name, cell) in self._completed for cell, _ in series)
