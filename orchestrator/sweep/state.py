"""The state of a sweep as a value, and in words: its process, what its workers do, and where each run stands.

All that shows how a sweep advances shows this state.
"""

from __future__ import annotations

import shlex
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeVar

from owlt.orchestrator.planning.estimate import duration_text
from owlt.orchestrator.sweep.journal import Activity
from owlt.results.lock import Holder
from owlt.results.operator import PAUSE_NAME
from owlt.results.record import NOT_DELIVERED, Outcome, ReasonCode

ProcessState = Literal["running", "ended", "killed", "unknown"]
"""The status of the latest `owlt run`. killed: it ended without releasing its lock, also if its machine lost power.
unknown: the lock cannot be read, or names a process of another machine that this one cannot see."""
Key = TypeVar("Key")
Position = Literal["waiting", "running", "recorded"]


@dataclass(frozen=True)
class RunState:
    """One planned run."""

    run_id: str
    implementation: str
    cell: str
    """The point of the grid that it shares with the runs of other implementations, as text."""
    repetition: int
    order: int
    outcome: Outcome | None = None
    """None: it has no record."""
    code: ReasonCode | None = None
    """Why it did not complete."""
    reason: str = ""
    suspect: tuple[str, ...] = ()
    attempt: int = 1
    machine: str = ""
    """The name of another machine that performed it; "": that of `owlt run`, or it has no record."""
    failed_again: bool = False
    """Whether it failed exactly as an earlier attempt did: with the same seed, it always does."""
    activity: Activity | None = None
    """The phase of the worker that performs it now."""
    is_due: bool = True
    """False for a repetition that the results do not call for, or not yet."""

    @property
    def is_undelivered(self) -> bool:
        """Whether it ended without the file, because of the implementation or of the rig."""
        return self.outcome in (*NOT_DELIVERED, Outcome.ABORTED)

    @property
    def is_left(self) -> bool:
        """Whether the next start of the sweep performs it."""
        return self.is_due and self.outcome in (None, Outcome.ABORTED)

    @property
    def position(self) -> Position:
        """Where it stands. A run that is performed again is running, with the outcome of its record."""
        if self.activity is not None:
            return "running"
        return "waiting" if self.outcome is None else "recorded"


@dataclass(frozen=True)
class Counts:
    """Numbers of runs. `waiting` + `running` + `recorded` is `planned`."""

    planned: int
    """The runs that are due."""
    waiting: int
    running: int
    recorded: int
    completed: int
    failed: int
    """Failed, timed out, incomplete or corrupt: outcomes that the implementation is responsible for."""
    unsupported: int
    aborted: int
    quarantined: int
    suspect: int
    by_outcome: Mapping[str, int]
    """Every outcome that at least one run has."""

    @property
    def with_record(self) -> int:
        """The runs that have a record, including those that are performed again."""
        return sum(self.by_outcome.values())

    @property
    def undelivered(self) -> int:
        """The runs that ended without the file, because of the implementation or of the rig."""
        return self.failed + self.aborted


@dataclass(frozen=True)
class FailureGroup:
    """Runs of an implementation that did not complete, with the same outcome for the same kind of reason."""

    implementation: str
    outcome: Outcome
    code: ReasonCode | None
    reason: str
    """The reason of the first of them in the order of the sweep."""
    run_ids: tuple[str, ...]


@dataclass(frozen=True)
class SuspectGroup:
    """The suspect runs of an implementation."""

    implementation: str
    reasons: tuple[str, ...]
    """The reasons of the first of them in the order of the sweep."""
    run_ids: tuple[str, ...]


@dataclass(frozen=True)
class SweepProcess:
    """The latest `owlt run` in the results directory."""

    state: ProcessState
    holder: Holder | None
    """Host, process and start; None if it has ended and released its lock."""


@dataclass(frozen=True)
class AdaptiveState:
    """Adaptive repetitions: the rule, and what the results say about each permutation."""

    at_least: int
    at_most: int
    until_interval_percent: float | None
    until: str | None
    permutations: Mapping[str, int]
    """Numbers by decision, the reasons of `reports.comparison.stopping`: all but those that are open are done."""
    rule: str
    """The rule in words."""


