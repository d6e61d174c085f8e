"""Some runs of a plan, selected by their names or by the points of the grid, to be performed alone or again."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from owlt.emulator.channel.quantities import parse_delay_ns, parse_size_bytes
from owlt.inputs.mistake import Mistake, MistakeError, got
from owlt.orchestrator.errors import OwltError, did_you_mean
from owlt.orchestrator.planning.grid import values_text
from owlt.orchestrator.planning.language.quantities import parse_rate_or_unlimited
from owlt.orchestrator.planning.plan import Batch, Plan, Run
from owlt.orchestrator.planning.seeds import retry_seed

FIELDS: dict[str, tuple[str, Callable[[str], Any]]] = {
    "implementation": ("implementation", str),
    "file_size": ("file_size_bytes", parse_size_bytes),
    "duration": ("duration_ns", parse_delay_ns),
    "channel": ("channel_name", str),
    "rate": ("rate_bps", parse_rate_or_unlimited),
    "delay": ("delay_ns", parse_delay_ns),
    "packet_error_rate": ("packet_error_rate", float),
}
"""The keys of a cell: the field of a permutation, and how its value is read."""


@dataclass(frozen=True)
class Selection:
    """Runs to perform; the others of the plan are left as they are."""

    run_ids: frozenset[str]
    again: bool = False
    """Whether runs with a record are performed again; their records are set aside."""
    new_seeds: Mapping[str, int] = field(default_factory=dict)
    """Seeds that take the place of the plan's, by run."""

    def applied(self, plan: Plan) -> Plan:
        """The plan with the new seeds, and with the certifications of the selected runs' channels only."""
        keys = {run.channel_key for run in plan.runs if run.run_id in self.run_ids}
        certifications = [
            batch.model_copy(update={"certify": [key for key in batch.certify if key in keys]})
            for batch in plan.certifications
        ]
        batches = map(self._with_new_seeds, plan.batches)
        return plan.model_copy(
            update={"batches": [*batches], "certifications": [batch for batch in certifications if batch.certify]}
        )

    def _with_new_seeds(self, batch: Batch) -> Batch:
        """A batch with the new seeds of its runs; a guest that has its run's seed has the new one too."""
        runs = [self._seeded(run) for run in batch.runs]
        is_function_of_run = [run.seed for run in batch.runs] == [batch.seed]
        return batch.model_copy(update={"runs": runs, "seed": runs[0].seed if is_function_of_run else batch.seed})

    def alone(self, plan: Plan) -> Plan:
        """The plan without the runs that are not selected."""
        batches = [
            batch.model_copy(update={"runs": [run for run in batch.runs if run.run_id in self.run_ids]})
            for batch in plan.batches
        ]
        return plan.model_copy(update={"batches": batches})

    def _seeded(self, run: Run) -> Run:
        seed = self.new_seeds.get(run.run_id)
        return run if seed is None else run.model_copy(update={"seed": seed})


def new_seeds(runs: Iterable[Run], attempts: Mapping[str, int]) -> dict[str, int]:
    """For each run another seed than the plan's; `attempts` are the numbers of earlier attempts."""
    return {run.run_id: retry_seed(run.seed, 1 + attempts.get(run.run_id, 0)) for run in runs}


def runs_named(plan: Plan, names: Iterable[str], option: str = "--only") -> list[Run]:
    """The runs with any of these names: of a run, of a permutation, or KEY=VALUE,... of cells.

    Raises OwltError, which names the `option` that the names come from.
    """
    selected: set[str] = set()
    for name in names:
        matching = _matching(plan.runs, name, option)
        if not matching:
            known = [run.run_id for run in plan.runs]
            fix = did_you_mean(name, known, f"a run such as {known[0]}, or a cell such as delay=25ms")
            raise OwltError(Mistake(f"{option}: no run or cell of this sweep is {name}", fix=fix))
        selected |= matching
    return [run for run in plan.runs if run.run_id in selected]


def runs_in_cells(plan: Plan, conditions: Iterable[str], option: str = "--cell") -> list[Run]:
    """The runs that meet conditions KEY=VALUE: any of those with the same key, and one for each key.

    Raises OwltError for a value that no run has.
    """
    by_key: dict[str, list[Any]] = {}
    for condition in conditions:
        key, value = _condition(condition, option)
        if not any(getattr(run.permutation, key) == value for run in plan.runs):
            raise OwltError(_no_such_value(plan, condition, option))
        by_key.setdefault(key, []).append(value)
    return [run for run in plan.runs if all(getattr(run.permutation, key) in values for key, values in by_key.items())]


def _no_such_value(plan: Plan, condition: str, option: str) -> Mistake:
    key = condition.partition("=")[0]
    values = {run.permutation: getattr(run.permutation, FIELDS[key][0]) for run in plan.runs}
    points = sorted(values, key=lambda point: (values[point] is None, values[point]))
    has_values = key == "rate" or any(value is not None for value in values.values())
    expected = f"one of {values_text(key, points)}" if has_values else f"a sweep with '{key}'"
    fix = f"write {option} '{key}={values_text(key, points[:1])}'" if has_values else ""
    return Mistake(f"{option} {condition}: no run of this sweep has this {key}", expected, fix)


def _matching(runs: Collection[Run], name: str, option: str) -> set[str]:
    if "=" in name and not any(name in (run.run_id, run.permutation.slug) for run in runs):
        conditions = [_condition(part, option) for part in name.split(",")]
        return {run.run_id for run in runs if all(getattr(run.permutation, key) == value for key, value in conditions)}
    return {run.run_id for run in runs if name in (run.run_id, run.permutation.slug, run.permutation.cell)}


def _condition(text: str, option: str) -> tuple[str, Any]:
    """A field of a permutation and its value. Raises OwltError."""
    key, separator, value = text.partition("=")
    if not separator or key not in FIELDS:
        raise OwltError(Mistake(f"{option}: {got(text)}", f"KEY=VALUE, with one of the keys {', '.join(FIELDS)}"))
    name, parse = FIELDS[key]
    try:
        return name, parse(value)
    except (MistakeError, ValueError) as problem:
        raise OwltError(
            Mistake(f"{option} {key}: {got(value)}", "a value as in a sweep, such as 25ms or 10Mbit/s")
        ) from problem
