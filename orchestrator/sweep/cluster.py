"""Machines of a Dask scheduler, used like one machine that performs a sweep: those that are connected and have accepted
the sweep, and the workers there.

What such a machine does belongs to `sweep.cluster_service`, who may connect to `sweep.cluster_security`.
"""

from __future__ import annotations

import getpass
import itertools
import logging
import os
import socket
import threading
import time
import uuid
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent import futures
from concurrent.futures import Executor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from distributed import CancelledError, Client, Future

from owlt.inputs.mistake import Mistake
from owlt.orchestrator.errors import OwltError
from owlt.orchestrator.hosts.host import HostError
from owlt.orchestrator.kernel.kernel import find_kernel
from owlt.orchestrator.planning.plan import Batch, Plan
from owlt.orchestrator.rigs.provenance import Provenance, provenance_of
from owlt.orchestrator.run.launching import Launcher, Worker, WorkerHung
from owlt.orchestrator.sweep import cluster_service
from owlt.orchestrator.sweep.cluster_security import require_loopback_only, security_for
from owlt.orchestrator.sweep.cluster_service import Opened, WorkerReport
from owlt.orchestrator.sweep.machine import THIS_MACHINE, Places, blocks_of_repetitions
from owlt.results.certificates import Certified
from owlt.results.plain_files import as_file_name, create, make_directory

PERIOD_S = 1.0
"""How often it looks for new and lost machines."""
BUSY_S = 5.0
"""After which time a machine that another `owlt run` used is asked again."""
KEEP_S = 10.0
WITHOUT_MACHINE_S = 600.0
"""For how long a sweep waits without any machine, such as while all are restarted."""
FIRST_MACHINE_S = 120.0
"""Longer than the lease of an `owlt run` that was killed."""
CLOSING_S = 60.0
ASKED_AT_ONCE = 100
"""The largest number of machines that compare their files at the same time."""


@dataclass(frozen=True)
class Member:
    """A machine that takes runs, with the numbers of its slots in this sweep."""

    name: str
    address: str
    slots: range


