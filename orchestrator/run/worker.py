"""Performs the task of one batch on a rig raised for it: certifies its channels, then performs its runs.

It works in the batch's directory, which holds its task; each run leaves `runs/<run-id>/` there. Events are reported on
standard output, a line each, because on a virtual clock only the supervisor can time them.
"""

from __future__ import annotations

import gc
import platform
import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from typing import NoReturn

from owlt.agents.contract.implementation import Clock
from owlt.emulator.certification.certificate import REAL_TOLERANCE_NS, VIRTUAL_TOLERANCE_NS, Certificate, Check
from owlt.emulator.channel.spec import DIRECTIONS, ChannelSpec
from owlt.emulator.faults import ChannelRefused, EmulatorError
from owlt.emulator.service.access import LONGEST_LEASE_S
from owlt.orchestrator.errors import OwltError
from owlt.orchestrator.hosts.host import HostError
from owlt.orchestrator.hosts.mount_namespace import mount
from owlt.orchestrator.own_directories import third_party_directory
from owlt.orchestrator.planning.plan import Run
from owlt.orchestrator.planning.run_channel import seeded
from owlt.orchestrator.planning.seeds import link_seed
from owlt.orchestrator.rigs import namespaces
from owlt.orchestrator.rigs.guest import BEGINNING_DIRECTORY, START_NS, mount_task, power_off
from owlt.orchestrator.rigs.rig import Rig
from owlt.orchestrator.rigs.template import become_template
from owlt.orchestrator.run.branching import Branching
from owlt.orchestrator.run.events import (
    BatchEnded,
    CertificationStarted,
    ChannelCertified,
    Heartbeat,
    PhaseStarted,
    RigFailed,
    RigStarting,
    RunEnded,
    RunStarted,
    WorkerEvent,
    worker_line,
)
from owlt.orchestrator.run.life import HostLife
from owlt.orchestrator.run.perform import perform
from owlt.orchestrator.run.state import Setting
from owlt.orchestrator.run.task import OwnPart, Soak, Task, read_own_part, read_task
from owlt.orchestrator.run.versions import implementation_versions, own_versions, write_versions
from owlt.results.certificates import write_certificate
from owlt.results.files import CERTIFICATES
from owlt.results.record import RunRecord
from owlt.results.recorded_runs import run_directory

TOLERANCE_NS = {"exact": VIRTUAL_TOLERANCE_NS, "skip": REAL_TOLERANCE_NS, "real": REAL_TOLERANCE_NS}
BUDGET_S = {"exact": 50_000.0, "skip": 50_000.0, "real": 60.0}
"""Longest time to send the probes of one measurement: virtual time is free. All measurements of a channel together take
less than the lease of `worker`."""


def certify(channel: ChannelSpec, key: str, rig: Rig, clock: Clock, netem_takes_seeds: bool, directory: Path) -> str:
    """Have the emulator measure a channel; write its certificate to `directory` and return the verdict.

    A channel that cannot be applied or measured has a certificate that says so.
    """
    specified = seeded(channel, partial(link_seed, key), netem_takes_seeds)
    started_at_ns = time.time_ns()
    try:
        certificate = rig.channel.certify(specified, {"tolerance_ns": TOLERANCE_NS[clock], "budget_s": BUDGET_S[clock]})
    except ChannelRefused as refusal:
        certificate = _unmeasured(specified, started_at_ns, str(refusal)).to_wire()
    write_certificate(certificate, key, directory)
    return str(certificate["verdict"])


def _unmeasured(channel: ChannelSpec, started_at_ns: int, reason: str) -> Certificate:
    checks = tuple(Check(direction, "the channel", "not measured", reason=reason) for direction in DIRECTIONS)
    return Certificate(channel.to_wire(), checks, started_at_ns, 0.0, platform.release(), alpha=0.0)


CERTIFYING_S = {"exact": 7 * 24 * 3600.0, "skip": 7 * 24 * 3600.0, "real": 3600.0}
"""Longer than certifying a channel takes, by the rig's clock."""
BESIDE_THE_SESSION_S = 600.0
HEARTBEATS = 300
"""The number of heartbeats in the time limit of a run; they are at least a few seconds of the rig's clock apart."""
SHORTEST_BEAT_S = 5.0


