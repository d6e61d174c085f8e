"""Implementations that misbehave: each run has a record with the reason, and the next run is not affected."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.system.sweeps import IMPLEMENTATIONS, perform, records

MISBEHAVING = [
    "crashes",
    "leaves-a-daemon",
    "floods",
    "prints-binary",
    "ignores-sigterm",
    "fills-its-directory",
    "is-not-there",
    "says-it-failed",
    "spoils-the-file",
    "prepares-a-daemon",
    "missing-library",
    "does-not-wait",
]
Records = dict[str, dict[str, Any]]
pytestmark = pytest.mark.timeout(900)
"""All that these tests look at happens before the first of them: the guest's 39 runs, three times."""


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory, guest_kernel: object) -> Path:
    """Each once in one guest, with CFDP among them, three times."""
    directory = tmp_path_factory.mktemp("misbehaving")
    implementations = [str(IMPLEMENTATIONS / f"{name}.yaml") for name in MISBEHAVING]
    done = perform(
        directory, directory / "results", implementations=[*implementations, "cfdp"], repetitions=3, runs_per_guest=39
    )
    assert done.returncode == 1, done.stderr  # a missing library is the fault of the rig
    return directory / "results"


@pytest.fixture(scope="module")
def ended(results: Path) -> Records:
    """The first record of each."""
    return {record["implementation"]: record for record in records(results).values() if record["repetition"] == 1}


def test_every_run_has_a_record(results: Path) -> None:
    assert len(records(results)) == 3 * (len(MISBEHAVING) + 1)


def test_a_crash_has_failed_by_its_signal_with_its_last_words(ended: Records) -> None:
    assert ended["crashes"]["outcome"] == "failed"
    assert "the sender exited with status 139, by SIGSEGV" in ended["crashes"]["reason"]


def test_a_daemon_that_is_left_behind_is_named_and_ended(ended: Records) -> None:
    record = ended["leaves-a-daemon"]

    assert record["sender"]["left_running"] == ["sleep 234567"]
    assert record["receiver"]["left_running"] == ["sleep 123456"]
    assert record["outcome"] == "failed"
    assert "the receiver has no file" in record["reason"]


def test_datagrams_that_a_full_socket_refuses_are_counted_though_no_capture_has_them(
    results: Path, ended: Records
) -> None:
    record = ended["does-not-wait"]
    run = results / "runs" / record["run_id"]
    refused = int((run / "sender.out").read_text().split()[1])

    assert refused > 100
    assert record["host_refusals"] == {
        "sender": {"udp_refused": refused, "ip_discarded": refused},
        "receiver": {"udp_refused": 0, "ip_discarded": 0},
    }
    assert json.loads((run / "summary.json").read_text())["str_sent"] == 1000 - refused


def test_a_flood_of_output_has_failed_and_says_so(ended: Records) -> None:
    assert ended["floods"]["outcome"] == "failed"
    assert "the sender wrote more than 32 MB of output and was killed" in ended["floods"]["reason"]


def test_the_log_of_a_flood_is_bounded(results: Path) -> None:
    log = next(results.glob("runs/floods_*/sender.out"))

    assert log.stat().st_size <= 32_000_000


def test_last_words_that_are_no_text_stand_in_the_reason_readable(ended: Records) -> None:
    reason = ended["prints-binary"]["reason"]

    assert "the sender exited with status 3" in reason
    assert reason.isprintable()
    assert "</td><script>" in reason


def test_a_build_that_ignores_sigterm_is_ended_all_the_same(ended: Records) -> None:
    record = ended["ignores-sigterm"]

    assert record["outcome"] == "timed_out"
    assert record["sender"]["stopped"]
    assert record["receiver"]["stopped"]


def test_a_full_run_directory_is_reported(ended: Records) -> None:
    record = ended["fills-its-directory"]

    assert record["outcome"] == "corrupt"
    assert "the receiver's run directory is full" in record["reason"]


def test_a_program_that_is_not_there_is_no_unsupported_permutation(ended: Records) -> None:
    record = ended["is-not-there"]

    assert record["outcome"] == "failed"
    assert (
        "the sender was not started; its last line: 'owlt: no-such-program: there is no such program"
        in record["reason"]
    )


def test_a_line_can_say_that_a_side_failed(ended: Records) -> None:
    record = ended["says-it-failed"]

    assert record["outcome"] == "failed"
    assert "the sender says that it failed: 'put of 7 bytes failed'" in record["reason"]


def test_a_build_cannot_change_the_file_that_it_sends(ended: Records, results: Path) -> None:
    hashes = {record["file_sha256"] for record in records(results).values()}

    assert len(hashes) == 1
    assert "Read-only file system" in ended["spoils-the-file"]["reason"]


def test_a_version_command_without_end_stops_nothing_and_is_reported(ended: Records) -> None:
    told = ended["spoils-the-file"]["versions"]["implementation"]

    assert told == "unknown: the version_command did not finish within 20 s"


def test_what_a_preparation_leaves_behind_is_named_and_ended(results: Path) -> None:
    prepared = list(results.glob("runs/prepares-a-daemon_*"))
    named = [json.loads((path / "record.json").read_text())["sender"]["left_running"] for path in prepared]

    assert named == [["sleep 345678"]] * 3
    assert not [path for path in prepared if "345678" in (path / "receiver.out").read_text()]


def test_a_build_that_lacks_a_library_is_no_unsupported_permutation(ended: Records) -> None:
    assert ended["missing-library"]["outcome"] == "aborted"
    assert "error while loading shared libraries" in ended["missing-library"]["reason"]


def test_the_runs_between_are_clean(results: Path) -> None:
    good = [record for record in records(results).values() if record["implementation"] == "cfdp"]

    assert [record["outcome"] for record in good] == ["completed"] * 3
    assert not [reason for record in good for reason in record["suspect"]]


def test_the_good_build_sends_the_same_packets_whoever_ran_before(results: Path) -> None:
    summaries = [json.loads(path.read_text()) for path in results.glob("runs/cfdp_*/summary.json")]

    assert len({(each["str_sent"], each["rts_sent"]) for each in summaries}) == 1
