"""`owlt run`, `extend` and `retry`, which perform runs of a sweep."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from owlt.inputs.mistake import Mistake, ResultsConflict, did_you_mean
from owlt.orchestrator.commands.output import Printer
from owlt.orchestrator.commands.performing import (
    Performing,
    Selected,
    as_typed,
    perform_and_conclude,
    plan_of,
    results_of,
)
from owlt.orchestrator.commands.usage import Json, Results, ResultsArgument, Sweep, parsed
from owlt.orchestrator.errors import OwltError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from owlt.orchestrator.planning.plan import Plan, Run
    from owlt.orchestrator.sweep.campaign import HostBaselines, Start
    from owlt.results.record import Outcome, RunRecord


def run(
    sweep: Sweep,
    results: Results = None,
    *,
    selected: Selected,
    performing: Performing,
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
    from owlt.orchestrator.sweep.campaign import Start

    rig = performing.rig
    if host_captures and rig is None:
        raise OwltError(Mistake.of("--host-captures", "needs a lab rig", fix="add --rig INVENTORY"))
    plan = resolve(sweep_path(sweep), in_lab=rig is not None, host_captures=host_captures)
    directory = results_of(plan, selected.shard, results)
    selection = selected.selection(plan)
    again = as_typed(sweep, results, performing.words, selected, host_baseline, host_captures)
    stop = performing.stop()
    start = Start(plan, directory, again, selection, performing.machine(), performing.guests)
    around = _host_baselines(start, host_baseline, rig)
    perform_and_conclude(start, performing, Printer(as_json), stop, around, "\n".join(_before(start, performing)))


TIME_OF_DASK = (
    "no forecast of time with --dask: owlt knows the pace of this machine only, and not how many workers will join; "
    "'owlt status' shows the time left once runs are recorded"
)


def _before(start: Start, performing: Performing) -> Iterator[str]:
    """The lines on what a start of a sweep takes, on this machine, and can decide; none if nothing is left."""
    from owlt.orchestrator.planning.repetitions import sensitivity, spread_of
    from owlt.orchestrator.sweep.campaign import standing_runs
    from owlt.orchestrator.sweep.forecast import forecast, pace_of, time_texts

    planned, directory, selection = start.plan, start.directory, start.selection
    with suppress(ResultsConflict):  # which this start is refused for
        run_ids = None if selection is None else selection.run_ids
        pace = pace_of(planned, directory)
        expected = forecast(planned, standing_runs(planned, directory), directory, start.guests, run_ids, pace=pace)
        if expected.left:
            time = expected.estimate if performing.report else replace(expected.estimate, report_s=0.0)
            yield from [TIME_OF_DASK] if performing.dask else time_texts(replace(expected, estimate=time))
            if decides := sensitivity(planned, spread_of(directory)):
                yield from decides.texts()


def _host_baselines(start: Start, size: str | None, rig: str | None) -> HostBaselines | None:
    """The host baselines of --host-baseline; None without the option."""
    from owlt.inputs.quantities import parse_size_bytes
    from owlt.orchestrator.sweep.campaign import HostBaselines

    if size is None:
        return None
    if rig is None:
        raise OwltError(Mistake.of("--host-baseline", "needs a lab rig", fix="add --rig INVENTORY"))
    return HostBaselines(start, parsed("--host-baseline", size, parse_size_bytes))


MORE = 5


def extend(
    results: ResultsArgument,
    by: Annotated[
        int | None, typer.Option(metavar="COUNT", min=1, help=f"Number of repetitions to add; default: {MORE}.")
    ] = None,
    to: Annotated[
        int | None, typer.Option(metavar="COUNT", min=1, help="Total number of repetitions of the sweep afterwards.")
    ] = None,
    *,
    selected: Selected,
    performing: Performing,
    as_json: Json = False,
) -> None:
    """Add repetitions to a sweep, and perform what is missing.

    Recorded runs stay as they are; the new ones are those that the sweep file with this number of repetitions would
    have. With --to and the present number, or at_most if they are adaptive, the sweep is resumed: --only and --shard
    select runs as in 'owlt run'. The exit status is that of 'owlt run'.
    """
    from owlt.orchestrator.planning.plan import with_repetitions
    from owlt.orchestrator.sweep.campaign import Start
    from owlt.results.recorded_runs import results_root

    if by is not None and to is not None:
        raise OwltError(Mistake.of("extend", "got both --by and --to", "one of them"))
    stop = performing.stop()
    machine = performing.machine()
    results = results_root(results)
    plan = plan_of(results)
    extended = with_repetitions(plan, to or plan.sweep.most_repetitions + (by or MORE))
    number = extended.sweep.most_repetitions
    advice = f"{results}: {number} repetitions; before 'owlt run', write 'repetitions: {number}' in the sweep file too"
    again = extend_again(results, number, [*selected.words, *performing.words])
    start = Start(extended, results, again, selected.selection(extended), machine, performing.guests)
    advised = [advice] if number > plan.sweep.most_repetitions else []
    note = "\n".join([*advised, *_before(start, performing)])
    perform_and_conclude(start, performing, Printer(as_json), stop, note=note)


def extend_again(results: Path, number: int, options: Sequence[str] = ()) -> str:
    """The command that resumes: this command with the number of repetitions, so that it adds no more."""
    return shlex.join(["owlt", "extend", str(results), "--to", str(number), *options])


DEFAULT_OUTCOMES = "failed,timed_out,quarantined,aborted"


def retry(
    results: ResultsArgument,
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
    *,
    performing: Performing,
    as_json: Json = False,
) -> None:
    """Perform runs again: those that failed, or any others.

    Their records and logs are kept in attempts/ of the results directory. The exit status is that of 'owlt run', for
    the selected runs.
    """
    from owlt.orchestrator.planning.selection import Selection, new_seeds
    from owlt.orchestrator.sweep.campaign import Start
    from owlt.orchestrator.sweep.publishing import reasons
    from owlt.results.recorded_runs import read_recorded, results_root

    printer = Printer(as_json)
    stop = performing.stop()
    machine = performing.machine()
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
    again = retry_again(results, outcome, run or [], cell or [], new_seed, performing.words)
    start = Start(plan, results, again, selection, machine, performing.guests)
    perform_and_conclude(start, performing, printer, stop, note=note)


def retry_again(
    results: Path,
    outcome: str,
    runs: Sequence[str],
    cells: Sequence[str],
    new_seed: bool = False,
    options: Sequence[str] = (),
) -> str:
    """The command that resumes a retry: this command with its options; `options` are those of `Performing`."""
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
    from owlt.results.record import Outcome

    outcomes = set()
    for word in filter(None, text.split(",")):
        try:
            outcomes.add(Outcome(word.strip()))
        except ValueError:
            expected, fix = f"one or more of {', '.join(Outcome)}", did_you_mean(word.strip(), [*Outcome])
            raise OwltError(Mistake.of("retry", f"--outcome: got {word!r}", expected, fix)) from None
    return outcomes


def warnings(plan: Plan, runs: Sequence[Run], records: dict[str, RunRecord]) -> list[str]:
    """A sentence if some runs will fail again as they did: on the exact clock, their seed decides their packets."""
    from owlt.results.record import NOT_DELIVERED

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
