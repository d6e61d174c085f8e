"""Launching workers: in guests, one pinned to each core, or on this machine.

A launched worker is to the supervisor lines of text, waits for a processor, and an end.
On the exact clock, guests are copies of templates: guests with the rig raised, one for each size of memory.
"""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator
from concurrent.futures import Future
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, Any, Protocol

from owlt.agents.contract.implementation import Clock
from owlt.emulator.channel.spec import ChannelSpec
from owlt.inputs.sweep import OF_CHANNELS, Sweep
from owlt.installation import own_version
from owlt.orchestrator.hosts.host import HostError
from owlt.orchestrator.kernel.kernel import Kernel
from owlt.orchestrator.own_directories import process_directory
from owlt.orchestrator.planning.estimate import SMALLEST_GUEST_MB, guest_memory_mb
from owlt.orchestrator.planning.plan import Batch, Plan, Run
from owlt.orchestrator.planning.run_channel import channel_key
from owlt.orchestrator.planning.seeds import certification_seed
from owlt.orchestrator.rigs import guest, namespaces
from owlt.orchestrator.rigs.killed_programs import ask_warden
from owlt.orchestrator.rigs.processor_time import ProcessorWaits, Waited, is_counted
from owlt.orchestrator.rigs.provenance import Provenance
from owlt.orchestrator.rigs.template import CopiedTemplate, Copy, Template
from owlt.orchestrator.run.branching import Sharing
from owlt.orchestrator.run.events import EVENT_MARK, RigFailed, event_in
from owlt.orchestrator.run.task import TASK_NAME, Task, write_survey, write_task
from owlt.orchestrator.run.versions import VERSION_S, read_versions
from owlt.results.certificates import Certificate, Certified, read_certificate
from owlt.results.plain_files import digest_of_values

END_GRACE_S = 20.0
"""The time that a worker has to end after SIGTERM, and a guest to report an event after a request to its warden."""


class WorkerHung(Exception):
    """A worker that has fallen silent; the text is the reason that the record of its run gives."""

    def __init__(self, silence_s: float) -> None:
        super().__init__(f"the guest hung: it reported nothing for {silence_s:g} s of wall time")
        self.silence_s = silence_s


class Waits(Protocol):
    """How long a worker's processes waited for a processor, as `orchestrator.rigs.processor_time` has it.

    Times are in ns since 1970.
    """

    def between(self, first_ns: int, last_ns: int) -> Waited | None:
        """The waits between two times; None if they were not measured."""

    def since(self, first_ns: int) -> Waited | None:
        """The waits from a time until now; None if they were not measured."""

    def forget(self, before_ns: int) -> None:
        """Drop what was measured before a time."""

    def close(self) -> None:
        """Measure no more."""


class Process(Protocol):
    """A process with a process group of its own, such as a guest: the part of subprocess.Popen that is used."""

    pid: int

    @property
    def stdin(self) -> IO[str] | None: ...

    @property
    def stdout(self) -> IO[str] | None: ...

    def poll(self) -> int | None: ...

    def wait(self, timeout: float | None = None) -> int: ...


class Worker(Protocol):
    """A launched worker."""

    def lines(self, limit_s: Callable[[], float]) -> Iterator[str]:
        """Its lines as they come, until it ends. Raises WorkerHung after `limit_s()` seconds without one."""

    def waits(self) -> Waits | None:
        """Start to measure its processes' waits; None if this machine does not count them. Close it afterwards."""

    def end(self) -> None:
        """End it and all that it has started."""


