"""Writing plan.json of a results directory, with the history of its plans."""

from __future__ import annotations

import json
import shlex
from collections.abc import Collection
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from owlt.captures.files.plain_files import make_directory, write_whole
from owlt.inputs.mistake import Mistake
from owlt.orchestrator.errors import ResultsConflict
from owlt.orchestrator.own_version import own_version
from owlt.orchestrator.planning.plan import HOW_TO_WRITE_PLAN, PLAN_NAME, Plan, PlanChange, read_plan_values
from owlt.orchestrator.planning.stored.differences import differences
from owlt.orchestrator.planning.stored.extension import obstacles, stored_runs
from owlt.orchestrator.planning.stored.presentation import without_presentation

CHOICES = (
    "choose another directory with --results, give this sweep another name, or restore these values "
    "(runs can be added to a sweep, but recorded runs cannot change)"
)

BEFORE_AND_AFTER = "{0} -> {1}"


def write_plan(plan: Plan, results: Path, recorded: Collection[str] = ()) -> PlanChange | None:
    """Write the plan into a results directory, with the history of the plans there.

    `recorded` are the runs with a record. Returns what the plan changes in the one before. Raises ResultsConflict as
    `require_extension` does, so that results are never mixed or lost.
    """
    there = _acceptable(plan, results, recorded)
    history = [PlanChange.model_validate(change) for change in there.get("history", ())] if there else []
    if change := _change(there, plan):
        history.append(change)
    make_directory(results)
    write_whole(results / PLAN_NAME, plan.model_copy(update={"history": history}).model_dump_json(indent=2) + "\n")
    return change if there else None


def require_extension(plan: Plan, results: Path, recorded: Collection[str] = ()) -> PlanChange | None:
    """What the plan changes in the plan of a results directory; None: nothing, or there is no plan yet.

    Raises ResultsConflict if a recorded run would change, or if the plan there is damaged or of a newer version of
    owlt. Changes nothing.
    """
    there = _acceptable(plan, results, recorded)
    return _change(there, plan) if there else None


def _acceptable(plan: Plan, results: Path, recorded: Collection[str]) -> dict[str, Any] | None:
    """The plan in a results directory as it is written, after `plan` has been compared with it; None: there is none."""
    try:
        there = read_plan_values(results)
    except FileNotFoundError:
        return None
    if "sweep" not in there:
        raise ResultsConflict(
            f"{results}: holds the results of another sweep: its {PLAN_NAME} is not a plan; {CHOICES}"
        )
    try:
        if reasons := obstacles(there, _values(plan), plan, recorded):
            choices = _more_repetitions(there, plan, results) or CHOICES
            raise ResultsConflict(f"{results}: holds the results of another sweep: {'; '.join(reasons)}; {choices}")
    except (LookupError, TypeError, AttributeError, ValueError) as problem:
        damaged = f"{results / PLAN_NAME}: damaged ({problem})"
        raise ResultsConflict(Mistake(damaged, fix=f"remove it, and {HOW_TO_WRITE_PLAN}")) from problem
    return there


def _more_repetitions(there: dict[str, Any], plan: Plan, results: Path) -> str:
    """What to do if the stored plan differs in nothing but more repetitions, as after `owlt extend`; else ""."""
    number = there["sweep"].get("repetitions")
    is_number = isinstance(number, int) and isinstance(plan.sweep.repetitions, int)
    if not is_number or number <= plan.sweep.repetitions:
        return ""
    if _changes(there, _values(plan) | {"sweep": _values(plan)["sweep"] | {"repetitions": number}}):
        return ""
    command = shlex.join(["owlt", "extend", str(results), "--to", str(number)])
    return (
        f"write 'repetitions: {number}' in the sweep file, which 'owlt extend' does not change; or perform what is "
        f"missing with '{command}'; or choose another directory with --results"
    )


def _change(there: dict[str, Any] | None, plan: Plan) -> PlanChange | None:
    """What a plan changes in the one before, if anything but its presentation."""
    new = {run.run_id for run in plan.runs}
    old = set(stored_runs(there)) if there else set()
    changes = _changes(there, _values(plan)) if there else []
    if there and not changes and old == new:
        return None
    return PlanChange(
        at=datetime.now(UTC).replace(microsecond=0),
        owlt=own_version(),
        runs=len(new),
        added=len(new - old),
        removed=len(old - new),
        changes=changes,
    )


def _changes(there: dict[str, Any], here: dict[str, Any]) -> list[str]:
    """The keys that differ in what decides the packets: of the sweep, and of implementations that are in both."""
    old, new = without_presentation(there), without_presentation(here)
    implementations = {
        name: old["implementations"].get(name, values) for name, values in new["implementations"].items()
    }
    return [
        *differences(old["sweep"], new["sweep"], BEFORE_AND_AFTER),
        *differences(implementations, new["implementations"], BEFORE_AND_AFTER),
    ]


def _values(plan: Plan) -> dict[str, Any]:
    values: dict[str, Any] = json.loads(plan.model_dump_json())
    return values
