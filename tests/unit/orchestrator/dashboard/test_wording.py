"""The headline of a sweep."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrator.dashboard.sweeps.index import Snapshot
from orchestrator.dashboard.sweeps.wording import headline_of
from orchestrator.results.record import Outcome
from orchestrator.status.state import RunState, SweepProcess, SweepState


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
    return Snapshot(state=state)


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
