"""A worker that is a process: its lines, its silence, its end."""

from __future__ import annotations

import subprocess

import pytest

from owlt.orchestrator.run.launching import WorkerHung, WorkerProcess


def started(script: str, has_console: bool = False) -> subprocess.Popen[str]:
    stdin = subprocess.PIPE if has_console else subprocess.DEVNULL
    return subprocess.Popen(
        ["sh", "-c", script], stdin=stdin, stdout=subprocess.PIPE, text=True, start_new_session=True
    )


def test_its_lines_come_until_it_ends() -> None:
    worker = WorkerProcess(started("echo one; printf 'two\\r\\nthree'"))

    lines = list(worker.lines(lambda: 600.0))
    worker.end()

    assert lines == ["one\n", "two\n", "three\n"]


def test_one_that_is_silent_for_longer_than_its_limit_hangs() -> None:
    worker = WorkerProcess(started("exec sleep 600"))

    try:
        with pytest.raises(WorkerHung, match=r"it reported nothing for 0\.01 s of wall time"):
            list(worker.lines(lambda: 0.01))
    finally:
        worker.end()


def test_a_guest_that_is_silent_is_asked_to_end_its_programs_before_it_hangs() -> None:
    worker = WorkerProcess(started("read silence; echo asked after $silence", has_console=True), grace_s=600.0)

    lines = list(worker.lines(lambda: 0.01))
    worker.end()

    assert lines == ["asked after 0.01\n"]


def test_its_end_is_that_of_all_that_it_has_started() -> None:
    worker = WorkerProcess(started("sleep 600 & echo ready; wait"))
    lines = worker.lines(lambda: 600.0)
    next(lines)

    worker.end()

    assert list(lines) == []  # the last process that holds its output has ended


def test_one_that_ignores_its_end_is_killed() -> None:
    process = started("trap '' TERM; echo ready; while :; do sleep 600; done")
    worker = WorkerProcess(process, grace_s=0.01)
    next(worker.lines(lambda: 600.0))

    worker.end()

    assert process.wait() == -9
