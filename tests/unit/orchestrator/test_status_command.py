"""`owlt status` as a user types it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from owlt.orchestrator.commands.cli import app
from owlt.orchestrator.commands.status import latest_results
from owlt.orchestrator.errors import OwltError
from owlt.orchestrator.planning.plan import Plan, Run
from owlt.orchestrator.planning.stored_plan import write_plan
from owlt.orchestrator.run.events import PhaseStarted
from owlt.orchestrator.run.task import Task
from owlt.results.lock import locked
from tests.unit.orchestrator.small_sweep import go, small_plan
from tests.unit.orchestrator.workers_in_memory import InMemoryWorkers, Reported, complete
from tests.unit.test_documented_commands import JSON_FIELDS


def status(*words: str) -> Result:
    return CliRunner().invoke(app, ["status", *words])


def perform_with_a_failure(plan: Plan, results: Path) -> list[Result]:
    """Perform a sweep whose last run fails; returns `owlt status` from within that run, as text and as JSON."""
    seen: list[Result] = []

    def fail_the_last(run: Run, task: Task, directory: Path) -> Iterator[Reported]:
        if run.order < len(plan.runs):
            yield from complete(run, task, directory)
            return
        yield PhaseStarted(run_id=run.run_id, phase="transfer")
        seen.extend([status(str(results)), status(str(results), "--json")])
        changes = {"outcome": "failed", "reason_code": "exited", "reason": "the sender exited with status 3"}
        yield from complete(run, task, directory, **changes)

    write_plan(plan, results)
    with locked(results):
        go(InMemoryWorkers(plan, fail_the_last), results)
    return seen


def test_while_a_sweep_runs_its_process_and_the_run_and_its_phase_are_shown(tmp_path: Path) -> None:
    plan = small_plan()

    shown = perform_with_a_failure(plan, tmp_path)[0].stdout

    assert shown.startswith("small: 5 of 6 runs recorded; about ")
    assert f"running: process {os.getpid()} on " in shown
    assert f"perform {plan.runs[-1].run_id}: transfer" in shown


def test_afterwards_failures_are_shown_with_code_and_reason(tmp_path: Path) -> None:
    perform_with_a_failure(small_plan(), tmp_path)

    lines = status(str(tmp_path)).stdout.splitlines()

    assert lines[0] == "small: 6 of 6 runs recorded, 1 failed"
    assert lines[1].startswith("not running: ended ")
    assert ["cfdp", "failed", "exited", "1", "the", "sender", "exited", "with", "status", "3"] in map(str.split, lines)


def test_json_has_the_documented_fields(tmp_path: Path) -> None:
    value = json.loads(perform_with_a_failure(small_plan(), tmp_path)[1].stdout)

    assert set(value) == JSON_FIELDS["owlt status"]
    assert (value["counts"]["completed"], value["counts"]["running"]) == (5, 1)
    assert (value["process"]["state"], value["process"]["holder"]["pid"]) == ("running", os.getpid())


def test_watching_ends_with_the_sweep(tmp_path: Path) -> None:
    write_plan(small_plan(), tmp_path)

    assert status(str(tmp_path), "--watch").exit_code == 0


def test_watching_json_is_refused(tmp_path: Path) -> None:
    write_plan(small_plan(), tmp_path)

    assert "got --watch and --json" in str(status(str(tmp_path), "--watch", "--json").exception)


def test_the_latest_results_are_those_that_changed_last(tmp_path: Path) -> None:
    for name, changed_s in (("old", 100), ("new", 300), ("middle", 200)):
        write_plan(small_plan(), tmp_path / name)
        os.utime(tmp_path / name / "plan.json", (changed_s, changed_s))

    assert latest_results(tmp_path) == tmp_path / "new"


def test_without_results_the_message_says_how_to_name_them(tmp_path: Path) -> None:
    with pytest.raises(OwltError, match="owlt status RESULTS"):
        latest_results(tmp_path)


def test_an_implementation_of_which_no_run_has_completed_is_named_first(tmp_path: Path) -> None:
    def fail_ltp(run: Run, task: Task, directory: Path) -> Iterator[Reported]:
        is_ltp = run.permutation.implementation == "ltp" or run.repetition == 2
        changes = {"outcome": "unsupported", "reason_code": "unsupported", "reason": "no bbr3"} if is_ltp else {}
        yield from complete(run, task, directory, **changes)

    plan = small_plan(implementations=["cfdp", "ltp"])
    write_plan(plan, tmp_path)
    go(InMemoryWorkers(plan, fail_ltp), tmp_path)

    assert status(str(tmp_path)).stdout.splitlines()[2] == (
        "warning: ltp: none of its runs has completed: 6 unsupported (no bbr3)"
    )
    [group] = json.loads(status(str(tmp_path), "--json").stdout)["without_completion"]
    assert (group["implementation"], len(group["run_ids"])) == ("ltp", 6)
