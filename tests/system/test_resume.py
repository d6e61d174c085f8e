"""A sweep that was killed goes on where it stopped: every run once, and each the same as if nothing had happened."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import suppress
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


def guests_leading(results: Path) -> list[int]:
    """The kernels of the guests: of their processes those that lead a session."""
    leading = []
    for pid in guests_of(results):
        with suppress(ProcessLookupError):
            if os.getsid(pid) == pid:
                leading.append(pid)
    return leading


def events(results: Path, name: str) -> int:
    return (results / "journal.jsonl").read_text().count(f'"event": "{name}"')


def kill_guests_until_a_run_is_repeated(results: Path, limit_s: float) -> None:
    """A guest that is killed behind its run is not missed, so others follow."""
    end = time.monotonic() + limit_s
    while time.monotonic() < end and not events(results, "retry"):
        for pid in guests_leading(results):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.5)


def test_a_run_whose_guest_is_killed_is_performed_again_with_the_same_packets(
    tmp_path: Path, guest_kernel: object
) -> None:
    undisturbed, struck = tmp_path / "undisturbed", tmp_path / "struck"
    grid = GRID | {"certify": False}
    assert perform(tmp_path, undisturbed, **grid).returncode == 0
    sweep = start(sweep_file(tmp_path, **grid), struck)
    wait_for_records(struck, 1, 120)
    kill_guests_until_a_run_is_repeated(struck, 60)

    assert sweep.wait(240) == 0

    found = records(struck).values()
    assert {record["outcome"] for record in found} == {"completed"}
    assert events(struck, "retry") > 0, "no guest was killed during a run: nothing is proven"
    assert sum(record["attempt"] for record in found) == RUNS + events(struck, "retry")
    for run in (undisturbed / "runs").iterdir():
        unlike = [line for line in differences(run, struck / "runs" / run.name) if "attempt" not in line]
        assert unlike == [], run.name


def test_a_sweep_that_is_under_way_is_not_started_twice_and_can_be_reported(
    tmp_path: Path, guest_kernel: object
) -> None:
    results = tmp_path / "results"
    sweep = sweep_file(tmp_path, **GRID)
    first = start(sweep, results)
    wait_for_records(results, 2, 120)

    second, report = owlt("run", sweep, "--results", results), owlt("report", results)

    assert second.returncode == 2
    assert f"process {first.pid} on " in second.stderr
    assert report.returncode == 0, report.stderr
    assert first.wait(300) == 0
    assert {record["outcome"] for record in records(results).values()} == {"completed"}
    assert len(records(results)) == RUNS


def test_guests_die_with_the_sweep_that_started_them(tmp_path: Path, guest_kernel: object) -> None:
    results = tmp_path / "results"
    sweep = start(sweep_file(tmp_path, **GRID), results)
    wait_for_records(results, 1, 120)
    while not (guests := guests_of(results)) and sweep.poll() is None:
        time.sleep(0.02)  # between two runs there is none

    os.kill(sweep.pid, signal.SIGKILL)
    sweep.wait()
    assert guests, "no guest was running: nothing is proven"

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