class WorkerProcess:
    """A worker that is a process with a process group of its own, such as a guest."""

    def __init__(self, process: Process, grace_s: float = END_GRACE_S) -> None:
        self._process = process
        self._grace_s = grace_s

    def lines(self, limit_s: Callable[[], float]) -> Iterator[str]:
        """Its lines; before a guest counts as hung, it is asked to end its programs, which may only compute."""
        arrived: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        threading.Thread(target=self._read, args=(arrived,), daemon=True).start()
        was_asked = False
        while True:
            silence_s = limit_s()
            try:
                line = arrived.get(timeout=self._grace_s if was_asked else silence_s)
            except queue.Empty:
                if was_asked or not ask_warden(self._process.stdin, silence_s):
                    raise WorkerHung(silence_s) from None
                was_asked = True
                continue
            if line is None:
                return
            was_asked = was_asked and not line.startswith(EVENT_MARK)
            yield line

    def _read(self, arrived: queue.SimpleQueue[str | None]) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as console:
            for line in console:
                arrived.put(line.rstrip("\r\n") + "\n")
        arrived.put(None)

    def waits(self) -> Waits | None:
        """Measured through /proc, where the kernel counts them."""
        return ProcessorWaits(self._process.pid) if is_counted(self._process.pid) else None

    def end(self) -> None:
        """End its process group: first so that it can take its rig down, then at once."""
        for ending in (signal.SIGTERM, signal.SIGKILL):
            if self._process.poll() is not None:
                break
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, ending)
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(self._grace_s)
        if self._process.stdin is not None:
            with suppress(OSError):  # a line that the guest never read
                self._process.stdin.close()


WORKER = "owlt.orchestrator.run"
SEED = 1
"""Templates of one size are the same in every sweep."""
SURVEY_HANG_S = 120.0
"""How long a survey may be silent in wall time, beside the time limits of its programs: one that computes without end
stops the exact clock, and with it those limits."""


