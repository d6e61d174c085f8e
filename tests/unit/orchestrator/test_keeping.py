"""Files that are kept of a run: regular ones of its directory, and no others. The host is this machine."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import cast

import pytest

from owlt.orchestrator.hosts.host import Completed, Host
from owlt.orchestrator.run.left_files import KEPT_BYTES, keep_files


class ThisMachine:
    """Runs a host's commands here."""

    role = "sender"

    def run(self, command: Sequence[str]) -> Completed:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=20, check=False)
        return Completed(done.returncode, done.stdout, done.stderr)

    def check(self, command: Sequence[str]) -> bytes:
        return self.run(command).stdout


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    path = tmp_path / "run"
    path.mkdir()
    return path


def kept(names: list[str], run_dir: Path) -> dict[str, bytes]:
    """What is kept of these, by name."""
    directory = run_dir.parent / "results"
    keep_files(names, cast(Host, ThisMachine()), str(run_dir), directory)
    found = directory / "kept" / "sender"
    return {str(path.relative_to(found)): path.read_bytes() for path in found.rglob("*") if path.is_file()}


def test_a_file_is_kept_under_its_own_name(run_dir: Path) -> None:
    (run_dir / "logs").mkdir()
    (run_dir / "logs" / "ion.log").write_text("a line\n")

    assert kept(["logs/ion.log"], run_dir) == {"logs/ion.log": b"a line\n"}


def test_of_a_long_file_its_end_is_kept(run_dir: Path) -> None:
    (run_dir / "ion.log").write_bytes(b"x" * KEPT_BYTES + b"the end\n")

    content = kept(["ion.log"], run_dir)["ion.log"]

    assert (len(content), content[-8:]) == (KEPT_BYTES, b"the end\n")


def test_a_file_that_is_not_there_is_not_kept(run_dir: Path) -> None:
    assert kept(["ion.log"], run_dir) == {}


def test_what_a_link_leads_to_is_not_kept(run_dir: Path) -> None:
    (run_dir / "ion.log").symlink_to("/etc/passwd")

    assert kept(["ion.log"], run_dir) == {}


def test_what_a_linked_directory_leads_to_is_not_kept(run_dir: Path) -> None:
    (run_dir / "logs").symlink_to("/etc")

    assert kept(["logs/passwd"], run_dir) == {}


def test_a_fifo_is_not_waited_for(run_dir: Path) -> None:
    os.mkfifo(run_dir / "ion.log")

    assert kept(["ion.log"], run_dir) == {}


def test_a_run_directory_behind_a_link_of_the_hosts_own_is_no_obstacle(run_dir: Path) -> None:
    (run_dir / "ion.log").write_text("a line\n")
    (run_dir.parent / "linked").symlink_to(run_dir)

    assert kept(["ion.log"], run_dir.parent / "linked") == {"ion.log": b"a line\n"}
