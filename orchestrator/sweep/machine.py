"""The machine that workers run on: what it is missing for a plan (`checks.doctor`), and its workers. `Allocation`
decides which slot of which machine performs which batch: a machine takes a block, and its slots share the block's
batches.

Blocks are complete repetitions, so that a slow machine is slow in every cell. When a run is attempted again belongs to
`sweep.scheduling`.
"""

from __future__ import annotations

import os
import re
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent import futures
from concurrent.futures import BrokenExecutor, Executor, Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any, Protocol, Self

from owlt.agents.contract.implementation import Clock
from owlt.captures.pool import processes
from owlt.inputs.mistake import Mistake
from owlt.orchestrator.checks.doctor import missing_for_plan, running_kernel_capabilities, unsupported_channels
from owlt.orchestrator.kernel.kernel import Kernel, find_kernel
from owlt.orchestrator.planning.estimate import beyond_memory, disk_bytes, infeasible, machine_memory_bytes
from owlt.orchestrator.planning.plan import Batch, Plan, first_sharing
from owlt.orchestrator.profiles.inventory import LAB_ROLES, LabRig, LabRole
from owlt.orchestrator.rigs import guest
from owlt.orchestrator.rigs.provenance import UNKNOWN_MACHINE, provenance_of
from owlt.orchestrator.run.launching import Launcher, LocalWorkers, Templates, VirtualWorkers

ANALYSIS_S, ANALYSIS_S_PER_BYTE = 0.03, 2e-8
"""The time that the analysis of a run takes, and in addition for each byte of its file."""
TSHARK_S = 0.5
"""In addition for a run in which tshark counts the segments of TCP or reads SCTP."""
WORTH_PROCESSES_S = 1.0
"""The processor time that two processes for the analysis take to start."""


class Machine(Protocol):
    """Where workers run."""

    def missing(self, plan: Plan) -> list[Mistake]:
        """What it is missing to perform the runs of a plan, each with how to fix it."""

    def launcher(self, plan: Plan, cpus: list[int]) -> Launcher:
        """Its workers; `cpus` are the cores that guests are pinned to. Call it only if nothing is missing."""

    def places(self, slots: int) -> Places:
        """Where its workers run side by side; `slots` if they all run on this machine. Call it after `launcher`."""

    def analysis_executor(self, plan: Plan) -> Executor:
        """The executor that analyses runs while others are performed."""


class ThisMachine:
    """The machine that owlt itself runs on."""

    def missing(self, plan: Plan) -> list[Mistake]:
        """What it is missing, each with how to get it; `perform_plan` refuses to start without."""
        missing = [*missing_for_plan(plan), *missing_memory(plan, machine_memory_bytes())]
        if missing or plan.sweep.rig != "local" or all(channel.bypass for channel in plan.channels.values()):
            return missing
        capabilities = running_kernel_capabilities()
        return [] if capabilities is None else unsupported_channels(plan, capabilities, "this machine")

    def launcher(self, plan: Plan, cpus: list[int]) -> Launcher:
        """Guests, or this machine's own kernel."""
        if plan.sweep.rig == "local":
            return LocalWorkers(plan, _running_kernel_hz(), provenance_of(None, plan.implementations))
        kernel = find_kernel()
        assert kernel is not None, "`missing` names it"
        guest.compile_ahead()
        provenance = provenance_of(kernel.path, plan.implementations)
        return VirtualWorkers(plan, kernel, cpus, provenance, self._kept_templates(kernel, plan.sweep.clock, cpus[0]))

    def _kept_templates(self, kernel: Kernel, clock: Clock, cpu: int) -> Templates | None:
        """The templates that plans share; None: each plan has its own."""
        return None

    def places(self, slots: int) -> Places:
        """Slots of this machine."""
        return SlotsHere(slots)

    def analysis_executor(self, plan: Plan) -> Executor:
        """A process for each core, or a thread for few runs on the exact clock."""
        return _analysis_processes(plan) if _is_worth_processes(plan) else ThreadPoolExecutor(1)


def _is_worth_processes(plan: Plan) -> bool:
    """Whether processes save time. On other clocks than the exact one, a thread would add to the load on the rig."""
    if plan.sweep.clock != "exact":
        return True
    sessions = {name: each.session for name, each in plan.implementations.items()}
    of_any_run_s = {name: ANALYSIS_S + TSHARK_S * bool(s.tcp_ports or s.sctp_ports) for name, s in sessions.items()}
    points = [run.permutation for run in plan.runs]
    each_s = (of_any_run_s[point.implementation] + ANALYSIS_S_PER_BYTE * point.most_bytes for point in points)
    return sum(each_s) > WORTH_PROCESSES_S


