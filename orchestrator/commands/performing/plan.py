"""`owlt plan`: what a sweep needs before it is performed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from owlt.orchestrator.commands.performing.perform import machine_of
from owlt.orchestrator.commands.performing.selecting import Only, ShardOption, results_of, selection_of
from owlt.orchestrator.terminal.options import Guests, Json, LabRigOption, Results, Sweep
from owlt.orchestrator.terminal.output import Printer

if TYPE_CHECKING:
    from owlt.orchestrator.planning.plan import Plan, PlanChange
    from owlt.orchestrator.sweep.forecast import Forecast


def plan(
    sweep: Sweep,
    results: Results = None,
    guests: Guests = None,
    only: Only = None,
    shard: ShardOption = None,
    rig: LabRigOption = None,
    as_json: Json = False,
) -> None:
    """Show what a sweep needs: cells, runs, time, disk, memory.

    A cell is a permutation of the sweep. Existing results are taken into account. Cells whose runs cannot complete are
    listed with the reason; 'owlt run' records these runs as unsupported, or refuses them if the memory of this machine
    is the reason. If 'owlt run' would refuse the sweep, the same message follows the plan, and the exit status is 2.
    With --only or --shard, the plan covers the selected runs. With --rig, it is for a lab rig, and checks its hosts.
    """
    from owlt.orchestrator.profiles.catalogue import resolve, sweep_path
    from owlt.orchestrator.sweep.campaign import planned_change, require_ready, standing_runs
    from owlt.orchestrator.sweep.forecast import forecast, texts

    printer = Printer(as_json)
    machine = machine_of(rig)
    planned = resolve(sweep_path(sweep), in_lab=rig is not None)
    directory = results_of(planned, shard, results)
    selection = selection_of(planned, only or [], shard)
    selected = None if selection is None else selection.run_ids
    expected = forecast(planned, standing_runs(planned, directory), directory, guests, selected)
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
    printer.json(plan_values(selection.alone(planned) if selection else planned, expected, change))
    require_ready(planned, directory, machine, selection)


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
