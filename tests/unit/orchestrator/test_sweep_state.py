"""The state of a sweep, as another process reads it from the results directory."""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from owlt.inputs.mistake import ResultsConflict
from owlt.orchestrator.errors import OwltError
from owlt.orchestrator.planning.plan import Plan, Run
from owlt.orchestrator.planning.stored_plan import write_plan
from owlt.orchestrator.run.events import PhaseStarted
from owlt.orchestrator.run.task import Task
from owlt.orchestrator.sweep.journal import Activity
from owlt.orchestrator.sweep.state import SweepState, activity_text
from owlt.orchestrator.sweep.state_reader import StateReader, channel_labels, read_state
from owlt.results.files import JOURNAL_NAME, PLAN_NAME
from owlt.results.lock import LOCK_NAME, locked
from owlt.results.record import RECORD_NAME, SUMMARY, Outcome
from tests.unit.orchestrator.small_sweep import go, small_plan
from tests.unit.orchestrator.workers_in_memory import InMemoryWorkers, Reported, complete


@pytest.fixture
def plan() -> Plan:
    return small_plan()


def perform(plan: Plan, results: Path, **changes: object) -> None:
    """Perform a sweep in which every run has a record with these changes."""
    write_plan(plan, results)

    def changed(run: Run, task: Task, directory: Path) -> Iterator[Reported]:
        yield from complete(run, task, directory, **changes)

    go(InMemoryWorkers(plan, changed), results)


def state_during(plan: Plan, results: Path, slots: int = 1) -> SweepState:
    """The state in the transfer of the first run, read while the lock is held."""
    states: list[SweepState] = []

    def read_once(run: Run, task: Task, directory: Path) -> Iterator[Reported]:
        yield PhaseStarted(run_id=run.run_id, phase="transfer")
        if not states:
            states.append(read_state(results))
        yield from complete(run, task, directory)

    write_plan(plan, results)
    with locked(results):
        go(InMemoryWorkers(plan, read_once), results, slots)
    return states[0]


def test_a_sweep_that_has_not_begun_has_waiting_runs(plan: Plan, tmp_path: Path) -> None:
    write_plan(plan, tmp_path)

    state = read_state(tmp_path)

    assert (state.counts.waiting, state.counts.recorded, state.process.state) == (6, 0, "ended")
    assert state.time_left_s is None


def test_a_finished_sweep_has_its_outcomes_and_nothing_left(plan: Plan, tmp_path: Path) -> None:
    perform(plan, tmp_path)

    state = read_state(tmp_path)

    assert (state.counts.completed, state.counts.waiting, state.time_left_s) == (6, 0, 0.0)
    assert state.ended_s is not None


def test_the_run_that_is_performed_has_its_phase_and_since_when(plan: Plan, tmp_path: Path) -> None:
    before_s = time.time()

    state = state_during(plan, tmp_path)

    [running] = [run for run in state.runs if run.position == "running"]
    assert running.activity is not None
    assert (running.run_id, running.activity.phase) == (plan.batches[0].runs[0].run_id, "transfer")
    assert before_s - 0.001 <= running.activity.since_s <= state.read_at_s


def test_the_process_of_a_running_sweep_has_host_and_pid(plan: Plan, tmp_path: Path) -> None:
    process = state_during(plan, tmp_path).process

    assert process.holder is not None
    assert (process.state, process.holder.host, process.holder.pid) == ("running", socket.gethostname(), os.getpid())


def test_nothing_runs_once_the_process_was_killed(plan: Plan, tmp_path: Path) -> None:
    state_during(plan, tmp_path)
    entries = (tmp_path / JOURNAL_NAME).read_text().splitlines(keepends=True)
    started = next(number for number, line in enumerate(entries) if '"phase"' in line)
    (tmp_path / JOURNAL_NAME).write_text("".join(entries[: started + 1]))
    (tmp_path / LOCK_NAME).write_text(json.dumps({"host": socket.gethostname(), "pid": 1, "started": "yesterday"}))

    state = read_state(tmp_path)

    assert (state.process.state, state.activities, state.time_left_s) == (
        "killed",
        (),
        None if state.counts.waiting else 0.0,
    )


def test_a_process_of_another_machine_whose_lock_is_not_seen_may_still_run(plan: Plan, tmp_path: Path) -> None:
    write_plan(plan, tmp_path)
    (tmp_path / LOCK_NAME).write_text('{"host": "elsewhere", "pid": 7, "started": "2026-01-01 00:00:00 +0000"}')

    assert read_state(tmp_path).process.state == "unknown"


