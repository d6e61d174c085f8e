"""What a sweep's file specifies for captures that were cut or removed before: the file changed after the runs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from owlt.captures.accounting.cutting import is_cut
from owlt.captures.accounting.derived_files import CAPTURES
from owlt.captures.files.plain_files import is_plain
from owlt.captures.protocols.view import load_view
from owlt.orchestrator.errors import ResultsConflict
from owlt.orchestrator.planning.plan import read_plan_values
from owlt.orchestrator.results.record import Outcome, RunRecord, read_record
from owlt.orchestrator.results.recorded_runs import recorded_directories


def unavailable(results: Path) -> list[str]:
    """A sentence for each value of the sweep that cannot take effect on some runs, with their number.

    Runs whose records cannot be read are not counted. Raises FileNotFoundError without a plan, ResultsConflict,
    LookupError if the plan is damaged.
    """
    plan = read_plan_values(results)
    keep = plan["sweep"]["keep_captures"]
    counts: dict[str, int] = {}
    for directory in recorded_directories(results):
        try:
            record = read_record(directory)
        except ResultsConflict:  # the analysis and the report name it
            continue
        if not record.captures or record.outcome is Outcome.UNSUPPORTED:
            continue
        for sentence in _of_run(directory, record, keep, plan["implementations"]):
            counts[sentence] = counts.get(sentence, 0) + 1
    return [f"{sentence} ({count} {'run' if count == 1 else 'runs'})" for sentence, count in counts.items()]


def _of_run(directory: Path, record: RunRecord, keep: str, implementations: dict[str, Any]) -> Iterator[str]:
    captures = [directory / name for name in CAPTURES]
    are_there = all(map(is_plain, captures))
    if keep != "none" and not are_there:
        yield f"keep_captures: {keep}: the captures were removed earlier and cannot be restored"
    elif keep == "full" and any(map(is_cut, captures)):
        yield "keep_captures: full: the captures were cut to headers earlier and cannot be restored"
    name = record.implementation
    dissector = list(implementations.get(name, {}).get("dissector", []))
    view = None if are_there else load_view(directory)
    if view is not None and view.dissector != dissector:
        yield f"dissector of {name}: the captures were removed earlier, so the view of an earlier dissector stays"
