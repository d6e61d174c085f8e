"""`owlt run`, `owlt plan` and `owlt report`: perform a sweep, show what it would run, make its report again."""

from __future__ import annotations

import os
import shlex
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from agents.inputs.mistake import Mistake
from orchestrator.commands.cluster.options import Dask, Tls, WithoutAuthentication, cluster_of
from orchestrator.errors import OwltError
from orchestrator.terminal.options import Guests, Json, LabRigOption, Results, Sweep
from orchestrator.terminal.output import Printer

if TYPE_CHECKING:
    from orchestrator.commands.host_baselines import HostBaselines
    from orchestrator.forecast.forecast import Forecast
    from orchestrator.planning.plan import Plan, PlanChange
    from orchestrator.planning.selection import Selection
    from orchestrator.shards.combining import Source
    from orchestrator.status.announcing import Ending
    from orchestrator.sweeping.campaign import Performed
    from orchestrator.sweeping.machine import Machine
    from orchestrator.sweeping.report import CheckedAssertions
    from orchestrator.sweeping.stop_time import StopTime
    from orchestrator.workers.events import Observe

SOME_FAILED_STATUS = 3
"""Every run is recorded, and some did not complete."""
ASSERTION_STATUS = 4
"""Every run is recorded, and an assertion of the sweep is not met."""
MOST_PRINTED = 20
"""Checks of assertions that are printed; the report has all."""
OnEnd = Annotated[
    str,
    typer.Option(
        metavar="COMMAND",
        help="Shell command for the end, with OWLT_... variables and JSON (docs/sweeps.md); default: OWLT_ON_END.",
    ),
]


def run(
    sweep: Sweep,
    results: Results = None,
    guests: Guests = None,
    report: Annotated[bool, typer.Option(help="Make the report at the end.")] = True,
    only: Annotated[
        list[str] | None,
        typer.Option(metavar="CELL|RUN", help="Only this run, or the runs of a cell such as delay=25ms; repeatable."),
    ] = None,
    shard: Annotated[
        str | None,
        typer.Option(metavar="I/N", help="Only the I-th of N shards; 'owlt merge' puts the results together."),
    ] = None,
    on_end: OnEnd = "",
    until: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Start no run that would end after this wall-clock time, such as 07:00."),
    ] = None,
    duration: Annotated[
        str | None, typer.Option("--for", metavar="DURATION", help='The same after a duration, such as 8h or "90 min".')
    ] = None,
    rig: LabRigOption = None,
    host_baseline: Annotated[
        str | None,
        typer.Option(
            metavar="SIZE", help='With --rig: transfer a file of SIZE ("100 MB") without a channel, before and after.'
        ),
    ] = None,
    dask: Dask = None,
    tls: Tls = None,
    without_authentication: WithoutAuthentication = False,
    as_json: Json = False,
) -> None:
    """Perform the runs of a sweep and make the report.

    Only runs without a record are performed: on an existing results directory, a sweep resumes where it stopped and
    repeats runs that were aborted by a fault of the rig.

    Exit status: 0 if every run is recorded, analysed and completed (or is unsupported); 3 if every run is recorded and
    some did not complete; 4 if every run is recorded and an assertion of the sweep is not met; 1 if runs are aborted,
    missing or not analysed; 2 for a mistake or a missing program; 130 after an interrupt.
    """
    from orchestrator.planning.selection import Selection, runs_named
    from orchestrator.profiles.catalogue import sweep_path
    from orchestrator.shards.shard import parse_shard
    from orchestrator.sweeping.resolving import resolve

    plan = resolve(sweep_path(sweep), in_lab=rig is not None)
    part = parse_shard(shard) if shard else None
    directory = results or Path("results", f"{plan.sweep.name}-{part.text}" if part else plan.sweep.name)
    selected = {each.run_id for each in runs_named(plan, only)} if only else {each.run_id for each in plan.runs}
    if part:
        selected &= {each.run_id for each in part.runs(plan)}
    selection = Selection(frozenset(selected)) if only or part else None
    again = as_typed(
        sweep, results, guests, report, only or [], shard, rig, dask, tls, without_authentication, host_baseline
    )
    stop = _stop_time(until, duration)
    machine = machine_of(rig, dask, tls, without_authentication, guests)
    around = _host_baselines(plan, directory, machine, host_baseline, rig)
    printer = Printer(as_json)
    perform_and_conclude(plan, directory, guests, report, on_end, printer, again, stop, selection, machine, around)


