"""One sweep from its file to its report: resolve, check what is needed, perform, analyse, conclude."""

from __future__ import annotations

import os
import re
import shlex
import signal
import sys
import threading
import time
import types
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Self

from agents.contract import Implementation
from emulator.channel import ChannelSpec
from orchestrator import kernel
from orchestrator.analysis import FAILURE_NAME, analyse_or_mark, analyse_runs, is_marked
from orchestrator.catalogue import implementations_of, not_found
from orchestrator.channels import channels_of
from orchestrator.clock import guests_side_by_side
from orchestrator.doctor import lacks_for, lacks_of_rig
from orchestrator.errors import Missing, OwltError, ProfileError, SweepMistake
from orchestrator.kinds import refuse_missing
from orchestrator.load import load_keys, placed, sweep_of
from orchestrator.plan import Plan, plan_sweep, require_same_plan, write_plan
from orchestrator.record import Outcome
from orchestrator.recorded import RUNS, Recorded, read_recorded, standing
from orchestrator.results_lock import locked, require_free
from orchestrator.retries import is_disturbed
from orchestrator.rigs import guest, namespaces
from orchestrator.supervisor import (
    Event,
    Launcher,
    LocalWorkers,
    VirtualWorkers,
    WorkerFailed,
    supervise,
    uncertified,
)
from orchestrator.variants import base_name
from orchestrator.whole_file import DISK_IS_FULL

Observe = Callable[[Event], None]


@dataclass(frozen=True)
class Performed:
    """What a start of a sweep came to."""

    results: Path
    summary: str
    interrupted: bool
    recorded: int
    """Runs that have a record now."""
    is_complete: bool = True
    """Whether every run has a record, and none blames the rig."""
    interrupted_again: bool = False
    """Whoever interrupted it did so a second time, before all workers had ended."""


def resolve(sweep_file: Path) -> Plan:
    """The plan of a sweep file. Raises ProfileError for what cannot be used as written, with every mistake in it."""
    document = load_keys(sweep_file)
    try:
        sweep = sweep_of(document)
    except SweepMistake as problem:
        names = [*not_found("implementation", document), *not_found("channel", document)]
        raise placed(sweep_file, [*str(problem).splitlines(), *names]) from None
    mistakes = []
    if sweep.rig == "local" and sweep.clock != "real":
        mistakes = [f"clock: got {sweep.clock!r}, wanted real, the only clock of the local rig; write 'clock: real'"]
    builds: dict[str, Implementation] = {}
    channels: dict[str, ChannelSpec] = {}
    try:
        builds = implementations_of(sweep)
    except SweepMistake as problem:
        mistakes += str(problem).splitlines()
    try:
        channels = channels_of(sweep)
    except SweepMistake as problem:
        mistakes += str(problem).splitlines()
    if mistakes:
        raise placed(sweep_file, mistakes)
    try:
        return plan_sweep(sweep, builds, channels)
    except SweepMistake as problem:
        raise placed(sweep_file, str(problem).splitlines()) from None
    except ProfileError as problem:
        raise ProfileError(f"{sweep_file}: {problem}") from None


def lacks_of(plan: Plan) -> list[str]:
    """What this machine lacks to perform a plan, each with the command that mends it; then `perform_plan` refuses."""
    builds = {base_name(name): build for name, build in plan.implementations.items()}
    lacks = [
        f"implementation {name!r} needs {lack.name} ({lack.detail}), which is not here: {lack.mend}"
        for name, build in builds.items()
        for lack in lacks_for(build)
    ]
    if plan.sweep.rig == "virtual" and kernel.find() is None:
        lacks.append(
            "the virtual rig needs a kernel to boot, and none is built: run 'owlt kernel build' (4 to 8 minutes, once)"
        )
    if plan.sweep.rig == "local" and os.geteuid() != 0:
        lacks.append(
            "the local rig makes network namespaces, which needs root: run owlt with sudo, or write 'rig: virtual'"
        )
    lacks += [
        f"the sweep needs {lack.name} for {lack.wanted_for} ({lack.detail}): {lack.mend}"
        for lack in lacks_of_rig(plan.sweep.rig)
    ]
    if plan.sweep.rig == "local" and (standing_rig := namespaces.leftovers()):
        lacks.append(
            f"a local rig already exists ({', '.join(standing_rig)}); if it is not in use, run: owlt rigs --clear"
        )
    return lacks


def require_ready(plan: Plan, results: Path) -> None:
    """Raise OwltError for all that `perform_plan` refuses; changes nothing."""
    require_same_plan(plan, results)
    require_free(results)
    if not _is_finished(plan, results) and (lacks := lacks_of(plan)):
        raise Missing("\n".join(lacks))


def _is_finished(plan: Plan, results: Path) -> bool:
    """Whether every run has a record that stands, and every channel its certificate."""
    is_recorded = {run.run_id for run in plan.runs} <= standing(_recorded(plan, results))
    return is_recorded and not uncertified(plan, results)


def perform_sweep(
    sweep_file: Path,
    results: Path | None,
    guests: int | None,
    observe: Callable[[Plan, set[str]], Observe],
    again: str = "the same command",
) -> Performed:
    """Perform a sweep file's runs that have no record yet, as `perform_plan` does."""
    plan = resolve(sweep_file)
    return perform_plan(plan, results or Path("results", plan.sweep.name), guests, observe, again)