class Beginnings:
    """The guests that have performed a shared beginning (`run.branching`), by its name. Any thread may use them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._guests: dict[str, Future[CopiedTemplate | None]] = {}
        """In the order of their last use; None: runs cannot share it."""
        self._wanted: set[str] = set()
        """The beginnings that were wanted at least once."""

    def get(
        self, name: str, begin: Callable[[], CopiedTemplate], most: int, at_once: bool = True
    ) -> CopiedTemplate | None:
        """The guest of a beginning; None if runs cannot share it, or if another thread is still having it performed:
        the caller then performs its run from the start, which takes no longer than waiting.

        It is performed (`begin`) when it is first wanted, or if not `at_once`, when it is wanted again. Of the guests
        before it, at most so many stay, and those in which a run continues.
        """
        with self._lock:
            known = self._guests.pop(name, None)
            if known is None:
                is_wanted_again = name in self._wanted
                self._wanted.add(name)
                if not (at_once or is_wanted_again):
                    return None
                self._end(self._idle()[: max(len(self._guests) - most, 0)])
            guest = self._guests[name] = known or Future()
        if known is None:
            made = None
            try:
                with suppress(HostError):
                    made = begin()
            finally:
                guest.set_result(made)
        return guest.result() if guest.done() else None

    def keep_only(self, names: Container[str]) -> None:
        """End all other guests."""
        with self._lock:
            self._wanted = {name for name in self._wanted if name in names}
            self._end([name for name in self._guests if name not in names])

    def _idle(self) -> list[str]:
        """Those that are ready, and in which no run continues; the one that was not used for longest first."""
        ready = {name: guest.result() for name, guest in self._guests.items() if guest.done()}
        return [name for name, guest in ready.items() if guest is None or not guest.has_copies]

    def _end(self, names: Iterable[str]) -> None:
        for name in names:
            guest = self._guests.pop(name)
            if guest.done() and (ended := guest.result()) is not None:
                ended.close()


class Templates:
    """Templates for all plans on one clock; each is prepared when it is first needed. Any thread may use them."""

    def __init__(self, kernel: Kernel, clock: Clock, cpu: int) -> None:
        self._kernel = kernel
        self._clock = clock
        self._cpu = cpu
        self._templates: dict[int, Template] = {}
        self._lock = threading.RLock()
        """Held while a template is prepared: whoever else needs one waits for it."""
        self.beginnings = Beginnings()
        self.sharing: Counter[str] = Counter()
        """How many runs of all plans share each beginning, by its name."""
        self._versions: dict[str, dict[str, str]] = {}
        self._end = ExitStack()
        self._directory = self._end.enter_context(process_directory("templates"))

    def copy(self, memory_mb: int, seed: int, cpu: int, directory: Path) -> Copy:
        """A copy of the template of this size, in `directory`. A template that is broken is replaced, with its copies.

        Raises HostError if a guest cannot be prepared or copied.
        """
        return self._of_size(memory_mb).copy(seed, cpu, directory)

    def _of_size(self, memory_mb: int) -> Template:
        with self._lock:
            template = self._templates.get(memory_mb)
            if template is not None and template.is_broken:
                template.close()
                template = None
            return template or self._prepared(memory_mb)

    def versions(self, plan: Plan) -> dict[str, str]:
        """The versions of a plan's implementations, from their programs in a copy of the smallest template."""
        key = digest_of_values({name: each.model_dump(mode="json") for name, each in plan.implementations.items()})
        with self._lock:
            return self._versions.get(key) or self._surveyed(plan, key)

    def _surveyed(self, plan: Plan, key: str) -> dict[str, str]:
        directory = Path(tempfile.mkdtemp(prefix="survey-", dir=self._directory))
        write_survey(plan, directory)
        reason = self._survey(directory, SURVEY_HANG_S + VERSION_S * len(plan.implementations))
        try:
            self._versions[key] = read_versions(directory)
        except (OSError, ValueError) as problem:
            raise HostError(f"the versions of the implementations are not known: {reason}") from problem
        return self._versions[key]

    def beginning(self, batch: Batch, memory_mb: int, cpu: int, write: Callable[[Path], None]) -> CopiedTemplate:
        """A guest that performs the beginning of a batch's run and then becomes a template. `write` writes its task.

        Raises HostError if it does not become one.
        """
        directory = Path(tempfile.mkdtemp(prefix="beginning-", dir=self._directory))
        write(directory)
        return CopiedTemplate(self._of_size(memory_mb), batch.seed, cpu, directory)

    def begin_plan(self, sharing: Counter[str]) -> None:
        """Count the runs of a plan that share each beginning, and end the guests of beginnings it does not use."""
        self.sharing.update(sharing)
        self.beginnings.keep_only(sharing)

    def _survey(self, directory: Path, limit_s: float) -> str:
        """Perform the survey in a directory. Returns why it may have failed."""
        worker = WorkerProcess(self.copy(SMALLEST_GUEST_MB, SEED, self._cpu, directory))
        lines: list[str] = []
        try:
            lines.extend(worker.lines(lambda: limit_s))
        except WorkerHung as hang:
            return str(hang)
        finally:
            worker.end()
        return why_it_failed(lines)

    def close(self) -> None:
        """End them, and with them all copies."""
        self.beginnings.keep_only(())
        for template in self._templates.values():
            template.close()
        self._end.close()

    def _prepared(self, memory_mb: int) -> Template:
        boot = guest.Boot(self._kernel.path, self._clock, self._cpu, memory_mb, SEED, self._kernel.seccomp)
        directory = Path(tempfile.mkdtemp(prefix=f"{memory_mb}MB-", dir=self._directory))
        command = guest.python_command(WORKER, guest.RIG_DIRECTORY, "--template")
        self._templates[memory_mb] = Template(boot, directory, command)
        return self._templates[memory_mb]


class Launcher(Protocol):
    """Launches the worker of a batch in a directory of its own; `slot` counts the workers that run side by side."""

    @property
    def provenance(self) -> Provenance:
        """The provenance of the machine that the workers run on."""

    def __call__(self, batch: Batch, directory: Path, slot: int, certificates: dict[str, Certified]) -> Worker:
        """Raises HostError if there is no rig."""

    def close(self) -> None:
        """End what the workers shared."""