def _host_baselines(
    plan: Plan, results: Path, machine: Machine, size: str | None, rig: str | None
) -> HostBaselines | None:
    """The host baselines of --host-baseline; None without the option."""
    from agents.inputs.mistake import Invalid, keys_below
    from emulator.channel.quantities import parse_size_bytes
    from orchestrator.commands.host_baselines import HostBaselines

    if size is None:
        return None
    if rig is None:
        raise OwltError(Mistake.of("--host-baseline", "got no lab rig", "--rig INVENTORY", "add it"))
    try:
        with keys_below("--host-baseline"):
            return HostBaselines(plan, results, machine, parse_size_bytes(size))
    except Invalid as problem:
        raise OwltError(*problem.mistakes) from problem


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
    from orchestrator.profiles.inventory import lab_rig
    from orchestrator.sweeping.machine import THIS_MACHINE, LabMachine

    if cluster := cluster_of(dask, tls, without_authentication, guests, rig):
        return cluster
    return THIS_MACHINE if rig is None else LabMachine(*lab_rig(rig))


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
) -> None:
    """Perform what is missing of a plan, or a selection, conclude, and announce how it ended, also after an error.

    Host baselines are performed before and after, if a run is missing.
    """
    from orchestrator.status.announcing import Ending, counts_of
    from orchestrator.status.metrics import MetricsFile
    from orchestrator.sweeping.campaign import is_finished, perform_until, require_ready
    from orchestrator.terminal.progress import SweepProgress

    metrics = MetricsFile(directory)

    def begin(planned: Plan, done: set[str]) -> Observe:
        metrics.start()
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
                raise typer.Exit(130)
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


def _stop_time(until: str | None, duration: str | None) -> StopTime | None:
    """The time of --until, by the machine's clock, or of --for, by one that is never set; None if neither is given."""
    from datetime import datetime

    from agents.inputs.mistake import Invalid, Mistake, keys_below
    from emulator.channel.quantities import parse_delay_ns
    from orchestrator.steady_clock import steady_s
    from orchestrator.sweeping.stop_time import StopTime, parse_until

    if until and duration:
        raise OwltError(Mistake.of("--for", "got both --until and --for", "one of them"))
    try:
        if until:
            with keys_below("--until"):
                return StopTime(parse_until(until, datetime.now().astimezone()).timestamp(), time.time)
        if duration:
            with keys_below("--for"):
                return StopTime(steady_s() + parse_delay_ns(duration) / 1e9, steady_s)
    except Invalid as problem:
        raise OwltError(*problem.mistakes) from problem
    return None


def exit_status(performed: Performed, checks_failed: int = 0) -> int:
    """The exit status of a start of a sweep, and of so many checks of its assertions that are not met."""
    if performed.interrupted:
        return 130
    if not performed.is_complete:
        return 1
    if checks_failed:
        return ASSERTION_STATUS
    return SOME_FAILED_STATUS if performed.failed else 0


def announce(ending: Ending, on_end: str) -> None:
    """Run the user's command for the end of a sweep, if there is one; its failure is a warning."""
    from orchestrator.status.announcing import HOOK_VARIABLE, run_hook

    command = on_end or os.environ.get(HOOK_VARIABLE, "")
    if command and (problem := run_hook(command, ending)):
        print(f"owlt: warning: the command for the end ({command}): {problem}", file=sys.stderr)


