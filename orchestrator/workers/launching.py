"""Launching workers: in guests, one pinned to each core, or on this machine."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from math import ceil, log2
from pathlib import Path
from typing import Protocol

from owlt.orchestrator.kernel.kernel import Kernel
from owlt.orchestrator.planning.plan import Batch, Plan, Run
from owlt.orchestrator.provenance.provenance import Provenance
from owlt.orchestrator.results.certificates import Certified
from owlt.orchestrator.rigs import guest, namespaces
from owlt.orchestrator.rigs.rig import CARD_RATE_BPS
from owlt.orchestrator.workers.process import Worker, WorkerProcess
from owlt.orchestrator.workers.task import write_task
from owlt.orchestrator.workers.templates import WORKER, Templates

PROGRAMS_MB = 512
SMALLEST_GUEST_MB = 768
SENT_PER_BYTE = 4
"""Bytes sent for each byte of the file, at most: the file and as many repairs, all duplicated by the channel."""
SMALL_PACKETS_BYTES = 10_000_000
"""Bytes of packets that do not depend on the file's size, such as reports and keep-alives."""


class Launcher(Protocol):
    """Launches the worker of a batch in a directory of its own; `slot` counts the workers that run side by side."""

    @property
    def provenance(self) -> Provenance:
        """That of the machine that the workers run on."""

    def __call__(self, batch: Batch, directory: Path, slot: int, certificates: dict[str, Certified]) -> Worker:
        """Raises HostError if there is no rig."""

    def close(self) -> None:
        """End what the workers shared."""


class VirtualWorkers:
    """Workers in guests, one pinned to each core: copies of a template if the kernel can be copied, or booted."""

    def __init__(self, plan: Plan, kernel: Kernel, cpus: list[int], provenance: Provenance) -> None:
        self.provenance = provenance
        self._plan = plan
        self._kernel = kernel
        self._cpus = cpus
        self._templates = Templates(plan, kernel, cpus[0], SMALLEST_GUEST_MB)

    def __call__(self, batch: Batch, directory: Path, slot: int, certificates: dict[str, Certified]) -> Worker:
        memory_mb = guest_memory_mb(batch.runs)
        if not (self._kernel.templates and self._plan.sweep.clock == "exact"):
            write_task(self._plan, batch, directory, self._kernel.hz, certificates, provenance=self.provenance)
            clock, cpu = self._plan.sweep.clock, self._cpus[slot]
            boot = guest.Boot(self._kernel.path, clock, cpu, memory_mb, batch.seed, self._kernel.seccomp)
            command = guest.python_command(WORKER, guest.RIG_DIRECTORY)
            return WorkerProcess(guest.launch(boot, directory, command))
        versions = self._templates.versions() if batch.runs else {}
        write_task(self._plan, batch, directory, self._kernel.hz, certificates, versions, self.provenance)
        return WorkerProcess(self._templates.copy(memory_mb, batch.seed, self._cpus[slot], directory))

    def close(self) -> None:
        """End the templates."""
        self._templates.close()


@dataclass(frozen=True)
class LocalWorkers:
    """Workers on this machine; their rigs are network namespaces of its kernel, or that of `lab`: INVENTORY:RIG.

    A worker takes its rig down when the thread that launched it ends, so also when this process is killed.
    """

    plan: Plan
    kernel_hz: int | None
    provenance: Provenance
    lab: str | None = None

    def __call__(self, batch: Batch, directory: Path, slot: int, certificates: dict[str, Certified]) -> Worker:
        write_task(self.plan, batch, directory, self.kernel_hz, certificates, provenance=self.provenance)
        options = ["--lab", self.lab] if self.lab else []
        process = subprocess.Popen(
            [
                "setpriv",
                "--pdeathsig",
                "TERM",
                sys.executable,
                "-m",
                WORKER,
                str(directory.resolve() / "rig"),
                *options,
            ],
            cwd=directory,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        )
        return LabWorkerProcess(process) if self.lab else WorkerProcess(process)

    def close(self) -> None:
        """A worker that was killed has left its rig."""
        if os.geteuid() == 0:
            namespaces.clear_abandoned()


class LabWorkerProcess(WorkerProcess):
    """A worker whose runs take place on other machines, so that no run waits for a processor of this one."""

    def waits(self) -> None:
        """Not measured."""


def guest_memory_mb(runs: list[Run]) -> int:
    """The memory of a guest: each size is twice the one below, so that few templates serve all runs.

    A guest takes from the machine only what it uses.
    """
    steps = max(0, ceil(log2(needed_memory_mb(runs) / SMALLEST_GUEST_MB)))
    return SMALLEST_GUEST_MB << steps


def beyond_memory(run: Run, machine_bytes: int) -> str | None:
    """Why a machine with so much memory cannot hold the guest of a run; None if it can."""
    needed_bytes = needed_memory_mb([run]) * 1_000_000
    if needed_bytes <= machine_bytes:
        return None
    return f"the guest needs {needed_bytes / 1e9:.1f} GB of memory, the machine has {machine_bytes / 1e9:.1f} GB"


def machine_memory_bytes() -> int:
    """All memory of this machine."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def needed_memory_mb(runs: list[Run]) -> int:
    """The memory that runs need in a guest: for its programs, the files and captures in tmpfs, and packets in flight.

    A run for a duration has captures and no files. An skb's true size is two to three times its packet's. Certifying
    sends little at a time.
    """
    in_flight = max(map(_in_flight, runs), default=0.0)
    files = max((_in_tmpfs(run) for run in runs), default=0)
    return PROGRAMS_MB + ceil((3 * 2 * in_flight + files) / 1e6)


def _in_flight(run: Run) -> float:
    """The most bytes in flight in one direction: at most what the channel holds, and at most what is sent."""
    held = (run.permutation.rate_bps or CARD_RATE_BPS) / 8 * run.rtt_s / 2
    return min(held, SENT_PER_BYTE * run.permutation.most_bytes + SMALL_PACKETS_BYTES)


def _in_tmpfs(run: Run) -> int:
    """The bytes of the files and captures of a run."""
    return (8 if run.permutation.duration_ns is None else 3) * run.permutation.most_bytes
