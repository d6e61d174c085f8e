"""Whether a changed plan may take the place of the one in a results directory: no recorded run may change.

A run is a function of its own seed. So repetitions, implementations and values of axes can be added at any time, and
what has no record yet can be changed or removed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from pydantic import ValidationError

from owlt.emulator.channel.spec import ChannelSpec
from owlt.orchestrator.planning.advertised import advertised_values
from owlt.orchestrator.planning.plan import Plan, Run
from owlt.orchestrator.planning.stored.differences import differences
from owlt.orchestrator.planning.stored.presentation import without_presentation
from owlt.orchestrator.planning.sweep import Sweep

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
    ]
    if changed:
        queue = _changed_keys(there["sweep"], here["sweep"], "queue_packets")
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
