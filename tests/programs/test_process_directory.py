"""Temporary directories of processes: a killed process leaves its own, and the next one removes it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from owlt.orchestrator.own_directories import process_directory

HOLDER = """
import sys, tempfile
tempfile.tempdir = sys.argv[1]
from owlt.orchestrator.own_directories import process_directory
with process_directory("tests") as directory:
    (directory / "file").touch()
    print(directory, flush=True)
    sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


@pytest.fixture
def holder(temporary: Path) -> Iterator[Callable[[], tuple[subprocess.Popen[str], Path]]]:
    """Starts a process with such a directory."""
    started = []

    def start() -> tuple[subprocess.Popen[str], Path]:
        command = [sys.executable, "-c", HOLDER, str(temporary)]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        started.append(process)
        assert process.stdout is not None
        return process, Path(process.stdout.readline().strip())

    yield start
    for process in started:
        with suppress(ProcessLookupError):
            process.kill()
        process.communicate()


def test_the_directory_of_a_killed_process_is_removed_by_the_next(holder: Callable) -> None:  # type: ignore[type-arg]
    process, directory = holder()
    process.kill()
    process.wait()
    assert (directory / "file").exists()

    with process_directory("tests"):
        assert not directory.exists()


def test_the_directory_of_a_living_process_stays(holder: Callable) -> None:  # type: ignore[type-arg]
    _, directory = holder()

    with process_directory("tests"):
        assert (directory / "file").exists()


def test_a_process_with_the_number_of_a_killed_one_does_not_keep_its_directory(temporary: Path) -> None:
    with process_directory("tests") as own:
        prefix, namespace, number, start, _ = own.name.rsplit("-", 4)
        earlier = temporary / f"{prefix}-{namespace}-{number}-{int(start) - 1}-aaaaaaaa"
        earlier.mkdir()

        with process_directory("tests"):
            assert not earlier.exists()
            assert own.exists()


def test_a_directory_that_is_named_after_no_process_stays(temporary: Path) -> None:
    other = temporary / "owlt-tests-of-a-user"
    other.mkdir()

    with process_directory("tests"):
        pass

    assert other.exists()
