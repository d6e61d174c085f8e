"""Performs a plan on workers side by side: each batch until its runs have records that stand.

A worker writes only into a directory of its own; a run exists once its directory has been renamed into `runs/`. So a
sweep that was killed at any moment has complete runs and nothing else, and the next start resumes it.
"""

from __future__ import annotations

import errno
import os
import shutil
import socket
import threading
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from owlt.orchestrator.hosts.host import HostError
from owlt.orchestrator.planning.plan import Batch, Plan, first_batches
from owlt.orchestrator.planning.repetitions import Repeating
from owlt.orchestrator.run.analysis import Analyse, Analyses, MakeExecutor
from owlt.orchestrator.run.events import (
    Observe,
    QuietAwaited,
    RepetitionsDue,
    RunAnalysed,
    SweepEnded,
    SweepPaused,
    SweepResumed,
    SweepStarted,
    WorkerStarted,
)
from owlt.orchestrator.run.launching import Launcher, Worker
from owlt.orchestrator.run.task import channel_keys
from owlt.orchestrator.steady_clock import steady_s
from owlt.orchestrator.sweep.journal import Journal, open_journal
from owlt.orchestrator.sweep.machine import Allocation, Places
from owlt.orchestrator.sweep.monitoring import SweepContext, WorkerMonitor
from owlt.orchestrator.sweep.publishing import Publisher, set_aside
from owlt.orchestrator.sweep.scheduling import Deadline, Quarantine, Scheduler, Timing
from owlt.results.certificates import certified, of_machine
from owlt.results.operator import paused_since_s
from owlt.results.record import Outcome
from owlt.results.recorded_runs import RUNS, Recorded, read_recorded, standing

LEAST_FREE_BYTES = 16_000_000
INTERRUPT_PERIOD_S = 0.2
"""How often the main thread looks up from waiting, so that it takes signals."""


@dataclass(frozen=True)
class Workers:
    """The workers and slots of a machine that performs runs."""

    launch: Launcher
    places: Places
    """Where they run side by side."""
    analysis_executor: MakeExecutor
    """Makes what analyses runs while others are performed."""


def supervise(
    plan: Plan,
    results: Path,
    workers: Workers,
    observe: Observe,
    analyse: Analyse,
    timing: Timing | None = None,
    only: Collection[str] | None = None,
) -> None:
    """Certify the plan's channels and perform every run without a record that stands, on workers side by side.

    `observe` gets every event of every worker. `analyse` gets the directory of every new run, in an executor of
    `workers`. What the machine disturbed is performed again when it is quiet, as `timing` allows. With `only`, no other
    run is performed for its own sake. An interrupt ends the workers and leaves what is published. Raises WorkerFailed
    if a rig cannot be raised.
    """
    timing = timing or Timing()
    recorded = read_recorded(results, {run.run_id for run in plan.runs})
    others = set() if only is None else {run.run_id for run in plan.runs} - set(only)
    done = standing(recorded) | others
    certifications = uncertified(plan, results)
    scheduler = Scheduler(done, timing.patience, timing.back_off_s)
    results.mkdir(parents=True, exist_ok=True)
    with open_journal(results, observe) as journal:
        analyses = Analyses(analyse, workers.analysis_executor, partial(_note_analysis, journal))
        publisher = Publisher(plan, results, scheduler, _quarantine(plan, recorded), journal, analyses)
        publisher.prepare()
        _set_aside_faulty(results, recorded, done)
        deadline = timing.deadline or Deadline(plan.sweep.clock)
        supervisor = Supervisor(SweepContext(plan, scheduler, publisher, journal), workers.launch, deadline)
        journal.note(None, SweepStarted(host=socket.gethostname(), pid=os.getpid(), steady_s=steady_s()))
        try:
            for batches in _beginning(certifications, scheduler.undone(first_batches(plan))):
                supervisor.perform(Allocation(batches, workers.places))
            for batches in _rounds(plan, results, scheduler, supervisor, analyses, journal, others):
                supervisor.perform(Allocation(batches, workers.places))
        finally:
            try:
                analyses.finish()
            finally:
                journal.note(None, SweepEnded(problem=str(next(iter(supervisor.problems), ""))))
    if supervisor.problems:
        raise supervisor.problems[0]
    publisher.remove_workers()


def _beginning(certifications: list[Batch], first: list[Batch]) -> list[list[Batch]]:
    """What is performed before all runs: the certifications; those of many channels may take hours, so the first run of
    each implementation comes as soon as its own channel is certified."""
    keys = {run.channel_key for batch in first for run in batch.runs}
    own = [batch for batch in certifications if keys.intersection(batch.certify)]
    others = [batch for batch in certifications if not keys.intersection(batch.certify)]
    return [own, first, others] if others else [own]


