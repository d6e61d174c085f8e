"""What becomes of a sweep whose file system is full, read-only or gone: on a tmpfs in a mount namespace, in guests."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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


@contextmanager
def made_room(directory: Path) -> Iterator[Room]:
    if os.geteuid() != 0:
        pytest.skip("mounting a tmpfs needs root")
    directory.mkdir()
    mount = f"mount -t tmpfs -o size={SMALL} none {directory} && echo mounted && exec sleep 1000"
    with subprocess.Popen(["unshare", "--mount", "sh", "-c", mount], stdout=subprocess.PIPE, text=True) as shell:
        assert shell.stdout is not None
        assert shell.stdout.readline() == "mounted\n"
        yield Room(shell, directory)
        shell.kill()


@dataclass(frozen=True)
class Ends:
    """How starts of a sweep ended, with the records after each: on a full disk, on a read-only one, with space."""

    full: subprocess.CompletedProcess[str]
    announced: dict[str, Any]
    after_full: dict[str, dict[str, Any]]
    read_only: subprocess.CompletedProcess[str]
    resumed: subprocess.CompletedProcess[str]
    after_all: dict[str, dict[str, Any]]


@pytest.fixture(scope="module")
def ends(tmp_path_factory: pytest.TempPathFactory, guest_kernel: object) -> Iterator[Ends]:
    """A file system cannot become read-only while the journal is open, except after an error of its disk."""
    directory = tmp_path_factory.mktemp("full")
    sweep, announced = sweep_file(directory, **GRID), directory / "announced.json"
    with made_room(directory / "room") as room:
        full = room.sweep(sweep, options=f"--on-end 'cat >{announced}'")
        after_full = records(room.seen)
        assert room.run(f"mount -o remount,ro,size={LARGE} {room.directory}").returncode == 0
        read_only = room.sweep(sweep)
        assert room.run(f"mount -o remount,rw {room.directory}").returncode == 0
        resumed = room.sweep(sweep)
        yield Ends(full, json.loads(announced.read_text()), after_full, read_only, resumed, records(room.seen))


def test_a_sweep_on_a_full_disk_ends_with_what_to_do(ends: Ends) -> None:
    assert ends.full.returncode == 2
    assert "no space left on its file system; all recorded runs are kept" in ends.full.stderr
    assert 0 < len(ends.after_full) < 4


def test_the_end_on_a_full_disk_is_announced(ends: Ends) -> None:
    assert (ends.announced["exit_status"], "no space left" in ends.announced["summary"]) == (2, True)
    assert 0 < ends.announced["counts"]["completed"] < 4


def test_a_read_only_directory_is_refused_with_the_reason(ends: Ends) -> None:
    assert ends.read_only.returncode == 2, ends.read_only.stderr
    assert "Read-only file system" in ends.read_only.stderr
    assert "Traceback" not in ends.read_only.stderr


def test_a_sweep_is_resumed_when_its_disk_is_writable_and_has_space(ends: Ends) -> None:
    assert ends.resumed.returncode == 0, ends.resumed.stderr
    assert len(ends.after_all) == 4
    assert {run_id: ends.after_all[run_id] for run_id in ends.after_full} == ends.after_full


def test_a_directory_that_is_removed_ends_the_sweep_with_the_reason(tmp_path: Path, guest_kernel: object) -> None:
    sweep = sweep_file(tmp_path, **GRID)
    with made_room(tmp_path / "room") as room:
        room.run(f"mount -o remount,size={LARGE} {room.directory}")

        ended = room.sweep(sweep, then=f"rm -rf {room.results}")

        assert ended.returncode == 2, ended.stderr
        assert "No such file or directory" in ended.stderr
        assert "Traceback" not in ended.stderr
        assert room.sweep(sweep).returncode == 0
