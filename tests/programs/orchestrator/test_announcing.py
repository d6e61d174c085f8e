"""The command that a user has run at the end of a sweep."""

from __future__ import annotations

import json
import os
import select
from pathlib import Path

import pytest

from owlt.orchestrator.commands.performing import announce
from owlt.orchestrator.planning.stored_plan import write_plan
from owlt.orchestrator.sweep.announcing import Ending, counts_of, run_hook
from tests.unit.orchestrator.small_sweep import go, small_plan, small_workers


def ending(results: Path) -> Ending:
    plan = small_plan()
    write_plan(plan, results)
    go(small_workers(plan), results)
    return Ending(results, "small", 0, "6 of 6 runs recorded", None, counts_of(results))


def test_the_command_gets_the_ending_in_its_environment(tmp_path: Path) -> None:
    command = f'echo "$OWLT_SWEEP $OWLT_EXIT_STATUS $OWLT_RUNS_COMPLETED $OWLT_SUMMARY" > {tmp_path}/out'

    assert run_hook(command, ending(tmp_path)) == ""
    assert (tmp_path / "out").read_text() == "small 0 6 6 of 6 runs recorded\n"


def test_the_command_gets_the_ending_as_json(tmp_path: Path) -> None:
    run_hook(f"cat > {tmp_path}/out", ending(tmp_path))

    values = json.loads((tmp_path / "out").read_text())
    assert (values["results"], values["counts"]["completed"], values["report"]) == (str(tmp_path), 6, None)


@pytest.mark.parametrize(
    ("command", "limit_s", "why"),
    [
        ("echo no such host >&2; exit 4", 60.0, "exit status 4: no such host"),
        ("exec sleep 600", 0.1, "did not finish within 0.1 s"),
    ],
)
def test_why_a_command_failed_is_returned(tmp_path: Path, command: str, limit_s: float, why: str) -> None:
    assert run_hook(command, Ending(tmp_path, "small", 2, "no kernel"), limit_s) == why


def test_a_long_summary_that_the_command_does_not_read_is_no_failure(tmp_path: Path) -> None:
    assert run_hook("true", Ending(tmp_path, "small", 2, "x" * 1_000_000)) == ""


def test_a_failure_of_the_command_is_a_warning(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    announce(Ending(tmp_path, "small", 0, "all"), "exit 4")

    assert capsys.readouterr().err == "owlt: warning: the command for the end (exit 4): exit status 4\n"


def test_the_command_can_come_from_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OWLT_ON_END", f"touch {tmp_path}/ended")

    announce(Ending(tmp_path, "small", 0, "all"), "")

    assert (tmp_path / "ended").exists()


def test_the_time_limit_ends_all_processes_of_the_command(tmp_path: Path) -> None:
    """The pipe is closed when the last process that has it open has ended."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with os.fdopen(os.open(pipe, os.O_RDONLY | os.O_NONBLOCK), "rb") as read:
        run_hook(f"sleep 300 3>{pipe} & sleep 300 3>{pipe}", ending(tmp_path), 0.3)

        assert select.select([read], [], [], 10)[0]
        assert read.read() == b""