def _rounds(
    plan: Plan,
    results: Path,
    scheduler: Scheduler,
    supervisor: Supervisor,
    analyses: Analyses,
    journal: Journal,
    others: Collection[str],
) -> Iterator[list[Batch]]:
    """The batches with runs that are not done: all at once; with adaptive repetitions, those that are due.

    What is due depends on the results of all runs before, which are awaited. `others` are runs that this start does not
    perform.
    """
    if plan.sweep.adaptive is None:
        yield scheduler.undone(plan.batches)
        return
    repeating = Repeating(plan, results)
    while not supervisor.is_over:
        records = read_recorded(results, {run.run_id for run in plan.runs}).records
        due = repeating.due(records)
        assert due is not None, "the repetitions are adaptive"
        here = [run for run in plan.runs if run.run_id not in others]
        journal.note(None, RepetitionsDue(runs=sum(due.is_due(run) or run.run_id in records for run in here)))
        batches = [
            batch.model_copy(update={"runs": [run for run in batch.runs if due.is_due(run)]}) for batch in plan.batches
        ]
        undone = scheduler.undone(batches)
        if not undone:
            return
        yield undone
        analyses.finish()


def _note_analysis(journal: Journal, run_id: str, problem: str) -> None:
    journal.note(None, RunAnalysed(run_id=run_id, problem=problem))


def uncertified(plan: Plan, results: Path) -> list[Batch]:
    """The plan's certifications, each with the channels that have no readable certificate."""
    keys = {key for batch in plan.certifications for key in batch.certify}
    missing = keys - set(certified(results, keys))
    left = [[key for key in batch.certify if key in missing] for batch in plan.certifications]
    return [
        batch.model_copy(update={"certify": keys})
        for batch, keys in zip(plan.certifications, left, strict=True)
        if keys
    ]


def _quarantine(plan: Plan, recorded: Recorded) -> Quarantine:
    """The quarantine of this start, with what earlier starts have recorded."""
    runs = {run.run_id: run.permutation for run in plan.runs}
    completed = [run_id for run_id, record in recorded.records.items() if record.outcome is Outcome.COMPLETED]
    return Quarantine(
        plan.sweep.quarantine_after, [(runs[run_id].implementation, runs[run_id].cell) for run_id in completed]
    )


def _set_aside_faulty(results: Path, recorded: Recorded, done: set[str]) -> None:
    """Set aside the runs whose records are damaged or call for another attempt, and that are not done."""
    for run_id in sorted({*recorded.records, *recorded.damaged} - done):
        set_aside(results, results / RUNS / run_id)


