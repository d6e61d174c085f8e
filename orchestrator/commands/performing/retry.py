"""`owlt retry`: perform runs of a results directory again, for example those that failed."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

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

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from owlt.orchestrator.planning.plan import Plan, Run
    from owlt.orchestrator.results.record import Outcome, RunRecord

DEFAULT_OUTCOMES = "failed,timed_out,quarantined,aborted"


def retry(
    results: Annotated[Path, typer.Argument(metavar="RESULTS", help="A results directory, such as results/demo.")],
    outcome: Annotated[
        str, typer.Option(metavar="OUTCOME,...", help=f"Outcomes to perform again; default: {DEFAULT_OUTCOMES}.")
    ] = "",
    run: Annotated[
        list[str] | None, typer.Option(metavar="RUN", help="A run to perform again, any outcome; repeatable.")
    ] = None,
    cell: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=VALUE", help="Only runs with this value, such as delay=25ms; repeatable."),
    ] = None,
    new_seed: Annotated[bool, typer.Option("--new-seed", help="Give the runs other seeds.")] = False,
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
    """Perform runs again: those that failed, or any others.

    Their records and logs are kept in attempts/ of the results directory. The exit status is that of 'owlt run', for
    the selected runs.
    """
    from owlt.orchestrator.planning.selection import Selection, new_seeds
    from owlt.orchestrator.results.recorded_runs import read_recorded, results_root
    from owlt.orchestrator.sweep.publishing import reasons

    printer = Printer(as_json)
    stop = stop_time(until, duration)
    machine = machine_of(rig, dask, tls, without_authentication, guests)
    results = results_root(results)
    plan = plan_of(results)
    records = read_recorded(results, {each.run_id for each in plan.runs}).records
    left = {each.run_id for each in plan.runs if each.run_id not in records and reasons(results, each.run_id)}
    runs = select(plan, records, outcome, run or [], cell or [], left)
    if not runs:
        printer.note("nothing to do: no run that was performed matches")
        printer.json({"results": results, "runs": []})
        return
    note = "" if new_seed else "\n".join(warnings(plan, runs, records))
    seeds = new_seeds(runs, {each.run_id: len(reasons(results, each.run_id)) for each in runs}) if new_seed else {}
    selection = Selection(frozenset(each.run_id for each in runs), again=True, new_seeds=seeds)
    options = performing_options(guests, report, rig, dask, tls, without_authentication)
    again = as_typed(results, outcome, run or [], cell or [], new_seed, options)
    perform_and_conclude(plan, results, guests, report, on_end, printer, again, stop, selection, machine, None, note)


def as_typed(
    results: Path,
    outcome: str,
    runs: Sequence[str],
    cells: Sequence[str],
    new_seed: bool = False,
    options: Sequence[str] = (),
) -> str:
    """The command that resumes a retry: the same, with its options; `options` are those of how it is performed."""
    selected = ["--outcome", outcome] if outcome else []
    selected += [word for name in runs for word in ("--run", name)]
    selected += [word for each in cells for word in ("--cell", each)]
    selected += ["--new-seed"] if new_seed else []
    return shlex.join(["owlt", "retry", str(results), *selected, *options])


def select(
    plan: Plan,
    records: dict[str, RunRecord],
    outcome: str,
    names: Sequence[str],
    cells: Sequence[str],
    left: Collection[str] = (),
) -> list[Run]:
    """The recorded runs with the outcomes, or with the names, in the cells. Raises OwltError for an unknown word.

    `left` are runs without a record that an interrupted retry has set aside: they have any outcome.
    """
    from owlt.orchestrator.planning.selection import runs_in_cells, runs_named

    outcomes = _outcomes(outcome or ("" if names else DEFAULT_OUTCOMES))
    named = runs_named(plan, names, "--run") if names else plan.runs
    here = {run.run_id for run in runs_in_cells(plan, cells)}
    return [
        run
        for run in named
        if run.run_id in here
        and (
            run.run_id in left
            or ((record := records.get(run.run_id)) is not None and (not outcomes or record.outcome in outcomes))
        )
    ]


def _outcomes(text: str) -> set[Outcome]:
    from owlt.orchestrator.results.record import Outcome

    outcomes = set()
    for word in filter(None, text.split(",")):
        try:
            outcomes.add(Outcome(word.strip()))
        except ValueError:
            expected = f"one or more of {', '.join(Outcome)}"
            raise OwltError(Mistake.of("retry", f"--outcome: got {word!r}", expected)) from None
    return outcomes


def warnings(plan: Plan, runs: Sequence[Run], records: dict[str, RunRecord]) -> list[str]:
    """A sentence if some runs will fail again as they did: on the exact clock, their seed decides their packets."""
    from owlt.orchestrator.results.record import NOT_DELIVERED

    if plan.sweep.clock != "exact":
        return []
    same = [
        run
        for run in runs
        if (record := records.get(run.run_id)) is not None
        and record.outcome in NOT_DELIVERED
        and not plan.implementations[run.permutation.implementation].not_repeatable
        and record.seed == run.seed
    ]
    if not same:
        return []
    named = same[0].run_id if len(same) == 1 else f"{len(same)} runs ({same[0].run_id}, ...)"
    return [
        f"on the exact clock the same seed gives the same packets: expect the same result from {named}, unless the "
        "implementation has changed; --new-seed gives other seeds"
    ]
