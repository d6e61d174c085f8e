"""The headline of a sweep."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from owlt.orchestrator.dashboard.index import RunRow, Snapshot
from owlt.orchestrator.dashboard.sweep_content import THIS_MACHINE, MachineRuns, activity_text, headline_of, machines_of
from owlt.orchestrator.sweep.journal import Activity
from owlt.orchestrator.sweep.state import RunState, SweepProcess, SweepState
from owlt.results.record import Outcome


def ended(*outcomes: Outcome | None) -> Snapshot:
    """A sweep that no process performs, with a run of each outcome."""
    runs = tuple(RunState(f"r{number}", "cfdp", "1MB", number, number, each) for number, each in enumerate(outcomes))
    state = SweepState(
        results=Path("results/demo"),
        sweep="demo",
        title="",
        rig="virtual",
        clock="exact",
        read_at_s=100.0,
        process=SweepProcess("ended", None),
        activities=(),
        runs=runs,
        started_s=0.0,
        ended_s=50.0,
        latest_entry_s=50.0,
        time_left_s=None,
    )
    return Snapshot(state=state, rows={run.run_id: RunRow(run) for run in runs})


@pytest.mark.parametrize(
    ("outcome", "sentence"),
    [
        (Outcome.FAILED, "2 of 2 runs recorded; the sweep is complete"),
        (Outcome.ABORTED, "2 of 2 runs recorded; the sweep is stopped; 'owlt run' resumes it"),
        (None, "1 of 2 runs recorded; the sweep is stopped; 'owlt run' resumes it"),
    ],
)
def test_a_sweep_is_complete_when_no_run_is_left_to_be_performed(outcome: Outcome | None, sentence: str) -> None:
    assert headline_of(ended(Outcome.COMPLETED, outcome)).sentence == sentence


@pytest.mark.parametrize(
    ("machine", "text"), [("lab2", "perform, transfer, for 12 s (on lab2)"), ("", "perform, transfer, for 12 s")]
)
def test_what_a_worker_does_names_another_machine_that_it_runs_on(machine: str, text: str) -> None:
    activity = Activity(3, 1, "perform", 80.0, "r1", phase="transfer", phase_since_s=88.0, machine=machine)

    assert activity_text(activity, 100.0) == text


def performed_on(*machines: str) -> SweepState:
    """A sweep with a recorded run of each machine, and a run that waits."""
    state = ended(*(Outcome.COMPLETED for _ in machines), None).state
    assert state is not None
    runs = [replace(run, machine=machine) for run, machine in zip(state.runs, (*machines, ""), strict=True)]
    return replace(state, runs=tuple(runs))


def test_each_machine_has_the_number_of_runs_that_it_performed_and_performs() -> None:
    busy, booting = Activity(0, 0, "perform", 80.0, "r4", machine="lab2"), Activity(1, 0, "boot", 80.0, machine="lab3")
    state = replace(performed_on("", "lab2", "lab1", "lab2"), activities=(busy, booting))

    assert machines_of(state) == [
        MachineRuns(THIS_MACHINE, 1, 0),
        MachineRuns("lab1", 1, 0),
        MachineRuns("lab2", 2, 1),
        MachineRuns("lab3", 0, 0),
    ]


def test_a_sweep_on_one_machine_has_no_table_of_machines() -> None:
    assert machines_of(performed_on("", "")) == []
