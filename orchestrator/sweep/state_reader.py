"""Reads the state of a sweep from its results directory: from plan, records, summaries, journal and lock.

It changes nothing.

The records are the truth; the journal adds what runs now. Every index of them is in this process and can be made again.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from owlt.inputs.mistake import Mistake, Place, ResultsConflict
from owlt.inputs.quantities import format_delay, format_rate_or_unlimited
from owlt.inputs.sweep import Sweep
from owlt.orchestrator.errors import OwltError
from owlt.orchestrator.planning.plan import Plan, Run, read_plan
from owlt.orchestrator.planning.repetitions import DueRuns, Repeating, counts
from owlt.orchestrator.run.events import RunAnalysed, RunPublished
from owlt.orchestrator.run.same_failures import failed_again
from owlt.orchestrator.steady_clock import steady_s
from owlt.orchestrator.sweep.journal import Activities, Activity, entries_in
from owlt.orchestrator.sweep.state import AdaptiveState, RunState, SweepProcess, SweepState
from owlt.results.files import CERTIFICATES, JOURNAL_NAME, PLAN_NAME
from owlt.results.judgements import doubts_of
from owlt.results.lock import LockState, lock_state
from owlt.results.operator import paused_since_s
from owlt.results.permutation import Permutation
from owlt.results.plain_files import open_plain
from owlt.results.record import RECORD_NAME, SUMMARY, RunRecord, Signature, read_record, signature
from owlt.results.recorded_runs import RUNS, run_directory

LATEST_RUNS = 200
"""Only so many runs decide: other work on the machine may come and go."""


def runs_per_s(started_s: float, published_s: Sequence[float], now_s: float) -> float | None:
    """How many runs are published in a second; None before the first, or if the clock was set back meanwhile.

    The runs of a sweep are in random order, so the latest ones represent those that follow.
    """
    if not published_s:
        return None
    counted = min(len(published_s), LATEST_RUNS)
    began_s = started_s if counted == len(published_s) else published_s[-counted - 1]
    elapsed_s = now_s - began_s
    return counted / elapsed_s if elapsed_s > 0 else None


def time_left_s(left: int, started_s: float | None, published_s: Sequence[float], now_s: float) -> float | None:
    """How long the runs that are left take at the latest pace; None if the pace is unknown."""
    if not left:
        return 0.0
    pace = None if started_s is None else runs_per_s(started_s, published_s, now_s)
    return None if pace is None else left / pace


def channel_labels(plan: Plan) -> dict[str, str]:
    """Each channel of a plan by its key: its name if it has one, and its values: "geo: 2 Mbit/s, 270 ms"."""
    return {run.channel_key: channel_label(run.permutation) for run in plan.runs}


def channel_label(point: Permutation) -> str:
    """The channel of a point of the grid in words."""
    values = [format_rate_or_unlimited(point.rate_bps), format_delay(point.delay_ns)]
    values += [f"PER {point.packet_error_rate:g}"] if point.packet_error_rate else []
    values += [f"reverse {text}" for text in point.reverse_texts]
    return f"{point.channel_name}: {', '.join(values)}" if point.channel_name else ", ".join(values)


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
        """`with_summaries`: a run is suspect for what lies beside its record, too.

        Raises OwltError if the directory has no plan, or one that cannot be read.
        """
        self.results = results
        self._with_summaries = with_summaries
        self._plan_signature: Signature | None = None
        self._cells: dict[str, str] = {}
        self._channels: dict[str, str] = {}
        self._plan = self._read_plan()
        self._records: dict[str, _Record] = {}
        self._doubts: dict[str, tuple[RunRecord, tuple[Signature | None, ...], tuple[str, ...]]] = {}
        """By run: the record, what lay beside it, and the reasons that follow."""
        self._activities = Activities()
        self._journal_inode = 0
        self._journal_problem = ""
        """Why the journal cannot be read."""
        self._journal_read = 0
        self._latest: SweepState | None = None
        self._places: dict[str, int] = {}
        """The positions of the runs in the latest state, by name."""
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
            suspect=self._doubts_of(record) if record else (),
            attempt=record.attempt if record else 1,
            machine=record.machine if record else "",
            failed_again=bool(known and known.failed_again),
            activity=activity,
        )

    def _with_process(self, state: SweepState) -> SweepState:
        """The state with the journal's entries on the sweep's process."""
        is_running = state.process.state == "running"
        left = sum(run.is_left for run in state.runs)
        paused_s = paused_since_s(self.results)
        pace = (self._activities.paced_from_s, self._activities.published_s)
        return replace(
            state,
            activities=tuple(self._activities.by_batch.values()) if is_running else (),
            started_s=self._activities.started_s,
            ended_s=self._activities.ended_s,
            latest_entry_s=self._activities.latest_s,
            time_left_s=time_left_s(left, *pace, state.read_at_s)
            if (is_running and paused_s is None) or not left
            else None,
            paused_since_s=paused_s,
        )

    def _now_s(self, lock: LockState) -> float:
        """The time now, by the clock of a journal that a process of this machine writes."""
        begin_s, begin_steady_s = self._activities.started_s, self._activities.started_steady_s
        is_here = lock.state == "running" and lock.holder is not None and lock.holder.host == socket.gethostname()
        if not is_here or begin_s is None or begin_steady_s is None:
            return time.time()
        return begin_s + steady_s() - begin_steady_s

    def _read_plan(self) -> Plan:
        written = signature(self.results / PLAN_NAME)
        if written is None:
            raise OwltError(
                Mistake(
                    "is not a results directory (it has no plan.json)",
                    "one that 'owlt run' made, such as results/demo",
                    where=Place(str(self.results)),
                )
            )
        if written != self._plan_signature:
            self._plan = read_plan(self.results)
            self._repeating = Repeating(self._plan, self.results)
            self._plan_signature = written
            self._cells = {run.run_id: run.permutation.cell for run in self._plan.runs}
            self._channels = channel_labels(self._plan)
        return self._plan

    def _record(self, run_id: str) -> _Record | None:
        """The record of a run; None if it has none."""
        written = signature(f"{self.results}/{RUNS}/{run_id}/{RECORD_NAME}")  # a Path takes longer than the call
        if written is None:
            self._records.pop(run_id, None)
            return None
        known = self._records.get(run_id)
        if known is None or known.signature != written:
            known = self._records[run_id] = _read(self.results, run_id, written)
        return known

    def _doubts_of(self, record: RunRecord) -> tuple[str, ...]:
        """Why a run is suspect; only what its record states, `with_summaries` False."""
        if not self._with_summaries:
            return tuple(record.suspect)
        directory = f"{self.results}/{RUNS}/{record.run_id}"  # a Path takes longer than the calls
        certificate = f"{self.results}/{CERTIFICATES}/{record.channel_key}.json" if record.certificate else ""
        beside = (directory, f"{directory}/{SUMMARY}", certificate)
        signatures = tuple(map(signature, beside))
        known = self._doubts.get(record.run_id)
        if known is None or known[0] is not record or known[1] != signatures:
            known = self._doubts[record.run_id] = record, signatures, doubts_of(record, Path(directory))
        return known[2]

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
    return AdaptiveState(**rule.model_dump(), permutations=counts(due.stops.values()), rule=rule.text)


def read_state(results: Path) -> SweepState:
    """The state of a sweep, read once."""
    return StateReader(results).read()


def _read(results: Path, run_id: str, signature: Signature) -> _Record:
    try:
        record = read_record(run_directory(results, run_id))
        return _Record(signature, record, failed_again=failed_again(results, record))
    except (ResultsConflict, OSError) as problem:
        return _Record(signature, None, str(problem))
