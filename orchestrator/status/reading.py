"""Reads the state of a sweep from its results directory: from plan, records, summaries, journal and lock.

It changes nothing.

The records are the truth; the journal adds what runs now. Every index of them is in this process and can be made again.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from owlt.captures.accounting.derived_files import SUMMARY
from owlt.captures.files.plain_files import open_plain
from owlt.inputs.mistake import Mistake, Place
from owlt.orchestrator.errors import OwltError, ResultsConflict
from owlt.orchestrator.planning.plan import PLAN_NAME, Plan, Run, read_plan
from owlt.orchestrator.planning.repetitions import DueRuns, Repeating, counts
from owlt.orchestrator.planning.sweep import Sweep
from owlt.orchestrator.results.doubts import doubts_in, together
from owlt.orchestrator.results.record import RECORD_NAME, Outcome, RunRecord, read_record
from owlt.orchestrator.results.recorded_runs import RUNS, run_directory
from owlt.orchestrator.results.same_failures import failed_again
from owlt.orchestrator.status.activity import Activities, Activity
from owlt.orchestrator.status.channel_labels import channel_labels
from owlt.orchestrator.status.journal import JOURNAL_NAME, entries_in
from owlt.orchestrator.status.pace import time_left_s
from owlt.orchestrator.status.results_lock import LockState, lock_state
from owlt.orchestrator.status.state import AdaptiveState, RunState, SweepProcess, SweepState
from owlt.orchestrator.steady_clock import steady_s
from owlt.orchestrator.workers.events import RunAnalysed, RunPublished

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
        self._journal_problem = ""
        """Why the journal cannot be read."""
        self._journal_read = 0
        self._latest: SweepState | None = None
        self._places: dict[str, int] = {}
        """Of the runs in the latest state."""
        self.noted: set[str] = set()
        """The runs that the journal named as published or analysed in what was read last."""

    def read(self) -> SweepState:
        """The state now. Raises OwltError as the constructor does."""
        self._plan = self._read_plan()
        self._read_journal()
        holder = lock_state(self.results)
        now_s = self._now_s(holder)
        performing = self._performing(holder.state == "running")
        runs = [self._run_state(run, performing.get(run.run_id)) for run in self._plan.runs]
        known = [self._records.get(run.run_id) for run in self._plan.runs]
        problems = [each.problem for each in known if each and each.problem]
        problems += [self._journal_problem] if self._journal_problem else []
        records = {
            run.run_id: each.record for run, each in zip(self._plan.runs, known, strict=True) if each and each.record
        }
        due = self._repeating.due(records)
        if due is not None:
            is_due = [due.is_due(run) or run.run_id in records for run in self._plan.runs]
            runs = [replace(run, is_due=each) for run, each in zip(runs, is_due, strict=True)]
        sweep = self._plan.sweep
        self._places = {run.run_id: place for place, run in enumerate(runs)}
        self._latest = self._with_process(
            SweepState(
                results=self.results,
                sweep=sweep.name,
                title=sweep.title,
                rig=sweep.rig,
                clock=sweep.clock,
                read_at_s=now_s,
                process=SweepProcess(holder.state, holder.holder),
                activities=(),
                runs=tuple(runs),
                started_s=None,
                ended_s=None,
                latest_entry_s=None,
                time_left_s=None,
                repetitions=_adaptive_state(sweep, due),
                problems=tuple(problems),
                channels=self._channels,
            )
        )
        return self._latest

    def read_noted(self) -> SweepState:
        """The state now, of which only that is read that the journal names since the last time: what workers do, and
        the records of runs that were published. So it costs the same for 10 runs as for 10,000.

        A run whose record changes without an entry in the journal, as when results are merged, stays as it was until
        the next `read`. Raises OwltError as the constructor does.
        """
        latest, plan_signature = self._latest, self._plan_signature
        self._plan = self._read_plan()
        if latest is None or latest.repetitions is not None or plan_signature != self._plan_signature:
            return self.read()  # whether an adaptive repetition is due follows from all records
        self._read_journal()
        holder = lock_state(self.results)
        performing = self._performing(holder.state == "running")
        named = self.noted | performing.keys() | {each.run_id for each in latest.activities}
        runs, problems = self._with_named(latest, named & self._places.keys(), performing)
        now_s, process = self._now_s(holder), SweepProcess(holder.state, holder.holder)
        changed = replace(latest, read_at_s=now_s, process=process, runs=runs, problems=problems)
        self._latest = self._with_process(changed)
        return self._latest

    def _with_named(
        self, latest: SweepState, named: Collection[str], performing: Mapping[str, Activity]
    ) -> tuple[tuple[RunState, ...], tuple[str, ...]]:
        """The runs and the problems of the latest state, with some runs read anew."""
        if not named:
            return latest.runs, latest.problems
        runs, problems = list(latest.runs), dict.fromkeys(latest.problems)
        for run_id in named:
            place = self._places[run_id]
            state = self._run_state(self._plan.runs[place], performing.get(run_id))
            runs[place] = replace(state, is_due=latest.runs[place].is_due)
            known = self._records.get(run_id)
            problems |= {known.problem: None} if known and known.problem else {}
        return tuple(runs), tuple(problems)

    def _performing(self, is_running: bool) -> dict[str, Activity]:
        """What is done now, by run."""
        return {each.run_id: each for each in self._activities.by_batch.values() if is_running and each.run_id}

    def _run_state(self, run: Run, activity: Activity | None) -> RunState:
        """The state of a run, as if it were due."""
        known = self._record(run.run_id)
        record = known.record if known else None
        return RunState(
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
            machine=record.machine if record else "",
            failed_again=bool(known and known.failed_again),
            activity=activity,
        )

    def _with_process(self, state: SweepState) -> SweepState:
        """The state with what the journal says of the sweep's process."""
        is_running = state.process.state == "running"
        left = sum(run.is_due and run.outcome in (None, Outcome.ABORTED) for run in state.runs)
        pace = (self._activities.started_s, self._activities.published_s)
        return replace(
            state,
            activities=tuple(self._activities.by_batch.values()) if is_running else (),
            started_s=self._activities.started_s,
            ended_s=self._activities.ended_s,
            latest_entry_s=self._activities.latest_s,
            time_left_s=time_left_s(left, *pace, state.read_at_s) if is_running or not left else None,
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
        self.noted = set()
        try:
            with open_plain(self.results / JOURNAL_NAME) as file:
                status = os.fstat(file.fileno())
                if status.st_ino != self._journal_inode or status.st_size < self._journal_read:
                    self._activities, self._journal_inode, self._journal_read = Activities(), status.st_ino, 0
                file.seek(self._journal_read)
                added = file.read()
        except OSError as problem:
            self._activities, self._journal_inode, self._journal_read = Activities(), 0, 0
            self._journal_problem = "" if isinstance(problem, FileNotFoundError) else str(problem)
            return
        self._journal_problem = ""
        whole = added[: added.rfind(b"\n") + 1]
        self._journal_read += len(whole)
        for entry in entries_in(whole.decode(errors="replace").splitlines()):
            self._activities.take(entry)
            if isinstance(entry.event, RunPublished | RunAnalysed):
                self.noted.add(entry.event.run_id)


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
        status = os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    return status.st_ino, status.st_mtime_ns, status.st_size


def _read(results: Path, run_id: str, signature: Signature) -> _Record:
    try:
        record = read_record(run_directory(results, run_id))
        return _Record(signature, record, failed_again=failed_again(results, record))
    except (ResultsConflict, OSError) as problem:
        return _Record(signature, None, str(problem))