@dataclass(frozen=True)
class SweepState:
    """The state of a sweep at a time. Times are s since 1970."""

    results: Path
    sweep: str
    title: str
    rig: str
    clock: str
    read_at_s: float
    process: SweepProcess
    activities: tuple[Activity, ...]
    """Empty if no process runs."""
    runs: tuple[RunState, ...]
    """In the order of the sweep."""
    started_s: float | None
    """The latest start."""
    ended_s: float | None
    latest_entry_s: float | None
    """When the journal was written last."""
    time_left_s: float | None
    """None if it is unknown: before the first run, or if no process runs."""
    repetitions: AdaptiveState | None = None
    """None if the number of repetitions is fixed."""
    problems: tuple[str, ...] = ()
    """Sentences about records that cannot be read."""
    paused_since_s: float | None = None
    """When it was paused; None if it is not."""
    channels: Mapping[str, str] = field(default_factory=dict)
    """In words, by key."""

    @property
    def counts(self) -> Counts:
        """The numbers of all runs."""
        return count(self.runs)

    @property
    def by_implementation(self) -> dict[str, Counts]:
        """The numbers of runs by implementation, in the order of the sweep."""
        return _counted_by(self.runs, lambda run: run.implementation)

    @property
    def by_cell(self) -> dict[tuple[str, str], Counts]:
        """The numbers of runs by cell and implementation."""
        return _counted_by(self.runs, lambda run: (run.cell, run.implementation))

    @property
    def failures(self) -> list[FailureGroup]:
        """The runs that did not complete, in groups, the largest first."""
        groups: dict[tuple[str, Outcome, ReasonCode | None], list[RunState]] = defaultdict(list)
        for run in self.runs:
            if run.outcome is not None and run.outcome is not Outcome.COMPLETED:
                groups[run.implementation, run.outcome, run.code].append(run)
        failures = [
            FailureGroup(implementation, outcome, code, runs[0].reason, tuple(run.run_id for run in runs))
            for (implementation, outcome, code), runs in groups.items()
        ]
        return sorted(failures, key=lambda group: -len(group.run_ids))

    @property
    def without_completion(self) -> list[FailureGroup]:
        """The failures of implementations, each with its parameters, of which no run has completed so far."""
        completed = {run.implementation for run in self.runs if run.outcome is Outcome.COMPLETED}
        return [group for group in self.failures if group.implementation not in completed]

    @property
    def warnings(self) -> list[str]:
        """Sentences about these implementations, and about records that cannot be read."""
        failing = [
            f"{each.implementation}: none of its runs has completed: {len(each.run_ids)} "
            f"{each.outcome.replace('_', ' ')}{f' ({each.reason})' if each.reason else ''}"
            for each in self.without_completion
        ]
        return [*failing, *self.problems]

    @property
    def same_failures(self) -> list[str]:
        """The runs that failed again exactly as an earlier attempt did, in the order of the sweep."""
        return [run.run_id for run in self.runs if run.failed_again]

    @property
    def suspects(self) -> list[SuspectGroup]:
        """The suspect runs, in the order of the sweep's implementations."""
        groups: dict[str, list[RunState]] = defaultdict(list)
        for run in self.runs:
            if run.suspect:
                groups[run.implementation].append(run)
        return [
            SuspectGroup(implementation, runs[0].suspect, tuple(run.run_id for run in runs))
            for implementation in self.by_implementation
            if (runs := groups.get(implementation))
        ]


def count(runs: Iterable[RunState]) -> Counts:
    """The numbers of some runs."""
    positions: dict[str, int] = defaultdict(int)
    outcomes: dict[Outcome, int] = defaultdict(int)
    suspect = 0
    for run in runs:
        if not run.is_due:
            continue
        positions[run.position] += 1
        suspect += bool(run.suspect)
        if run.outcome is not None:
            outcomes[run.outcome] += 1
    return Counts(
        planned=sum(positions.values()),
        waiting=positions["waiting"],
        running=positions["running"],
        recorded=positions["recorded"],
        completed=outcomes[Outcome.COMPLETED],
        failed=sum(outcomes[outcome] for outcome in NOT_DELIVERED),
        unsupported=outcomes[Outcome.UNSUPPORTED],
        aborted=outcomes[Outcome.ABORTED],
        quarantined=outcomes[Outcome.QUARANTINED],
        suspect=suspect,
        by_outcome={str(outcome): outcomes[outcome] for outcome in Outcome if outcomes[outcome]},
    )