RIG_FAULTS = (OwltError, HostError, EmulatorError, OSError)
TASK_STARTS_NS = START_NS + 60 * 10**9
"""On a copy's clock; raising the rig takes a few seconds of it."""


def report(event: WorkerEvent) -> None:
    """Report an event to the supervisor."""
    print(worker_line(event), flush=True)


def lease_s(run: Run, task: Task) -> float:
    """How long a run's lease of the emulator lasts: it clears the channel if the worker is silent for so long."""
    if task.soak is not None:
        return LONGEST_LEASE_S
    deadline_s = run.deadline_s(task.implementations[run.permutation.implementation])
    return min(2 * deadline_s + BESIDE_THE_SESSION_S, LONGEST_LEASE_S)


@contextmanager
def _heartbeats(deadline_s: float) -> Iterator[None]:
    """Report now and then that time passes, so that a slow run does not count as hung.

    At multiples of a period, to the nanosecond, so that it is at the same times in a guest that a run has alone and in
    one that shares the run's beginning: a long wait of a program, which the kernel ends up to 0.1 % late, ends early if
    something else happens then. The first time is half a period from now or later.
    """
    over = threading.Event()
    period_ns = int(1e9 * max(deadline_s / HEARTBEATS, SHORTEST_BEAT_S))

    def pause_s() -> float:
        now_ns = time.time_ns()
        return ((round(now_ns / period_ns) + 1) * period_ns - now_ns) / 1e9

    def beat() -> None:
        while not over.wait(pause_s()):
            report(Heartbeat())

    beating = threading.Thread(target=beat, daemon=True)
    beating.start()
    try:
        yield
    finally:
        over.set()
        beating.join()


RaiseRig = Callable[[Path, Path, Path], AbstractContextManager[Rig]]
"""Gets a directory for the rig, one for its logs and that of third-party implementations; takes the rig down again."""


def work(directory: Path, rig_directory: Path, raise_rig: RaiseRig = namespaces.raised) -> None:
    """Raise the rig, do the task of the directory, take the rig down."""
    report(RigStarting())
    with raise_rig(rig_directory, directory, third_party_directory()) as rig:
        do_task(directory, rig, netem_takes_seeds(rig))
    report(BatchEnded())


def work_as_copies(rig_directory: Path) -> NoReturn:
    """Raise the rig, and do the task of each copy of this guest, which then powers off.

    A task begins at the same time of the exact clock, however long the rig took.
    """
    logs = rig_directory / "logs"
    logs.mkdir()
    with namespaces.raised(rig_directory, logs, third_party_directory()) as rig:
        takes_seeds = netem_takes_seeds(rig)
        gc.collect()
        gc.freeze()  # no collection in a copy looks at what the template has made
        become_template()
        report(RigStarting())
        mount_task()
        shutil.copytree(logs, Path.cwd(), dirs_exist_ok=True)
        try:
            time.sleep(max(0.0, TASK_STARTS_NS / 1e9 - time.time()))
            do_task(Path.cwd(), rig, takes_seeds)
            report(BatchEnded())
        except RIG_FAULTS as problem:
            report(RigFailed(reason=str(problem)))
        power_off()


def netem_takes_seeds(rig: Rig) -> bool:
    """Whether netem at the emulator accepts seeds; the service tests this on interfaces of its own."""
    return bool(rig.channel.capabilities()["seed"]["available"])


def do_task(directory: Path, rig: Rig, takes_seeds: bool) -> None:
    """Certify the task's channels and perform its runs, or write the versions of its implementations.

    Before each run but the first, the rig removes what the programs of the previous run left on the hosts.
    `takes_seeds`: whether netem at the emulator accepts seeds.
    """
    task = read_task(directory)
    versions = task.versions
    if versions is None:
        versions = implementation_versions(task.implementations, rig)
    if task.is_survey:
        write_versions(directory, versions)
        return
    setting = _setting(task, rig, versions, takes_seeds)
    if task.soak is not None:
        _soak(task, task.soak, setting, directory)
        return
    if task.is_beginning:
        _perform_branches(task, setting, directory)
        return
    rig.channel.lease(f"owlt, sweep {task.sweep.name}", BESIDE_THE_SESSION_S)
    for key in task.certify:
        _certify(key, task, setting, directory)
    is_used = task.versions is None
    for run in task.runs:
        if is_used:
            rig.forget()
        _perform(run, task, setting, directory)
        is_used = True