WORTH_SHARING = 4
"""The smallest number of runs in copies for which a shared beginning is performed: for fewer, this saves little."""


class SharedBeginnings:
    """The guests of a plan's runs that share their beginning (`run.branching`), among each other and with the runs of
    earlier plans. Any thread may use it."""

    def __init__(self, plan: Plan, templates: Templates, slots: int) -> None:
        """`slots` is the number of workers that run side by side."""
        self.sharing = Sharing(plan)
        self._slots = slots
        settings = _launch_settings(plan.sweep)
        self._settings = {
            name: digest_of_values([settings, each.model_dump(mode="json")])
            for name, each in plan.implementations.items()
        }
        self._templates = templates
        self._launched: set[str] = set()
        names = [
            [
                self._name(run, beginning, batch.seed)
                for run in batch.runs
                if (beginning := self.sharing.beginning_of(run))
            ]
            for batch in plan.batches
        ]
        self._batches = Counter(name for of_batch in names for name in set(of_batch))
        """The number of batches that share each beginning, by its name."""
        self._together = {run.run_id: len(batch.runs) for batch in plan.batches for run in batch.runs}
        """The number of runs that are performed one after the other with each run, by its name."""
        templates.begin_plan(Counter(name for of_batch in names for name in of_batch))

    def copy(
        self, batch: Batch, memory_mb: int, cpu: int, directory: Path, write: Callable[[Batch, Path], None]
    ) -> Copy | None:
        """A guest for a batch's run that has performed its beginning; None if the run, or one of several, has to be
        performed from its start.

        A run that is launched again is performed from its start: its first attempt may have failed because the guest
        was a copy. Of runs in several batches, which may be performed by other machines or were performed already, the
        first one is, too. `write` writes the task of the beginning into a directory.
        """
        run, templates = batch.runs[0], self._templates
        beginning = self.sharing.beginning_of(run)
        if beginning is None or len(batch.runs) > 1 or run.run_id in self._launched:
            return None
        name = self._name(run, beginning, batch.seed)
        in_copies = templates.sharing[name] - min(self._slots, self._batches[name]) + 1
        if in_copies < WORTH_SHARING:
            return None
        self._launched.add(run.run_id)
        first = batch.model_copy(update={"runs": [beginning]})
        begin = partial(templates.beginning, first, memory_mb, cpu, partial(write, first))
        try:
            at_once = self._together[run.run_id] >= WORTH_SHARING
            shared = templates.beginnings.get(name, begin, self._slots, at_once)
            return None if shared is None else shared.copy(batch.seed, cpu, directory)
        except HostError:
            return None

    def _name(self, run: Run, beginning: Run, guest_seed: int) -> str:
        """What the beginning of a run depends on, with the memory and the seed of its guest."""
        settings = self._settings[run.permutation.implementation]
        return f"{guest_memory_mb([run])} MB {guest_seed} {beginning.model_dump_json()}{settings}"


def _launch_settings(sweep: Sweep) -> dict[str, Any]:
    """What the beginning of a run depends on in its sweep: all but the names of channels."""
    return sweep.model_dump(mode="json", exclude={"name", "channel", *OF_CHANNELS})


