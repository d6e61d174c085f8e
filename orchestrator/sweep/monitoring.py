"""Monitors one worker: takes in its events, has its runs published, and finds out what was lost with it."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from owlt.agents.contract.implementation import Implementation
from owlt.orchestrator.planning.plan import Batch, Plan, Run
from owlt.orchestrator.rigs.processor_time import Waited
from owlt.orchestrator.run.analysis import note_machine_delay
from owlt.orchestrator.run.events import (
    CertificationStarted,
    ChannelCertified,
    ChannelDisturbed,
    Event,
    Heartbeat,
    PhaseStarted,
    RigFailed,
    RunEnded,
    RunStarted,
    WorkerLost,
    event_in,
)
from owlt.orchestrator.run.launching import Waits, Worker, WorkerHung
from owlt.orchestrator.run.task import planned_record
from owlt.orchestrator.steady_clock import steady_s
from owlt.orchestrator.sweep.journal import Journal
from owlt.orchestrator.sweep.publishing import Publisher
from owlt.orchestrator.sweep.scheduling import Scheduler
from owlt.results.certificates import certified
from owlt.results.judgements import may_have_delayed_probes
from owlt.results.plain_files import make_directory, read_plain, write_whole
from owlt.results.record import Outcome, ReasonCode, write_record
from owlt.results.recorded_runs import run_directory

POWER_OFF = re.compile(r"sysrq: Power Off|reboot: Power down")
"""A guest's last words if it ends as it should."""


@dataclass
class WorkerState:
    """The state of one worker; `take` changes it."""

    waiting: dict[str, Run]
    """Runs without a record, by id."""
    uncertified: list[str]
    """Channels without a certificate, by key."""
    certifying_since_ns: int = 0
    run_id: str | None = None
    """The run that is being performed."""
    phase: str = ""
    failure: str = ""
    """Why its rig failed."""
    console: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, batch: Batch) -> WorkerState:
        """The state of a worker that has yet to begin a batch."""
        return cls({run.run_id: run for run in batch.runs}, list(batch.certify))

    def take(self, event: Event, now_ns: int) -> None:
        """Take in an event that arrived at a time."""
        match event:
            case CertificationStarted():
                self.certifying_since_ns = now_ns
            case ChannelCertified():
                self.uncertified.remove(event.channel)
            case RunStarted():
                self.run_id = event.run_id
            case PhaseStarted():
                self.phase = event.phase
            case RunEnded():
                del self.waiting[event.run_id]
                self.run_id = None
            case RigFailed():
                self.failure = event.reason

    @property
    def is_unfinished(self) -> bool:
        """Whether something of its batch is left."""
        return bool(self.waiting or self.uncertified)

    @property
    def is_computing(self) -> bool:
        """Whether the run is in a phase in which the implementation's programs run."""
        return self.phase in ("launch", "transfer")

    @property
    def last_line(self) -> str:
        """The last line of its console, beside what a guest prints when it powers off."""
        lines = [line.strip() for line in self.console if line.strip() and not POWER_OFF.search(line)]
        return lines[-1] if lines else "it wrote nothing"


HANG_S_PER_MEGABYTE = 30.0
CERTIFYING_HANG_S = {"exact": 600.0, "skip": 600.0, "real": 3600.0}
"""How long a worker may be silent while it measures a channel, in wall time."""
BETWEEN_RUNS_HANG_S = 120.0
"""How long it may be silent while its guest boots, and between two runs."""


class WorkerFailed(Exception):
    """A rig that cannot be raised, or a channel that cannot be measured: no run can be blamed, so the sweep stops."""


@dataclass(frozen=True)
class SweepContext:
    """The values that all monitors of a sweep share."""

    plan: Plan
    scheduler: Scheduler
    publisher: Publisher
    journal: Journal


