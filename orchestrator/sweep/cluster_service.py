"""The work of a machine for an `owlt run` elsewhere: it compares itself, performs jobs, and ends them if nobody calls.

Only one `owlt run` uses a machine at a time. Its lease ends when it has not called for a while, for example because it
was killed: then the machine's guests end. A job is one batch. It reports the lines of its worker, each with the files
that the line says are complete: those of a run, or a certificate. `owlt worker` offers the machine to a Dask scheduler
until it is interrupted; the functions after `ServicePlugin` are what `owlt run` calls through it.
"""

from __future__ import annotations

import asyncio
import shutil
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import dask
import distributed
from distributed import Security, WorkerPlugin, get_worker
from distributed.core import rpc
from pydantic import TypeAdapter

from owlt.orchestrator.errors import OwltError
from owlt.orchestrator.hosts.host import HostError
from owlt.orchestrator.own_directories import process_directory
from owlt.orchestrator.planning.estimate import guests_side_by_side
from owlt.orchestrator.planning.plan import Batch, Plan
from owlt.orchestrator.rigs.processor_time import Waited, stalled_in_all_s
from owlt.orchestrator.rigs.provenance import Provenance, difference, differences, own_files
from owlt.orchestrator.run.analysis import analyse_or_mark, note_machine_delay
from owlt.orchestrator.run.events import ChannelCertified, RunEnded, RunStarted, event_in
from owlt.orchestrator.run.launching import Launcher, Waits, Worker, WorkerHung
from owlt.orchestrator.sweep.cluster_security import address_to_bind, require_loopback_only
from owlt.orchestrator.sweep.machine import Machine
from owlt.orchestrator.sweep.monitoring import silence_limit_s
from owlt.results.certificates import Certified
from owlt.results.files import CERTIFICATES
from owlt.results.record import read_record, write_record
from owlt.results.recorded_runs import RUNS

Files = dict[str, bytes]
"""The content of files by their path in the worker's directory."""


@dataclass(frozen=True)
class WorkerReport:
    """What a worker did: a line, or its end."""

    line: str = ""
    files: Files = field(default_factory=dict)
    has_ended: bool = False
    hung_s: float | None = None
    """For how long it had reported nothing, if it ended for that reason."""
    failure: str = ""
    """Why it could not be launched, or the machine could not perform it."""


@dataclass(frozen=True)
class JobSetting:
    """What the jobs of a sweep on one machine share."""

    plan: Plan
    launch: Launcher
    machine: str
    analyses: Executor


