"""Performs a plan: hands its batches to workers, one guest per core, publishes every run once, goes on where
an earlier start stopped, and ends what hangs.

A worker writes only into a directory of its own; a run exists once its directory has been renamed into
`runs/`. So a sweep that was killed at any moment has whole runs and nothing else.
"""

from __future__ import annotations

import errno
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
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from agents.contract import Implementation
from orchestrator.analysis import note_withheld
from orchestrator.attempts import number_record, set_aside
from orchestrator.builds.places import builds_directory
from orchestrator.certification import DIRECTORY_NAME, Certified, certified
from orchestrator.disturbance import may_have_delayed_probes
from orchestrator.journal import JOURNAL_NAME, batches_without_progress, read_journal
from orchestrator.kernel import Kernel
from orchestrator.next_runs import next_runs
from orchestrator.own_version import own_version
from orchestrator.plan import Batch, Plan, Run
from orchestrator.record import Outcome, RunRecord, write_record
from orchestrator.recorded import RUNS, read_recorded, standing
from orchestrator.retries import fault, is_repeated_now, needs_quiet
from orchestrator.rigs import guest, warden
from orchestrator.rigs.quiet import PATIENCE_S, Patience
from orchestrator.rigs.rig import CARD_RATE_BPS
from orchestrator.rigs.waits import ProcessorWaits, Waited, is_counted
from orchestrator.worker import ALIVE, BATCH_NAME, EVENT_MARK, Task

HANG_S_PER_MEGABYTE = 30.0
CERTIFYING_HANG_S = {"exact": 600.0, "skip": 600.0, "real": 3600.0}
"""How long a worker may tell nothing while it measures a channel, in wall time."""
BETWEEN_RUNS_HANG_S = 120.0
"""The same while its guest boots, and between two runs."""

END_GRACE_S = 20.0
LEAST_FREE_BYTES = 16_000_000
GUESTS_PER_START = 3
"""So many guests of a batch may be lost outside of runs that it has yet to perform before that is no accident."""
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
            memory_mb=guest_memory_mb(planned_runs(self.plan, batch)),
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


def planned_runs(plan: Plan, batch: Batch) -> list[Run]:
    """All runs that the plan has in a batch: a guest that is given fewer of them is booted no differently, since its
    memory size is in its command line, which the kernel mixes into its randomness."""
    return next((each.runs for each in plan.batches if each.index == batch.index), [])


def guest_memory_mb(runs: list[Run]) -> int:
    """What a guest needs: its programs, the files and captures in tmpfs, and what is in flight (an skb's true
    size is two to three times its packet's). Certifying sends little at a time."""
    in_flight = max(((run.permutation.rate_bps or CARD_RATE_BPS) / 8 * run.rtt_s / 2 for run in runs), default=0.0)
    files = max((run.permutation.file_size_bytes for run in runs), default=0)
    return 512 + int((3 * 2 * in_flight + 8 * files) / 1e6)


def supervise(
    plan: Plan,
    results: Path,
    launch: Launcher,
    slots: int,
    observe: Observe,
    analyse: Callable[[Path], str],
    patience: Patience | None = None,
) -> None:
    """Certify the plan's channels and perform every run without a record that stands, on `slots` workers side by side.

    `observe` is told every event of every worker. `analyse` is given the directory of every new run, from
    that worker's thread, and returns what went wrong, or "". What the machine disturbed is performed again when it is
    quiet, with `patience` for that. An interrupt ends the workers and leaves what is published. Raises WorkerFailed
    when a rig does not come up.
    """
    recorded = read_recorded(results, {run.run_id for run in plan.runs})
    done = standing(recorded)
    undone = [batch for batch in plan.batches if any(run.run_id not in done for run in batch.runs)]
    certifications = uncertified(plan, results)
    (results / RUNS).mkdir(parents=True, exist_ok=True)
    (results / DIRECTORY_NAME).mkdir(exist_ok=True)
    shutil.rmtree(results / "workers", ignore_errors=True)
    for run_id in sorted({*recorded.records, *recorded.damaged} - done):
        set_aside(results, results / RUNS / run_id)
    is_exact = plan.sweep.clock == "exact"
    split = batches_without_progress(read_journal(results)) if is_exact else set()
    with (results / JOURNAL_NAME).open("a", buffering=1) as journal:
        desk = _Desk(
            plan,
            results,
            launch,
            done,
            split,
            observe,
            analyse,
            journal.write,
            patience or Patience(float(os.environ.get("OWLT_PATIENCE_S", PATIENCE_S))),
        )
        _staff(desk, certifications, slots)
        _staff(desk, undone, slots)
    if desk.problems:
        raise desk.problems[0]
    shutil.rmtree(results / "workers", ignore_errors=True)


