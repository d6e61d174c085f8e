"""One sweep from its file to its report: resolve, check what is needed, perform, analyse, conclude."""

from __future__ import annotations

import os
import re
import signal
import threading
import types
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from orchestrator import kernel
from orchestrator.analysis import analyse_run, analyse_runs
from orchestrator.catalogue import implementations_of
from orchestrator.channels import channels_of
from orchestrator.doctor import lacks_for
from orchestrator.errors import Missing, OwltError, ProfileError
from orchestrator.load import load_sweep
from orchestrator.plan import Plan, plan_sweep, write_plan
from orchestrator.record import read_record
from orchestrator.rigs import guest, namespaces
from orchestrator.supervisor import (
    Event,
    Launcher,
    LocalWorkers,
    VirtualWorkers,
    WorkerFailed,
    runs_done,
    supervise,
)

Observe = Callable[[Event], None]


@dataclass(frozen=True)
class Performed:
    """What a start of a sweep came to."""

    results: Path
    summary: str
    interrupted: bool


def resolve(sweep_file: Path) -> Plan:
    """The plan of a sweep file. Raises ProfileError for what cannot be used as written."""
    sweep = load_sweep(sweep_file)
    if sweep.rig == "local" and sweep.clock != "real":
        raise ProfileError(
            f"{sweep_file}: clock: got {sweep.clock!r}; the local rig has the real clock only: write 'clock: real'"
        )
    return plan_sweep(sweep, implementations_of(sweep), channels_of(sweep))


def perform_sweep(
    sweep_file: Path, results: Path | None, guests: int | None, observe: Callable[[Plan, set[str]], Observe]
) -> Performed:
    """Perform a sweep file's runs that have no record yet, as `perform_plan` does."""
    plan = resolve(sweep_file)
    again = f"owlt run {sweep_file}" + (f" --results {results}" if results else "")
    return perform_plan(plan, results or Path("results", plan.sweep.name), guests, observe, again)


def perform_plan(
    plan: Plan, directory: Path, guests: int | None, observe: Callable[[Plan, set[str]], Observe], again: str
) -> Performed:
    """Perform every run that has no record yet and analyse each as it comes; `again` is the command that goes on.

    `observe` is given the plan and the runs done before, and returns what is told every event.
    Raises OwltError when something is missing or wrong before the first run; then nothing was changed.
    """
    for build in plan.implementations.values():
        for lack in lacks_for(build):
            raise Missing(
                f"implementation {build.name!r} needs {lack.name} ({lack.detail}), which is not here: {lack.mend}"
            )
    cpus = sorted(os.sched_getaffinity(0))[: guests or None]
    launch = _launcher(plan, cpus)
    slots = len(cpus) if plan.sweep.rig == "virtual" else 1
    write_plan(plan, directory)
    interrupted = False
    try:
        with _termination_as_interrupt():
            supervise(
                plan,
                directory,
                launch,
                slots,
                observe(plan, runs_done(directory)),
                lambda run_directory: analyse_run(run_directory, plan.sweep.keep_captures),
            )
    except KeyboardInterrupt:
        interrupted = True
    except WorkerFailed as problem:
        raise OwltError(str(problem)) from problem
    return Performed(directory, _summary(plan, directory, again), interrupted)


def make_report(results: Path) -> Path:
    """The report of a results directory, from its records and captures alone. Returns its page."""
    from reports.build import ReportError, build_report

    if not (results / "runs").is_dir():
        raise OwltError(f"{results}: is not a results directory (it has no runs/); wanted one that 'owlt run' made")
    analyse_runs(results)
    try:
        return build_report(results)
    except ReportError as problem:
        raise OwltError(str(problem)) from problem


def _launcher(plan: Plan, cpus: list[int]) -> Launcher:
    if plan.sweep.rig == "local":
        if os.geteuid() != 0:
            raise Missing(
                "the local rig makes network namespaces, which needs root: run owlt with sudo, or write 'rig: virtual'"
            )
        if standing := namespaces.leftovers():
            raise Missing(f"a local rig stands already ({', '.join(standing)}); if nobody uses it: owlt rigs --clear")
        return LocalWorkers(plan, _running_kernel_hz())
    found = kernel.find()
    if found is None:
        raise Missing(
            "the virtual rig needs a kernel to boot, and none is built: run 'owlt kernel build' (4 to 8 minutes, once)"
        )
    guest.compile_ahead()
    return VirtualWorkers(plan, found, cpus)


def _running_kernel_hz() -> int | None:
    """The timer frequency of the running kernel, where its configuration is installed."""
    config = Path("/boot", f"config-{os.uname().release}")
    told = re.search(r"^CONFIG_HZ=(\d+)", config.read_text(), re.MULTILINE) if config.exists() else None
    return int(told[1]) if told else None


class _termination_as_interrupt:
    """SIGTERM ends a sweep as Ctrl-C does: the workers are ended, what is published stays."""

    def __enter__(self) -> None:
        def interrupt(_number: int, _frame: types.FrameType | None) -> None:
            raise KeyboardInterrupt

        self._in_main = threading.current_thread() is threading.main_thread()
        if self._in_main:
            self._before = signal.signal(signal.SIGTERM, interrupt)

    def __exit__(self, *_: object) -> None:
        if self._in_main:
            signal.signal(signal.SIGTERM, self._before)


def _summary(plan: Plan, results: Path, again: str) -> str:
    records = [read_record(path) for path in sorted((results / "runs").iterdir())]
    outcomes = Counter(str(record.outcome) for record in records)
    told = ", ".join(f"{count} {outcome}" for outcome, count in outcomes.most_common())
    missing = len(plan.runs) - len(records)
    more = f"; {missing} still to do: run '{again}' again" if missing else ""
    return f"{len(records)} of {len(plan.runs)} runs recorded in {results}: {told or 'none'}{more}"