class Supervisor:
    """Launches a worker for each batch, in a thread for each slot."""

    def __init__(self, context: SweepContext, launch: Launcher, deadline: Deadline) -> None:
        self._context = context
        self._launch = launch
        self._deadline = deadline
        self._lock = threading.Lock()
        self._workers: list[Worker] = []
        self._closing = threading.Event()
        self._serving: set[int] = set()
        """Slots with a thread that performs batches."""
        self._has_ended = threading.Event()
        """Set when one of these threads has no more batches."""
        self._is_paused = False
        self.problems: list[Exception] = []
        """The problems that ended the sweep early, in the order of time."""

    def perform(self, allocation: Allocation) -> None:
        """Perform all batches, on a worker for each slot; an interrupt ends them."""
        threads: list[threading.Thread] = []
        try:
            while self._start_threads(threads, allocation):
                self._has_ended.wait(INTERRUPT_PERIOD_S)
                self._has_ended.clear()
        except BaseException:
            self.close()
            raise
        finally:
            for thread in threads:
                thread.join()

    def _start_threads(self, threads: list[threading.Thread], allocation: Allocation) -> bool:
        """Start a thread for each slot that has a batch and no thread, unless the sweep is paused. Returns whether
        anything is left to wait for."""
        self._look_for_pause()
        may_start = not (self._closed or self._deadline.is_over)
        if may_start and not self._is_paused:
            for slot in allocation.open_slots():
                if slot not in self._serving:
                    self._serving.add(slot)
                    threads.append(threading.Thread(target=self._serve, args=(allocation, slot)))
                    threads[-1].start()
        if self._serving:
            return True
        if allocation.is_empty or not may_start:
            return False
        allocation.places.require_machine()
        return True

    def _look_for_pause(self) -> None:
        paused = paused_since_s(self._context.publisher.results) is not None
        if paused != self._is_paused:
            self._is_paused = paused
            self._context.journal.note(None, SweepPaused() if paused else SweepResumed())
        if paused:
            self._deadline.end_if_past()

    def _may_launch(self, allocation: Allocation, slot: int) -> bool:
        return not (self._closed or self._is_paused) and allocation.is_open(slot)

    @property
    def is_over(self) -> bool:
        """Whether no more batches are performed: it was closed, or its deadline has passed."""
        return self._closed or self._deadline.is_over

    @property
    def _closed(self) -> bool:
        return self._closing.is_set()

    def close(self) -> None:
        """Launch no more workers and end those that run."""
        with self._lock:
            self._closing.set()
            for worker in self._workers:
                worker.end()

    def _serve(self, allocation: Allocation, slot: int) -> None:
        """Perform one batch after the other, in this thread, as long as the slot's machine is there."""
        try:
            self._serve_batches(allocation, slot)
        except Exception as problem:
            self.problems.append(problem)
            self.close()
        finally:
            self._serving.discard(slot)
            self._has_ended.set()

    def _serve_batches(self, allocation: Allocation, slot: int) -> None:
        while not (self._closed or self._is_paused) and (batch := allocation.take(slot)):
            if not self._deadline.allows(batch):
                return
            with self._deadline.timed(batch):
                left = self._certify(batch, allocation, slot)
                self._perform_runs(batch, allocation, slot)
            if left or self._next_part(batch):
                allocation.put_back(batch.model_copy(update={"certify": left}))

    def _certify(self, batch: Batch, allocation: Allocation, slot: int) -> list[str]:
        """Launch workers until every channel of a batch has its certificate. Returns those that have none."""
        left = list(batch.certify)
        while left and self._may_launch(allocation, slot):
            left = self._launch_worker(batch.model_copy(update={"certify": left, "runs": []}), allocation, slot)
        return left

    def _perform_runs(self, batch: Batch, allocation: Allocation, slot: int) -> None:
        """Launch workers until each run of a batch has a record that stands, or its attempts are used up.

        A machine certifies each channel before its first run on it.
        """
        batch = batch.model_copy(update={"certify": []})
        while self._may_launch(allocation, slot) and (part := self._next_part(batch)):
            if runs := self._context.publisher.publish_quarantined(part.runs, batch.index):
                part = part.model_copy(update={"runs": runs})
                missing = self._uncertified_on(allocation.places.machines().get(slot, ""), part)
                if not missing or not self._certify(missing, allocation, slot):
                    self._launch_worker(part, allocation, slot)

    def _next_part(self, batch: Batch) -> Batch | None:
        return self._context.scheduler.next_part(batch, self._context.plan.sweep.clock)

    def _uncertified_on(self, machine: str, batch: Batch) -> Batch | None:
        """The certification of the channels of a batch that another machine has no certificate of; None: no channel."""
        plan = self._context.plan
        certifications = {key: each for each in plan.certifications for key in each.certify}
        if not machine or not (keys := {run.channel_key for run in batch.runs} & certifications.keys()):
            return None
        missing = sorted(keys - certified(of_machine(self._context.publisher.results, machine), keys).keys())
        return certifications[missing[0]].model_copy(update={"certify": missing}) if missing else None

    def _launch_worker(self, batch: Batch, allocation: Allocation, slot: int) -> list[str]:
        """Launch a worker and monitor it to its end. Returns the channels that it leaves without a certificate."""
        if (wait_s := self._context.scheduler.back_off_s(batch)) and self._closing.wait(wait_s):
            return batch.certify
        if self._context.scheduler.needs_quiet(batch):
            self._context.journal.note(batch.index, QuietAwaited())
            self._context.scheduler.patience.wait_for_quiet(lambda: self._closed, allocation.places.stalled_s(slot))
        require_space(self._context.publisher.results)
        directory = self._context.publisher.worker_directory(batch.index, slot)
        machine = allocation.places.machines().get(slot, "")
        self._context.journal.note(batch.index, WorkerStarted(slot=slot, machine=machine))
        monitor = WorkerMonitor(batch, directory, self._context, machine)
        try:
            with self._worker(batch, directory, slot, machine) as worker:
                if worker is not None:
                    monitor.follow(worker, lambda: self._is_paused)
        except HostError as problem:
            monitor.take_failure(str(problem))
        monitor.keep_console()
        if not self._closed:
            monitor.settle_loss()
        return monitor.channels_left

    @contextmanager
    def _worker(self, batch: Batch, directory: Path, slot: int, machine: str) -> Iterator[Worker | None]:
        """None if the supervisor was closed before the worker was launched, or meanwhile: then it is ended."""
        worker = self._launched(batch, directory, slot, machine)
        if worker is None:
            yield None
            return
        with self._lock:
            self._workers.append(worker)
        try:
            yield None if self._closed else worker
        finally:
            worker.end()
            with self._lock:
                self._workers.remove(worker)

    def _launched(self, batch: Batch, directory: Path, slot: int, machine: str) -> Worker | None:
        """Launch a worker, unless the supervisor was closed. An interrupt does not wait for it."""
        if self._closed:
            return None
        certificates = certified(of_machine(self._context.publisher.results, machine), channel_keys(batch))
        return self._launch(batch, directory, slot, certificates)


def require_space(results: Path) -> None:
    """Raise OSError if the file system is too full for one more run."""
    if shutil.disk_usage(results).free < LEAST_FREE_BYTES:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(results))
