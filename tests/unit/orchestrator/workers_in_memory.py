"""Workers in memory: they perform runs by calling a function, without a process, a rig or waiting.

Everything else of a sweep is as with real workers: tasks, events, records, certificates, attempts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from owlt.emulator.certification.certificate import Certificate
from owlt.emulator.channel.spec import ChannelSpec
from owlt.inputs.mistake import Mistake
from owlt.orchestrator.planning.plan import Batch, Plan, Run
from owlt.orchestrator.rigs.provenance import UNKNOWN_MACHINE, Provenance
from owlt.orchestrator.run.events import (
    BatchEnded,
    CertificationStarted,
    ChannelCertified,
    RigStarting,
    RunEnded,
    RunStarted,
    WorkerEvent,
    worker_line,
)
from owlt.orchestrator.run.launching import Waits, Worker, WorkerHung
from owlt.orchestrator.run.task import Task, planned_record, read_task, write_task
from owlt.orchestrator.sweep.machine import Places, SlotsHere
from owlt.results.certificates import Certified, write_certificate
from owlt.results.files import CERTIFICATES
from owlt.results.record import Outcome, RunRecord, read_record, write_record

KERNEL_HZ = 100


class WorkerGone(Exception):
    """Raised in a worker's function: the worker ends at once."""


class Silence:
    """Yielded by a worker's function: from here on the worker is silent until it counts as hung."""


Reported = WorkerEvent | str | Silence
"""What a worker does: an event, a line on its console, or nothing any more."""

PerformRun = Callable[[Run, Task, Path], Iterable[Reported]]
"""Performs a run: writes its record into the directory, which does not exist yet."""

CertifyChannel = Callable[[str, Path], Iterable[Reported]]
"""Certifies the channel of a key: writes its certificate into a directory of certificates."""


def complete(run: Run, task: Task, directory: Path, **changes: object) -> Iterator[Reported]:
    """Record the run as completed, with `changes` to its record."""
    implementation = task.implementations[run.permutation.implementation]
    certificate = task.certificates.get(run.channel_key)
    record = planned_record(run, task.sweep, implementation, certificate, Outcome.COMPLETED)
    directory.mkdir(parents=True)
    values = record.model_dump() | {"provenance": task.provenance[implementation.name]} | changes
    write_record(RunRecord.model_validate(values), directory)
    yield from ()


def certify(key: str, directory: Path) -> Iterator[Reported]:
    """Certify a channel without a check."""
    write_certificate(Certificate(ChannelSpec().to_wire(), (), 0, 0.0, "", 0.001).to_wire(), key, directory)
    yield ChannelCertified(channel=key, verdict="ok")


@dataclass
class InMemoryWorkers:
    """A launcher of workers in memory, and the machine that they run on."""

    plan: Plan
    perform: PerformRun = complete
    certify: CertifyChannel = certify
    waits: Waits | None = None
    """Those of every worker."""
    is_missing: list[Mistake] = field(default_factory=list)
    """What the machine is missing."""
    provenance: Provenance = UNKNOWN_MACHINE
    batches: list[Batch] = field(default_factory=list)
    """All batches that were launched, in order."""

    def missing(self, plan: Plan) -> list[Mistake]:
        """The requirements in `is_missing`."""
        return self.is_missing

    def launcher(self, plan: Plan, cpus: list[int]) -> InMemoryWorkers:
        """Itself."""
        return self

    def places(self, slots: int) -> Places:
        """Slots of this machine."""
        return SlotsHere(slots)

    def analysis_executor(self, plan: Plan) -> Executor:
        """A thread."""
        return ThreadPoolExecutor(1)

    def __call__(self, batch: Batch, directory: Path, slot: int, certificates: dict[str, Certified]) -> Worker:
        self.batches.append(batch)
        write_task(self.plan, batch, directory, KERNEL_HZ, certificates, provenance=self.provenance)
        return InMemoryWorker(self.work(directory), self.waits)

    def close(self) -> None:
        """They share nothing."""

    def work(self, directory: Path) -> Iterator[Reported]:
        """All that the worker in a directory does."""
        task = read_task(directory)
        yield RigStarting()
        for key in task.certify:
            yield CertificationStarted(channel=key)
            yield from self.certify(key, directory / CERTIFICATES)
        for run in task.runs:
            yield RunStarted(run_id=run.run_id)
            run_directory = directory / "runs" / run.run_id
            yield from self.perform(run, task, run_directory)
            record = read_record(run_directory)
            yield RunEnded(run_id=run.run_id, outcome=record.outcome, reason=record.reason)
        yield BatchEnded()


class InMemoryWorker:
    """A worker whose lines come from an iterator."""

    def __init__(self, work: Iterator[Reported], waits: Waits | None) -> None:
        self._work = work
        self._waits = waits
        self._has_ended = False

    def lines(self, limit_s: Callable[[], float]) -> Iterator[str]:
        """Its events and console lines; it counts as hung as soon as it falls silent."""
        try:
            for reported in self._work:
                if self._has_ended:
                    return
                if isinstance(reported, Silence):
                    raise WorkerHung(limit_s())
                yield f"{reported if isinstance(reported, str) else worker_line(reported)}\n"
        except WorkerGone:
            return

    def waits(self) -> Waits | None:
        """Those that it was given."""
        return self._waits

    def end(self) -> None:
        """Report nothing more."""
        self._has_ended = True
