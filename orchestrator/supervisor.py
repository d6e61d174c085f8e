"""Performs a plan: hands its batches to workers, one guest per core, publishes every run once, goes on where
an earlier start stopped, and ends what hangs.

A worker writes only into a directory of its own; a run exists once its directory has been renamed into
`runs/`. So a sweep that was killed at any moment has whole runs and nothing else.
"""

from __future__ import annotations

import json
import os
import queue
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from orchestrator.builds.places import builds_directory
from orchestrator.certification import DIRECTORY_NAME, Certified, certified
from orchestrator.clock import Clock
from orchestrator.kernel import Kernel
from orchestrator.own_version import own_version
from orchestrator.plan import Batch, Plan, Run
from orchestrator.record import RECORD_NAME, Outcome, RunRecord, write_record
from orchestrator.rigs import guest
from orchestrator.rigs.rig import CARD_RATE_BPS
from orchestrator.worker import ALIVE, BATCH_NAME, EVENT_MARK, Task

HANG_S = 60.0
HANG_S_PER_MEGABYTE = 30.0
CERTIFYING_HANG_S = {"exact": 600.0, "skip": 600.0, "real": 3600.0}
"""The same while it measures a channel."""
"""A worker that tells nothing for this long, in wall time, hangs: so much and so much more a megabyte of file."""

END_GRACE_S = 20.0
POWER_OFF = re.compile(r"sysrq: Power Off|reboot: Power down")


class Launcher(Protocol):
    """Starts a worker in a batch's directory; its standard output is the worker's."""

    def __call__(
        self, batch: Batch, directory: Path, slot: int, certificates: dict[str, Certified]
    ) -> subprocess.Popen[str]: ...


@dataclass(frozen=True)
class Event:
    """What a worker told, with the wall clock of this machine."""

    at_s: float
    batch: int
    name: str
    facts: dict[str, Any]


Observe = Callable[[Event], None]


@dataclass(frozen=True)
class VirtualWorkers:
    """Workers in guests, one pinned to each core."""

    plan: Plan
    kernel: Kernel
    cpus: list[int]

    def __call__(
        self, batch: Batch, directory: Path, slot: int, certificates: dict[str, Certified]
    ) -> subprocess.Popen[str]:
        write_task(self.plan, batch, directory, self.kernel.hz, certificates)
        boot = guest.Boot(
            kernel=self.kernel.path,
            clock=self.plan.sweep.clock,
            cpu=self.cpus[slot],
            memory_mb=guest_memory_mb(batch.runs),
            seed=batch.seed,
            seccomp=self.kernel.seccomp,
        )
        return guest.launch(boot, directory, worker_command(guest.RIG_DIRECTORY))


@dataclass(frozen=True)
class LocalWorkers:
    """Workers on this machine, whose rig is this kernel's own namespaces."""

    plan: Plan
    kernel_hz: int | None

    def __call__(
        self, batch: Batch, directory: Path, slot: int, certificates: dict[str, Certified]
    ) -> subprocess.Popen[str]:
        write_task(self.plan, batch, directory, self.kernel_hz, certificates)
        return subprocess.Popen(
            worker_command(str(directory.resolve() / "rig")),
            cwd=directory,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        )


def write_task(
    plan: Plan, batch: Batch, directory: Path, kernel_hz: int | None, certificates: dict[str, Certified]
) -> None:
    """Give a worker what it has to do, and what is known of the channels of its runs."""
    keys = channel_keys(batch)
    task = Task(
        sweep=plan.sweep,
        implementations=plan.implementations,
        channels={key: channel for key, channel in plan.channels.items() if key in keys},
        certify=batch.certify,
        certificates=certificates,
        runs=batch.runs,
        owlt=own_version(),
        kernel_hz=kernel_hz,
        builds=builds_directory(),
    )
    (directory / BATCH_NAME).write_text(task.model_dump_json())


def channel_keys(batch: Batch) -> set[str]:
    """The keys of all channels that a batch has to do with."""
    return {*batch.certify, *(run.channel_key for run in batch.runs)}


