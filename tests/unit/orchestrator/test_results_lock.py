"""One `owlt run` at a time on a results directory; the others are other processes."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from orchestrator.errors import OwltError
from orchestrator.results_lock import LOCK_NAME, ResultsInUse, locked, require_free

HOLDER = """\
import sys, time
from pathlib import Path
from orchestrator.results_lock import locked
with locked(Path(sys.argv[1])):
    print("locked", flush=True)
    time.sleep(600)
"""


@pytest.fixture
def holder(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that holds the lock."""
    process = subprocess.Popen([sys.executable, "-c", HOLDER, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "locked\n"
    yield process
    process.kill()
    process.wait()
    process.stdout.close()


def test_a_lock_that_cannot_be_opened_is_named_with_what_to_do(tmp_path: Path) -> None:
    (tmp_path / LOCK_NAME).mkdir()

    with pytest.raises(OwltError, match=r"lock: cannot be opened \(Is a directory\).* --results"):
        require_free(tmp_path)


def files_in(directory: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in directory.iterdir()}


def test_a_second_process_is_refused_with_the_first_ones_host_and_pid(
    tmp_path: Path, holder: subprocess.Popen[str]
) -> None:
    before = files_in(tmp_path)

    with (
        pytest.raises(ResultsInUse, match=rf"process {holder.pid} on {socket.gethostname()}, started"),
        locked(tmp_path),
    ):
        pass

    assert files_in(tmp_path) == before


def test_a_directory_that_is_in_use_is_not_free(tmp_path: Path, holder: subprocess.Popen[str]) -> None:
    with pytest.raises(ResultsInUse, match=str(holder.pid)):
        require_free(tmp_path)


def test_asking_whether_a_directory_is_free_changes_nothing(tmp_path: Path) -> None:
    require_free(tmp_path)
    require_free(tmp_path / "nothing")

    assert list(tmp_path.iterdir()) == []


def test_the_lock_of_a_process_that_was_killed_is_free(tmp_path: Path, holder: subprocess.Popen[str]) -> None:
    os.kill(holder.pid, signal.SIGKILL)
    holder.wait()

    with locked(tmp_path) as left:
        assert left is None
        assert str(os.getpid()) in (tmp_path / LOCK_NAME).read_text()


def test_a_name_from_another_machine_that_was_left_is_reported(tmp_path: Path) -> None:
    (tmp_path / LOCK_NAME).write_text('{"host": "elsewhere", "pid": 7, "started": "2026-01-01 00:00:00 +0000"}')

    with locked(tmp_path) as left:
        assert str(left) == "process 7 on elsewhere, started 2026-01-01 00:00:00 +0000"


@pytest.mark.parametrize("content", [b"", b"\xff\x00", b"[]", b'{"host": 1}'])
def test_a_damaged_lock_file_locks_all_the_same(tmp_path: Path, content: bytes) -> None:
    (tmp_path / LOCK_NAME).write_bytes(content)

    with locked(tmp_path), pytest.raises(ResultsInUse):
        require_free(tmp_path)


def test_a_lock_that_was_released_names_nobody(tmp_path: Path) -> None:
    with locked(tmp_path):
        pass

    assert (tmp_path / LOCK_NAME).read_text() == ""