def conclude(
    performed: Performed, printer: Printer, report: bool, asserts: bool = False
) -> tuple[Path | None, CheckedAssertions]:
    """Print what a start of a sweep has done, make its report, and check the assertions of a sweep that `asserts`
    something. Returns the page of the report and what the check found."""
    from orchestrator.sweeping.report import CheckedAssertions, check_assertions

    if performed.change:
        printer.note(f"{performed.results}: the sweep has changed: {performed.change.text}")
    if performed.stopped:
        printer.note(performed.stopped)
    printer.note(performed.summary)
    page: Path | None = None
    checked = CheckedAssertions()
    try:
        page = report_of(performed, printer) if report and performed.recorded else None
        if asserts and performed.recorded and not performed.interrupted:
            checked = check_assertions(performed.results)
    finally:
        printer.json(_as_json(performed, page, checked))
    _print_assertions(checked, printer)
    return page, checked


def _print_assertions(checked: CheckedAssertions, printer: Printer) -> None:
    """The checks that are not met, and the number of all."""
    for line in checked.open_checks[:MOST_PRINTED]:
        printer.text(f"assertion {line}")
    if checked.checks:
        rest = len(checked.open_checks) - MOST_PRINTED
        more = f" ({rest} more are in the report)" if rest > 0 else ""
        printer.text(
            f"assertions: {checked.checks - len(checked.open_checks)} of {checked.checks} checks are met{more}"
        )


def plan(sweep: Sweep, results: Results = None, guests: Guests = None, as_json: Json = False) -> None:
    """Show what a sweep needs: cells, runs, time, disk, memory.

    A cell is a permutation of the sweep. Existing results are taken into account. Cells whose runs cannot complete are
    listed with the reason; 'owlt run' records these runs as unsupported. If 'owlt run' would refuse the sweep, the same
    message follows the plan, and the exit status is 2.
    """
    from orchestrator.forecast.forecast import forecast, texts
    from orchestrator.profiles.catalogue import sweep_path
    from orchestrator.sweeping.campaign import planned_change, require_ready, standing_runs
    from orchestrator.sweeping.resolving import resolve

    printer = Printer(as_json)
    planned = resolve(sweep_path(sweep))
    directory = results or Path("results", planned.sweep.name)
    expected = forecast(planned, standing_runs(planned, directory), directory, guests)
    adaptive = planned.sweep.adaptive
    bounds = f"{adaptive.at_least} to {adaptive.at_most}" if adaptive else ""
    printer.table(
        ("cell", "runs", "recorded", *(["repetitions"] if adaptive else []), "time limit", "infeasible"),
        (
            (
                *(each.name, bounds or str(each.runs), str(each.recorded), *([each.repetitions] if adaptive else [])),
                *(f"{each.time_limit_s:.0f} s", each.infeasible),
            )
            for each in expected.cells
        ),
    )
    for line in texts(expected, directory):
        printer.text(line)
    change = planned_change(planned, directory)
    if change:
        printer.text(f"{directory}: the sweep has changed: {change.text}")
    printer.json(plan_values(planned, expected, change))
    require_ready(planned, directory)


def plan_values(planned: Plan, expected: Forecast, change: PlanChange | None) -> dict[str, Any]:
    """The JSON output of `owlt plan`."""
    runs = [
        {
            "order": each.order,
            "run_id": each.run_id,
            "deadline_s": each.deadline_s(planned.implementations[each.permutation.implementation]),
            "batch": batch.index,
        }
        for batch in planned.batches
        for each in batch.runs
    ]
    return {
        "sweep": planned.sweep.name,
        "cells": expected.cells,
        "recorded": expected.recorded,
        "left": expected.left,
        "least_left": expected.least_left,
        "repetitions": expected.rule,
        "runs": runs,
        "estimate": expected.estimate,
        "times": expected.times,
        "resources": expected.resources,
        "change": change and change.model_dump(mode="json", include={"added", "removed", "changes"}),
    }