def _analysis_processes(plan: Plan) -> Executor:
    """A process for each core. They yield to the guests: on the real clock, waiting for a core would be part of a run's
    time."""
    return processes(len(os.sched_getaffinity(0)), "lowest" if plan.sweep.clock == "real" else "low")


THIS_MACHINE = ThisMachine()


class PreparedMachine(ThisMachine):
    """This machine, for several plans one after the other, which use the same prepared guests. Use it as a context
    manager."""

    def __init__(self) -> None:
        self._end = ExitStack()
        self._templates: dict[tuple[Clock, int], Templates] = {}
        self._executor: KeptExecutor | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._end.close()

    def _kept_templates(self, kernel: Kernel, clock: Clock, cpu: int) -> Templates:
        """Those that earlier plans have prepared."""
        if (clock, cpu) not in self._templates:
            self._templates[clock, cpu] = made = Templates(kernel, clock, cpu)
            self._end.callback(made.close)
        return self._templates[clock, cpu]

    def analysis_executor(self, plan: Plan) -> Executor:
        """The processes that the first plan with enough runs has started; before it, a thread."""
        if self._executor is None:
            if not _is_worth_processes(plan):
                return super().analysis_executor(plan)
            self._executor = KeptExecutor(partial(_analysis_processes, plan))
            self._end.callback(self._executor.end)
        return self._executor


class KeptExecutor(Executor):
    """An executor that can be used after `shutdown`, which only waits for the submitted calls; `end` ends it."""

    def __init__(self, make: Callable[[], Executor]) -> None:
        self._make = make
        self._executor = make()
        self._submitted: list[Future[Any]] = []

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        try:
            self._submitted.append(self._executor.submit(fn, *args, **kwargs))
        except BrokenExecutor:
            self._executor = self._make()
            raise
        return self._submitted[-1]

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        futures.wait(self._submitted)
        self._submitted.clear()

    def end(self) -> None:
        """End the processes."""
        self._executor.shutdown()


def missing_memory(plan: Plan, machine_bytes: int) -> Iterator[Mistake]:
    """A mistake if a run that would be launched needs a guest with more memory than the whole machine has."""
    cells = {run.permutation: run for run in plan.runs if plan.sweep.rig == "virtual"}
    reasons = {
        point.slug: reason
        for point, run in cells.items()
        if (reason := beyond_memory(run, machine_bytes))
        and not infeasible(run, plan.implementations[point.implementation])
    }
    for slug, reason in list(reasons.items())[:1]:
        more = f" (and the same for {len(reasons) - 1} more cells: see 'owlt plan')" if len(reasons) > 1 else ""
        fix = "leave out such cells with 'exclude' in the sweep, or perform others with --only"
        yield Mistake(f"{slug}: {reason}{more}", fix=fix)


def _running_kernel_hz() -> int | None:
    """The timer frequency of the running kernel; None if its configuration is not installed."""
    config = Path("/boot", f"config-{os.uname().release}")
    setting = re.search(r"^CONFIG_HZ=(\d+)", config.read_text(), re.MULTILINE) if config.exists() else None
    return int(setting[1]) if setting else None


def needed_bytes(plan: Plan) -> dict[LabRole, int]:
    """The disk space that the largest run needs, by the role of the host."""
    captures = plan.sweep.host_captures
    return {role: max((disk_bytes(run, role, captures) for run in plan.runs), default=0) for role in LAB_ROLES}


class LabMachine:
    """Performs plans on one rig of an inventory."""

    def __init__(self, inventory: Path, rig: LabRig) -> None:
        self._inventory = inventory
        self._rig = rig

    def missing(self, plan: Plan) -> list[Mistake]:
        """What the hosts are missing, and the emulator's kernel for the channels; each with how to fix it."""
        from owlt.orchestrator.checks.lab_doctor import missing_in_lab  # loads paramiko

        return missing_in_lab(self._rig, plan, needed_bytes(plan))

    def launcher(self, plan: Plan, cpus: list[int]) -> Launcher:
        """A worker at a time, which has the rig for itself. The files of the hosts have no digests in its records."""
        return LocalWorkers(plan, None, UNKNOWN_MACHINE, f"{self._inventory.resolve()}:{self._rig.name}")

    def places(self, slots: int) -> Places:
        """One slot: the rig."""
        return SlotsHere(slots)

    def analysis_executor(self, plan: Plan) -> Executor:
        """A process for each core: no run takes place on this machine."""
        return processes(len(os.sched_getaffinity(0)), "low")


