"""The lock of a results directory between two processes."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from owlt.results.lock import LOCK_NAME, ResultsInUse, interrupt_holder, locked, require_free

HOLDER = """\
import sys, time
from pathlib import Path
from owlt.results.lock import locked
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


def test_the_lock_of_a_process_that_was_killed_is_free(tmp_path: Path, holder: subprocess.Popen[str]) -> None:
    os.kill(holder.pid, signal.SIGKILL)
    holder.wait()

    with locked(tmp_path) as left:
        assert left is None
        assert str(os.getpid()) in (tmp_path / LOCK_NAME).read_text()


def test_the_process_that_holds_the_lock_is_interrupted(tmp_path: Path, holder: subprocess.Popen[str]) -> None:
    assert interrupt_holder(tmp_path).pid == holder.pid

    assert holder.wait(60) == -signal.SIGINT