def worker_command(rig_directory: str) -> list[str]:
    """The worker as a command, to be run in the batch's directory."""
    return [sys.executable, "-m", "orchestrator.worker", rig_directory]


def guest_memory_mb(runs: list[Run]) -> int:
    """What a guest needs: its programs, the files and captures in tmpfs, and what is in flight (an skb's true
    size is two to three times its packet's). Certifying sends little at a time."""
    in_flight = max(((run.permutation.rate_bps or CARD_RATE_BPS) / 8 * run.rtt_s / 2 for run in runs), default=0.0)
    files = max((run.permutation.file_size_bytes for run in runs), default=0)
    return 512 + int((3 * 2 * in_flight + 8 * files) / 1e6)


def runs_done(results: Path) -> set[str]:
    """The runs that have a record: what a resumed sweep need not do again."""
    return {path.parent.name for path in (results / "runs").glob(f"*/{RECORD_NAME}")}


def supervise(
    plan: Plan, results: Path, launch: Launcher, slots: int, observe: Observe, analyse: Callable[[Path], object]
) -> None:
    """Certify the plan's channels and perform every run that has no record yet, on `slots` workers side by side.

    `observe` is told every event of every worker, and `analyse` is given the directory of every new run, from
    that worker's thread. An interrupt ends the workers and leaves what is published. Raises WorkerFailed when
    a rig does not come up.
    """
    done = runs_done(results)
    undone = [batch for batch in plan.batches if any(run.run_id not in done for run in batch.runs)]
    needed = set().union(*(channel_keys(batch) for batch in undone))
    uncertified = needed - set(certified(results, needed))
    (results / "runs").mkdir(parents=True, exist_ok=True)
    (results / DIRECTORY_NAME).mkdir(exist_ok=True)
    shutil.rmtree(results / "workers", ignore_errors=True)
    with (results / "journal.jsonl").open("a", buffering=1) as journal:
        desk = _Desk(plan, results, launch, done, observe, analyse, journal.write)
        _staff(desk, [batch for batch in plan.certifications if uncertified & set(batch.certify)], slots)
        _staff(desk, undone, slots)
    if desk.problems:
        raise desk.problems[0]
    shutil.rmtree(results / "workers", ignore_errors=True)


def _staff(desk: _Desk, batches: list[Batch], slots: int) -> None:
    """Have batches done on so many workers side by side; an interrupt ends them."""
    todo: queue.SimpleQueue[Batch] = queue.SimpleQueue()
    for batch in batches:
        todo.put(batch)
    threads = [threading.Thread(target=desk.serve, args=(todo, slot)) for slot in range(slots)]
    for thread in threads:
        thread.start()
    try:
        for thread in threads:
            while thread.is_alive():
                thread.join(0.2)
    except BaseException:
        desk.close()
        raise
    finally:
        for thread in threads:
            thread.join()


@dataclass
class _Shift:
    """What is known of one worker while it works: the runs and the channels that it has yet to do."""

    waiting: dict[str, Run]
    uncertified: set[str]
    current: str | None = None
    phase: str = ""
    console: list[str] = field(default_factory=list)
    said: str = ""
    hung: str = ""


