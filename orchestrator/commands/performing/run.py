"""`owlt run`: perform a sweep, or what is missing of it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from owlt.inputs.mistake import Mistake
from owlt.orchestrator.commands.cluster.options import Dask, Tls, WithoutAuthentication
from owlt.orchestrator.commands.performing.perform import OnEnd, as_typed, machine_of, perform_and_conclude
from owlt.orchestrator.commands.performing.selecting import Only, ShardOption, results_of, selection_of
from owlt.orchestrator.commands.performing.stopping import For, Until, stop_time
from owlt.orchestrator.errors import OwltError
from owlt.orchestrator.terminal.options import Guests, Json, LabRigOption, Results, Sweep
from owlt.orchestrator.terminal.output import Printer

if TYPE_CHECKING:
    from owlt.orchestrator.commands.performing.host_baselines import HostBaselines
    from owlt.orchestrator.planning.plan import Plan
    from owlt.orchestrator.sweep.machine import Machine


def run(
    sweep: Sweep,
    results: Results = None,
    guests: Guests = None,
    report: Annotated[bool, typer.Option(help="Make the report at the end.")] = True,
    only: Only = None,
    shard: ShardOption = None,
    on_end: OnEnd = "",
    until: Until = None,
    duration: For = None,
    rig: LabRigOption = None,
    host_baseline: Annotated[
        str | None,
        typer.Option(
            metavar="SIZE", help='With --rig: transfer a file of SIZE ("100 MB") without a channel, before and after.'
        ),
    ] = None,
    host_captures: Annotated[
        bool,
        typer.Option(
            "--host-captures", help="With --rig: capture at sender and receiver too, and measure their clocks."
        ),
    ] = False,
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
    from owlt.orchestrator.profiles.catalogue import resolve, sweep_path

    if host_captures and rig is None:
        raise OwltError(Mistake.of("--host-captures", "got no lab rig", "--rig INVENTORY", "add it"))
    plan = resolve(sweep_path(sweep), in_lab=rig is not None, host_captures=host_captures)
    directory = results_of(plan, shard, results)
    selection = selection_of(plan, only or [], shard)
    again = as_typed(
        sweep,
        results,
        guests,
        report,
        only or [],
        shard,
        rig,
        dask,
        tls,
        without_authentication,
        host_baseline,
        host_captures,
    )
    stop = stop_time(until, duration)
    machine = machine_of(rig, dask, tls, without_authentication, guests)
    around = _host_baselines(plan, directory, machine, host_baseline, rig)
    printer = Printer(as_json)
    perform_and_conclude(plan, directory, guests, report, on_end, printer, again, stop, selection, machine, around)


def _host_baselines(
    plan: Plan, results: Path, machine: Machine, size: str | None, rig: str | None
) -> HostBaselines | None:
    """The host baselines of --host-baseline; None without the option."""
    from owlt.inputs.mistake import Invalid, keys_below
    from owlt.inputs.quantities import parse_size_bytes
    from owlt.orchestrator.commands.performing.host_baselines import HostBaselines

    if size is None:
        return None
    if rig is None:
        raise OwltError(Mistake.of("--host-baseline", "got no lab rig", "--rig INVENTORY", "add it"))
    try:
        with keys_below("--host-baseline"):
            return HostBaselines(plan, results, machine, parse_size_bytes(size))
    except Invalid as problem:
        raise OwltError(*problem.mistakes) from problem
