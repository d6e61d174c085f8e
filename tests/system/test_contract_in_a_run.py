"""What a profile says comes true on a host: files, commands, settings, signs, a dialogue at a terminal, an own end."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.system.sweeps import IMPLEMENTATIONS, RECORDED, perform, records

CHANNEL = """\
name: uneven
forward: {rate: 10 Mbit/s, delay: 25 ms, packet_error_rate: 0.1}
reverse: {rate: 10 Mbit/s, delay: 25 ms, bit_error_rate: 1e-6}
"""


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory, guest_kernel: object) -> Path:
    """A console that is typed to, once; the directions of its channel have errors of different kinds."""
    directory = tmp_path_factory.mktemp("console")
    (directory / "uneven.yaml").write_text(CHANNEL)
    done = perform(
        directory,
        directory / "results",
        implementations=[str(IMPLEMENTATIONS / "console.yaml")],
        channel=str(directory / "uneven.yaml"),
    )
    assert done.returncode in RECORDED, done.stderr
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


def test_a_build_is_given_the_bit_error_rate_that_hits_its_frames_as_often(console: str) -> None:
    """Of frames of 1514 bytes."""
    (forward, reverse) = map(float, re.search(r"ber=(\S+) (\S+)", console).groups())  # type: ignore[union-attr]

    assert (forward, reverse) == (pytest.approx(1 - 0.9 ** (1 / (8 * 1514)), rel=1e-9), 1e-6)


def test_of_a_run_that_is_not_completed_the_named_files_stay_with_their_ends(results: Path) -> None:
    (kept,) = results.glob("runs/*/kept")

    assert {str(path.relative_to(kept)) for path in kept.rglob("*") if not path.is_dir()} == {
        "sender/console.conf",
        "receiver/long.log",
    }
    assert (kept / "sender" / "console.conf").read_text().startswith("word=now rate=10000")
    assert (kept / "receiver" / "long.log").stat().st_size == 1_000_000
    assert (kept / "receiver" / "long.log").read_text().endswith("\n200000\n")


def test_a_record_says_why_its_run_cannot_be_repeated(record: dict[str, Any]) -> None:
    assert record["not_repeatable"] == "a person types"
