"""`owlt extend`: add repetitions to the sweep of a results directory, and perform them."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from owlt.inputs.mistake import Mistake
from owlt.orchestrator.commands.cluster.options import Dask, Tls, WithoutAuthentication
from owlt.orchestrator.commands.performing.perform import (
    OnEnd,
    machine_of,
    perform_and_conclude,
    performing_options,
    plan_of,
)
from owlt.orchestrator.commands.performing.stopping import For, Until, stop_time
from owlt.orchestrator.errors import OwltError
from owlt.orchestrator.terminal.options import Guests, Json, LabRigOption
from owlt.orchestrator.terminal.output import Printer

MORE = 5


def extend(
    results: Annotated[Path, typer.Argument(metavar="RESULTS", help="A results directory, such as results/demo.")],
    by: Annotated[
        int | None, typer.Option(metavar="COUNT", min=1, help=f"Number of repetitions to add; default: {MORE}.")
    ] = None,
    to: Annotated[
        int | None, typer.Option(metavar="COUNT", min=1, help="The number of repetitions that the sweep then has.")
    ] = None,
    guests: Guests = None,
    report: Annotated[bool, typer.Option(help="Make the report at the end.")] = True,
    on_end: OnEnd = "",
    until: Until = None,
    duration: For = None,
    rig: LabRigOption = None,
    dask: Dask = None,
    tls: Tls = None,
    without_authentication: WithoutAuthentication = False,
    as_json: Json = False,
) -> None:
    """Add repetitions to a sweep, and perform what is missing.

    Recorded runs stay as they are; the new ones are those that the sweep file with this number of repetitions would
    have. The exit status is that of 'owlt run'.
    """
    from owlt.orchestrator.planning.plan import with_repetitions
    from owlt.orchestrator.results.recorded_runs import results_root

    if by is not None and to is not None:
        raise OwltError(Mistake.of("extend", "got both --by and --to", "one of them"))
    stop = stop_time(until, duration)
    machine = machine_of(rig, dask, tls, without_authentication, guests)
    results = results_root(results)
    plan = plan_of(results)
    extended = with_repetitions(plan, to or plan.sweep.most_repetitions + (by or MORE))
    printer = Printer(as_json)
    number = extended.sweep.most_repetitions
    advice = f"before 'owlt run', write 'repetitions: {number}' in the sweep file too"
    note = f"{results}: {number} repetitions; {advice}"
    again = as_typed(results, number, performing_options(guests, report, rig, dask, tls, without_authentication))
    perform_and_conclude(extended, results, guests, report, on_end, printer, again, stop, None, machine, None, note)


def as_typed(results: Path, number: int, options: Sequence[str] = ()) -> str:
    """The command that resumes: the same with the number of repetitions, so that it adds no more."""
    return shlex.join(["owlt", "extend", str(results), "--to", str(number), *options])
