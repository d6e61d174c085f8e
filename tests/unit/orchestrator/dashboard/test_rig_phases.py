"""The phases of a run in the rig, from the journal."""

from __future__ import annotations

import json
from pathlib import Path

from owlt.orchestrator.dashboard.run_pages import RigPhase, rig_phases
from owlt.results.files import JOURNAL_NAME

RUN = "cfdp_1MB_r1"


def journal(results: Path, *events: tuple[float, str, str, str]) -> None:
    """A journal with these events: time, event, run, phase."""
    lines = [
        {
            "at_s": at_s,
            "batch": 0,
            "event": event,
            "run_id": run_id,
            "phase": phase,
            "outcome": "completed",
            "reason": "",
        }
        for at_s, event, run_id, phase in events
    ]
    (results / JOURNAL_NAME).write_text("".join(json.dumps(line) + "\n" for line in lines))


def performed(run_id: str, begin_s: float) -> list[tuple[float, str, str, str]]:
    """The events of a run that stages for 1 s, transfers for 2 s and is published after 0.5 s."""
    return [
        (begin_s, "run", run_id, ""),
        (begin_s, "phase", run_id, "stage"),
        (begin_s + 1, "phase", run_id, "transfer"),
        (begin_s + 3, "done", run_id, ""),
        (begin_s + 3.5, "published", run_id, ""),
    ]


def test_each_phase_has_its_duration(tmp_path: Path) -> None:
    journal(tmp_path, *performed(RUN, 10.0))

    assert rig_phases(tmp_path, RUN) == [RigPhase("stage", 1), RigPhase("transfer", 2), RigPhase("publish", 0.5)]


def test_other_runs_do_not_count_even_if_their_names_begin_in_the_same_way(tmp_path: Path) -> None:
    journal(tmp_path, *performed(f"{RUN}0", 0.0))

    assert rig_phases(tmp_path, RUN) == []


def test_of_a_run_that_was_performed_twice_the_latest_time_counts(tmp_path: Path) -> None:
    again = [(20.0, "run", RUN, ""), (20.0, "phase", RUN, "stage"), (27.0, "phase", RUN, "transfer")]
    journal(tmp_path, *performed(RUN, 10.0), *again)

    assert rig_phases(tmp_path, RUN) == [RigPhase("stage", 7)]


def test_without_a_journal_there_are_no_phases(tmp_path: Path) -> None:
    assert rig_phases(tmp_path, RUN) == []