def perform_plan(
    plan: Plan, directory: Path, guests: int | None, observe: Callable[[Plan, set[str]], Observe], again: str
) -> Performed:
    """Perform every run without a record that stands and analyse each as it comes; `again` is the command that resumes.

    `observe` is given the plan and the runs done before, and returns what is told every event, and at once of an
    interrupt. A plan without runs left needs nothing of this machine.
    Raises OwltError when something is missing or wrong before the first run; then nothing was changed.
    """
    require_ready(plan, directory)
    with _files_may_fail(directory, again), locked(directory) as left:
        if left:
            warn(f"{directory}: {left} did not release its lock; if it is still running, interrupt it or this command")
        write_plan(plan, directory)
        recorded = _recorded(plan, directory)
        for warning in recorded.warnings:
            warn(warning)
        told = observe(plan, standing(recorded))
        analyse = partial(
            analyse_or_mark,
            keep=plan.sweep.keep_captures,
            dissectors={name: build.dissector for name, build in plan.implementations.items()},
        )
        for run_id in recorded.records:
            if is_marked(directory / RUNS / run_id):
                analyse(directory / RUNS / run_id)
        if _is_finished(plan, directory):
            return _performed(plan, directory, again, 0)
        return _perform_missing(plan, directory, guests, told, analyse, again)


def _perform_missing(
    plan: Plan, directory: Path, guests: int | None, told: Observe, analyse: Callable[[Path], str], again: str
) -> Performed:
    cores = sorted(os.sched_getaffinity(0))
    cpus = cores[: guests or guests_side_by_side(plan.sweep.clock, len(cores))]
    launch = _launcher(plan, cpus)
    slots = len(cpus) if plan.sweep.rig == "virtual" else 1
    with _Interrupts(told) as interrupts:
        try:
            supervise(plan, directory, launch, slots, told, analyse)
        except KeyboardInterrupt:
            pass
        except WorkerFailed as problem:
            raise OwltError(f"{problem}\n{_performed(plan, directory, again, 0).summary}") from problem
    return _performed(plan, directory, again, interrupts.count)


@contextmanager
def _files_may_fail(directory: Path, again: str) -> Iterator[None]:
    """Raise OwltError, with what to do, where a file cannot be read or written."""
    try:
        yield
    except OSError as problem:
        is_full = problem.errno in DISK_IS_FULL
        wrong = f"{directory}: no space left on its file system" if is_full else f"{directory}: {problem}"
        fix = "free some space" if is_full else "fix the problem"
        raise OwltError(f"{wrong}; all recorded runs are kept; {fix}, then run '{again}' again") from problem


def warn(text: str) -> None:
    """Tell the user on standard error what does not stop the command."""
    print(f"owlt: warning: {text}", file=sys.stderr)


def make_report(results: Path) -> Path:
    """The report of a results directory, from its records and captures alone. Returns its page."""
    from reports.build import ReportError, build_report

    refuse_missing(results, "directory", "a results directory that 'owlt run' made, such as results/demo")
    if not (results / "runs").is_dir():
        raise OwltError(f"{results}: is not a results directory (it has no runs/); wanted one that 'owlt run' made")
    with _files_may_fail(results, f"owlt report {shlex.quote(str(results))}"):
        for problem in analyse_runs(results):
            warn(problem)
        try:
            return build_report(results, warn)
        except ReportError as problem:
            raise OwltError(str(problem)) from problem


def _launcher(plan: Plan, cpus: list[int]) -> Launcher:
    if plan.sweep.rig == "local":
        return LocalWorkers(plan, _running_kernel_hz())
    found = kernel.find()
    assert found is not None, "lacks_of looked"
    guest.compile_ahead()
    return VirtualWorkers(plan, found, cpus)


def _running_kernel_hz() -> int | None:
    """The timer frequency of the running kernel, where its configuration is installed."""
    config = Path("/boot", f"config-{os.uname().release}")
    told = re.search(r"^CONFIG_HZ=(\d+)", config.read_text(), re.MULTILINE) if config.exists() else None
    return int(told[1]) if told else None


class _Interrupts:
    """Ctrl-C and SIGTERM: the first ends the workers, what is published stays; another is only heard and counted."""

    def __init__(self, told: Observe) -> None:
        self.count = 0
        self._told = told
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            self._before = {number: signal.signal(number, self._hear) for number in (signal.SIGINT, signal.SIGTERM)}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _hear(self, _number: int, _frame: types.FrameType | None) -> None:
        self.count += 1
        self._told(Event(time.time(), -1, "interrupted", {"times": self.count}))
        if self.count == 1:
            raise KeyboardInterrupt


def _recorded(plan: Plan, results: Path) -> Recorded:
    return read_recorded(results, {run.run_id for run in plan.runs})


def _performed(plan: Plan, results: Path, again: str, interrupts: int) -> Performed:
    records = _recorded(plan, results).records
    outcomes = Counter(str(record.outcome) for record in records.values())
    counted = ", ".join(f"{count} {outcome}" for outcome, count in outcomes.most_common())
    aborted, missing = outcomes[Outcome.ABORTED], len(plan.runs) - len(records)
    not_analysed = sum(is_marked(results / RUNS / run_id) for run_id in records)
    to_do = [f"{missing} not recorded yet"] if missing else []
    to_do += [f"{aborted} aborted by a fault of the rig, to be repeated"] if aborted else []
    to_do += [f"{not_analysed} not analysed (see {FAILURE_NAME} in their directories)"] if not_analysed else []
    disturbed = sum(map(is_disturbed, records.values()))
    counted += f"; {disturbed} suspect because the machine was busy" if disturbed else ""
    more = f"; {', '.join(to_do)}: run '{again}' again" if to_do else ""
    summary = f"{len(records)} of {len(plan.runs)} runs recorded in {results}: {counted or 'none'}{more}"
    return Performed(results, summary, interrupts > 0, len(records), not to_do, interrupts > 1)
