"""A small sweep performed by workers in memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from pathlib import Path

from owlt.emulator.certification.certificate import Certificate, Check
from owlt.emulator.channel.spec import ChannelSpec
from owlt.inputs.sweep import Sweep
from owlt.orchestrator.planning.plan import Plan, Run, plan_sweep
from owlt.orchestrator.profiles.catalogue import implementations_of
from owlt.orchestrator.rigs.processor_time import Patience
from owlt.orchestrator.run.events import ChannelCertified, Entry
from owlt.orchestrator.run.task import Task
from owlt.orchestrator.sweep.machine import SlotsHere
from owlt.orchestrator.sweep.scheduling import Timing
from owlt.orchestrator.sweep.supervisor import Workers, supervise
from owlt.results.certificates import write_certificate
from tests.unit.orchestrator.workers_in_memory import InMemoryWorkers, PerformRun, Reported, WorkerGone, complete


def small_plan(clock: str = "skip", certify: bool = False, **changes: object) -> Plan:
    settings = {"name": "small", "seed": 7, "implementations": ["cfdp"], "file_size": "1 kB", "rate": "1 Mbit/s"}
    errors = {"delay": "1 ms", "packet_error_rate": [0, 0.1, 0.2], "repetitions": 2, "runs_per_guest": 3}
    sweep = Sweep.model_validate(settings | errors | {"clock": clock, "certify": certify} | changes)
    return plan_sweep(sweep, implementations_of(sweep))


def fail_certification(key: str, directory: Path) -> Iterator[Reported]:
    """A channel whose certificate blames it."""
    check = Check("forward", "warp", "failed", specified=1.0, measured=2.0)
    write_certificate(Certificate(ChannelSpec().to_wire(), (check,), 0, 0.0, "", 0.001).to_wire(), key, directory)
    yield ChannelCertified(channel=key, verdict="failed")


def abort(run: Run, task: Task, directory: Path) -> Iterator[Reported]:
    """A run that its worker calls aborted."""
    yield from complete(run, task, directory, outcome="aborted", reason="no SSH")


def lose_worker(_run: Run, _task: Task, _directory: Path) -> Iterator[Reported]:
    """A run in which the worker ends."""
    yield "the bridge fell down"
    raise WorkerGone


def except_in(victim: str, otherwise: PerformRun, attempts: int = 1000) -> PerformRun:
    """Complete every run but one, in whose first attempts something else happens."""
    left = attempts

    def perform(run: Run, task: Task, directory: Path) -> Iterable[Reported]:
        nonlocal left
        if run.run_id == victim and left > 0:
            left -= 1
            return otherwise(run, task, directory)
        return complete(run, task, directory)

    return perform


def small_workers(plan: Plan, perform: PerformRun = complete) -> InMemoryWorkers:
    return InMemoryWorkers(plan, perform, fail_certification)


def launched(workers: InMemoryWorkers) -> list[list[str]]:
    """The channels or runs of each worker, in the order of their launch."""
    return [batch.certify or [run.run_id for run in batch.runs] for batch in workers.batches]


def in_a_thread() -> Executor:
    """Analyses runs without the start of a process."""
    return ThreadPoolExecutor(1)


def in_memory(workers: InMemoryWorkers, slots: int = 1) -> Workers:
    """Workers in memory, in so many slots."""
    return Workers(workers, SlotsHere(slots), in_a_thread)


def at_once(patience: Patience | None = None) -> Timing:
    """Without a wait after a fault of the rig."""
    return Timing(back_off_s=(0.0,)) if patience is None else Timing(patience, (0.0,))


def go(workers: InMemoryWorkers, results: Path, slots: int = 1, patience: Patience | None = None) -> list[Entry]:
    """Perform the workers' plan. Returns what was observed."""
    entries: list[Entry] = []
    timing = at_once(patience)
    supervise(workers.plan, results, in_memory(workers, slots), entries.append, lambda directory: "", timing)
    return entries


def runs_done(results: Path) -> set[str]:
    return {path.parent.name for path in results.glob("runs/*/record.json")}
