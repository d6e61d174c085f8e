"""The clock of the machine is set while a sweep runs on it: a guest on the real clock, whose clock the test sets."""

from __future__ import annotations

import json
import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.system.conftest import Guest
from tests.system.sweeps import records

SCRIPT = Path(__file__).parent / "guest_scripts" / "clock_step.py"
STEPS = 2
LIMIT_S = 300
"""Of the whole test: less than any step."""


@pytest.fixture(scope="module")
def stepped(tmp_path_factory: pytest.TempPathFactory, guest_kernel: Any) -> Path:
    """What the script leaves: results, and the state of the sweep after each step."""
    out = tmp_path_factory.mktemp("stepped")
    done = Guest(out, guest_kernel).run(SCRIPT, clock="real", timeout_s=LIMIT_S)
    output = out / "output.txt"
    assert done.returncode == 0, done.stderr + (output.read_text() if output.exists() else "")
    return out


def test_every_run_completes_although_the_clock_passes_the_end_of_for(stepped: Path) -> None:
    assert [record["outcome"] for record in records(stepped / "results").values()] == ["completed"] * 5


def test_only_the_attempts_in_which_the_clock_was_set_are_suspect_for_it(stepped: Path) -> None:
    """Other work on the machine may disturb an attempt too, which is then repeated."""
    paths = (stepped / "results").glob("**/record.json")
    doubts = [" ".join(json.loads(path.read_text())["suspect"]) for path in paths]
    steps = [match[1] for doubt in doubts if (match := re.search(r"the clock was set by (\S+) s", doubt))]

    assert sorted(map(float, steps)) == pytest.approx([-7200, 3600], abs=1)


def test_the_times_of_the_journal_continue_evenly(stepped: Path) -> None:
    lines = (stepped / "results" / "journal.jsonl").read_text().splitlines()
    times = [json.loads(line)["at_s"] for line in lines]

    assert all(-1 < later - earlier < LIMIT_S for earlier, later in pairwise(times))
    assert times[-1] - times[0] < LIMIT_S


def test_the_state_of_the_sweep_shows_durations_and_not_the_steps(stepped: Path) -> None:
    states = [json.loads((stepped / f"status-{number}.json").read_text()) for number in range(STEPS)]
    ages = [state["read_at_s"] - each["since_s"] for state in states for each in state["activities"]]

    assert ages
    assert all(-1 < age < LIMIT_S for age in ages)
    left = [state["time_left_s"] for state in states if state["time_left_s"] is not None]
    assert all(0 <= left_s < LIMIT_S for left_s in left)