def uncertified(plan: Plan, results: Path) -> list[Batch]:
    """The plan's certifications, each with the channels that have no readable certificate."""
    keys = {key for batch in plan.certifications for key in batch.certify}
    missing = keys - set(certified(results, keys))
    left = [[key for key in batch.certify if key in missing] for batch in plan.certifications]
    return [
        batch.model_copy(update={"certify": keys})
        for batch, keys in zip(plan.certifications, left, strict=True)
        if keys
    ]


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
    uncertified: list[str]
    to_certify_again: list[str] = field(default_factory=list)
    certifying_since_ns: int = 0
    current: str | None = None
    phase: str = ""
    console: list[str] = field(default_factory=list)
    said: str = ""
    hung: str = ""
    waits: ProcessorWaits | None = None
    """None where its processes' waits say nothing of the time in the run, or are not counted."""

    def waited(self, first_ns: int, last_ns: int) -> Waited | None:
        """What the worker's processes waited between two times of the latest run; None: it was not measured."""
        if self.waits is None:
            return None
        waited = self.waits.between(first_ns, last_ns)
        self.waits.forget(last_ns)
        return waited


class _Desk:
    """The supervisor's state: who works, what is published, whether to go on."""

    def __init__(
        self,
        plan: Plan,
        results: Path,
        launch: Launcher,
        done: set[str],
        split: set[int],
        observe: Observe,
        analyse: Callable[[Path], str],
        write: Callable[[str], object],
        patience: Patience,
    ) -> None:
        self._plan = plan
        self._results = results
        self._launch = launch
        self._done = done
        """Runs that are not performed again: their record stands, or their attempts in this start are used up."""
        self._split = split
        """Batches whose runs get a guest each."""
        self._passed_over: set[str] = set()
        """Runs that cost their guest: the next guest begins behind them."""
        self._attempts: Counter[str] = Counter()
        self._lost_in: Counter[str] = Counter()
        self._rigs_lost: Counter[int] = Counter()
        self._disturbed: set[str] = set()
        """Runs that are to be performed again once the machine is quiet."""
        self._certified_again: set[str] = set()
        """Channels that are measured a second time, which is the last."""
        self._patience = patience
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
        """Perform a batch until each of its runs has a record that stands, or its attempts are used up.

        On the exact clock every guest begins with the batch's first run, also when only a later one is missing: so
        the missing one is what it would have been, number for number. Elsewhere that would buy nothing.
        """
        certify = list(batch.certify)
        while certify and not self._closed:
            if self._certified_again & set(certify):
                self._wait_for_quiet(batch)
            certify = self._work(batch.model_copy(update={"certify": certify}), slot)
        is_exact, is_split = self._plan.sweep.clock == "exact", batch.index in self._split
        while not self._closed and (runs := next_runs(batch.runs, self._done, self._passed_over, is_exact, is_split)):
            if self._disturbed & {run.run_id for run in runs}:
                self._wait_for_quiet(batch)
            seed = runs[0].seed if is_split else batch.seed
            self._work(batch.model_copy(update={"runs": runs, "seed": seed}), slot)

    def _wait_for_quiet(self, batch: Batch) -> None:
        self._note(Event(time.time(), batch.index, "wait", {"for": "a quiet machine"}))
        self._patience.wait_for_quiet(lambda: self._closed)

    def _work(self, batch: Batch, slot: int) -> list[str]:
        """One worker's life. Returns the channels that it did not certify because it was lost, or disturbed."""
        require_space(self._results)
        directory = self._results / "workers" / f"{batch.index}-{slot}"
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir(parents=True)
        self._note(Event(time.time(), batch.index, "boot", {"slot": slot}))
        shift = _Shift({run.run_id: run for run in batch.runs}, list(batch.certify))
        with self._worker(batch, directory, slot) as worker:
            if self._plan.sweep.clock == "real" and is_counted(worker.pid):
                shift.waits = ProcessorWaits(worker.pid)
            try:
                for line in _lines(worker, lambda: self._hang_limit_s(batch, shift)):
                    self._hear(line, shift, batch.index, directory)
            except WorkerHung as hang:
                shift.hung = str(hang)
            finally:
                if shift.waits is not None:
                    shift.waits.close()
        (directory / "console.log").write_text("".join(shift.console))
        if not self._closed and (shift.waiting or shift.uncertified):
            self._lost(batch, shift, directory)
        return [*shift.uncertified, *shift.to_certify_again]

    def _hang_limit_s(self, batch: Batch, shift: _Shift) -> float:
        """How long the worker may tell nothing in what it does now, in wall time."""
        if batch.certify:
            return CERTIFYING_HANG_S[self._plan.sweep.clock]
        run = next((run for run in batch.runs if run.run_id == shift.current), None)
        if run is None:
            return BETWEEN_RUNS_HANG_S
        return hang_limit_s(run, self._plan.implementations[run.permutation.implementation])

    def _hear(self, line: str, shift: _Shift, batch: int, directory: Path) -> None:
        """Take in one line of a worker: an event, or something that its console said."""
        if not line.startswith(EVENT_MARK):
            shift.console.append(line)
            return
        facts = json.loads(line.removeprefix(EVENT_MARK))
        event = Event(time.time(), batch, facts.pop("event"), facts)
        if event.name == ALIVE:
            return
        if event.name == "certified":
            self._certified(event, shift, directory)
            return
        self._note(event)
        if event.name == "run":
            shift.current = facts["run_id"]
        elif event.name == "phase":
            shift.phase = facts["phase"]
        elif event.name == "done":
            del shift.waiting[facts["run_id"]]
            shift.current = None
            if self._plan.sweep.clock != "exact":
                note_withheld(directory / "runs" / facts["run_id"], shift.waited)
            self._publish(directory / "runs" / facts["run_id"], event)
        elif event.name == "certify":
            shift.certifying_since_ns = time.time_ns()
        elif event.name == "failed":
            shift.said = facts["reason"]

    def _certified(self, event: Event, shift: _Shift, directory: Path) -> None:
        """Let a certificate take its place; the channel is measured once more where the machine may be at fault."""
        key = event.facts["channel"]
        shift.uncertified.remove(key)
        if self._is_measured_again(key, shift, directory):
            self._certified_again.add(key)
            shift.to_certify_again.append(key)
            self._note(replace(event, name="recertify"))
            return
        self._note(event)
        name = f"{key}.json"
        _take_place(directory / DIRECTORY_NAME / name, self._results / DIRECTORY_NAME / name)

    def _is_measured_again(self, key: str, shift: _Shift, directory: Path) -> bool:
        """Whether a certificate blames the channel while the rig's processes waited for a processor."""
        if shift.waits is None or key in self._certified_again or self._patience.is_used_up:
            return False
        certificate = certified(directory, {key}).get(key)
        waited = shift.waits.since(shift.certifying_since_ns)
        is_blamed = certificate is not None and bool(certificate.suspicion)
        return is_blamed and waited is not None and may_have_delayed_probes(waited)

    def _lost(self, batch: Batch, shift: _Shift, directory: Path) -> None:
        """Give the run that a worker was lost in a record; without one, the rig itself was lost."""
        reason = shift.hung or shift.said or f"the worker ended: {_last_line(shift.console)}"
        if shift.uncertified or shift.current is None:
            self._rig_lost(batch, shift, directory, reason)
            return
        run = shift.waiting[shift.current]
        if run.run_id in self._done:
            self._lost_in[run.run_id] += 1
            if shift.hung or self._lost_in[run.run_id] >= GUESTS_PER_START:
                self._passed_over.add(run.run_id)
            return
        builds_hung = shift.hung and shift.phase in ("launch", "transfer")
        record = self._record_of_lost(run, Outcome.TIMED_OUT if builds_hung else Outcome.ABORTED, reason)
        run_directory = directory / "runs" / run.run_id
        run_directory.mkdir(parents=True, exist_ok=True)
        shutil.copy(directory / "console.log", run_directory / "console.log")
        write_record(record, run_directory)
        facts = {"run_id": run.run_id, "outcome": record.outcome, "reason": record.reason}
        self._publish(run_directory, Event(time.time(), batch.index, "done", facts))
        if run.run_id in self._done:
            self._passed_over.add(run.run_id)

    def _rig_lost(self, batch: Batch, shift: _Shift, directory: Path, reason: str) -> None:
        """Let another guest follow one that ended without a word; raises WorkerFailed where that was no accident."""
        self._rigs_lost[batch.index] += 1
        if not (shift.hung or shift.said) and self._rigs_lost[batch.index] < GUESTS_PER_START:
            self._note(Event(time.time(), batch.index, "lost", {"reason": reason}))
            return
        log = shutil.copy(directory / "console.log", self._results / f"failed-batch-{batch.index}.log")
        rig = f"the rig of batch {batch.index} did not come up"
        raise WorkerFailed(f"{'a channel could not be certified' if shift.uncertified else rig}: {reason}; see {log}")

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
        """Move a run to where it counts, or aside where it is tried again.

        One that was only performed again, on the way to others, is dropped.
        """
        run_id = run_directory.name
        if run_id in self._done:
            shutil.rmtree(run_directory)
            return
        record = number_record(self._results, run_directory, alone=event.batch in self._split)
        self._attempts[run_id] += 1
        facts = {"run_id": run_id, "outcome": record.outcome, "reason": record.reason, "attempt": record.attempt}
        is_in_vain = needs_quiet(record) and self._patience.is_used_up
        if is_repeated_now(record, self._attempts[run_id]) and not is_in_vain:
            set_aside(self._results, run_directory)
            facts |= {"fault": fault(record)}
            if needs_quiet(record):
                self._disturbed.add(run_id)
            self._note(Event(time.time(), event.batch, "retry", facts))
            return
        self._disturbed.discard(run_id)
        target = self._results / RUNS / run_id
        _take_place(run_directory, target)
        with self._lock:
            self._done.add(run_id)
        problem = self._analyse(target)
        self._note(Event(time.time(), event.batch, "published", facts | {"analysis": problem}))

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
            if worker.stdin is not None:
                with suppress(OSError):  # a line that the guest never read
                    worker.stdin.close()
            with self._lock:
                self._workers.remove(worker)