class Pool:
    """The slots of all machines, as `orchestrator.sweep.machine.Places`. Any thread may call it."""

    def __init__(
        self, client: Client, user: str, plan: Plan, provenance: Provenance, warn: Callable[[str], None]
    ) -> None:
        """`warn` gets a sentence about each machine that takes no runs, and each that was lost."""
        self._client = client
        self.user = user
        """Identifies this start of the sweep to the machines."""
        self._plan = plan
        self._texts = plan.model_dump_json(), provenance.model_dump_json()
        self._warn = warn
        self._lock = threading.Lock()
        self._members: dict[str, Member] = {}
        self._asking = futures.ThreadPoolExecutor(ASKED_AT_ONCE)
        self._asked: dict[str, tuple[str, futures.Future[Opened | None]]] = {}
        """Machines that have yet to answer: name and answer, by address."""
        self._calls: defaultdict[str, set[Future]] = defaultdict(set)
        """Calls whose results have yet to arrive, by address. They are cancelled if the machine is lost: Dask would
        wait without end for a result that the machine had and did not deliver."""
        self._refusals: dict[str, str] = {}
        """Machines that take no runs, by address."""
        self._ask_again: dict[str, float] = {}
        self._reasons: set[tuple[str, str]] = set()
        """Machines and refusals that the user was notified of."""
        self._problems: set[str] = set()
        """Problems that the user was notified of."""
        self._numbers = itertools.count()
        self._with_machine_s = self._kept_s = time.monotonic()
        self._is_closed = threading.Event()
        self._watch = threading.Thread(target=self._watch_machines, daemon=True)
        self._watch.start()

    def machines(self) -> Mapping[int, str]:
        """The name of the machine of each slot."""
        with self._lock:
            return {slot: member.name for member in self._members.values() for slot in member.slots}

    def blocks(self, batches: Sequence[Batch]) -> list[list[Batch]]:
        """Repetitions; each stays on one machine."""
        used = [batch.index for batch in (*self._plan.batches, *self._plan.certifications)]
        return blocks_of_repetitions(batches, self._plan.sweep.clock, max(used) + 1)

    def stalled_s(self, slot: int) -> Callable[[], float | None]:
        """Measured on the slot's machine; None if it is lost."""

        def measure() -> float | None:
            member = self.member(slot)
            try:
                return None if member is None else self.call(member, cluster_service.stalled_s)
            except HostError:
                return None

        return measure

    def require_machine(self) -> None:
        """Raise OwltError if no machine has taken runs for WITHOUT_MACHINE_S."""
        if time.monotonic() - self._with_machine_s > WITHOUT_MACHINE_S:
            raise self._nobody(f"no machine has taken runs for {WITHOUT_MACHINE_S / 60:.0f} min")

    def wait_for_machine(self) -> None:
        """Wait for the first machine. Raises OwltError after FIRST_MACHINE_S, or if all have refused."""
        began_s = time.monotonic()
        while not self._members:
            late_s = time.monotonic() - began_s
            with self._lock:
                has_refused_only = bool(self._refusals) and not (self._asked or self._ask_again)
            if late_s > FIRST_MACHINE_S or (has_refused_only and late_s > 2 * PERIOD_S):
                raise self._nobody("no machine takes runs")
            time.sleep(PERIOD_S / 5)

    def member(self, slot: int) -> Member | None:
        """The machine of a slot; None if it is lost."""
        with self._lock:
            return next((member for member in self._members.values() if slot in member.slots), None)

    def call(self, member: Member, function: Callable[..., Any], *arguments: object) -> Any:
        """Call a function on a machine. Raises HostError if that fails; the machine is then asked anew."""
        try:
            return self._result(member.address, function, arguments)
        except Exception as problem:  # Dask passes on any exception of the machine, and has many of its own
            if self._members.get(member.address) is not member:
                raise HostError(f"the machine {member.name} was lost") from problem
            self._forget(member, str(problem) or type(problem).__name__)
            raise HostError(f"the machine {member.name} was lost: {problem or type(problem).__name__}") from problem

    def close(self) -> None:
        """End the sweep on all machines."""
        self._is_closed.set()
        self._watch.join()
        ends = [self._submitted(address, cluster_service.close_sweep, (self.user,)) for address in list(self._members)]
        for end in ends:
            with suppress(TimeoutError, CancelledError):
                end.exception(timeout=CLOSING_S)
        self._asking.shutdown(wait=False, cancel_futures=True)

    def _result(self, address: str, function: Callable[..., Any], arguments: Sequence[object]) -> Any:
        """The result of a function on a machine. Raises CancelledError if the machine is lost."""
        future = self._submitted(address, function, arguments)
        with self._lock:
            self._calls[address].add(future)
        try:
            return future.result()
        finally:
            with self._lock:
                self._calls[address].discard(future)

    def _submitted(self, address: str, function: Callable[..., Any], arguments: Sequence[object]) -> Future:
        return self._client.submit(function, *arguments, workers=[address], allow_other_workers=False, pure=False)

    def _watch_machines(self) -> None:
        """Look for machines until the pool is closed. A problem is reported and does not end it: without it no machine
        would be found, and the leases of all would end."""
        while not self._is_closed.wait(PERIOD_S / 5 if self._asked else PERIOD_S):
            try:
                self._look_once()
            except Exception as problem:  # of Dask, which has many of its own, or of a console that is gone
                self._warn_once(f"looking for machines failed ({type(problem).__name__}: {problem}); it is tried again")

    def _look_once(self) -> None:
        try:
            workers = self._client.scheduler_info(n_workers=-1)["workers"]
        except Exception:  # the scheduler does not answer: calls to machines fail, too
            workers = {}
        self._take_workers({address: str(worker["name"]) for address, worker in workers.items()})
        self._take_answers()
        if self._members:
            self._with_machine_s = time.monotonic()
        if time.monotonic() - self._kept_s > KEEP_S:
            self._kept_s = time.monotonic()
            for address in list(self._members):
                self._submitted(address, cluster_service.keep_sweep, (self.user,)).add_done_callback(_ignore)

    def _warn_once(self, text: str) -> None:
        if text not in self._problems:
            self._problems.add(text)
            with suppress(Exception):  # such as a console that is gone: the sweep continues
                self._warn(text)

    def _take_workers(self, names: Mapping[str, str]) -> None:
        """Forget machines that are gone, and ask new ones."""
        for address, member in list(self._members.items()):
            if address not in names:
                self._forget(member, "it is no longer connected to the scheduler")
        self._cancel_calls_except(names)
        with self._lock:
            for known in (self._refusals, self._ask_again):
                for address in set(known) - set(names):
                    del known[address]
        now_s = time.monotonic()
        for address, name in names.items():
            is_known = address in self._members or address in self._asked or address in self._refusals
            if not is_known and self._ask_again.get(address, 0.0) <= now_s:
                self._asked[address] = name, self._asking.submit(self._opened, address)
                self._ask_again.pop(address, None)

    def _take_answers(self) -> None:
        for address, (name, answer) in list(self._asked.items()):
            if answer.done():
                del self._asked[address]
                if opened := answer.result():
                    self._take_answer(address, name, opened)

    def _take_answer(self, address: str, name: str, opened: Opened) -> None:
        if opened.slots:
            first = next(self._numbers)
            for _ in range(opened.slots - 1):
                next(self._numbers)
            with self._lock:
                self._members[address] = Member(name, address, range(first, first + opened.slots))
            return
        if (name, opened.refusal) not in self._reasons:
            self._reasons.add((name, opened.refusal))
            self._warn(f"the machine {name} takes no runs: {opened.refusal}")
        if opened.is_busy:
            self._ask_again[address] = time.monotonic() + BUSY_S
        else:
            self._refusals[address] = f"{name}: {opened.refusal}"

    def _opened(self, address: str) -> Opened | None:
        """A machine's answer; an exception is a refusal, such as that of a worker without owlt. None if it was lost."""
        try:
            opened: Opened = self._result(address, cluster_service.open_sweep, (self.user, *self._texts))
        except CancelledError:
            return None
        except Exception as problem:
            return Opened(refusal=f"it does not answer as 'owlt worker' does ({type(problem).__name__}: {problem})")
        return opened

    def _cancel_calls_except(self, connected: Collection[str]) -> None:
        """Cancel the calls of all other machines."""
        with self._lock:
            lost = [call for address, own in self._calls.items() if address not in connected for call in own]
        for call in lost:
            call.cancel()

    def _forget(self, member: Member, reason: str) -> None:
        with self._lock:
            if self._members.get(member.address) is not member:
                return
            del self._members[member.address]
        if not self._is_closed.is_set():
            self._warn(f"the machine {member.name} was lost: {reason}")

    def _nobody(self, problem: str) -> OwltError:
        refused = f" ({'; '.join(self._refusals.values())})" if self._refusals else ""
        fix = "start 'owlt worker' on each machine, from the same commit; see docs/many-machines.md"
        return OwltError(Mistake(f"{problem}{refused}", fix=fix))