def _counted_by(runs: Iterable[RunState], key: Callable[[RunState], Key]) -> dict[Key, Counts]:
    groups: dict[Key, list[RunState]] = defaultdict(list)
    for run in runs:
        groups[key(run)].append(run)
    return {name: count(group) for name, group in groups.items()}


def headline(state: SweepState) -> str:
    """How far a sweep is, and how long it still takes: "demo: 5 of 9 runs recorded, 1 failed; about 4 min left"."""
    text = f"{state.sweep}: {progress_text(state.counts)}"
    if state.process.state == "running" and state.time_left_s:
        text += f"; about {duration_text(state.time_left_s)} left"
    return text


def progress_text(counts: Counts) -> str:
    """The numbers of runs that matter to a reader who is not there: "5 of 9 runs recorded, 1 failed"."""
    parts = recorded_parts(counts.with_record, counts.planned, counts.by_outcome)
    parts += [f"{counts.suspect} suspect"] if counts.suspect else []
    return ", ".join(parts)


def recorded_parts(recorded: int, planned: int, by_outcome: Mapping[str, int]) -> list[str]:
    """How many runs have a record, and how many of them did not complete: "5 of 9 runs recorded", "1 failed"."""
    not_completed = {name: number for name, number in by_outcome.items() if name != Outcome.COMPLETED}
    of_each = [f"{number} {name.replace('_', ' ')}" for name, number in not_completed.items()]
    return [f"{recorded} of {planned} runs recorded", *of_each]


def repetitions_text(repetitions: AdaptiveState) -> str:
    """The rule of adaptive repetitions, and how many permutations are done."""
    numbers = repetitions.permutations
    words = {"narrow": "narrow enough", "bound": "at the bound", "undelivered": "without a delivery"}
    parts = [f"{number} {words.get(reason, reason)}" for reason, number in numbers.items() if number]
    return f"{repetitions.rule}; of {sum(numbers.values())} permutations {', '.join(parts)}"


def process_text(state: SweepState) -> str:
    """Which process performs the sweep, or how the latest one ended; and whether the sweep is paused."""
    if state.paused_since_s is None:
        return _process_text(state)
    how = shlex.join(["rm", str(state.results / PAUSE_NAME)])
    paused = f"paused: {since(state.paused_since_s, time.time())}; no run is started; resume with: {how}"
    return f"{_process_text(state)}\n{paused}"


def _process_text(state: SweepState) -> str:
    process = state.process
    match process.state:
        case "running":
            return f"running: {process.holder or 'a process that has not written its name yet'}"
        case "killed":
            return f"not running: {process.holder} was killed, or its machine was restarted; 'owlt run' resumes"
        case "unknown" if process.holder:
            return f"unknown: {process.holder} did not release its lock; it may still run on that machine"
        case "unknown":
            return "unknown: its lock cannot be read"
    if state.ended_s is None:
        return "not running"
    return f"not running: ended {since(state.ended_s, state.read_at_s)}"


def activity_text(activity: Activity, channels: Mapping[str, str]) -> str:
    """What a worker does, and on which other machine: "perform ltp_1MB_..._r1: transfer (on lab2)".

    `channels` are in words, by key.
    """
    machine = f" (on {activity.machine})" if activity.machine else ""
    if activity.run_id:
        return f"{activity.what} {activity.run_id}{f': {activity.phase}' if activity.phase else ''}{machine}"
    return f"{activity.what} {channels.get(activity.channel, activity.channel)}".rstrip() + machine


def since(at_s: float, now_s: float) -> str:
    """A time and how long ago it was."""
    return f"{stamp(at_s)} ({duration(now_s - at_s)} ago)"


def stamp(at_s: float) -> str:
    """A time of this machine's clock, in its time zone."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at_s))


def duration(seconds: float) -> str:
    """A duration that is over; 0 if the clock was set back meanwhile."""
    return duration_text(max(seconds, 0.0))
