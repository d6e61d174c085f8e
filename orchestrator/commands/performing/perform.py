"""What commands that perform runs have in common: their machine, the command that resumes, how they begin and end."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from owlt.inputs.mistake import Mistake, Place
from owlt.orchestrator.commands.cluster.options import cluster_of
from owlt.orchestrator.commands.performing.concluding import conclude, exit_status
from owlt.orchestrator.errors import OwltError
from owlt.orchestrator.terminal.ending import INTERRUPTED_STATUS, outlasting_readers
from owlt.orchestrator.terminal.output import Printer

if TYPE_CHECKING:
    from owlt.orchestrator.commands.performing.host_baselines import HostBaselines
    from owlt.orchestrator.planning.plan import Plan
    from owlt.orchestrator.planning.selection import Selection
    from owlt.orchestrator.status.announcing import Ending
    from owlt.orchestrator.sweep.machine import Machine
    from owlt.orchestrator.sweep.scheduling import StopTime
    from owlt.orchestrator.workers.events import Observe


OnEnd = Annotated[
    str,
    typer.Option(
        metavar="COMMAND",
        help="Shell command for the end, with OWLT_... variables and JSON (docs/sweeps.md); default: OWLT_ON_END.",
    ),
]


def machine_of(
    rig: str | None,
    dask: str | None = None,
    tls: Path | None = None,
    without_authentication: bool = False,
    guests: int | None = None,
) -> Machine:
    """What performs runs: the machines of --dask, the lab rig of --rig, or this machine.

    Raises OwltError for options that do not go together.
    """
    from owlt.orchestrator.profiles.inventory import lab_rig
    from owlt.orchestrator.sweep.machine import THIS_MACHINE, LabMachine

    if cluster := cluster_of(dask, tls, without_authentication, guests, rig):
        return cluster
    return THIS_MACHINE if rig is None else LabMachine(*lab_rig(rig))


def plan_of(results: Path) -> Plan:
    """The plan of a results directory. Raises OwltError if it is none."""
    from owlt.orchestrator.planning.plan import read_plan

    try:
        return read_plan(results)
    except FileNotFoundError:
        expected = "one that 'owlt run' made, such as results/demo"
        raise OwltError(Mistake("is not a results directory", expected, where=Place(str(results)))) from None


@outlasting_readers()
def perform_and_conclude(
    plan: Plan,
    directory: Path,
    guests: int | None,
    report: bool,
    on_end: str,
    printer: Printer,
    again: str,
    stop: StopTime | None = None,
    selection: Selection | None = None,
    machine: Machine | None = None,
    baselines: HostBaselines | None = None,
    note: str = "",
) -> None:
    """Perform what is missing of a plan, or a selection, conclude, and announce how it ended, also after an error.

    Host baselines are performed before and after, if a run is missing. `note` is printed when the sweep has
    passed all checks.
    """
    from owlt.orchestrator.status.announcing import Ending, counts_of
    from owlt.orchestrator.status.metrics import MetricsFile
    from owlt.orchestrator.sweep.campaign import is_finished, perform_until, require_ready
    from owlt.orchestrator.terminal.progress import SweepProgress

    metrics = MetricsFile(directory)

    def begin(planned: Plan, done: set[str]) -> Observe:
        metrics.start()
        if note:
            printer.note(note)
        return progress(planned, done)

    def perform_baselines(moment: str) -> bool:
        """Whether they were not interrupted."""
        assert baselines is not None
        with SweepProgress(printer.console, again, False) as shown:
            done = baselines.perform(moment, shown, again)
        for each in done:
            printer.note(f"host baseline {moment}: {each.summary}")
        return not any(each.interrupted for each in done)

    summary, page, status = "", None, 1
    try:
        with_baselines = baselines is not None and not is_finished(plan, directory, selection)
        if with_baselines:
            require_ready(plan, directory, machine or machine_of(None), selection)
            if not perform_baselines("before"):
                raise typer.Exit(INTERRUPTED_STATUS)
        with SweepProgress(printer.console, again, report) as progress:
            performed = perform_until(
                plan, directory, guests, begin, again, stop, selection, machine or machine_of(None)
            )
        summary, status = performed.summary, exit_status(performed)
        if with_baselines and not performed.interrupted:
            perform_baselines("after")
        page, checked = conclude(performed, printer, report, bool(plan.sweep.assertions))
        status = exit_status(performed, checked.failed)
    except typer.Exit as end:
        status = end.exit_code
        raise
    except OwltError as problem:
        summary, status = str(problem), 2
        raise
    finally:
        metrics.close(status)
        announce(Ending(directory, plan.sweep.name, status, summary, page, counts_of(directory)), on_end)
    raise typer.Exit(status)


def announce(ending: Ending, on_end: str) -> None:
    """Run the user's command for the end of a sweep, if there is one; its failure is a warning."""
    from owlt.orchestrator.status.announcing import HOOK_VARIABLE, run_hook

    command = on_end or os.environ.get(HOOK_VARIABLE, "")
    if command and (problem := run_hook(command, ending)):
        print(f"owlt: warning: the command for the end ({command}): {problem}", file=sys.stderr)


def as_typed(
    sweep: str,
    results: Path | None,
    guests: int | None,
    report: bool,
    only: Sequence[str] = (),
    shard: str | None = None,
    rig: str | None = None,
    dask: str | None = None,
    tls: Path | None = None,
    without_authentication: bool = False,
    host_baseline: str | None = None,
    host_captures: bool = False,
) -> str:
    """The command that resumes the sweep: the same, with its options."""
    options = ["--results", str(results)] if results else []
    options += [word for name in only for word in ("--only", name)]
    options += ["--shard", shard] if shard else []
    options += performing_options(guests, report, rig, dask, tls, without_authentication)
    options += ["--host-baseline", host_baseline] if host_baseline else []
    options += ["--host-captures"] if host_captures else []
    return shlex.join(["owlt", "run", sweep, *options])


def performing_options(
    guests: int | None,
    report: bool,
    rig: str | None,
    dask: str | None = None,
    tls: Path | None = None,
    without_authentication: bool = False,
) -> list[str]:
    """The options that all commands that perform runs have in common, as words of a command."""
    options = ["--guests", str(guests)] if guests else []
    options += [] if report else ["--no-report"]
    options += ["--rig", rig] if rig else []
    options += ["--dask", dask] if dask else []
    options += ["--tls", str(tls)] if tls else []
    options += ["--without-authentication"] if without_authentication else []
    return options