class Job:
    """Performs a batch in a thread of its own, and holds its reports until they are fetched."""

    def __init__(self, batch: Batch, slot: int, certificates: dict[str, Certified], setting: JobSetting) -> None:
        self._batch = batch
        self._slot = slot
        self._certificates = certificates
        self._setting = setting
        self._reports: deque[WorkerReport] = deque()
        self._arrival = threading.Condition()
        self._worker: Worker | None = None
        self._is_stopped = False
        self._run_id: str | None = None
        self._waits: Waits | None = None
        self._thread = threading.Thread(target=self._perform, daemon=True)
        self._thread.start()

    def reports(self, limit_s: float) -> list[WorkerReport]:
        """All reports since the last call; waits until one has files or is the last, but no longer than `limit_s`."""
        with self._arrival:
            self._arrival.wait_for(lambda: any(_is_awaited(report) for report in self._reports), limit_s)
            reports = list(self._reports)
            self._reports.clear()
        return reports

    def stop(self) -> None:
        """Have its worker ended, without waiting for that."""
        with self._arrival:
            self._is_stopped = True
            worker = self._worker
        if worker is not None:
            threading.Thread(target=worker.end, daemon=True).start()

    def join(self) -> None:
        """Wait for its end."""
        self._thread.join()

    def _perform(self) -> None:
        end = WorkerReport(has_ended=True)
        try:
            with process_directory("job") as directory:
                self._report_lines(directory)
        except WorkerHung as hang:
            end = WorkerReport(has_ended=True, hung_s=hang.silence_s)
        except HostError as problem:
            end = WorkerReport(has_ended=True, failure=str(problem))
        except Exception as problem:  # such as a full disk: a fault of this machine, which another may not have
            end = WorkerReport(has_ended=True, failure=f"{self._setting.machine}: {type(problem).__name__}: {problem}")
        finally:
            self._put(end)

    def _report_lines(self, directory: Path) -> None:
        worker = self._launched(directory)
        try:
            for line in worker.lines(self._limit_s):
                self._put(WorkerReport(line, self._files(line, directory)))
        finally:
            worker.end()
            if self._waits is not None:
                self._waits.close()

    def _launched(self, directory: Path) -> Worker:
        worker = self._setting.launch(self._batch, directory, self._slot, self._certificates)
        with self._arrival:
            self._worker = worker
            is_stopped = self._is_stopped
        if is_stopped:
            worker.end()
        self._waits = worker.waits() if self._setting.plan.sweep.clock == "real" else None
        return worker

    def _put(self, report: WorkerReport) -> None:
        with self._arrival:
            self._reports.append(report)
            self._arrival.notify_all()

    def _limit_s(self) -> float:
        return silence_limit_s(self._setting.plan, self._batch, self._run_id)

    def _files(self, line: str, directory: Path) -> Files:
        """The files that a line reports as complete; a run is analysed first, so that cut captures are sent."""
        match event := event_in(line):
            case RunStarted():
                self._run_id = event.run_id
            case RunEnded():
                self._run_id = None
                run_directory = directory / RUNS / event.run_id
                self._conclude(run_directory)
                files = dict(_content(run_directory, directory))
                shutil.rmtree(run_directory)
                return files
            case ChannelCertified():
                certificate = directory / CERTIFICATES / f"{event.channel}.json"
                return {str(certificate.relative_to(directory)): certificate.read_bytes()}
        return {}

    def _conclude(self, run_directory: Path) -> None:
        """Enter the machine and its delay into the record, and analyse the run in another process."""
        plan = self._setting.plan
        record = read_record(run_directory)
        write_record(record.model_copy(update={"machine": self._setting.machine}), run_directory)
        if plan.sweep.clock != "exact":
            note_machine_delay(run_directory, self._waited)
        dissectors = {name: each.dissector for name, each in plan.implementations.items()}
        analyse = partial(analyse_or_mark, keep=plan.sweep.keep_captures, dissectors=dissectors)
        self._setting.analyses.submit(analyse, run_directory).result()

    def _waited(self, first_ns: int, last_ns: int) -> Waited | None:
        return self._waits.between(first_ns, last_ns) if self._waits is not None else None


def _is_awaited(report: WorkerReport) -> bool:
    return bool(report.files) or report.has_ended


def _content(root: Path, relative_to: Path) -> Iterator[tuple[str, bytes]]:
    for path in sorted(root.rglob("*")):
        if path.is_file():
            yield str(path.relative_to(relative_to)), path.read_bytes()


LEASE_S = 60.0
"""How long a user of the machine may be silent: it asks for reports every second while a job is performed."""
LEASE_PERIOD_S = 1.0


@dataclass(frozen=True)
class Opened:
    """A machine's answer to an `owlt run`: slots, or why it takes no runs."""

    slots: int = 0
    refusal: str = ""
    is_busy: bool = False
    """Whether another `owlt run` uses it: it may be free later."""


class SweepOnMachine:
    """One sweep on this machine: its launcher, its analyses and its jobs."""

    def __init__(self, plan: Plan, user: str, launch: Launcher, analyses: Executor, name: str) -> None:
        self.user = user
        self._setting = JobSetting(plan, launch, name, analyses)
        self._jobs: dict[str, Job] = {}
        self.asked_s = time.monotonic()

    def start(self, job: str, batch: Batch, slot: int, certificates: dict[str, Certified]) -> None:
        """Start a job."""
        self.asked_s = time.monotonic()
        self._jobs[job] = Job(batch, slot, certificates, self._setting)

    def reports(self, job: str, limit_s: float) -> list[WorkerReport]:
        """Its reports since the last call."""
        self.asked_s = time.monotonic()
        reports = self._jobs[job].reports(limit_s)
        if any(report.has_ended for report in reports):
            del self._jobs[job]
        return reports

    def stop(self, job: str) -> None:
        """End a job, if there is one of this name."""
        if job in self._jobs:
            self._jobs[job].stop()

    def end_jobs(self) -> None:
        """End all jobs, and forget them."""
        jobs = list(self._jobs.values())
        for job in jobs:
            job.stop()
        for job in jobs:
            job.join()
        self._jobs.clear()
        self.asked_s = time.monotonic()

    def close(self) -> None:
        """End all jobs, and what they share."""
        self.end_jobs()
        self._setting.launch.close()
        self._setting.analyses.shutdown(cancel_futures=True)


