"""Some runs of a plan, performed alone or again: selected by their names or by the points of the grid, or one shard.

A shard is the part of one machine, which need not know of the others.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from owlt.inputs.axes import BY_NAME, Axis
from owlt.inputs.mistake import Mistake, MistakeError, got
from owlt.inputs.quantities import NAME, RATE
from owlt.orchestrator.errors import OwltError, did_you_mean
from owlt.orchestrator.planning.grid import values_text
from owlt.orchestrator.planning.plan import Batch, Plan, Run
from owlt.orchestrator.planning.seeds import retry_seed
from owlt.results.plan import PlanFile


@dataclass(frozen=True)
class Selection:
    """Runs to perform; the others of the plan are left as they are."""

    run_ids: frozenset[str]
    again: bool = False
    """Whether runs with a record are performed again; their records are set aside."""
    new_seeds: Mapping[str, int] = field(default_factory=dict)
    """Seeds that take the place of the plan's, by run."""
    words: tuple[str, ...] = ()
    """The options that select these runs, as words of a command line."""

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
    """A seed for each run that differs from the plan's; `attempts` are the numbers of earlier attempts."""
    return {run.run_id: retry_seed(run.seed, 1 + attempts.get(run.run_id, 0)) for run in runs}


def runs_named(plan: PlanFile[Any], names: Iterable[str], option: str = "--only") -> list[Run]:
    """The runs with any of these names: of a run, of a permutation, or KEY=VALUE,... of cells.

    Raises OwltError, which names the `option` that the names come from.
    """
    selected: set[str] = set()
    for name in names:
        matching = _matching(plan.runs, name, option)
        if not matching:
            known = [run.run_id for run in plan.runs]
            example = f"a run such as {known[0]}, or a cell such as delay=25ms"
            fix = _nearest_value(plan, name) or did_you_mean(name, known, example)
            raise OwltError(Mistake(f"{option}: no run or cell of this sweep is {name}", fix=fix))
        selected |= matching
    return [run for run in plan.runs if run.run_id in selected]


def selected_by(plan: PlanFile[Any], words: Sequence[str]) -> Selection | None:
    """The runs that options select: --only and --shard among pairs of an option and its value; None without them.

    Raises OwltError.
    """
    options = [(name, value) for name, value in zip(words[::2], words[1::2], strict=True)]
    only = [value for name, value in options if name == "--only"]
    shards = [parse_shard(value) for name, value in options if name == "--shard"]
    if not only and not shards:
        return None
    selected = {each.run_id for each in (runs_named(plan, only) if only else plan.runs)}
    for shard in shards:
        selected &= {each.run_id for each in shard.runs(plan)}
    own = [word for pair in options if pair[0] in ("--only", "--shard") for word in pair]
    return Selection(frozenset(selected), words=tuple(own))


def runs_in_cells(plan: Plan, conditions: Iterable[str]) -> list[Run]:
    """The runs that meet conditions KEY=VALUE of --cell: any of those with the same key, and one for each key.

    Raises OwltError for a value that no run has.
    """
    by_axis: dict[Axis, list[Any]] = {}
    for condition in conditions:
        axis, value = _condition(condition, "--cell")
        if not any(axis.of(run.permutation) == value for run in plan.runs):
            raise OwltError(_no_such_value(plan, condition, axis))
        by_axis.setdefault(axis, []).append(value)
    return [run for run in plan.runs if all(axis.of(run.permutation) in values for axis, values in by_axis.items())]


def _no_such_value(plan: Plan, condition: str, axis: Axis) -> Mistake:
    values = {run.permutation: axis.of(run.permutation) for run in plan.runs}
    points = sorted(values, key=lambda point: (values[point] is None, values[point]))
    has_values = axis.quantity is RATE or any(value is not None for value in values.values())
    expected = f"one of {values_text(axis, points)}" if has_values else f"a sweep with '{axis.name}'"
    example = f"write --cell '{axis.name}={values_text(axis, points[:1])}'" if has_values else ""
    fix = _nearest_value(plan, condition) or example
    return Mistake(f"--cell {condition}: no run of this sweep has this {axis.name}", expected, fix)


def _nearest_value(plan: PlanFile[Any], condition: str) -> str:
    """How to fix a misspelt name in a condition KEY=VALUE; "" for other values."""
    key, _, value = condition.partition("=")
    axis = BY_NAME.get(key)
    if axis is None or axis.quantity is not NAME:
        return ""
    return did_you_mean(value, {axis.of(run.permutation) for run in plan.runs})


def _matching(runs: Collection[Run], name: str, option: str) -> set[str]:
    if "=" in name and not any(name in (run.run_id, run.permutation.slug) for run in runs):
        conditions = [_condition(part, option) for part in name.split(",")]
        return {run.run_id for run in runs if all(axis.of(run.permutation) == value for axis, value in conditions)}
    return {run.run_id for run in runs if name in (run.run_id, run.permutation.slug, run.permutation.cell)}


def _condition(text: str, option: str) -> tuple[Axis, Any]:
    """An axis and one of its values. Raises OwltError."""
    name, separator, value = text.partition("=")
    axis = BY_NAME.get(name)
    if not separator or axis is None:
        expected, fix = f"KEY=VALUE, with one of the keys {', '.join(BY_NAME)}", did_you_mean(name, BY_NAME)
        raise OwltError(Mistake(f"{option}: {got(text)}", expected, fix if axis is None else ""))
    try:
        return axis, axis.quantity.of_argument(value)
    except MistakeError as problem:
        raise OwltError(
            Mistake(f"{option} {name}: {got(value)}", "a value as in a sweep, such as 25ms or 10Mbit/s")
        ) from problem


@dataclass(frozen=True)
class Shard:
    """The `number`-th of `count` shards, counted from 1."""

    number: int
    count: int

    @property
    def text(self) -> str:
        """The shard as a part of a directory's name, such as 2of8."""
        return f"{self.number}of{self.count}"

    def runs(self, plan: PlanFile[Any]) -> list[Run]:
        """Its runs; each run of a plan is in one of the shards.

        On the exact clock a run does not depend on the machine, so runs are dealt out in their order, and all shards
        take the same time. On other clocks a shard has complete repetitions: a slow machine is then slow in every cell.
        Raises OwltError if a shard would have no run.
        """
        if plan.sweep.adaptive:
            fix = "perform the sweep without --shard, or write a number of repetitions"
            problem = "a shard does not know the results of the others, on which adaptive repetitions depend"
            raise OwltError(Mistake.of("--shard", problem, "a sweep with a fixed number of repetitions", fix))
        if plan.sweep.clock == "exact":
            runs = plan.runs[self.number - 1 :: self.count]
            most = len(plan.runs)
        else:
            runs = [run for run in plan.runs if (run.repetition - 1) % self.count == self.number - 1]
            most = plan.sweep.most_repetitions
        if not runs:
            what = "runs" if plan.sweep.clock == "exact" else f"repetitions on the clock {plan.sweep.clock}"
            raise OwltError(Mistake.of("--shard", f"got {self.count} shards", f"at most {most}, the number of {what}"))
        return runs


def parse_shard(text: str) -> Shard:
    """A shard in its written form, such as 2/8. Raises OwltError."""
    match = re.fullmatch(r"([0-9]{1,9})/([0-9]{1,9})", text)
    if match:
        shard = Shard(int(match[1]), int(match[2]))
        if 1 <= shard.number <= shard.count:
            return shard
    raise OwltError(Mistake.of("--shard", f"got '{text}'", "I/N with I from 1 to N, such as 2/8"))
