"""The order of the runs, as the page of a report states it."""

from __future__ import annotations

import json
from pathlib import Path

from owlt.orchestrator.planning.stored_plan import write_plan
from owlt.reports.results.load import load_results
from tests.unit.reports.conftest import few, plan_of, write_results


def mixed(directory: Path) -> Path:
    """A sweep of an older version, whose runs are in a random order over all repetitions."""
    results = write_results(directory, few())
    path = results / "plan.json"
    plan = json.loads(path.read_text())
    runs = [run for batch in plan["batches"] for run in batch["runs"]]
    for order, run in enumerate(sorted(runs, key=lambda run: str(run["run_id"])), start=1):
        run["order"] = order
    path.write_text(json.dumps(plan))
    return results


def test_a_run_that_was_recorded_before_an_extension_has_its_place_in_the_extended_plan(tmp_path: Path) -> None:
    results = write_results(tmp_path / "few", few(repetitions=2))
    write_plan(plan_of(few(repetitions=2, implementations=["cfdp", "ltp", "norm"])), results)

    orders = {run.record.run_id: run.record.order for run in load_results(results).runs}

    planned = {
        run.run_id: run.order for run in plan_of(few(repetitions=2, implementations=["cfdp", "ltp", "norm"])).runs
    }
    assert orders == {run_id: planned[run_id] for run_id in orders}
    assert len(set(orders.values())) == len(orders)


def test_a_sweep_is_performed_one_repetition_after_the_other(tmp_path: Path) -> None:
    results = write_results(tmp_path / "few", few(clock="skip"))

    assert load_results(results).order_of_repetitions == "one after the other"


def test_repetitions_that_share_their_start_follow_the_first_of_every_cell(tmp_path: Path) -> None:
    assert load_results(write_results(tmp_path / "few", few())).order_of_repetitions == "first, then the others"


def test_a_sweep_of_an_older_version_that_mixed_repetitions_is_not_called_so(tmp_path: Path) -> None:
    assert load_results(mixed(tmp_path / "few")).order_of_repetitions == "mixed"