class Service:
    """This machine, as it serves others. Any thread may call it."""

    def __init__(
        self,
        name: str,
        machine: Machine,
        cpus: list[int],
        lease_s: float = LEASE_S,
        note: Callable[[str], None] = print,
    ) -> None:
        """`note` gets a sentence whenever it takes or refuses a sweep."""
        self.name = name
        self._machine = machine
        self._cpus = cpus
        self._lease_s = lease_s
        self._note = note
        self._lock = threading.RLock()
        self._sweep: SweepOnMachine | None = None
        self._is_closed = threading.Event()
        threading.Thread(target=self._watch_lease, daemon=True).start()

    def open(self, user: str, plan_text: str, provenance_text: str) -> Opened:
        """Take the sweep of a user, if this machine has what it needs and is the same as the user's.

        Both texts are JSON: only the same version of owlt can read the plan for certain.
        """
        provenance = Provenance.model_validate_json(provenance_text)
        if unlike := difference("owlt", provenance.groups.get("owlt", {}), own_files()):
            return self._refused(user, f"it differs in {unlike}")
        plan = Plan.model_validate_json(plan_text)
        with self._lock:
            if self._sweep is not None and self._sweep.user != user:
                return Opened(refusal=f"it performs the sweep of {self._sweep.user}", is_busy=True)
            if self._sweep is None:
                if missing := self._machine.missing(plan):
                    return self._refused(user, "; ".join(map(str, missing)))
                launch = self._machine.launcher(plan, self._cpus)
                if phrases := differences(provenance, launch.provenance):
                    launch.close()
                    return self._refused(user, f"it differs in {'; '.join(phrases)}")
                analyses = self._machine.analysis_executor(plan)
                self._sweep = SweepOnMachine(plan, user, launch, analyses, self.name)
                self._note(f"performs runs of {plan.sweep.name} for {user}")
            else:
                self._sweep.end_jobs()  # the user lost the machine, and performs these batches again
            return Opened(slots=guests_side_by_side(plan.sweep.clock, len(self._cpus)))

    def sweep_of(self, user: str) -> SweepOnMachine:
        """The sweep of a user. Raises LookupError if the lease has ended."""
        with self._lock:
            if self._sweep is None or self._sweep.user != user:
                raise LookupError(f"{self.name} no longer performs the sweep of {user}")
            return self._sweep

    def keep(self, user: str) -> None:
        """Extend the lease of a user."""
        self.sweep_of(user).asked_s = time.monotonic()

    def close(self, user: str) -> None:
        """End the sweep of a user."""
        with self._lock:
            sweep = self._sweep if self._sweep is not None and self._sweep.user == user else None
            if sweep is not None:
                sweep.close()
                self._sweep = None
                self._note(f"has ended the sweep of {user}")

    def shut_down(self) -> None:
        """End what it performs, for good."""
        self._is_closed.set()
        with self._lock:
            if self._sweep is not None:
                self.close(self._sweep.user)

    def _refused(self, user: str, reason: str) -> Opened:
        self._note(f"takes no runs of {user}: {reason}")
        return Opened(refusal=reason)

    def _watch_lease(self) -> None:
        while not self._is_closed.wait(LEASE_PERIOD_S):
            with self._lock:
                sweep = self._sweep
                if sweep is not None and time.monotonic() - sweep.asked_s > self._lease_s:
                    self._note(f"has heard nothing of {sweep.user} for {self._lease_s:g} s")
                    self.close(sweep.user)


PLUGIN = "owlt"
REPORTS_S = 1.0
"""How long a call waits for a complete run; the other reports come at least as often."""
CERTIFIED: TypeAdapter[dict[str, Certified]] = TypeAdapter(dict[str, Certified])


class ServicePlugin(WorkerPlugin):  # type: ignore[misc]
    """Gives the service of `owlt worker` to the functions below."""

    name = PLUGIN

    def __init__(self, service: Service) -> None:
        self.service = service


def open_sweep(user: str, plan: str, provenance: str) -> Opened:
    """Have the machine take the sweep of a user; both texts are JSON."""
    return _service().open(user, plan, provenance)


def start_job(user: str, job: str, batch: str, slot: int, certificates: str) -> list[WorkerReport]:
    """Start a job; returns its first reports."""
    values = Batch.model_validate_json(batch), slot, CERTIFIED.validate_json(certificates)
    _service().sweep_of(user).start(job, *values)
    return reports(user, job)


def reports(user: str, job: str) -> list[WorkerReport]:
    """What a job has reported since the last call."""
    return _service().sweep_of(user).reports(job, REPORTS_S)


def stop_job(user: str, job: str) -> None:
    """End a job."""
    _service().sweep_of(user).stop(job)


