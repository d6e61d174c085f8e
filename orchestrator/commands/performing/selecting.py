"""The options that select runs of a sweep: `--only` and `--shard`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from owlt.orchestrator.planning.plan import Plan
    from owlt.orchestrator.planning.selection import Selection

Only = Annotated[
    list[str] | None,
    typer.Option(metavar="CELL|RUN", help="Only this run, or the runs of a cell such as delay=25ms; repeatable."),
]
ShardOption = Annotated[
    str | None,
    typer.Option("--shard", metavar="I/N", help="Only the I-th of N shards; 'owlt merge' combines the results."),
]


def selection_of(plan: Plan, only: Sequence[str], shard: str | None) -> Selection | None:
    """The runs that both options select; None without an option. Raises OwltError."""
    from owlt.orchestrator.planning.selection import Selection, parse_shard, runs_named

    if not only and not shard:
        return None
    selected = {each.run_id for each in (runs_named(plan, only) if only else plan.runs)}
    if shard:
        selected &= {each.run_id for each in parse_shard(shard).runs(plan)}
    return Selection(frozenset(selected))


def results_of(plan: Plan, shard: str | None, results: Path | None) -> Path:
    """The results directory: the given one, or the default one of the sweep or of its shard. Raises OwltError."""
    from owlt.orchestrator.planning.selection import parse_shard
    from owlt.orchestrator.results.recorded_runs import results_root

    name = f"{plan.sweep.name}-{parse_shard(shard).text}" if shard else plan.sweep.name
    return results_root(results or Path("results", name))
