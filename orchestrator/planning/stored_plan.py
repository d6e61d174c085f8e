"""The plan of a results directory, plan.json, with the history of its plans: whether another plan may take its place.

A run is a function of its own seed. So repetitions, implementations and values of axes can be added at any time, and
what has no record yet can be changed or removed; no recorded run may change. Keys for readers, for the analysis of
captures, or for the course of the sweep may change while results stay the same; all other keys decide what is sent, and
make another sweep. Reading a plan belongs to `planning.plan`.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Collection, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from owlt.agents.contract.implementation import ROLES
from owlt.emulator.channel.spec import ChannelSpec
from owlt.inputs.axes import QUEUE, WAYS
from owlt.inputs.mistake import Mistake, ResultsConflict
from owlt.inputs.sweep import Sweep
from owlt.installation import own_version
from owlt.orchestrator.planning.plan import (
    HOW_TO_WRITE_PLAN,
    Plan,
    PlanChange,
    Run,
    advertised_values,
    read_plan_values,
)
from owlt.results.files import PLAN_NAME
from owlt.results.plain_files import make_directory, write_whole

OF_A_PLAN = ("left_out_pairs",)
OF_A_SWEEP = ("title", "assertions", "margin_percent", "keep_captures", "host_captures", "quarantine_after")
OF_AN_IMPLEMENTATION = ("title", "description", "known_limits", "not_repeatable", "dissector")
OF_A_NEED = ("fix",)


def without_presentation(plan: Mapping[str, Any]) -> dict[str, Any]:
    """The values of plan.json that decide what is sent. Raises LookupError, TypeError or AttributeError if damaged."""
    implementations = {name: _implementation(values) for name, values in plan["implementations"].items()}
    return {
        **_without(plan, OF_A_PLAN),
        "sweep": _without(plan["sweep"], OF_A_SWEEP),
        "implementations": implementations,
    }


def _implementation(values: Mapping[str, Any]) -> dict[str, Any]:
    pair = values.get("pair")
    sides = {role: _implementation(each) for role, each in pair.items() if role in ROLES} if pair else None
    return {
        **_without(values, OF_AN_IMPLEMENTATION),
        "pair": sides,
        "binary": {name: _without(need, OF_A_NEED) for name, need in values.get("binary", {}).items()},
        "needs": [_without(need, OF_A_NEED) for need in values.get("needs", [])],
    }


def _without(values: Mapping[str, Any], names: Collection[str]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if name not in names}


MOST_SHOWN = 5
LONGEST_SHOWN = 60
NOTHING = object()


def differences(there: Mapping[str, Any], here: Mapping[str, Any], words: str = "{0} there, {1} here") -> list[str]:
    """The keys that differ, each with both values; a few of many. `words` puts the two values of a key together."""
    differing = [f"{key}: {words.format(*values)}" for key, *values in _differing(there, here, "")]
    more = [f"and {len(differing) - MOST_SHOWN} more"] if len(differing) > MOST_SHOWN else []
    return differing[:MOST_SHOWN] + more


def _differing(there: Any, here: Any, key: str) -> Iterator[tuple[str, str, str]]:
    if isinstance(there, Mapping) and isinstance(here, Mapping):
        for name in dict.fromkeys([*there, *here]):
            yield from _differing(there.get(name, NOTHING), here.get(name, NOTHING), f"{key}.{name}".lstrip("."))
    elif _value(there) != _value(here):
        begin = _first_difference(_text(there), _text(here))
        yield key, _shown(_text(there), begin), _shown(_text(here), begin)


def _value(value: Any) -> Any:
    """None for a missing key, which is equal to a key without a value."""
    return None if value is NOTHING else value


def _text(value: Any) -> str:
    if _value(value) is None:
        return "nothing"
    if isinstance(value, list) and len(value) == 1:
        return _text(value[0])
    return json.dumps(value, ensure_ascii=False).replace('"', "")


def _first_difference(one: str, other: str) -> int:
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, (left, right) in pairs if left != right), min(len(one), len(other)))


def _shown(text: str, difference: int) -> str:
    """A text, or the part of a long text that contains the difference."""
    if len(text) <= LONGEST_SHOWN:
        return text
    begin = max(0, difference - LONGEST_SHOWN // 3) if difference >= LONGEST_SHOWN else 0
    end = begin + LONGEST_SHOWN
    return f"{'…' if begin else ''}{text[begin:end]}{'…' if end < len(text) else ''}"


OF_ALL_RUNS = ("name", "seed", "rig", "clock", "certify")
"""Keys of a sweep that are the same for all of its runs."""
MOST_NAMED = 3

Values = Mapping[str, Any]


def stored_runs(there: Values) -> dict[str, Values]:
    """The runs of a plan as plan.json has them, by their names."""
    return {run["run_id"]: run for batch in there["batches"] for run in batch["runs"]}


def obstacles(there: Values, here: Values, plan: Plan, recorded: Collection[str]) -> list[str]:
    """Why a plan cannot take the place of the stored one, a sentence each; `recorded` are the runs with a record.

    `there` and `here` are the stored plan and `plan` as they are written. Raises LookupError, TypeError or
    AttributeError if the stored plan is damaged.
    """
    old_sweep, new_sweep = there["sweep"], here["sweep"]
    if of_all := _changed_keys(old_sweep, new_sweep, *OF_ALL_RUNS):
        return of_all
    old = {run_id: run for run_id, run in stored_runs(there).items() if run_id in recorded}
    new = {run.run_id: run for run in plan.runs}
    if removed := [run_id for run_id in old if run_id not in new]:
        why = "; ".join(differences(old_sweep, new_sweep)) or "the grid has changed"
        return [f"{why}: {_named(removed)} would no longer belong to the sweep"]
    return [
        *_changed_implementations(there, here, {run["permutation"]["implementation"] for run in old.values()}),
        *_changed_channels(there, here, plan, old, new),
        *_changed_advertised(there, here, plan, old, new),
    ]


def _changed_implementations(there: Values, here: Values, names: Collection[str]) -> Iterator[str]:
    old, new = (without_presentation(plan)["implementations"] for plan in (there, here))
    for name in new:
        if name in names:
            yield from (
                f"the same sweep with other implementations: {name}.{each}"
                for each in differences(old[name], new[name])
            )


def _changed_channels(
    there: Values, here: Values, plan: Plan, old: Mapping[str, Values], new: Mapping[str, Run]
) -> Iterator[str]:
    channels = {key: ChannelSpec.from_wire(wire) for key, wire in there["channels"].items()}
    changed = [
        run_id
        for run_id, run in old.items()
        if channels.get(run["channel_key"]) != plan.channels[new[run_id].channel_key]
        or run.get("faults", []) != new[run_id].faults
    ]
    if changed:
        queue = _changed_keys(there["sweep"], here["sweep"], QUEUE, *(f"{way}_{QUEUE}" for way in WAYS))
        why = "; ".join(queue) or "a channel profile has changed"
        yield f"{why}: {_named(changed)} would change"


def _changed_advertised(
    there: Values, here: Values, plan: Plan, old: Mapping[str, Values], new: Mapping[str, Run]
) -> Iterator[str]:
    why = _changed_keys(there["sweep"], here["sweep"], "advertised")
    if not why:
        return
    try:
        sweep = Sweep.model_validate(there["sweep"])
        changed = [
            run_id
            for run_id, run in old.items()
            if advertised_values(Run.model_validate(run), sweep) != advertised_values(new[run_id], plan.sweep)
        ]
    except ValidationError:
        changed = list(old)
    if changed:
        yield f"{'; '.join(why)}: {_named(changed)} would change"


def _changed_keys(there: Values, here: Values, *keys: str) -> list[str]:
    return differences({key: there.get(key) for key in keys}, {key: here.get(key) for key in keys})


def _named(run_ids: list[str]) -> str:
    """Some runs in words: their number and the first names."""
    count = f"{len(run_ids)} recorded {'run' if len(run_ids) == 1 else 'runs'}"
    more = ", ..." if len(run_ids) > MOST_NAMED else ""
    return f"{count} ({', '.join(run_ids[:MOST_NAMED])}{more})"


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
