"""How often a command reads the record of a run: once, however many of its parts ask for it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from owlt.orchestrator.commands.output import Printer
from owlt.orchestrator.commands.performing import Performing, perform_and_conclude
from owlt.orchestrator.planning.plan import Plan
from owlt.orchestrator.planning.stored_plan import write_plan
from owlt.orchestrator.sweep.campaign import Start
from owlt.orchestrator.sweep.report import make_report
from owlt.reports.comparison import stopping
from owlt.reports.results.load import Results, load_results
from owlt.results import record as records
from owlt.results.record import read_record
from tests.unit.orchestrator.test_run_and_plan_commands import AGAIN, record, small_plan
from tests.unit.orchestrator.workers_in_memory import InMemoryWorkers

ASSERTION = {"measure": "delivered", "at_least": 1}


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> Iterator[Counter[str]]:
    """How often each record was opened and read, by the name of its run, from a process that has read none."""
    counts: Counter[str] = Counter()
    read = records.read_json

    def counted(path: Path | str, *arguments: Any) -> Any:
        counts[Path(path).parent.name] += 1
        return read(path, *arguments)

    monkeypatch.setattr(records, "read_json", counted)
    monkeypatch.setattr(records, "_known", {})
    yield counts


def recorded_sweep(results: Path, **changes: object) -> Plan:
    """A sweep whose runs all have a record."""
    plan = small_plan(**changes)
    write_plan(plan, results, set())
    for run in plan.runs:
        record(run, results)
    return plan


def test_a_record_that_is_asked_for_again_is_read_once(tmp_path: Path, reads: Counter[str]) -> None:
    plan = recorded_sweep(tmp_path)
    directory = tmp_path / "runs" / plan.runs[0].run_id

    assert read_record(directory) is read_record(directory)
    assert reads == {plan.runs[0].run_id: 1}


def test_a_record_that_was_written_again_is_read_again(tmp_path: Path, reads: Counter[str]) -> None:
    plan = recorded_sweep(tmp_path)
    directory = tmp_path / "runs" / plan.runs[0].run_id
    first = read_record(directory)

    records.write_record(first.model_copy(update={"reason": "another"}), directory)

    assert read_record(directory).reason == "another"
    assert reads == {plan.runs[0].run_id: 2}


def test_a_start_of_a_sweep_that_has_nothing_to_do_reads_each_record_once(tmp_path: Path, reads: Counter[str]) -> None:
    plan = recorded_sweep(tmp_path)

    with pytest.raises(typer.Exit):
        start = Start(plan, tmp_path, AGAIN, machine=InMemoryWorkers(plan))
        perform_and_conclude(start, Performing(), Printer(False))

    assert reads == {run.run_id: 1 for run in plan.runs}


@pytest.mark.parametrize("report", [True, False])
def test_the_results_of_a_sweep_with_assertions_are_loaded_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, report: bool
) -> None:
    plan = recorded_sweep(tmp_path, assertions=[ASSERTION])
    loads: list[Path] = []

    def counted(directory: Path) -> Results:
        loads.append(directory)
        return load_results(directory)

    monkeypatch.setattr(stopping, "load_results", counted)
    with pytest.raises(typer.Exit):
        perform_and_conclude(
            Start(plan, tmp_path, AGAIN), Performing(report=report), Printer(False), InMemoryWorkers(plan)
        )

    assert loads == [tmp_path]


def test_the_report_after_a_run_reads_each_record_once(tmp_path: Path, reads: Counter[str]) -> None:
    plan = recorded_sweep(tmp_path)

    make_report(tmp_path)

    assert reads == {run.run_id: 1 for run in plan.runs}