def keep_sweep(user: str) -> None:
    """Extend the lease."""
    _service().keep(user)


def close_sweep(user: str) -> None:
    """End all jobs of a user."""
    _service().close(user)


def stalled_s() -> float | None:
    """For how long the machine's threads have waited for a processor, since it started."""
    return stalled_in_all_s()


def _service() -> Service:
    """Raises LookupError if this is no worker that `owlt worker` started."""
    service: Service = get_worker().plugins[PLUGIN].service
    return service


PATIENCE_S = 10.0
"""The time after which it prints that it waits for the scheduler."""
AGAIN_S = 5.0
"""After a scheduler was lost or did not answer."""
ASKS_S = 1.0
"""Time between two attempts to connect to a scheduler."""
MORE_THREADS = 2
"""Beside two for each slot: to compare, to extend the lease, to end."""


@dataclass(frozen=True)
class _Connection:
    """How the scheduler is reached; without authentication it must listen on loopback only, unless that is accepted."""

    scheduler: str
    security: Security
    accepts_plain: bool


async def serve(
    scheduler: str,
    security: Security,
    service: Service,
    slots: int,
    port: int,
    note: Callable[[str], None],
    accepts_plain: bool = False,
) -> None:
    """Serve until SIGINT, SIGTERM or SIGHUP; connect again if the scheduler was lost.

    Raises OwltError for a scheduler without authentication to which others can connect, unless `accepts_plain`.
    """
    connection = _Connection(scheduler, security, accepts_plain)
    loop = asyncio.get_running_loop()
    stopped = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:  # as SIGHUP is under nohup
            loop.add_signal_handler(number, stopped.set)
    try:
        while not stopped.is_set():
            await _serve_once(connection, service, slots, port, stopped, note)
            if not stopped.is_set():
                with suppress(TimeoutError):
                    await asyncio.wait_for(stopped.wait(), AGAIN_S)
    finally:
        await asyncio.to_thread(service.shut_down)


async def _serve_once(
    connection: _Connection,
    service: Service,
    slots: int,
    port: int,
    stopped: asyncio.Event,
    note: Callable[[str], None],
) -> None:
    """Serve until the connection ends or the user ends it."""
    scheduler = connection.scheduler
    require_loopback_only(scheduler, connection.accepts_plain)
    with process_directory("worker") as directory, dask.config.set({"distributed.worker.http.routes": []}):
        worker = distributed.Worker(
            scheduler,
            name=service.name,
            nthreads=2 * slots + MORE_THREADS,
            security=connection.security,
            host=address_to_bind(scheduler),
            port=port,
            dashboard_address="127.0.0.1:0",  # Dask opens it in any case
            memory_limit=0,
            local_directory=str(directory),
            plugins=(ServicePlugin(service),),
        )
        end = asyncio.create_task(stopped.wait())
        start = asyncio.create_task(_started(worker, connection))
        done, _ = await asyncio.wait([end, start], timeout=PATIENCE_S, return_when=asyncio.FIRST_COMPLETED)
        if not done:
            note(f"waits for {scheduler}: there is no scheduler, or it has other certificates")
            await asyncio.wait([end, start], return_when=asyncio.FIRST_COMPLETED)
        if start.done() and not start.exception():
            note(f"offers {slots} slots to {scheduler}")
            finished = asyncio.create_task(worker.finished())
            await asyncio.wait([end, finished], return_when=asyncio.FIRST_COMPLETED)
            if not stopped.is_set():
                note(f"lost the scheduler {scheduler}; connects again")
        elif start.done() and not isinstance(reason := start.exception(), OwltError):
            note(f"cannot connect to {scheduler}: {(reason and reason.__cause__) or reason}; tries again")
        for task in (start, end):
            task.cancel()
        with suppress(Exception):
            await worker.close(nanny=False)
        if start.done() and not start.cancelled() and isinstance(reason := start.exception(), OwltError):
            raise reason


async def _started(worker: distributed.Worker, connection: _Connection) -> None:
    """Connect to the scheduler as soon as it runs. Raises OwltError if it is not safe to use."""
    while True:
        try:
            async with rpc(
                connection.scheduler, connection_args=connection.security.get_connection_args("worker")
            ) as scheduler:
                services = (await scheduler.identity(n_workers=0))["services"]
            break
        except OSError:  # such as a scheduler that is not running yet, or has other certificates
            await asyncio.sleep(ASKS_S)
    require_loopback_only(connection.scheduler, connection.accepts_plain, services)
    await worker
