"""Workers on other machines, and these machines as the one on which a sweep is performed."""

from __future__ import annotations

import getpass
import logging
import os
import socket
import threading
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from distributed import Client

from owlt.captures.files.plain_files import as_file_name, create, make_directory
from owlt.inputs.mistake import Mistake
from owlt.orchestrator.allocation.places import Places
from owlt.orchestrator.cluster import calls
from owlt.orchestrator.cluster.jobs import Report
from owlt.orchestrator.cluster.pool import Member, Pool
from owlt.orchestrator.cluster.security import require_loopback_only, security_for
from owlt.orchestrator.errors import OwltError
from owlt.orchestrator.hosts.host import HostError
from owlt.orchestrator.kernel.build import find_kernel
from owlt.orchestrator.planning.plan import Batch, Plan
from owlt.orchestrator.provenance.machine import provenance_of
from owlt.orchestrator.provenance.provenance import Provenance
from owlt.orchestrator.results.certificates import Certified
from owlt.orchestrator.sweeping.machine import THIS_MACHINE
from owlt.orchestrator.workers.launching import Launcher
from owlt.orchestrator.workers.process import Worker, WorkerHung

CONNECTING_S = 20


class RemoteWorker:
    """The worker of a batch on another machine. Its files are in `directory` when a line says that they are there."""

    def __init__(
        self, pool: Pool, member: Member, user: str, batch: Batch, directory: Path, slot: int, certificates: str
    ) -> None:
        self._pool = pool
        self._member = member
        self._directory = directory
        self._user = user
        self._job = uuid.uuid4().hex
        self._batch = batch
        self._slot = slot
        self._certificates = certificates
        self._has_ended = False

    def lines(self, limit_s: Callable[[], float]) -> Iterator[str]:
        """Its lines; the other machine measures its silence. Raises HostError if the machine is lost."""
        start = (self._batch.model_dump_json(), self._slot, self._certificates)
        reports = self._pool.call(self._member, calls.start_job, self._user, self._job, *start)
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
                reports = self._pool.call(self._member, calls.reports, self._user, self._job)

    def waits(self) -> None:
        """Measured on its machine, which enters them into the record."""

    def end(self) -> None:
        """Have it ended, without waiting for that; it reports nothing more."""
        if not self._has_ended:
            self._has_ended = True
            threading.Thread(target=self._stop, daemon=True).start()

    def _stop(self) -> None:
        with suppress(HostError):
            self._pool.call(self._member, calls.stop_job, self._user, self._job)

    def _write(self, report: Report) -> None:
        for name, content in report.files.items():
            path = self._directory.joinpath(*map(as_file_name, name.split("/")))
            make_directory(path.parent)
            with create(path) as file:
                file.write(content)


def _raise_for(report: Report) -> None:
    if report.hung_s is not None:
        raise WorkerHung(report.hung_s)
    if report.failure:
        raise HostError(report.failure)


class RemoteWorkers:
    """Launches workers on the machines of a pool."""

    def __init__(self, client: Client, pool: Pool, user: str, provenance: Provenance) -> None:
        self.provenance = provenance
        self._client = client
        self._pool = pool
        self._user = user

    def __call__(self, batch: Batch, directory: Path, slot: int, certificates: dict[str, Certified]) -> Worker:
        member = self._pool.member(slot)
        if member is None:
            raise HostError("the machine was lost")
        text = calls.CERTIFICATES.dump_json(certificates).decode()
        return RemoteWorker(self._pool, member, self._user, batch, directory, slot - member.slots.start, text)

    def close(self) -> None:
        """End what the machines do for this sweep."""
        self._pool.close()
        self._client.close()


@dataclass
class Cluster:
    """The machines of a Dask scheduler, as `orchestrator.sweeping.machine.Machine`."""

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
        workers = RemoteWorkers(client, self._pool, user, provenance)
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
        """Of this machine, for what the others could not analyse."""
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
