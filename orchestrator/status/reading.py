"""Reads the state of a sweep from its results directory: from plan, records, summaries, journal and lock.

It changes nothing.

The records are the truth; the journal adds what runs now. Every index of them is in this process and can be made again.
"""

from __future__ import annotations

import os
import socket
import time
from dataclasses import dataclass, replace
from pathlib import Path

from agents.inputs.mistake import Mistake, Place
from captures.summary.derived_files import SUMMARY
from orchestrator.errors import OwltError, ResultsConflict
from orchestrator.planning.plan import PLAN_NAME, Plan, read_plan
from orchestrator.planning.sweep import Sweep
from orchestrator.repetitions.due import DueRuns, Repeating, counts
from orchestrator.results.doubts import doubts_in, together
from orchestrator.results.record import RECORD_NAME, Outcome, RunRecord, read_record
from orchestrator.results.recorded_runs import RUNS, run_directory
from orchestrator.results.same_failures import failed_again
from orchestrator.status.activity import Activities
from orchestrator.status.channel_labels import channel_labels
from orchestrator.status.journal import JOURNAL_NAME, entries_in
from orchestrator.status.pace import time_left_s
from orchestrator.status.results_lock import LockState, lock_state
from orchestrator.status.state import AdaptiveState, RunState, SweepProcess, SweepState
from orchestrator.steady_clock import steady_s

Signature = tuple[int, int, int]
"""Of a file: inode, time of its last change in ns, size. A file that replaces another has another inode."""


@dataclass(frozen=True)
class _Record:
    signature: Signature
    record: RunRecord | None
    """None if it cannot be read."""
    problem: str = ""
    failed_again: bool = False
    """As in `RunState`."""


