"""For any implementation, each run ends in a record with a reason, the sweep continues, the machine is unchanged."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from owlt.orchestrator.rigs import guest
from tests.system.sweeps import IMPLEMENTATIONS, PROJECT, RECORDED, perform, records

ENDINGS = ["exits-with-1", "hangs", "unsupported", "writes-to-etc", "gives-up", "exits-as-specified"]
EXITS = {
    "exit 255": "the sender exited with status 255;",
    "exit 128": "the sender exited with status 128;",
    "exit 200": "the sender exited with status 200;",
    "kill -KILL $$": "the sender exited with status 137, by SIGKILL;",
    "kill -SEGV $$": "the sender exited with status 139, by SIGSEGV;",
}
"""How a real sender ends, and how the reason in its record begins."""


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory, guest_kernel: object) -> dict[str, dict[str, Any]]:
    """Each hostile implementation once, and CFDP among them; the records by implementation."""
    directory = tmp_path_factory.mktemp("endings")
    implementations = [str(IMPLEMENTATIONS / f"{name}.yaml") for name in ENDINGS]
    parameters = {
        "writes-to-etc": {"project": guest.PROJECT},
        "gives-up": {"project": guest.PROJECT, "allocates": [0, 1], "stays": [0, 1]},
        "exits-as-specified": {"how": list(EXITS)},
    }
    done = perform(
        directory,
        directory / "results",
        implementations=[*implementations, "cfdp"],
        parameters=parameters,
        runs_per_guest=len(ENDINGS) + len(EXITS) + 4,
    )
    assert done.returncode in RECORDED, done.stderr
    return {record["implementation"]: record for record in records(directory / "results").values()}


def test_a_build_that_exits_with_1_has_failed_with_its_last_words(ended: dict[str, dict[str, Any]]) -> None:
    assert ended["exits-with-1"]["outcome"] == "failed"
    assert "the sender exited with status 1" in ended["exits-with-1"]["reason"]
    assert "cannot open the link" in ended["exits-with-1"]["reason"]


def test_a_build_that_hangs_times_out_at_its_own_limit(ended: dict[str, dict[str, Any]]) -> None:
    record = ended["hangs"]

    assert record["outcome"] == "timed_out"
    assert "30 s after the launch" in record["reason"]
    assert record["receiver"]["stopped"]


def test_exit_status_127_is_unsupported_and_not_failed(ended: dict[str, dict[str, Any]]) -> None:
    assert ended["unsupported"]["outcome"] == "unsupported"
    assert "too large" in ended["unsupported"]["reason"]


def test_a_wrong_file_is_corrupt(ended: dict[str, dict[str, Any]]) -> None:
    assert ended["writes-to-etc"]["outcome"] == "corrupt"


@pytest.mark.parametrize(
    ("variant", "has"),
    [
        ("gives-up+allocates=0+stays=0", "the receiver has the first 61,440 of 100,000 bytes"),
        ("gives-up+allocates=1+stays=0", "the receiver has the first 61,440 of 100,000 bytes; zeros follow"),
        ("gives-up+allocates=0+stays=1", "the receiver has the first 61,440 of 100,000 bytes"),
    ],
)
def test_a_transfer_that_gave_up_is_incomplete_with_the_end_of_its_sender(
    ended: dict[str, dict[str, Any]], variant: str, has: str
) -> None:
    assert ended[variant]["outcome"] == "incomplete"
    assert ended[variant]["reason"] == f"{has}; the sender exited with status 3; its last line: 'gave up after 61440'"


@pytest.mark.parametrize("beginning", EXITS.values())
def test_every_end_of_a_program_is_recorded_as_it_was(ended: dict[str, dict[str, Any]], beginning: str) -> None:
    reasons = [record["reason"] for name, record in ended.items() if name.startswith("exits-as-specified+")]

    assert len([reason for reason in reasons if reason.startswith(beginning)]) == 1


def test_the_sweep_goes_on_after_builds_that_fail(ended: dict[str, dict[str, Any]]) -> None:
    assert ended["cfdp"]["outcome"] == "completed"


def test_what_a_build_writes_outside_its_directory_changes_nothing_here(
    ended: dict[str, dict[str, Any]],
) -> None:
    assert ended["writes-to-etc"]["receiver"]["exit_status"] == 0
    assert not Path("/etc/owlt-was-here").exists()
    assert not Path("/usr/bin/owlt-was-here").exists()
    assert "hostile" not in (PROJECT / "README.md").read_text()


def test_a_build_that_only_computes_is_ended_at_its_limit_and_the_sweep_continues(
    tmp_path: Path, guest_kernel: object
) -> None:
    results = tmp_path / "results"

    done = perform(tmp_path, results, implementations=[str(IMPLEMENTATIONS / "spins.yaml"), "cfdp"])

    assert done.returncode in RECORDED, done.stderr
    found = {record["implementation"]: record for record in records(results).values()}
    assert {name: record["outcome"] for name, record in found.items()} == {"spins": "failed", "cfdp": "completed"}
    assert (
        "the implementation computed for 11 s of wall time during which no virtual time passed"
        in found["spins"]["reason"]
    )
    assert "(running: 1 x python)" in found["spins"]["reason"]
