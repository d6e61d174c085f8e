"""A sweep that was killed goes on where it stopped: every run once, and each the same as if nothing had happened."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

from tests.system.sweeps import PROJECT, differences, owlt, perform, records, sweep_file

GRID = {"packet_error_rate": [0, 0.01, 0.05], "repetitions": 3, "runs_per_guest": 3}
RUNS = 9


def start(sweep: Path, results: Path) -> subprocess.Popen[str]:
    command = [
        str(Path(sys.executable).parent / "owlt"),
        "run",
        str(sweep),
        "--results",
        str(results),
        "--no-report",
    ]
    return subprocess.Popen(command, cwd=PROJECT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, text=True)


def wait_for_records(results: Path, count: int, deadline_s: float) -> None:
    end = time.monotonic() + deadline_s
    while len(records(results)) < count:
        assert time.monotonic() < end, f"{len(records(results))} of {count} records after {deadline_s} s"
        time.sleep(0.05)


def guests_of(results: Path) -> list[int]:
    """The processes whose working directory is below the results: the guests."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if (entry / "cwd").readlink().is_relative_to(results):
                    found.append(int(entry.name))
            except OSError:
                continue
    return found


def test_a_sweep_killed_in_the_middle_goes_on_and_records_every_run_once(tmp_path: Path, guest_kernel: object) -> None:
    whole, torn = tmp_path / "whole", tmp_path / "torn"
    assert perform(tmp_path, whole, **GRID).returncode == 0
    sweep = sweep_file(tmp_path, **GRID)
    killed = start(sweep, torn)
    wait_for_records(torn, 2, 120)
    os.kill(killed.pid, signal.SIGKILL)
    killed.wait()
    before = {path: path.stat().st_mtime_ns for path in torn.glob("runs/*/record.json")}

    again = owlt("run", sweep, "--results", torn, "--no-report")

    assert again.returncode == 0, again.stderr
    assert 2 <= len(before) < RUNS, "the kill came too late to prove anything"
    assert Counter(path.parent.name for path in torn.glob("runs/*/record.json")) == Counter(records(whole).keys())
    assert {path: path.stat().st_mtime_ns for path in before} == before
    assert owlt("report", torn).returncode == 0, "it looks once more at runs whose captures the kill left half analysed"
    for run in (whole / "runs").iterdir():
        assert differences(run, torn / "runs" / run.name) == [], run.name


def test_guests_die_with_the_sweep_that_started_them(tmp_path: Path, guest_kernel: object) -> None:
    results = tmp_path / "results"
    sweep = start(sweep_file(tmp_path, **GRID), results)
    wait_for_records(results, 1, 120)
    assert guests_of(results), "no guest was running: nothing is proven"

    os.kill(sweep.pid, signal.SIGKILL)
    sweep.wait()

    end = time.monotonic() + 10
    while guests_of(results) and time.monotonic() < end:
        time.sleep(0.05)
    assert guests_of(results) == []


def test_a_finished_sweep_has_nothing_left_to_do(tmp_path: Path, guest_kernel: object) -> None:
    results = tmp_path / "results"
    perform(tmp_path, results)
    before = records(results)

    again = owlt("run", sweep_file(tmp_path), "--results", results, "--no-report")

    assert again.returncode == 0
    assert records(results) == before