def _soak(task: Task, soak: Soak, setting: Setting, directory: Path) -> None:
    """Perform the task's runs in one life of the hosts: nothing is removed from them between two runs."""
    with HostLife(soak, setting, directory) as life:
        for place, run in enumerate(task.runs):
            life.wait_for(place)
            if place == 0:
                setting.rig.channel.lease("owlt soak", LONGEST_LEASE_S)
            began_ns = time.monotonic_ns(), time.time_ns()
            record = _perform(run, task, life.setting_of(place), directory, life)
            life.settle(place, began_ns, record, run_directory(directory, run.run_id))
            if life.is_over:
                break


def _perform_branches(task: Task, setting: Setting, directory: Path) -> None:
    """Perform the task's run until it branches, and in each copy of this guest its own run to the end."""

    def own_part() -> OwnPart:
        mount_task()
        own = read_own_part(directory)
        report(RigStarting())
        report(RunStarted(run_id=own.run.run_id))
        report(PhaseStarted(run_id=own.run.run_id, phase="transfer"))
        return own

    def enter(phase: str) -> None:
        report(PhaseStarted(run_id=branching.run.run_id, phase=phase))

    (run,) = task.runs
    branching = Branching(run, own_part, directory)
    shared = Path(BEGINNING_DIRECTORY)
    shared.mkdir()
    mount("none", BEGINNING_DIRECTORY, "ramfs", "")  # in tmpfs, writing a file would read the clock
    setting.rig.channel.lease(f"owlt, sweep {task.sweep.name}", BESIDE_THE_SESSION_S)
    setting.rig.channel.renew(lease_s(run, task))
    with _heartbeats(run.deadline_s(setting.implementation_of(run))):
        record = perform(run, setting, shared, enter, branching=branching)
    if branching.setting is None:
        raise HostError(f"the runs cannot share their beginning: {record.outcome}: {record.reason}")
    shutil.copytree(shared, branching.directory, copy_function=shutil.copyfile, dirs_exist_ok=True)
    report(RunEnded(run_id=record.run_id, outcome=record.outcome, reason=record.reason))


def _setting(task: Task, rig: Rig, versions: dict[str, str], takes_seeds: bool) -> Setting:
    return Setting(
        sweep=task.sweep,
        implementations=task.implementations,
        channels=task.channels,
        certificates=task.certificates,
        rig=rig,
        versions=own_versions(task.owlt) | dict(rig.versions),
        implementation_versions=versions,
        provenance=task.provenance,
        kernel_hz=task.kernel_hz,
        netem_takes_seeds=takes_seeds,
    )


def _certify(key: str, task: Task, setting: Setting, directory: Path) -> None:
    report(CertificationStarted(channel=key))
    clock, rig = task.sweep.clock, setting.rig
    rig.channel.renew(CERTIFYING_S[clock])
    certificates = directory / CERTIFICATES
    verdict = certify(task.channels[key], key, rig, clock, setting.netem_takes_seeds, certificates)
    report(ChannelCertified(channel=key, verdict=verdict))


def _perform(run: Run, task: Task, setting: Setting, directory: Path, life: HostLife | None = None) -> RunRecord:
    def enter(phase: str) -> None:
        report(PhaseStarted(run_id=run.run_id, phase=phase))

    report(RunStarted(run_id=run.run_id))
    setting.rig.channel.renew(lease_s(run, task))
    with _heartbeats(run.deadline_s(setting.implementation_of(run))):
        record = perform(run, setting, run_directory(directory, run.run_id), enter, life)
    report(RunEnded(run_id=run.run_id, outcome=record.outcome, reason=record.reason))
    return record


def main(rig_directory: str, as_template: bool, raise_rig: RaiseRig = namespaces.raised) -> int:
    """Do the task in the current directory, or in each copy of this guest its own.

    Exit status 1: the rig failed, and the last event has the reason.
    """
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    try:
        if as_template:
            work_as_copies(Path(rig_directory))
        work(Path.cwd(), Path(rig_directory), raise_rig)
    except RIG_FAULTS as problem:
        report(RigFailed(reason=str(problem)))
        return 1
    return 0
