"""`owlt plan`: what a sweep needs and can decide; `owlt sweeps` and `owlt schema`: list, show and check sweep files,
and print the schema of each kind of profile.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Any

import typer

from owlt.inputs.mistake import ResultsConflict
from owlt.orchestrator.commands.output import Printer
from owlt.orchestrator.commands.performing import Selected, machine_of, results_of
from owlt.orchestrator.commands.usage import Guests, Json, LabRigOption, Results, Sweep, parsed

if TYPE_CHECKING:
    from owlt.inputs.sweep import Adaptive
    from owlt.orchestrator.planning.plan import Plan, PlanChange
    from owlt.orchestrator.planning.repetitions import Sensitivity
    from owlt.orchestrator.sweep.forecast import Forecast
import json

from owlt.inputs.mistake import not_one_of
from owlt.orchestrator.commands.usage import add_command, complete_kind, new_app
from owlt.orchestrator.errors import OwltError


def plan(
    sweep: Sweep,
    results: Results = None,
    guests: Guests = None,
    *,
    selected: Selected,
    rig: LabRigOption = None,
    spread: Annotated[
        str | None,
        typer.Option(
            metavar="PERCENT|RESULTS",
            help="How far apart the runs of a cell are, such as 5%, or an earlier sweep's results; default: those of "
            "this sweep.",
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Show what a sweep needs and can decide.

    That is: cells, runs, time, disk, memory, and the differences that its repetitions detect. Existing results are
    taken into account. Cells whose runs cannot complete are listed with the reason; 'owlt run' records these runs as
    unsupported, or refuses them if the memory of this machine is the reason. If 'owlt run' would refuse the sweep, the
    same message follows the plan, and the exit status is 2. With --only or --shard, the plan covers the selected runs.
    With --rig, it is for a lab rig, and checks its hosts.
    """
    from owlt.inputs.axes import base_name
    from owlt.orchestrator.planning.repetitions import parse_spread, sensitivity, spread_of
    from owlt.orchestrator.profiles.catalogue import resolve, sweep_path
    from owlt.orchestrator.sweep.campaign import Start, planned_change, standing_runs
    from owlt.orchestrator.sweep.forecast import forecast, pace_of, texts

    printer = Printer(as_json)
    machine = machine_of(rig)
    planned = resolve(sweep_path(sweep), in_lab=rig is not None)
    directory = results_of(planned, selected.shard, results)
    selection = selected.selection(planned)
    run_ids = None if selection is None else selection.run_ids
    pace = pace_of(planned, directory)
    expected = forecast(planned, standing_runs(planned, directory), directory, guests, run_ids, pace=pace)
    known = parsed("--spread", spread, parse_spread) if spread else None
    with suppress(ResultsConflict):  # which the end of this command is about
        known = known or spread_of(directory)
    decides = sensitivity(planned, known)
    _print_cells(printer, expected, planned.sweep.adaptive)
    alone = set(map(base_name, planned.implementations))
    for name, reason in planned.left_out_pairs.items():
        printer.text(f"no pair {'with ' if name in alone else ''}{name}: {reason}")
    for line in texts(expected, directory):
        printer.text(line)
    for line in decides.texts() if decides and expected.left else ():
        printer.text(line)
    change = planned_change(planned, directory)
    if change:
        printer.text(f"{directory}: the sweep has changed: {change.text}")
    printer.json(plan_values(selection.alone(planned) if selection else planned, expected, decides, change))
    Start(planned, directory, "", selection, machine).require_ready()


def _print_cells(printer: Printer, expected: Forecast, adaptive: Adaptive | None) -> None:
    """A table with a line for each cell of the sweep."""
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


def plan_values(
    planned: Plan, expected: Forecast, decides: Sensitivity | None, change: PlanChange | None
) -> dict[str, Any]:
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
        "left_out_pairs": planned.left_out_pairs,
        "recorded": expected.recorded,
        "left": expected.left,
        "least_left": expected.least_left,
        "repetitions": expected.rule,
        "runs": runs,
        "estimate": expected.estimate,
        "times": expected.times,
        "resources": expected.resources,
        "load": expected.load,
        "decides": decides,
        "change": change and change.model_dump(mode="json", include={"added", "removed", "changes"}),
    }


sweeps_app = new_app("List, show and check sweeps.")


@add_command(sweeps_app, "list")
def list_sweeps(as_json: Json = False) -> None:
    """List the sweeps that come with owlt."""
    from owlt.orchestrator.profiles.catalogue import sweep_files
    from owlt.orchestrator.profiles.load import load_sweep

    columns = ("title", "rig", "clock", "implementations")
    sweeps = (
        {"name": path.stem, **{name: getattr(sweep, name) for name in columns}, "path": path}
        for path in sweep_files()
        for sweep in [load_sweep(path)]
    )
    Printer(as_json).listing(sweeps, "name", *columns)


@add_command(sweeps_app, "show")
def show_sweep(sweep: Sweep, as_json: Json = False) -> None:
    """Show every key of a sweep, with defaults filled in."""
    from owlt.orchestrator.profiles.catalogue import sweep_path
    from owlt.orchestrator.profiles.load import load_sweep

    Printer(as_json).show(load_sweep(sweep_path(sweep)).model_dump(mode="json"))


@add_command(sweeps_app, "check")
def check_sweep(sweep: Sweep, as_json: Json = False) -> None:
    """Check a sweep file, and whether it can run on this machine.

    Exit status: 0 if it can run here; 1 if something is missing on this machine; 2 for mistakes in the file.
    """
    from owlt.orchestrator.checks.doctor import missing_for_plan
    from owlt.orchestrator.profiles.catalogue import resolve, sweep_path

    printer = Printer(as_json)
    path = sweep_path(sweep)
    planned = resolve(path)
    missing = missing_for_plan(planned)
    printer.json(
        {"sweep": planned.sweep.name, "path": path, "runs": len(planned.runs), "missing": list(map(str, missing))}
    )
    printer.text(f"{path}: valid, {len(planned.runs)} runs")
    for each in missing:
        printer.text(f"missing: {each}")
    raise typer.Exit(1 if missing else 0)


def schema(
    kind: Annotated[
        str,
        typer.Argument(
            metavar="KIND", help="sweep, implementation, pair, channel or inventory.", autocompletion=complete_kind
        ),
    ],
) -> None:
    """Print the JSON Schema of one kind of file.

    Editors can use it to complete and validate profiles. For example: owlt schema sweep > sweep.json; then write this
    as the first line of a sweep file in the same directory: # yaml-language-server: $schema=sweep.json
    """
    from owlt.orchestrator.profiles.schemas import SCHEMAS

    if kind not in SCHEMAS:
        raise OwltError(not_one_of(kind, SCHEMAS).below("schema"))
    print(json.dumps(SCHEMAS[kind](), indent=2))