def _take_place(path: Path, target: Path) -> None:
    """Rename a file or directory, in place of anything that is there."""
    if target.is_dir():
        shutil.rmtree(target)
    elif path.is_dir():
        target.unlink(missing_ok=True)
    path.rename(target)


def require_space(results: Path) -> None:
    """Raise OSError where the file system is too full for one more run."""
    if shutil.disk_usage(results).free < LEAST_FREE_BYTES:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(results))


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


def hang_limit_s(run: Run, implementation: Implementation) -> float:
    """How long a worker may tell nothing during a run, in wall time."""
    silence_s = float(os.environ.get("OWLT_HANG_S", implementation.hang_s))
    return silence_s + HANG_S_PER_MEGABYTE * run.permutation.file_size_bytes / 1e6


def _lines(worker: subprocess.Popen[str], limit_s: Callable[[], float]) -> Iterator[str]:
    """The worker's lines as they come; ends with it, or raises WorkerHung after a silence of `limit_s`.

    A guest is asked first to end its build, which may only compute.
    """
    arrived: queue.SimpleQueue[str | None] = queue.SimpleQueue()

    def read() -> None:
        assert worker.stdout is not None
        with worker.stdout as console:
            for line in console:
                arrived.put(line.rstrip("\r\n") + "\n")
        arrived.put(None)

    threading.Thread(target=read, daemon=True).start()
    asked = False
    while True:
        silence_s = limit_s()
        try:
            line = arrived.get(timeout=END_GRACE_S if asked else silence_s)
        except queue.Empty:
            if not asked and warden.ask(worker, silence_s):
                asked = True
                continue
            raise WorkerHung(f"the guest hung: nothing was heard of it for {silence_s:g} s of wall time") from None
        if line is None:
            return
        asked = asked and not line.startswith(EVENT_MARK)
        yield line


def _last_line(console: list[str]) -> str:
    said = [line.strip() for line in console if line.strip() and not POWER_OFF.search(line)]
    return said[-1] if said else "it said nothing"
