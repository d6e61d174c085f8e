"""One sweep from its file to its report: resolve, check what is needed, perform, analyse, conclude."""

from __future__ import annotations

import os
import re
import signal
import sys
import threading
import time
import types
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from orchestrator import kernel
from orchestrator.analysis import analyse_run, analyse_runs
from orchestrator.catalogue import implementations_of
from orchestrator.channels import channels_of
from orchestrator.doctor import lacks_for
from orchestrator.errors import Missing, OwltError, ProfileError, SweepMistake
from orchestrator.load import load_sweep, placed
from orchestrator.plan import Plan, plan_sweep, write_plan
from orchestrator.record import Outcome
from orchestrator.recorded import Recorded, read_recorded, standing
from orchestrator.rigs import guest, namespaces
from orchestrator.supervisor import (
    Event,
    Launcher,
    LocalWorkers,
    VirtualWorkers,
    WorkerFailed,
    supervise,
)
from orchestrator.variants import base_name

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
    """The plan of a sweep file. Raises ProfileError for what cannot be used as written."""
    sweep = load_sweep(sweep_file)
    if sweep.rig == "local" and sweep.clock != "real":
        mistake = f"clock: got {sweep.clock!r}, wanted real, the only clock of the local rig; write 'clock: real'"
        raise placed(sweep_file, [mistake])
    try:
        builds, channels = implementations_of(sweep), channels_of(sweep)
    except SweepMistake as problem:
        raise placed(sweep_file, str(problem).splitlines()) from None
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
    return lacks


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
    done = standing(_recorded(plan, directory))
    if {run.run_id for run in plan.runs} <= done:
        write_plan(plan, directory)
        observe(plan, done)
        return _performed(plan, directory, again, 0)
    if lacks := lacks_of(plan):
        raise Missing("\n".join(lacks))
    cpus = sorted(os.sched_getaffinity(0))[: guests or None]
    launch = _launcher(plan, cpus)
    slots = len(cpus) if plan.sweep.rig == "virtual" else 1
    write_plan(plan, directory)
    told = observe(plan, done)
    dissectors = {name: build.dissector for name, build in plan.implementations.items()}
    with _Interrupts(told) as interrupts:
        try:
            supervise(
                plan,
                directory,
                launch,
                slots,
                told,
                lambda run_directory: analyse_run(run_directory, plan.sweep.keep_captures, dissectors),
            )
        except KeyboardInterrupt:
            pass
        except WorkerFailed as problem:
            raise OwltError(f"{problem}\n{_performed(plan, directory, again, 0).summary}") from problem
    return _performed(plan, directory, again, interrupts.count)


def make_report(results: Path) -> Path:
    """The report of a results directory, from its records and captures alone. Returns its page."""
    from reports.build import ReportError, build_report

    if not (results / "runs").is_dir():
        raise OwltError(f"{results}: is not a results directory (it has no runs/); wanted one that 'owlt run' made")
    for problem in analyse_runs(results):
        print(f"owlt: {problem}", file=sys.stderr)
    try:
        return build_report(results)
    except ReportError as problem:
        raise OwltError(str(problem)) from problem


def _launcher(plan: Plan, cpus: list[int]) -> Launcher:
    if plan.sweep.rig == "local":
        if standing := namespaces.leftovers():
            raise Missing(f"a local rig stands already ({', '.join(standing)}); if nobody uses it: owlt rigs --clear")
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
    to_do = [f"{missing} still to do"] if missing else []
    to_do += [f"{aborted} aborted by a fault of the rig, to be tried again"] if aborted else []
    more = f"; {', '.join(to_do)}: run '{again}' again" if to_do else ""
    summary = f"{len(records)} of {len(plan.runs)} runs recorded in {results}: {counted or 'none'}{more}"
    return Performed(results, summary, interrupts > 0, len(records), not to_do, interrupts > 1)