def test_runs_are_counted_by_implementation_and_by_cell(plan: Plan, tmp_path: Path) -> None:
    perform(plan, tmp_path)

    state = read_state(tmp_path)

    assert {name: counts.completed for name, counts in state.by_implementation.items()} == {"cfdp": 6}
    assert [counts.completed for counts in state.by_cell.values()] == [2, 2, 2]


def test_failures_are_grouped(plan: Plan, tmp_path: Path) -> None:
    perform(plan, tmp_path, outcome="failed", reason="the sender exited with status 3", suspect=["odd"])

    state = read_state(tmp_path)

    [group] = state.failures
    assert (group.implementation, group.outcome, len(group.run_ids)) == ("cfdp", Outcome.FAILED, 6)
    assert group.reason == "the sender exited with status 3"
    assert (state.counts.failed, state.counts.suspect) == (6, 6)


def test_suspect_runs_are_grouped_with_the_reasons_of_the_first(plan: Plan, tmp_path: Path) -> None:
    perform(plan, tmp_path, suspect=["odd"])

    [group] = read_state(tmp_path).suspects

    assert (group.implementation, group.reasons) == ("cfdp", ("odd",))
    assert group.run_ids == tuple(run.run_id for run in plan.runs)


def test_a_damaged_record_is_named_and_its_run_is_waiting(plan: Plan, tmp_path: Path) -> None:
    perform(plan, tmp_path)
    victim = plan.runs[0].run_id
    (tmp_path / "runs" / victim / RECORD_NAME).write_text("{")

    state = read_state(tmp_path)

    assert state.counts.waiting == 1
    assert [victim in problem for problem in state.problems] == [True]


def test_a_reader_sees_what_has_changed_since(plan: Plan, tmp_path: Path) -> None:
    write_plan(plan, tmp_path)
    reader = StateReader(tmp_path)
    before = reader.read()

    perform(plan, tmp_path)

    assert (before.counts.recorded, reader.read().counts.recorded) == (0, 6)


def test_a_journal_that_was_removed_can_be_read_anew(plan: Plan, tmp_path: Path) -> None:
    perform(plan, tmp_path)
    reader = StateReader(tmp_path)
    reader.read()

    (tmp_path / JOURNAL_NAME).unlink()
    state = reader.read()

    assert (state.counts.completed, state.started_s, state.latest_entry_s) == (6, None, None)


def test_a_directory_without_a_plan_is_refused(tmp_path: Path) -> None:
    with pytest.raises(OwltError, match=r"is not a results directory"):
        read_state(tmp_path)


def test_a_plan_that_is_none_is_refused(tmp_path: Path) -> None:
    (tmp_path / PLAN_NAME).write_text('{"schema_version": 2, "sweep": 3}')

    with pytest.raises(ResultsConflict, match=r"plan\.json: damaged"):
        read_state(tmp_path)


def test_a_run_whose_captures_give_reason_for_doubt_is_suspect_too(plan: Plan, tmp_path: Path) -> None:
    perform(plan, tmp_path, suspect=["the machine was busy"])
    victim = plan.runs[0].run_id
    (tmp_path / "runs" / victim / SUMMARY).write_text('{"suspect": ["packets are missing", "the machine was busy"]}')

    state = read_state(tmp_path)

    assert next(run.suspect for run in state.runs if run.run_id == victim) == (
        "the machine was busy",
        "packets are missing",
    )


def test_a_summary_that_changes_is_read_again_and_a_damaged_one_gives_no_doubt(plan: Plan, tmp_path: Path) -> None:
    perform(plan, tmp_path)
    reader, summary = StateReader(tmp_path), tmp_path / "runs" / plan.runs[0].run_id / SUMMARY
    counts = [reader.read().counts.suspect]
    for text in ('{"suspect": ["odd"]}', '{"suspect": []}', "{", '{"suspect": 7}'):
        summary.write_text(text)
        counts.append(reader.read().counts.suspect)

    assert counts == [0, 1, 0, 0, 0]


def test_a_channel_is_shown_by_its_name_and_values() -> None:
    plan = small_plan(certify=True)
    (lossless,) = {run.channel_key for run in plan.runs if not run.permutation.packet_error_rate}
    labels = channel_labels(plan)
    activity = Activity(0, 0, "certify", 0.0, channel=lossless)

    assert activity_text(activity, labels) == "certify 1 Mbit/s, 1 ms"
    assert sorted(labels.values()) == ["1 Mbit/s, 1 ms", "1 Mbit/s, 1 ms, PER 0.1", "1 Mbit/s, 1 ms, PER 0.2"]
