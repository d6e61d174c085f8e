"""What a profile says comes true on a host: files, commands, settings, signs, a dialogue at a terminal, an own end."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.system.sweeps import BUILDS, perform, records


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory, guest_kernel: object) -> Path:
    """A console that is typed to, once."""
    directory = tmp_path_factory.mktemp("console")
    done = perform(directory, directory / "results", implementations=[str(BUILDS / "console.yaml")])
    assert done.returncode == 0, done.stderr
    return directory / "results"


@pytest.fixture(scope="module")
def record(results: Path) -> dict[str, Any]:
    """Its record."""
    return next(iter(records(results).values()))


@pytest.fixture(scope="module")
def console(results: Path) -> str:
    """All that its terminal showed."""
    return next(results.glob("runs/*/sender.out")).read_text().replace("\r\n", "\n")


def test_the_console_answers_what_it_is_typed(console: str) -> None:
    assert "put 100000 word=now rate=10000" in console


def test_the_console_is_stopped_by_typing(console: str, record: dict[str, Any]) -> None:
    assert "bye" in console
    assert record["sender"]["exit_status"] == 0


def test_a_sysctl_is_set_while_the_program_runs(console: str) -> None:
    assert "0 is tcp_sack" in console


def test_a_side_is_over_with_its_line_while_the_program_runs(record: dict[str, Any]) -> None:
    assert record["sender"]["stopped"]
    assert "the receiver has no file" in record["reason"]