def report(
    results: Annotated[
        list[Path], typer.Argument(metavar="RESULTS...", help="Results directories, such as results/demo.")
    ],
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Of several: the directory that combines them; default: A+B."),
    ] = None,
    pdf: Annotated[bool, typer.Option("--pdf", help="Draw every figure as PDF too; this takes twice as long.")] = False,
    as_json: Json = False,
) -> None:
    """Rebuild a report, or make one of several directories.

    The report is made from the records and captures alone; no run is repeated, and figures that did
    not change are kept. Runs of the same cell in several directories are pooled if profile, versions, rig, channel and
    advertised values are the same; otherwise an implementation is shown apart, with the name of its directory, and the
    report says why.

    Exit status: 4 if an assertion of the sweep is not met.
    """
    from orchestrator.sweeping.report import check_assertions

    printer = Printer(as_json)
    sources: list[Source] = []
    directory = results[0]
    if len(results) > 1:
        directory, sources = _combined(results, out)
        for line in combined_texts(sources):
            printer.note(line)
    elif out is not None:
        raise OwltError(Mistake.of("--out", "got one results directory", "two or more", "leave --out out"))
    page = _make_report(directory, pdf)
    printer.text(f"report: {page}")
    checked = check_assertions(directory)
    _print_assertions(checked, printer)
    printer.json({"report": page, "sources": sources, "assertions": checked.values})
    raise typer.Exit(ASSERTION_STATUS if checked.failed else 0)


def _combined(results: list[Path], out: Path | None) -> tuple[Path, list[Source]]:
    """The combined directory, and what became of each."""
    from orchestrator.profiles.kinds import refuse_missing
    from orchestrator.shards.combining import combine

    for path in results:
        refuse_missing(path, "directory", "a results directory that 'owlt run' made, such as results/demo")
    directory = out or results[0].parent / "+".join(dict.fromkeys(path.resolve().name for path in results))
    return directory, combine(results, directory)


def combined_texts(sources: list[Source]) -> Iterator[str]:
    """What was pooled, and what was not, in words."""
    for source in sources:
        more = f", {source.duplicates} as in an earlier directory" if source.duplicates else ""
        yield f"{source.directory}: {source.runs} runs{more}"
        for name, reasons in source.apart.items():
            yield f"{source.directory}: {name} is shown apart: {'; '.join(reasons)}"


def _as_json(performed: Performed, page: Path | None, checked: CheckedAssertions) -> dict[str, Any]:
    return {
        "results": performed.results,
        "recorded": performed.recorded,
        "complete": performed.is_complete,
        "failed": performed.failed,
        "summary": performed.summary,
        "interrupted": performed.interrupted,
        "report": page,
        "assertions": checked.values,
    }


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
) -> str:
    """The command that resumes the sweep: the same, with its options."""
    options = ["--results", str(results)] if results else []
    options += [word for name in only for word in ("--only", name)]
    options += ["--shard", shard] if shard else []
    options += performing_options(guests, report, rig, dask, tls, without_authentication)
    options += ["--host-baseline", host_baseline] if host_baseline else []
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


def report_of(performed: Performed, printer: Printer, make: Callable[[Path], Path] | None = None) -> Path | None:
    """The report of a sweep, by default as `make_report` makes it. An interrupt skips it, as a second interrupt before
    it does."""
    try:
        if not performed.interrupted_again:
            page = (make or _make_report)(performed.results)
            printer.note(f"report: {page}")
            return page
    except KeyboardInterrupt:
        pass
    printer.note(f"the report was skipped; make it with: owlt report {shlex.quote(str(performed.results))}")
    raise typer.Exit(130)


def _make_report(results: Path, with_pdf: bool = False) -> Path:
    from orchestrator.sweeping.report import make_report

    return make_report(results, with_pdf)
