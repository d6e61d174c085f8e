"""What becomes of a sweep whose file system is full, read-only or gone: on a tmpfs in a mount namespace, in guests."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.system.sweeps import records, sweep_file

OWLT = Path(sys.executable).with_name("owlt")
GRID = {"file_size": "500 kB", "repetitions": 4, "keep_captures": "full", "certify": False, "runs_per_guest": 1}
SMALL, LARGE = "17m", "200m"
"""17 MiB are enough for two of these runs beside the space that a sweep leaves free; 200 MiB for all."""


@dataclass
class Room:
    """A mount namespace with a tmpfs; commands run in it through its shell's /proc entry."""

    shell: subprocess.Popen[str]
    directory: Path

    def run(self, command: str, timeout_s: float = 200) -> subprocess.CompletedProcess[str]:
        enter = ["nsenter", f"--mount=/proc/{self.shell.pid}/ns/mnt", "sh", "-c", command]
        return subprocess.run(enter, capture_output=True, text=True, timeout=timeout_s, check=False)

    @property
    def results(self) -> Path:
        """The results directory as the namespace sees it."""
        return self.directory / "results"

    @property
    def seen(self) -> Path:
        """The same as this process sees it."""
        return Path(f"/proc/{self.shell.pid}/root{self.results}")

    def sweep(self, sweep: Path, then: str = "", options: str = "") -> subprocess.CompletedProcess[str]:
        """Perform a sweep there; `then` is run once there is a record."""
        owlt = f"{shlex.quote(str(OWLT))} run {sweep} --results {self.results} --no-report --guests 1 {options}"
        if not then:
            return self.run(owlt)
        wait = f"until ls {self.results}/runs/*/record.json >/dev/null 2>&1; do sleep 0.05; done"
        return self.run(f"({wait}; {then}) & {owlt}; status=$?; wait; exit $status")


@pytest.fixture
def room(tmp_path: Path, guest_kernel: object) -> Iterator[Room]:
    if os.geteuid() != 0:
        pytest.skip("mounting a tmpfs needs root")
    directory = tmp_path / "room"
    directory.mkdir()
    mount = f"mount -t tmpfs -o size={SMALL} none {directory} && echo mounted && exec sleep 1000"
    shell = subprocess.Popen(["unshare", "--mount", "sh", "-c", mount], stdout=subprocess.PIPE, text=True)
    assert shell.stdout is not None
    assert shell.stdout.readline() == "mounted\n"
    yield Room(shell, directory)
    shell.kill()
    shell.wait()
    shell.stdout.close()


def test_a_sweep_on_a_full_disk_ends_with_what_to_do_and_is_resumed_with_space(room: Room, tmp_path: Path) -> None:
    sweep = sweep_file(tmp_path, **GRID)

    ended = room.sweep(sweep)

    assert (ended.returncode, "no space left on its file system; all recorded runs are kept" in ended.stderr) == (
        2,
        True,
    )
    before = records(room.seen)
    assert 0 < len(before) < 4
    assert room.run(f"mount -o remount,size={LARGE} {room.directory}").returncode == 0

    resumed = room.sweep(sweep)

    assert resumed.returncode == 0, resumed.stderr
    after = records(room.seen)
    assert len(after) == 4
    assert {run_id: after[run_id] for run_id in before} == before


def test_a_read_only_directory_is_refused_with_the_reason_and_resumed_when_it_is_writable(
    room: Room, tmp_path: Path
) -> None:
    """A file system cannot become read-only while the journal is open, except after an error of its disk."""
    sweep = sweep_file(tmp_path, **GRID)
    room.sweep(sweep)
    before = records(room.seen)
    assert room.run(f"mount -o remount,ro,size={LARGE} {room.directory}").returncode == 0

    refused = room.sweep(sweep)

    assert refused.returncode == 2, refused.stderr
    assert "Read-only file system" in refused.stderr
    assert "Traceback" not in refused.stderr
    assert room.run(f"mount -o remount,rw {room.directory}").returncode == 0
    assert room.sweep(sweep).returncode == 0
    after = records(room.seen)
    assert ({run_id: after[run_id] for run_id in before}, len(after)) == (before, 4)


def test_a_directory_that_is_removed_ends_the_sweep_with_the_reason(room: Room, tmp_path: Path) -> None:
    sweep = sweep_file(tmp_path, **GRID)
    room.run(f"mount -o remount,size={LARGE} {room.directory}")

    ended = room.sweep(sweep, then=f"rm -rf {room.results}")

    assert ended.returncode == 2, ended.stderr
    assert "No such file or directory" in ended.stderr
    assert "Traceback" not in ended.stderr
    assert room.sweep(sweep).returncode == 0


def test_the_end_on_a_full_disk_is_announced(room: Room, tmp_path: Path) -> None:
    sweep = sweep_file(tmp_path, **GRID)
    announced = tmp_path / "announced.json"

    room.sweep(sweep, options=f"--on-end 'cat >{announced}'")

    values = json.loads(announced.read_text())
    assert (values["exit_status"], "no space left" in values["summary"]) == (2, True)
    assert 0 < values["counts"]["completed"] < 4