class WorkerMonitor:
    """Monitors the worker of one batch, or of a part of it, from its launch to its end."""

    def __init__(self, batch: Batch, directory: Path, context: SweepContext, machine: str = "") -> None:
        """`machine` is the name of another machine that the worker runs on."""
        self._batch = batch
        self._machine = machine
        self._directory = directory
        self._context = context
        self._clock = context.plan.sweep.clock
        self._state = WorkerState.of(batch)
        self._to_certify_again: list[str] = []
        self._hang = ""
        self._is_left = False
        """Whether its further runs are left to another worker, after a pause."""
        self._run_began_s = steady_s()
        self._waits: Waits | None = None
        """None if its processes' waits are no part of the time of a run, or are not measured."""

    @property
    def channels_left(self) -> list[str]:
        """The channels that it did not certify because it was lost, or was disturbed."""
        return [*self._state.uncertified, *self._to_certify_again]

    def follow(self, worker: Worker, is_paused: Callable[[], bool] = lambda: False) -> None:
        """Take in all that a worker reports, until it ends or hangs, or a run ends while the sweep is paused."""
        self._waits = worker.waits() if self._clock == "real" else None
        try:
            for line in worker.lines(self._silence_limit_s):
                event = event_in(line)
                if event is None:
                    self._state.console.append(line)
                else:
                    self._take(event)
                if isinstance(event, RunEnded) and is_paused():
                    self._is_left = True
                    break
        except WorkerHung as hang:
            self._hang = str(hang)
        finally:
            if self._waits is not None:
                self._waits.close()

    def take_failure(self, reason: str) -> None:
        """Take in that the worker could not be launched."""
        self._state.failure = reason
        self._state.console.append(f"{reason}\n")

    def keep_console(self) -> None:
        """Write its console's lines into its directory."""
        write_whole(self._directory / "console.log", "".join(self._state.console))

    def settle_loss(self) -> None:
        """Record the run in which a worker was lost, if it was; raises WorkerFailed if the rig failed."""
        if self._is_left or not self._state.is_unfinished:
            return
        reason = self._hang or self._state.failure or f"the worker ended: {self._state.last_line}"
        run_id = self._state.run_id
        if self._state.uncertified or run_id is None:
            self._settle_rig_loss(reason)
        else:
            self._record_loss(self._state.waiting[run_id], reason)

    def _silence_limit_s(self) -> float:
        """For how long the worker may be silent in what it does now, in wall time."""
        return silence_limit_s(self._context.plan, self._batch, self._state.run_id)

    def _take(self, event: Event) -> None:
        self._state.take(event, time.time_ns())
        match event:
            case Heartbeat():
                pass
            case RunStarted():
                self._run_began_s = steady_s()
                self._context.journal.note(self._batch.index, event)
            case ChannelCertified():
                self._take_certificate(event)
            case RunEnded():
                self._context.journal.note(self._batch.index, event)
                self._take_run(run_directory(self._directory, event.run_id))
            case _:
                self._context.journal.note(self._batch.index, event)

    def _take_run(self, directory: Path) -> None:
        if self._clock != "exact" and not self._machine:  # another machine has noted it: it measures the waits
            note_machine_delay(directory, self._waited)
        self._publish(directory)

    def _publish(self, directory: Path) -> None:
        self._context.publisher.publish_run(directory, self._batch.index, steady_s() - self._run_began_s)

    def _waited(self, first_ns: int, last_ns: int) -> Waited | None:
        """The waits of the worker's processes between two times of the latest run; None if they were not measured."""
        if self._waits is None:
            return None
        waited = self._waits.between(first_ns, last_ns)
        self._waits.forget(last_ns)
        return waited

    def _take_certificate(self, event: ChannelCertified) -> None:
        """Publish a certificate; the channel is measured once more if the machine may be at fault."""
        if not self._is_disturbed(event.channel):
            self._context.publisher.publish_certificate(self._directory, event, self._batch.index, self._machine)
            return
        self._context.scheduler.certify_again(event.channel)
        self._to_certify_again.append(event.channel)
        self._context.journal.note(self._batch.index, ChannelDisturbed(channel=event.channel, verdict=event.verdict))

    def _is_disturbed(self, channel: str) -> bool:
        """Whether a certificate blames the channel while the rig's processes waited for a processor."""
        if self._waits is None or not self._context.scheduler.may_certify_again(channel):
            return False
        certificate = certified(self._directory, {channel}).get(channel)
        waited = self._waits.since(self._state.certifying_since_ns)
        is_blamed = certificate is not None and bool(certificate.suspicion)
        return is_blamed and waited is not None and may_have_delayed_probes(waited.waited_ns, waited.dispatches)

    def _settle_rig_loss(self, reason: str) -> None:
        """Have another worker follow one that was lost outside of a run, unless it is the last of several."""
        batch = self._batch.index
        is_replaced = self._context.scheduler.count_rig_loss(batch)
        if is_replaced:
            self._context.journal.note(batch, WorkerLost(reason=reason))
            return
        log = self._context.publisher.keep_console(self._directory, batch)
        rig = f"the rig of batch {batch} did not come up"
        failure = "a channel could not be certified" if self._state.uncertified else rig
        raise WorkerFailed(f"{failure}: {reason}; see {log}")

    def _record_loss(self, run: Run, reason: str) -> None:
        """Publish a record of the run in which the worker was lost."""
        plan, results = self._context.plan, self._context.publisher.results
        outcome = Outcome.TIMED_OUT if self._hang and self._state.is_computing else Outcome.ABORTED
        code = ReasonCode.HUNG if self._hang else ReasonCode.RIG_LOST
        implementation = plan.implementations[run.permutation.implementation]
        certificate = certified(results, {run.channel_key}).get(run.channel_key)
        record = planned_record(run, plan.sweep, implementation, certificate, outcome, code, reason)
        directory = run_directory(self._directory, run.run_id)
        make_directory(directory)
        write_whole(directory / "console.log", read_plain(self._directory / "console.log"))
        write_record(record, directory)
        self._publish(directory)


def silence_limit_s(plan: Plan, batch: Batch, run_id: str | None) -> float:
    """For how long the worker of a batch may be silent during a run, or between runs, in wall time."""
    if batch.certify:
        return CERTIFYING_HANG_S[plan.sweep.clock]
    run = next((run for run in batch.runs if run.run_id == run_id), None)
    if run is None:
        return BETWEEN_RUNS_HANG_S
    return hang_limit_s(run, plan.implementations[run.permutation.implementation])


def hang_limit_s(run: Run, implementation: Implementation) -> float:
    """For how long a worker may be silent during a run, in wall time."""
    silence_s = float(os.environ.get("OWLT_HANG_S", implementation.hang_s))
    return silence_s + HANG_S_PER_MEGABYTE * run.permutation.most_bytes / 1e6
