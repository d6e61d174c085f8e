"""The examples of docs/implementations.md as they stand, side by side in one sweep."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from owlt.orchestrator.own_directories import third_party_directory
from tests.conftest import require_command
from tests.system.sweeps import PROJECT, RECORDED, perform, records

EXAMPLES = PROJECT / "docs" / "examples" / "implementations"


@pytest.fixture(scope="module")
def courier() -> Iterator[None]:
    """The console where its profile searches it, put there as its `fix` says; gone afterwards unless it was there."""
    home = third_party_directory() / "courier"
    was_there = home.exists()
    (home / "bin").mkdir(parents=True, exist_ok=True)
    shutil.copy2(EXAMPLES / "courier.py", home / "bin" / "courier")
    yield
    if not was_there:
        shutil.rmtree(home)


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory, guest_kernel: object, courier: None) -> Path:
    """Each example over a clean and a lossy channel."""
    for command in ("socat", "rsync"):
        require_command(command)
    directory = tmp_path_factory.mktemp("documented")
    done = perform(
        directory,
        directory / "results",
        implementations=[str(path) for path in sorted(EXAMPLES.glob("*.yaml"))],
        delay="250 ms",
        packet_error_rate=[0, 0.01],
        certify=False,
    )
    assert done.returncode in RECORDED, done.stderr
    return directory / "results"


@pytest.fixture(scope="module")
def recorded(results: Path) -> list[dict[str, Any]]:
    return list(records(results).values())


def test_every_example_completes(recorded: list[dict[str, Any]]) -> None:
    ended = {(each["implementation"], each["packet_error_rate"]): each["outcome"] for each in recorded}

    names = sorted(path.stem for path in EXAMPLES.glob("*.yaml"))
    assert ended == {(name, rate): "completed" for name in names for rate in (0, 0.01)}


def test_nothing_about_them_is_suspect(recorded: list[dict[str, Any]]) -> None:
    assert [each["suspect"] for each in recorded if each["suspect"]] == []


def test_the_tool_ends_by_itself(recorded: list[dict[str, Any]]) -> None:
    sides = [
        each[role] for each in recorded if each["implementation"] == "plain-socat" for role in ("sender", "receiver")
    ]

    assert {(side["exit_status"], side["stopped"]) for side in sides} == {(0, False)}


def test_the_console_quits_when_it_is_asked_to(recorded: list[dict[str, Any]], results: Path) -> None:
    sides = [each[role] for each in recorded if each["implementation"] == "courier" for role in ("sender", "receiver")]
    typed = [path.read_text() for path in results.glob("runs/courier_*/sender.out")]

    assert {(side["exit_status"], side["stopped"]) for side in sides} == {(0, True)}
    assert all("delivered 100000 bytes" in text and text.rstrip().endswith("quit") for text in typed)


def test_the_daemon_is_over_with_its_file_and_stopped(recorded: list[dict[str, Any]]) -> None:
    daemons = [each["receiver"] for each in recorded if each["implementation"] == "rsyncd"]

    assert [daemon["stopped"] for daemon in daemons] == [True, True]


def test_every_example_tells_its_version(recorded: list[dict[str, Any]]) -> None:
    told = {each["implementation"]: each["versions"]["implementation"] for each in recorded}

    assert re.fullmatch(r"courier 1\.0 \(sha256 [0-9a-f]{12}\)", told["courier"])
    assert not [version for version in told.values() if version.startswith("unknown")]
