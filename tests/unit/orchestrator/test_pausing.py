"""A sweep that is paused: no run is started until it is resumed. And the note and the interrupt of an operator."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from owlt.inputs.mistake import Invalid, OwltError
from owlt.orchestrator.planning.plan import Run
from owlt.orchestrator.run.events import Entry, RunPublished, SweepPaused, SweepResumed, SweepStarted
from owlt.orchestrator.run.task import Task
from owlt.orchestrator.sweep.journal import Activities
from owlt.orchestrator.sweep.scheduling import Deadline, StopTime, Timing
from owlt.orchestrator.sweep.state import process_text
from owlt.orchestrator.sweep.state_reader import read_state
from owlt.orchestrator.sweep.supervisor import supervise
from owlt.results.files import JOURNAL_NAME
from owlt.results.lock import LOCK_NAME, interrupt_holder, locked
from owlt.results.operator import MOST_NOTE_CHARACTERS, NOTE_NAME, pause, paused_since_s, read_note, resume, write_note
from tests.unit.orchestrator.small_sweep import go, in_memory, runs_done, small_plan, small_workers
from tests.unit.orchestrator.workers_in_memory import Reported, complete
from tests.unit.reports.conftest import few, write_results

LONGEST_S = 30.0


def wait_for(condition: Callable[[], bool]) -> None:
    end_s = time.monotonic() + LONGEST_S
    while not condition():
        assert time.monotonic() < end_s
        time.sleep(0.01)


def is_noted(results: Path, event: str) -> bool:
    journal = results / JOURNAL_NAME
    return journal.exists() and f'"event": "{event}"' in journal.read_text()


def test_a_sweep_that_is_paused_before_its_start_performs_its_runs_once_it_is_resumed(tmp_path: Path) -> None:
    workers = small_workers(small_plan("exact"))
    pause(tmp_path)
    sweep = threading.Thread(target=go, args=(workers, tmp_path))
    sweep.start()
    wait_for(lambda: is_noted(tmp_path, "pause"))
    time.sleep(0.3)
    launched = len(workers.batches)
    resume(tmp_path)
    sweep.join(LONGEST_S)

    assert launched == 0
    assert len(runs_done(tmp_path)) == len(workers.plan.runs)


def test_a_pause_lets_the_run_end_and_starts_none_of_the_others_of_its_guest(tmp_path: Path) -> None:
    done = []

    def perform(run: Run, task: Task, directory: Path) -> Iterable[Reported]:
        if not done:
            pause(tmp_path)
            wait_for(lambda: is_noted(tmp_path, "pause"))
        done.append(run.run_id)
        return complete(run, task, directory)

    workers = small_workers(small_plan(), perform)
    sweep = threading.Thread(target=go, args=(workers, tmp_path))
    sweep.start()
    wait_for(lambda: len(runs_done(tmp_path)) == 1)
    time.sleep(0.3)
    before = list(done)
    resume(tmp_path)
    sweep.join(LONGEST_S)

    assert len(workers.batches[0].runs) == 3
    assert before == [workers.batches[0].runs[0].run_id]
    assert sorted(done) == sorted(run.run_id for run in workers.plan.runs)


def test_a_sweep_that_is_not_paused_notes_neither_a_pause_nor_that_it_is_resumed(tmp_path: Path) -> None:
    entries = go(small_workers(small_plan()), tmp_path)

    assert not [each for each in entries if isinstance(each.event, SweepPaused | SweepResumed)]


def test_a_paused_sweep_ends_at_its_deadline(tmp_path: Path) -> None:
    workers = small_workers(small_plan("exact"))
    deadline = Deadline("exact", StopTime(time.monotonic() + 0.3, time.monotonic))
    pause(tmp_path)

    supervise(workers.plan, tmp_path, in_memory(workers), lambda entry: None, lambda run: "", Timing(deadline=deadline))

    assert (workers.batches, deadline.is_over, deadline.left) == ([], True, "the sweep is paused")


def test_a_pause_is_no_part_of_the_pace(tmp_path: Path) -> None:
    activities = Activities()
    published = RunPublished.model_validate({"run_id": "a", "outcome": "completed"})
    events = [(0.0, SweepStarted(host="here", pid=1)), (10.0, published), (20.0, SweepPaused())]
    for at_s, event in [*events, (1000.0, SweepResumed()), (1010.0, published)]:
        activities.take(Entry(at_s, None, event))

    assert (activities.paced_from_s, activities.published_s) == (1000.0, [1010.0])


def test_the_state_says_that_the_sweep_is_paused_and_how_to_resume_it(tmp_path: Path) -> None:
    results = write_results(tmp_path / "few", few(), skip=lambda run: run.repetition > 1)
    assert "paused" not in process_text(read_state(results))
    pause(results)
    state = read_state(results)

    assert state.paused_since_s == paused_since_s(results)
    assert process_text(state).endswith(f"no run is started; resume with: rm {results}/paused")


# The note


def test_a_note_is_kept_without_control_characters_until_it_is_removed(tmp_path: Path) -> None:
    write_note(tmp_path, "  moved the antenna\r\n\x1b[31mat 14:00\t<b>\n")
    assert read_note(tmp_path) == "moved the antenna\n[31mat 14:00 <b>"
    write_note(tmp_path, " ")

    assert read_note(tmp_path) == ""
    assert not (tmp_path / NOTE_NAME).exists()


def test_a_note_that_is_too_long_is_refused_and_one_that_somebody_wrote_is_cut(tmp_path: Path) -> None:
    write_note(tmp_path, MOST_NOTE_CHARACTERS * "x")
    with pytest.raises(Invalid, match="at most 2000"):
        write_note(tmp_path, (MOST_NOTE_CHARACTERS + 1) * "x")
    assert len(read_note(tmp_path)) == MOST_NOTE_CHARACTERS
    (tmp_path / NOTE_NAME).write_text((MOST_NOTE_CHARACTERS + 1) * "x")

    assert len(read_note(tmp_path)) == MOST_NOTE_CHARACTERS


def test_a_note_that_is_a_link_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    (tmp_path / NOTE_NAME).symlink_to(tmp_path / "secret")

    assert read_note(tmp_path) == ""


# The interrupt


def test_nobody_is_interrupted_where_no_sweep_runs(tmp_path: Path) -> None:
    with pytest.raises(OwltError, match="no 'owlt run' is running there"):
        interrupt_holder(tmp_path)


def test_a_process_that_the_lock_names_and_that_does_not_hold_it_is_not_interrupted(tmp_path: Path) -> None:
    with subprocess.Popen(["sleep", "60"]) as victim, locked(tmp_path):
        holder = json.loads((tmp_path / LOCK_NAME).read_text())
        (tmp_path / LOCK_NAME).write_text(json.dumps(holder | {"pid": victim.pid}))

        with pytest.raises(OwltError, match="does not hold its lock"):
            interrupt_holder(tmp_path)

        assert victim.poll() is None
        victim.kill()


def test_a_process_on_another_machine_is_not_interrupted(tmp_path: Path) -> None:
    with locked(tmp_path):
        holder = json.loads((tmp_path / LOCK_NAME).read_text())
        (tmp_path / LOCK_NAME).write_text(json.dumps(holder | {"host": "elsewhere", "pid": os.getpid()}))
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)
        try:
            with pytest.raises(OwltError, match="on another machine; end it there: kill -INT"):
                interrupt_holder(tmp_path)
        finally:
            signal.signal(signal.SIGINT, before)