class _Desk:
    """The supervisor's state: who works, what is published, whether to go on."""

    def __init__(
        self,
        plan: Plan,
        results: Path,
        launch: Launcher,
        done: set[str],
        observe: Observe,
        analyse: Callable[[Path], object],
        write: Callable[[str], object],
    ) -> None:
        self._plan = plan
        self._results = results
        self._launch = launch
        self._done = done
        self._observe = observe
        self._analyse = analyse
        self._write = write
        self._lock = threading.Lock()
        self._workers: set[subprocess.Popen[str]] = set()
        self._closed = False
        self.problems: list[Exception] = []

    def close(self) -> None:
        """Start no more workers and end those that run."""
        with self._lock:
            self._closed = True
            for worker in self._workers:
                end_worker(worker)

    def serve(self, todo: queue.SimpleQueue[Batch], slot: int) -> None:
        """Work through the batches that are left, in this thread."""
        while not self._closed:
            try:
                batch = todo.get_nowait()
            except queue.Empty:
                return
            try:
                self._perform(batch, slot)
            except Exception as problem:
                self.problems.append(problem)
                self.close()

    def _perform(self, batch: Batch, slot: int) -> None:
        """Perform a batch; after a run that hung, what is left of it, in a new guest.

        On the exact clock a batch is performed from its start even when only some of its runs are missing: so
        the missing ones are what they would have been, number for number. Elsewhere that would buy nothing.
        """
        if batch.certify:
            self._work(batch, slot)
            return
        runs = batch.runs
        if self._plan.sweep.clock != "exact":
            runs = [run for run in runs if run.run_id not in self._done]
        while runs and not self._closed and any(run.run_id not in self._done for run in runs):
            runs = self._work(batch.model_copy(update={"runs": runs}), slot)

    def _work(self, batch: Batch, slot: int) -> list[Run]:
        """One worker's life. Returns the runs that it did not come to because it was lost in one of them."""
        directory = self._results / "workers" / f"{batch.index}-{slot}"
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir(parents=True)
        self._note(Event(time.time(), batch.index, "boot", {"slot": slot}))
        shift = _Shift({run.run_id: run for run in batch.runs}, set(batch.certify))
        with self._worker(batch, directory, slot) as worker:
            try:
                for line in _lines(worker, hang_limit_s(batch, self._plan.sweep.clock)):
                    self._hear(line, shift, batch.index, directory)
            except WorkerHung as hang:
                shift.hung = str(hang)
        (directory / "console.log").write_text("".join(shift.console))
        if self._closed or not (shift.waiting or shift.uncertified):
            return []
        return self._lost(batch, shift, directory)

    def _hear(self, line: str, shift: _Shift, batch: int, directory: Path) -> None:
        """Take in one line of a worker: an event, or something that its console said."""
        if not line.startswith(EVENT_MARK):
            shift.console.append(line)
            return
        facts = json.loads(line.removeprefix(EVENT_MARK))
        event = Event(time.time(), batch, facts.pop("event"), facts)
        if event.name == ALIVE:
            return
        self._note(event)
        if event.name == "run":
            shift.current = facts["run_id"]
        elif event.name == "phase":
            shift.phase = facts["phase"]
        elif event.name == "done":
            del shift.waiting[facts["run_id"]]
            shift.current = None
            self._publish(directory / "runs" / facts["run_id"], event)
        elif event.name == "certified":
            shift.uncertified.remove(facts["channel"])
            name = f"{facts['channel']}.json"
            (directory / DIRECTORY_NAME / name).rename(self._results / DIRECTORY_NAME / name)
        elif event.name == "failed":
            shift.said = facts["reason"]

    def _lost(self, batch: Batch, shift: _Shift, directory: Path) -> list[Run]:
        """Give the run that a worker was lost in a record; without one, the rig itself did not come up."""
        reason = shift.hung or shift.said or f"the worker ended: {_last_line(shift.console)}"
        if shift.uncertified or shift.current is None:
            log = shutil.copy(directory / "console.log", self._results / f"failed-batch-{batch.index}.log")
            rig = f"the rig of batch {batch.index} did not come up"
            raise WorkerFailed(
                f"{'a channel could not be certified' if shift.uncertified else rig}: {reason}; see {log}"
            )
        run = shift.waiting.pop(shift.current)
        builds_hung = shift.hung and shift.phase in ("launch", "transfer")
        record = self._record_of_lost(run, Outcome.TIMED_OUT if builds_hung else Outcome.ABORTED, reason)
        run_directory = directory / "runs" / run.run_id
        run_directory.mkdir(parents=True, exist_ok=True)
        shutil.copy(directory / "console.log", run_directory / "console.log")
        write_record(record, run_directory)
        facts = {"run_id": run.run_id, "outcome": record.outcome, "reason": record.reason}
        self._publish(run_directory, Event(time.time(), batch.index, "done", facts))
        return list(shift.waiting.values())

    def _record_of_lost(self, run: Run, outcome: Outcome, reason: str) -> RunRecord:
        build = self._plan.implementations[run.permutation.implementation]
        certificate = certified(self._results, {run.channel_key}).get(run.channel_key)
        return RunRecord(
            run_id=run.run_id,
            sweep=self._plan.sweep.name,
            implementation=build.name,
            title=build.title,
            protocol=build.protocol,
            **run.permutation.model_dump(exclude={"implementation"}),
            channel_key=run.channel_key,
            certificate=certificate.verdict if certificate else "",
            suspect=certificate.suspicion if certificate else [],
            repetition=run.repetition,
            order=run.order,
            seed=run.seed,
            clock=self._plan.sweep.clock,
            rig=self._plan.sweep.rig,
            outcome=outcome,
            reason=reason,
        )

    def _publish(self, run_directory: Path, event: Event) -> None:
        """Move a run to where it counts. One that was only performed again, on the way to others, is dropped."""
        if run_directory.name in self._done:
            shutil.rmtree(run_directory)
            return
        target = self._results / "runs" / run_directory.name
        shutil.rmtree(target, ignore_errors=True)
        run_directory.rename(target)
        with self._lock:
            self._done.add(run_directory.name)
        self._analyse(target)
        self._note(replace(event, at_s=time.time(), name="published"))

    def _note(self, event: Event) -> None:
        with self._lock:
            self._write(
                json.dumps({"at_s": round(event.at_s, 4), "batch": event.batch, "event": event.name, **event.facts})
                + "\n"
            )
        self._observe(event)

    @contextmanager
    def _worker(self, batch: Batch, directory: Path, slot: int) -> Iterator[subprocess.Popen[str]]:
        with self._lock:
            worker = self._launch(batch, directory, slot, certified(self._results, channel_keys(batch)))
            self._workers.add(worker)
        try:
            yield worker
        finally:
            end_worker(worker)
            with self._lock:
                self._workers.remove(worker)