class Places(Protocol):
    """The slots of a start of a sweep. They may change during it; a slot that is gone does not come back."""

    def machines(self) -> Mapping[int, str]:
        """The name of the machine of each slot; "": the machine that owlt runs on."""

    def blocks(self, batches: Sequence[Batch]) -> list[list[Batch]]:
        """The batches in blocks, each of which stays on one machine."""

    def stalled_s(self, slot: int) -> Callable[[], float | None] | None:
        """What measures whether the slot's machine is quiet, as `orchestrator.rigs.processor_time` does; None: that."""

    def require_machine(self) -> None:
        """Raise OwltError if there has been no slot for too long."""


@dataclass(frozen=True)
class SlotsHere:
    """So many slots on the machine that owlt runs on."""

    count: int

    def machines(self) -> Mapping[int, str]:
        """The slots do not change."""
        return dict.fromkeys(range(self.count), "")

    def blocks(self, batches: Sequence[Batch]) -> list[list[Batch]]:
        """One block: there is one machine."""
        return [list(batches)]

    def stalled_s(self, slot: int) -> None:
        """Measured here."""

    def require_machine(self) -> None:
        """There is always one."""


class Allocation:
    """The batches that have yet to be performed. Any thread may call it.

    The next machine takes the rest of a block of a lost machine.
    """

    def __init__(self, batches: Sequence[Batch], places: Places) -> None:
        self.places = places
        self._lock = threading.Lock()
        self._unclaimed = deque(deque(block) for block in places.blocks(batches) if block)
        self._claimed: dict[str, deque[Batch]] = {}
        """The blocks by machine."""

    @property
    def is_empty(self) -> bool:
        """Whether no batch is left, beside those that slots perform now."""
        with self._lock:
            return not (self._unclaimed or any(self._claimed.values()))

    def is_open(self, slot: int) -> bool:
        """Whether the machine of a slot is there."""
        return slot in self.places.machines()

    def open_slots(self) -> list[int]:
        """The slots for which there is a batch."""
        machines = self.places.machines()
        with self._lock:
            self._release_lost(set(machines.values()))
            return [slot for slot, machine in machines.items() if self._unclaimed or self._claimed.get(machine)]

    def take(self, slot: int) -> Batch | None:
        """The next batch of a slot; None if there is none for it now."""
        machine = self.places.machines().get(slot)
        with self._lock:
            if machine is None:
                return None
            if not self._claimed.get(machine):
                if not self._unclaimed:
                    return None
                self._claimed[machine] = self._unclaimed.popleft()
            return self._claimed[machine].popleft()

    def put_back(self, batch: Batch) -> None:
        """A batch whose slot is gone; it comes before all blocks that no machine has begun."""
        with self._lock:
            self._unclaimed.appendleft(deque([batch]))

    def _release_lost(self, machines: set[str]) -> None:
        for machine in set(self._claimed) - machines:
            if left := self._claimed.pop(machine):
                self._unclaimed.appendleft(left)


Block = tuple[object, ...]


def blocks_of_repetitions(batches: Sequence[Batch], clock: Clock, first_index: int) -> list[list[Batch]]:
    """The batches in blocks: on the exact clock the repetitions of a cell that may share their start, on others a
    repetition of the sweep.

    On the exact clock a run does not depend on the machine, so blocks can be small, and all machines are busy to the
    end. A cell is a point of the grid with all its implementations. A batch with runs of two blocks is split; the parts
    are numbered from `first_index`. Certifications are blocks of their own.
    """
    blocks: dict[Block, list[Batch]] = {}
    for batch, repetition in _split(batches, first_index, first_sharing if clock == "exact" else int):
        key: Block = (repetition,)
        if batch.certify:
            key = ("certify", *batch.certify)
        elif clock == "exact":
            cell = batch.runs[0].permutation.model_dump(exclude={"implementation"})
            key = (repetition, *cell.values())
        blocks.setdefault(key, []).append(batch)
    return list(blocks.values())


def _split(batches: Iterable[Batch], index: int, turn_of: Callable[[int], int]) -> Iterator[tuple[Batch, int]]:
    """Each batch, or each of its parts, with what `turn_of` makes of the repetition of its runs. A baseline's is that
    of the run before it."""
    repetition = 1
    for batch in batches:
        if not batch.runs:
            yield batch, repetition
            continue
        repetitions = []
        for run in batch.runs:
            repetition = repetition if run.is_baseline else turn_of(run.repetition)
            repetitions.append(repetition)
        parts = [list(part) for _, part in groupby(zip(batch.runs, repetitions, strict=True), key=lambda pair: pair[1])]
        for number, part in enumerate(parts):
            runs = [run for run, _ in part]
            if number == 0:
                yield batch.model_copy(update={"runs": runs}), part[0][1]
            else:
                yield batch.model_copy(update={"runs": runs, "index": index}), part[0][1]
                index += 1
