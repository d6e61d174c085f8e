"""The state of a sweep in words: the headline of its page, and what a screen reader announces."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from owlt.orchestrator.dashboard.index import Snapshot
from owlt.orchestrator.planning.estimate import duration_text
from owlt.orchestrator.sweep.journal import Activity
from owlt.orchestrator.sweep.state import SweepState, repetitions_text
from owlt.reports.units import number_text
from owlt.results.record import Outcome

ANNOUNCED_PERCENT = 10


@dataclass(frozen=True)
class Headline:
    """What a page says of a sweep first."""

    process: str
    """running, ended, killed or unknown"""
    sentence: str
    announcement: str
    """Changes rarely: with each tenth of the runs, with a new failure, and at the end."""
    percent: int
    counts: tuple[tuple[str, str, int], ...]
    """A filter's state, words, and the number of runs; without those of which there is none."""


def headline_of(snapshot: Snapshot) -> Headline:
    """The headline of a sweep whose state is known."""
    state = snapshot.state
    assert state is not None
    counts = state.counts
    suspect = sum(bool(row.suspect) for row in snapshot.rows.values())
    recorded = sum(run.outcome is not None for run in state.runs)
    failed = counts.failed + counts.aborted
    percent = 100 * recorded // counts.planned if counts.planned else 100
    process = state.process.state
    failures = f", {failed} failed" if failed else ""
    tenth = percent // ANNOUNCED_PERCENT * ANNOUNCED_PERCENT
    return Headline(
        process=process,
        sentence=f"{number_text(recorded)} of {number_text(counts.planned)} runs recorded; {_process_text(state)}"
        + (f"; {repetitions_text(state.repetitions)}" if state.repetitions else ""),
        announcement=f"{tenth} % of the runs are recorded{failures}; the sweep {PROCESS_WORDS[process]}",
        percent=percent,
        counts=tuple(
            (name, words, number)
            for name, words, number in (
                ("running", "running", counts.running),
                ("", "completed", counts.completed),
                ("failed", "failed", failed),
                ("suspect", "suspect", suspect),
                ("unsupported", "unsupported", counts.unsupported),
                ("quarantined", "quarantined", counts.quarantined),
            )
            if number
        ),
    )


PROCESS_WORDS = {
    "running": "is running",
    "ended": "is not running",
    "killed": "was killed",
    "unknown": "may be running on another machine",
}


def _process_text(state: SweepState) -> str:
    """What the process of the sweep does, and how long it still takes."""
    process = state.process.state
    if process == "running":
        return (
            f"about {duration_text(state.time_left_s)} left" if state.time_left_s else "the time left is not known yet"
        )
    left = sum(run.is_due and run.outcome in (None, Outcome.ABORTED) for run in state.runs)
    if process == "ended":
        return "the sweep is stopped; 'owlt run' resumes it" if left else "the sweep is complete"
    holder = f" ({state.process.holder})" if state.process.holder else ""
    if process == "killed":
        return f"the sweep was killed{holder}; 'owlt run' resumes it"
    return f"the sweep may be running on another machine{holder}"


def activity_text(activity: Activity, now_s: float) -> str:
    """What a worker does, for how long and on which other machine: "perform, transfer, for 12 s (on lab2)"."""
    phase = f", {activity.phase}" if activity.phase else ""
    machine = f" (on {activity.machine})" if activity.machine else ""
    since_s = activity.phase_since_s or activity.since_s
    return f"{activity.what}{phase}, for {max(now_s - since_s, 0):.0f} s{machine}"


@dataclass(frozen=True)
class MachineRuns:
    """A machine of a sweep."""

    name: str
    performed: int
    """Runs in the results, with any outcome; the latest attempt of each."""
    performs: int
    """Runs that it performs now."""


def machines_of(state: SweepState) -> list[MachineRuns]:
    """The machines of a sweep by name, that of `owlt run` first; empty if no other machine performs runs of it."""
    performed = Counter(run.machine for run in state.runs if run.outcome is not None)
    performs = Counter(each.machine for each in state.activities if each.run_id)
    names = {*performed, *performs, *(each.machine for each in state.activities)}
    if not any(names):
        return []
    return [MachineRuns(name or THIS_MACHINE, performed[name], performs[name]) for name in sorted(names)]


THIS_MACHINE = "orchestrator"