class WorkerHung(Exception):
    """A worker of which nothing is heard any more; its text is the reason that the run's record gives."""


class WorkerFailed(Exception):
    """A rig that does not come up: no run can be blamed, so the sweep stops here."""


def end_worker(worker: subprocess.Popen[str]) -> None:
    """End a worker by the process group it was given: first so that it can take its rig down, then at once."""
    for ending in (signal.SIGTERM, signal.SIGKILL):
        if worker.poll() is not None:
            return
        os.killpg(worker.pid, ending)
        with suppress(subprocess.TimeoutExpired):
            worker.wait(END_GRACE_S)


def hang_limit_s(batch: Batch, clock: Clock) -> float:
    """How long a worker may tell nothing while it does a batch, in wall time."""
    if batch.certify:
        return CERTIFYING_HANG_S[clock]
    silence_s = float(os.environ.get("OWLT_HANG_S", HANG_S))
    largest_bytes = max((run.permutation.file_size_bytes for run in batch.runs), default=0)
    return silence_s + HANG_S_PER_MEGABYTE * largest_bytes / 1e6


def _lines(worker: subprocess.Popen[str], silence_s: float) -> Iterator[str]:
    """The worker's lines as they come; ends with it, or after so long a silence that it must hang."""
    arrived: queue.SimpleQueue[str | None] = queue.SimpleQueue()

    def read() -> None:
        assert worker.stdout is not None
        with worker.stdout as console:
            for line in console:
                arrived.put(line.rstrip("\r\n") + "\n")
        arrived.put(None)

    threading.Thread(target=read, daemon=True).start()
    while True:
        try:
            line = arrived.get(timeout=silence_s)
        except queue.Empty:
            raise WorkerHung(f"the guest hung: nothing was heard of it for {silence_s:g} s of wall time") from None
        if line is None:
            return
        yield line


def _last_line(console: list[str]) -> str:
    said = [line.strip() for line in console if line.strip() and not POWER_OFF.search(line)]
    return said[-1] if said else "it said nothing"