def _ignore(_: Future) -> None:
    """A lease that cannot be extended shows with the next call."""


CONNECTING_S = 20


class RemoteWorker:
    """The worker of a batch on another machine. Its files are in `directory` when a line says that they are there."""

    def __init__(self, pool: Pool, member: Member, batch: Batch, directory: Path, slot: int, certificates: str) -> None:
        self._pool = pool
        self._member = member
        self._directory = directory
        self._job = uuid.uuid4().hex
        self._batch = batch
        self._slot = slot
        self._certificates = certificates
        self._has_ended = False

    def lines(self, limit_s: Callable[[], float]) -> Iterator[str]:
        """Its lines; the other machine measures its silence. Raises HostError if the machine is lost."""
        start = (self._batch.model_dump_json(), self._slot, self._certificates)
        reports = self._pool.call(self._member, cluster_service.start_job, self._pool.user, self._job, *start)
        if self._has_ended:  # `end` was called meanwhile, and the machine may not have had the job yet
            self._stop()
        while not self._has_ended:
            for report in reports:
                if report.has_ended:
                    self._has_ended = True
                    _raise_for(report)
                    return
                self._write(report)
                yield report.line
            if not self._has_ended:
                reports = self._pool.call(self._member, cluster_service.reports, self._pool.user, self._job)

    def waits(self) -> None:
        """Measured on its machine, which enters them into the record."""

    def end(self) -> None:
        """Have it ended, without waiting for that; it reports nothing more."""
        if not self._has_ended:
            self._has_ended = True
            threading.Thread(target=self._stop, daemon=True).start()

    def _stop(self) -> None:
        with suppress(HostError):
            self._pool.call(self._member, cluster_service.stop_job, self._pool.user, self._job)

    def _write(self, report: WorkerReport) -> None:
        for name, content in report.files.items():
            path = self._directory.joinpath(*map(as_file_name, name.split("/")))
            make_directory(path.parent)
            with create(path) as file:
                file.write(content)