class StateReader:
    """Reads the state of one sweep again and again; what has not changed since the last time is not read again.

    A run whose record has been read takes two system calls, so that 10,000 of them are read in a fraction of a second.
    """

    def __init__(self, results: Path, with_summaries: bool = True) -> None:
        """`with_summaries`: a run is suspect for what its captures show, too.

        Raises OwltError if the directory has no plan, or one that cannot be read.
        """
        self.results = results
        self._with_summaries = with_summaries
        self._plan_signature: Signature | None = None
        self._cells: dict[str, str] = {}
        self._channels: dict[str, str] = {}
        self._plan = self._read_plan()
        self._records: dict[str, _Record] = {}
        self._doubts: dict[str, tuple[Signature, tuple[str, ...]]] = {}
        """Of summaries."""
        self._activities = Activities()
        self._journal_inode = 0
        self._journal_read = 0

    def read(self) -> SweepState:
        """The state now. Raises OwltError as the constructor does."""
        self._plan = self._read_plan()
        self._read_journal()
        holder = lock_state(self.results)
        now_s = self._now_s(holder)
        is_running = holder.state == "running"
        performing = {each.run_id: each for each in self._activities.by_batch.values() if is_running and each.run_id}
        runs, problems = [], []
        records: dict[str, RunRecord] = {}
        for run in self._plan.runs:
            known = self._record(run.run_id)
            problems += [known.problem] if known and known.problem else []
            record = known.record if known else None
            if record:
                records[run.run_id] = record
            runs.append(
                RunState(
                    run_id=run.run_id,
                    implementation=run.permutation.implementation,
                    cell=self._cells[run.run_id],
                    repetition=run.repetition,
                    order=run.order,
                    outcome=record.outcome if record else None,
                    code=record.reason_code if record else None,
                    reason=record.reason if record else "",
                    suspect=together(record, self._doubts_of(run.run_id)) if record else (),
                    attempt=record.attempt if record else 1,
                    failed_again=bool(known and known.failed_again),
                    activity=performing.get(run.run_id),
                )
            )
        due = self._repeating.due(records)
        if due is not None:
            is_due = [due.is_due(run) or run.run_id in records for run in self._plan.runs]
            runs = [replace(run, is_due=each) for run, each in zip(runs, is_due, strict=True)]
        left = sum(run.is_due and run.outcome in (None, Outcome.ABORTED) for run in runs)
        pace = (self._activities.started_s, self._activities.published_s)
        sweep = self._plan.sweep
        return SweepState(
            results=self.results,
            sweep=sweep.name,
            title=sweep.title,
            rig=sweep.rig,
            clock=sweep.clock,
            read_at_s=now_s,
            process=SweepProcess(holder.state, holder.holder),
            activities=tuple(self._activities.by_batch.values()) if is_running else (),
            runs=tuple(runs),
            started_s=self._activities.started_s,
            ended_s=self._activities.ended_s,
            latest_entry_s=self._activities.latest_s,
            time_left_s=time_left_s(left, *pace, now_s) if is_running or not left else None,
            repetitions=_adaptive_state(sweep, due),
            problems=tuple(problems),
            channels=self._channels,
        )

    def _now_s(self, lock: LockState) -> float:
        """The time now, by the clock of a journal that a process of this machine writes."""
        begin_s, begin_steady_s = self._activities.started_s, self._activities.started_steady_s
        is_here = lock.state == "running" and lock.holder is not None and lock.holder.host == socket.gethostname()
        if not is_here or begin_s is None or begin_steady_s is None:
            return time.time()
        return begin_s + steady_s() - begin_steady_s

    def _read_plan(self) -> Plan:
        signature = _signature(self.results / PLAN_NAME)
        if signature is None:
            raise OwltError(
                Mistake(
                    "is not a results directory (it has no plan.json)",
                    "one that 'owlt run' made, such as results/demo",
                    where=Place(str(self.results)),
                )
            )
        if signature != self._plan_signature:
            self._plan = read_plan(self.results)
            self._repeating = Repeating(self._plan, self.results)
            self._plan_signature = signature
            self._cells = {run.run_id: run.permutation.cell for run in self._plan.runs}
            self._channels = channel_labels(self._plan)
        return self._plan

    def _record(self, run_id: str) -> _Record | None:
        """The record of a run; None if it has none."""
        signature = _signature(f"{self.results}/{RUNS}/{run_id}/{RECORD_NAME}")  # a Path takes longer than the call
        if signature is None:
            self._records.pop(run_id, None)
            return None
        known = self._records.get(run_id)
        if known is None or known.signature != signature:
            known = self._records[run_id] = _read(self.results, run_id, signature)
        return known

    def _doubts_of(self, run_id: str) -> tuple[str, ...]:
        """Why the captures of a run make it suspect, from its summary; () if it has none."""
        path = f"{self.results}/{RUNS}/{run_id}/{SUMMARY}"
        signature = _signature(path) if self._with_summaries else None
        if signature is None:
            return ()
        known = self._doubts.get(run_id)
        if known is None or known[0] != signature:
            known = self._doubts[run_id] = signature, doubts_in(Path(path))
        return known[1]

    def _read_journal(self) -> None:
        """Take in the entries that were appended since the last time."""
        try:
            with (self.results / JOURNAL_NAME).open("rb") as file:
                status = os.fstat(file.fileno())
                if status.st_ino != self._journal_inode or status.st_size < self._journal_read:
                    self._activities, self._journal_inode, self._journal_read = Activities(), status.st_ino, 0
                file.seek(self._journal_read)
                added = file.read()
        except FileNotFoundError:
            self._activities, self._journal_inode, self._journal_read = Activities(), 0, 0
            return
        whole = added[: added.rfind(b"\n") + 1]
        self._journal_read += len(whole)
        for entry in entries_in(whole.decode(errors="replace").splitlines()):
            self._activities.take(entry)


def _adaptive_state(sweep: Sweep, due: DueRuns | None) -> AdaptiveState | None:
    rule = sweep.adaptive
    if rule is None or due is None:
        return None
    return AdaptiveState(**rule.model_dump(), permutations=counts(due.stops.values()))


def read_state(results: Path) -> SweepState:
    """The state of a sweep, read once."""
    return StateReader(results).read()


def _signature(path: Path | str) -> Signature | None:
    """None if there is no such file."""
    try:
        status = os.stat(path)  # noqa: PTH116
    except (FileNotFoundError, NotADirectoryError):
        return None
    return status.st_ino, status.st_mtime_ns, status.st_size


def _read(results: Path, run_id: str, signature: Signature) -> _Record:
    try:
        record = read_record(run_directory(results, run_id))
        return _Record(signature, record, failed_again=failed_again(results, record))
    except (ResultsConflict, OSError) as problem:
        return _Record(signature, None, str(problem))
