"""A results directory in memory: what has changed is read, and nothing else."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from owlt.orchestrator.dashboard.index import (
    GOODPUT,
    LOOK_AT_ALL_EVERY_S,
    LOOK_EVERY_S,
    SHARE_OF_TIME,
    SLICE_S,
    Measures,
    SweepIndex,
    read_measures,
)
from owlt.orchestrator.sweep.state import SweepState
from owlt.orchestrator.sweep.state_reader import StateReader
from owlt.results.files import JOURNAL_NAME
from owlt.results.lock import locked
from owlt.results.record import Outcome
from tests.unit.orchestrator.dashboard.conftest import COMPLETED, SMALL, Clock
from tests.unit.reports.conftest import plan_of, sweep, write_results, write_run

LONG_S = 100 * LOOK_EVERY_S


def write_more(results: Path, repetition: int) -> None:
    for run in plan_of(SMALL).runs:
        if run.repetition == repetition:
            write_run(results / "runs" / run.run_id, run, SMALL)


def test_recorded_runs_are_counted_in_their_cells(results: Path) -> None:
    snapshot = SweepIndex(results).snapshot()

    assert {(cell.counts.with_record, cell.counts.planned) for cell in snapshot.cells} == {(1, 3)}


def test_a_cell_has_the_median_goodput_of_its_runs(results: Path) -> None:
    write_more(results, 2)
    write_more(results, 3)

    snapshot = SweepIndex(results).snapshot()

    cell = next(each for each in snapshot.planned if COMPLETED in each.run_ids)
    values = sorted(row.value(GOODPUT) or 0 for row in snapshot.rows_of(cell))
    assert snapshot.cells[cell.number].goodput == values[1]


def test_a_new_run_appears_and_only_its_cell_has_changed(results: Path, clock: Clock) -> None:
    watched = SweepIndex(results, clock)
    before = watched.snapshot()
    run = next(run for run in plan_of(SMALL).runs if run.repetition == 2)
    write_run(results / "runs" / run.run_id, run, SMALL)
    clock.now_s += LONG_S

    after = watched.snapshot()

    changed = [number for number, version in enumerate(after.changed_at) if version > before.version]
    assert [after.planned[number].run_ids.count(run.run_id) for number in changed] == [1]


def test_nothing_changes_between_two_looks_at_the_same_files(results: Path, clock: Clock) -> None:
    watched = SweepIndex(results, clock)
    before = watched.snapshot()
    clock.now_s += LONG_S

    assert watched.snapshot().version == before.version


def test_the_directory_is_not_read_again_within_a_second(results: Path, clock: Clock) -> None:
    watched = SweepIndex(results, clock)
    before = watched.snapshot()
    write_more(results, 2)
    clock.now_s += LOOK_EVERY_S / 2

    assert watched.snapshot() is before


def test_a_run_that_is_removed_is_no_longer_recorded(results: Path, clock: Clock) -> None:
    watched = SweepIndex(results, clock)
    watched.snapshot()
    shutil.rmtree(results / "runs" / COMPLETED)
    clock.now_s += LONG_S

    snapshot = watched.snapshot()

    assert snapshot.rows[COMPLETED].state.outcome is None
    assert snapshot.rows[COMPLETED].value(GOODPUT) is None


def test_a_summary_that_is_written_later_is_read(results: Path, clock: Clock) -> None:
    run = results / "runs" / COMPLETED
    summary = (run / "summary.json").read_bytes()
    (run / "summary.json").unlink()
    watched = SweepIndex(results, clock)
    assert watched.snapshot().rows[COMPLETED].value(GOODPUT) is None
    (run / "summary.json").write_bytes(summary)
    os.utime(run, ns=(1, 1))
    clock.now_s += LOOK_AT_ALL_EVERY_S

    assert watched.snapshot().rows[COMPLETED].value(GOODPUT) is not None


def test_summaries_are_read_in_slices_of_time(results: Path, clock: Clock) -> None:
    def read_slowly(directory: Path) -> Measures:
        clock.now_s += SLICE_S
        return read_measures(directory)

    watched = SweepIndex(results, clock, read_slowly)

    assert [watched.snapshot().unread for _ in range(5)] == [3, 2, 1, 0, 0]


def with_rare_complete_looks(results: Path, clock: Clock) -> SweepIndex:
    """An index whose complete looks take so long that the next one is due only after minutes; it has had the first."""

    class Slow(StateReader):
        def read(self) -> SweepState:
            clock.now_s += 60 * SHARE_OF_TIME
            return super().read()

    watched = SweepIndex(results, clock, new_reader=lambda path: Slow(path, with_summaries=False))
    watched.snapshot()
    return watched


def publish(results: Path, repetition: int, event: str = "published") -> str:
    """Record a run of a cell, and note it in the journal as a sweep does. Returns the name of the run."""
    run = next(run for run in plan_of(SMALL).runs if run.run_id == COMPLETED.replace("_r1", f"_r{repetition}"))
    write_run(results / "runs" / run.run_id, run, SMALL)
    entry = {"at_s": 3.0, "batch": 0, "event": event, "run_id": run.run_id, "outcome": "completed"}
    with (results / JOURNAL_NAME).open("a") as journal:
        journal.write(json.dumps(entry) + "\n")
    return run.run_id


@pytest.mark.parametrize(("event", "is_there"), [("published", True), ("other", False)])
def test_a_run_that_the_journal_names_is_there_before_all_runs_are_looked_at(
    results: Path, clock: Clock, event: str, is_there: bool
) -> None:
    watched = with_rare_complete_looks(results, clock)
    run_id = publish(results, 2, event)
    clock.now_s += LOOK_EVERY_S

    row = watched.snapshot().rows[run_id]

    assert (row.state.outcome is Outcome.COMPLETED, row.value(GOODPUT) is not None) == (is_there, is_there)
    clock.now_s += 1000
    assert watched.snapshot().rows[run_id].value(GOODPUT) is not None


def test_a_look_at_what_the_journal_names_gives_what_a_complete_look_gives(results: Path, clock: Clock) -> None:
    watched = with_rare_complete_looks(results, clock)
    publish(results, 2)
    publish(results, 3)
    clock.now_s += LOOK_EVERY_S
    named = watched.snapshot()
    complete = SweepIndex(results, clock).snapshot()

    assert (named.cells, named.rows) == (complete.cells, complete.rows)
    assert named.state is not None
    assert complete.state is not None
    assert replace(named.state, read_at_s=0) == replace(complete.state, read_at_s=0)


def test_a_changed_plan_replaces_all_cells(results: Path, clock: Clock) -> None:
    watched = SweepIndex(results, clock)
    before = watched.snapshot()
    shutil.rmtree(results)
    write_results(results, sweep(file_size="100 kB", delay="25 ms", packet_error_rate=0, repetitions=1))
    clock.now_s += LONG_S

    after = watched.snapshot()

    assert after.plan_version > before.plan_version
    assert [(cell.counts.with_record, cell.counts.planned) for cell in after.cells] == [(1, 1), (1, 1)]


def test_the_runs_of_a_changed_plan_are_looked_at_at_once(results: Path, clock: Clock) -> None:
    watched = with_rare_complete_looks(results, clock)
    shutil.rmtree(results)
    write_results(results, sweep(file_size="100 kB", delay="25 ms", packet_error_rate=0, repetitions=1))
    clock.now_s += LOOK_EVERY_S

    assert all(row.value(GOODPUT) is not None for row in watched.snapshot().rows.values())
    latest = watched.snapshot()
    clock.now_s += LOOK_EVERY_S
    assert watched.snapshot() is not latest


def test_a_directory_without_a_plan_says_so(tmp_path: Path) -> None:
    assert "plan.json" in SweepIndex(tmp_path).snapshot().problem


def test_a_damaged_plan_says_so_and_is_read_again_once_it_is_repaired(results: Path, clock: Clock) -> None:
    plan = (results / "plan.json").read_text()
    (results / "plan.json").write_text("{")
    watched = SweepIndex(results, clock)
    assert "damaged" in watched.snapshot().problem
    (results / "plan.json").write_text(plan)
    clock.now_s += LONG_S

    assert watched.snapshot().problem == ""


def test_a_damaged_record_is_a_problem_and_the_run_counts_as_waiting(results: Path) -> None:
    (results / "runs" / COMPLETED / "record.json").write_text("{")

    snapshot = SweepIndex(results).snapshot()

    assert snapshot.rows[COMPLETED].state.outcome is None
    assert snapshot.state is not None
    assert COMPLETED in snapshot.state.problems[0]


def test_a_run_that_is_performed_is_running_in_its_cell(results: Path) -> None:
    run_id = COMPLETED.replace("_r1", "_r2")
    lines = (
        '{"at_s": 1.0, "batch": 0, "event": "boot", "slot": 0}',
        f'{{"at_s": 2.0, "batch": 0, "event": "run", "run_id": "{run_id}"}}',
    )
    (results / JOURNAL_NAME).write_text("\n".join(lines) + "\n")

    with locked(results):
        snapshot = SweepIndex(results).snapshot()

    assert [
        cell.counts.running
        for cell, each in zip(snapshot.cells, snapshot.planned, strict=True)
        if run_id in each.run_ids
    ] == [1]


def test_a_failed_analysis_makes_a_run_suspect(results: Path) -> None:
    (results / "runs" / COMPLETED / "analysis-failed.txt").write_text("no such protocol\n\nTraceback")

    row = SweepIndex(results).snapshot().rows[COMPLETED]

    assert row.suspect == ("analysis failed: no such protocol",)


def test_the_value_of_a_run_that_did_not_complete_is_not_used(tmp_path: Path) -> None:
    everything = write_results(tmp_path / "all", SMALL)

    snapshot = SweepIndex(everything).snapshot()

    failed = [row for row in snapshot.rows.values() if row.state.is_undelivered]
    assert [(row.state.outcome, row.value(GOODPUT)) for row in failed] == [(Outcome.FAILED, None)]