class VirtualWorkers:
    """Workers in guests, one pinned to each core: copies of a template if the kernel can be copied, or booted."""

    def __init__(
        self, plan: Plan, kernel: Kernel, cpus: list[int], provenance: Provenance, kept: Templates | None = None
    ) -> None:
        """`kept` are templates that other plans use too; they are not closed with these workers."""
        self.provenance = provenance
        self._kernel = kernel
        self._cpus = cpus
        self._keeps = kept is not None
        self._templates = kept or Templates(kernel, plan.sweep.clock, cpus[0])
        self._beginnings = SharedBeginnings(plan, self._templates, len(cpus))
        self._plan = plan.model_copy(update={"channels": plan.channels | self._beginnings.sharing.channels})
        self._versions: dict[str, str] | None = None

    def __call__(self, batch: Batch, directory: Path, slot: int, certificates: dict[str, Certified]) -> Worker:
        memory_mb = guest_memory_mb(batch.runs)
        if not (self._kernel.templates and self._plan.sweep.clock == "exact"):
            write_task(self._plan, batch, directory, self._kernel.hz, certificates, provenance=self.provenance)
            clock, cpu = self._plan.sweep.clock, self._cpus[slot]
            boot = guest.Boot(self._kernel.path, clock, cpu, memory_mb, batch.seed, self._kernel.seccomp)
            command = guest.python_command(WORKER, guest.RIG_DIRECTORY)
            return WorkerProcess(guest.launch(boot, directory, command))
        if self._versions is None and batch.runs:
            self._versions = self._templates.versions(self._plan)
        versions, cpu = self._versions if batch.runs else {}, self._cpus[slot]

        def write(of: Batch, place: Path, is_beginning: bool = True) -> None:
            hz, provenance = self._kernel.hz, self.provenance
            write_task(self._plan, of, place, hz, certificates, versions, provenance, is_beginning)

        write(batch, directory, is_beginning=False)
        copy = self._beginnings.copy(batch, memory_mb, cpu, directory, write) if batch.runs else None
        return WorkerProcess(copy or self._templates.copy(memory_mb, batch.seed, cpu, directory))

    def close(self) -> None:
        """End the templates, but not those that are kept."""
        if not self._keeps:
            self._templates.close()


CERTIFICATE_HANGS_S = 600.0
"""How long a guest that certifies a channel may be silent in wall time."""


def certify_in_guest(channel: ChannelSpec, kernel: Kernel) -> Certificate:
    """The certificate of a channel as a sweep on the clock exact has it, measured in a guest.

    Raises HostError if the guest does not measure it.
    """
    guest.compile_ahead()
    key = channel_key(channel)
    # only the clock of the sweep matters to a task without runs
    sweep = Sweep(name="certificate", seed=0, implementations=["none"], channel=["none"], file_size=["1 kB"])
    task = Task(
        sweep=sweep,
        implementations={},
        channels={key: channel},
        certify=[key],
        certificates={},
        runs=[],
        owlt=own_version(),
        kernel_hz=kernel.hz,
        versions={},
    )
    with process_directory("certificate") as directory:
        cpu = max(os.sched_getaffinity(0))
        boot = guest.Boot(
            kernel.path, "exact", cpu, SMALLEST_GUEST_MB, certification_seed(sweep.seed, key), kernel.seccomp
        )
        lines = list(lines_of_task(task, directory, boot, CERTIFICATE_HANGS_S))
        certificate = read_certificate(directory, key)
    if certificate is None:
        raise HostError(why_it_failed(lines))
    return certificate


def lines_of_task(task: Task, directory: Path, boot: guest.Boot, hangs_s: float) -> Iterator[str]:
    """Boot a guest that does a task in a directory; its lines as they come. The guest ends with the iteration.

    Raises HostError after `hangs_s` of wall time without a line.
    """
    (directory / TASK_NAME).write_text(task.model_dump_json())
    worker = WorkerProcess(guest.launch(boot, directory, guest.python_command(WORKER, guest.RIG_DIRECTORY)))
    try:
        yield from worker.lines(lambda: hangs_s)
    except WorkerHung as hang:
        raise HostError(str(hang)) from hang
    finally:
        worker.end()


def why_it_failed(lines: list[str]) -> str:
    """The reason that a worker reported, or else the end of its console."""
    failures = [event.reason for line in lines if isinstance(event := event_in(line), RigFailed)]
    return " / ".join(failures or [line.strip() for line in lines[-5:]])


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