def _raise_for(report: WorkerReport) -> None:
    if report.hung_s is not None:
        raise WorkerHung(report.hung_s)
    if report.failure:
        raise HostError(report.failure)


class RemoteWorkers:
    """Launches workers on the machines of a pool."""

    def __init__(self, client: Client, pool: Pool, provenance: Provenance) -> None:
        self.provenance = provenance
        self._client = client
        self._pool = pool

    def __call__(self, batch: Batch, directory: Path, slot: int, certificates: dict[str, Certified]) -> Worker:
        member = self._pool.member(slot)
        if member is None:
            raise HostError("the machine was lost")
        text = cluster_service.CERTIFIED.dump_json(certificates).decode()
        return RemoteWorker(self._pool, member, batch, directory, slot - member.slots.start, text)

    def close(self) -> None:
        """End what the machines do for this sweep."""
        self._pool.close()
        self._client.close()


@dataclass
class Cluster:
    """The machines of a Dask scheduler, as `orchestrator.sweep.machine.Machine`."""

    address: str
    tls: Path | None
    accepts_plain: bool
    warn: Callable[[str], None]
    _pool: Pool | None = None

    def missing(self, plan: Plan) -> list[Mistake]:
        """What this machine is missing: the others must be the same."""
        security_for(self.address, self.tls, self.accepts_plain)
        if plan.sweep.rig != "virtual":
            return [Mistake(f"--dask performs sweeps of the rig virtual, and this one has 'rig: {plan.sweep.rig}'")]
        return THIS_MACHINE.missing(plan)

    def launcher(self, plan: Plan, cpus: list[int]) -> Launcher:
        """Connect; wait for the first machine that takes runs. Raises OwltError if there is none."""
        kernel = find_kernel()
        assert kernel is not None, "`missing` names it"
        provenance = provenance_of(kernel.path, plan.implementations)
        client = self._connected()
        user = f"{getpass.getuser()}@{socket.gethostname()} (process {os.getpid()})"
        self._pool = Pool(client, user, plan, provenance, self.warn)
        workers = RemoteWorkers(client, self._pool, provenance)
        try:
            self._pool.wait_for_machine()
        except BaseException:
            workers.close()
            raise
        return workers

    def places(self, slots: int) -> Places:
        """The slots of all machines."""
        assert self._pool is not None, "`launcher` was called"
        return self._pool

    def analysis_executor(self, plan: Plan) -> Executor:
        """An executor of this machine, for what the others could not analyse."""
        return THIS_MACHINE.analysis_executor(plan)

    def _connected(self) -> Client:
        logging.getLogger("distributed").setLevel(logging.CRITICAL)  # lost machines are reported by the pool
        security = security_for(self.address, self.tls, self.accepts_plain)
        require_loopback_only(self.address, self.accepts_plain)
        try:
            client = Client(self.address, security=security, timeout=CONNECTING_S, set_as_default=False)
        except (OSError, ValueError) as problem:
            wrong = f"no Dask scheduler answers at {self.address} ({str(problem) or type(problem).__name__})"
            fix = "start one with 'dask scheduler', with the same certificates; see docs/many-machines.md"
            raise OwltError(Mistake(wrong, fix=fix)) from problem
        try:
            require_loopback_only(self.address, self.accepts_plain, client.scheduler_info(n_workers=0)["services"])
        except OwltError:
            client.close()
            raise
        return client
