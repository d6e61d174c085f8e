"""A CFDP library that others wrote delivers a file over a lossy channel, also to and from ours, and keeps to what its
profile says."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from owlt.orchestrator.own_directories import third_party_directory
from tests.conftest import require, require_command
from tests.system.sweeps import RECORDED, SAME_MOMENT_NS, capture_differences, perform, records

GRID = {
    "implementations": ["pycfdp", "pycfdp-to-cfdp", "cfdp-to-pycfdp"],
    "delay": ["25 ms", "1250 ms"],
    "packet_error_rate": [0, 0.1],
    "certify": False,
    "keep_captures": "full",
    "runs_per_guest": 12,
}
OUTAGE = {
    "name": "outage",
    "title": "100 ms without a link: 118 PDUs at 10 Mbit/s",
    "source": "a test",
    "both": {"delay": "25 ms", "rate": "10 Mbit/s"},
    "timeline": {"steps": [{"at": "200 ms", "forward": {"up": False}}, {"at": "300 ms", "forward": {"up": True}}]},
}


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory, guest_kernel: object) -> Path:
    path = str(third_party_directory() / "pycfdp" / "bin")
    require(shutil.which("owlt-pycfdp", path=path), "pycfdp (owlt third-party install pycfdp)")
    return tmp_path_factory.mktemp("cfdp")


@pytest.fixture(scope="module")
def results(directory: Path) -> Path:
    """Alone, as sender and as receiver; near and far, with and without errors: twelve runs."""
    done = perform(directory, directory / "results", **GRID)
    assert done.returncode in RECORDED, done.stderr
    return directory / "results"


def test_every_file_arrives_complete(results: Path) -> None:
    found = records(results)

    assert len(found) == 12
    assert {run["outcome"] for run in found.values()} == {"completed"}
    assert all(run["received_sha256"] == run["file_sha256"] for run in found.values())


def test_lost_data_are_asked_for_and_sent_again(results: Path) -> None:
    for run_id in records(results):
        if "per0.1" in run_id:
            assert pdus(results, run_id, "cfdp.nak_st_scope") >= 1, run_id
            assert pdus(results, run_id, "cfdp.offset") > 100, run_id


def test_tshark_finds_no_pdu_malformed_as_it_was_sent(results: Path) -> None:
    for run_id in records(results):
        assert pdus(results, run_id, "_ws.malformed") == 0, run_id


def test_the_same_seed_gives_the_same_packets(results: Path, directory: Path) -> None:
    perform(directory, directory / "again", **{**GRID, "implementations": ["pycfdp"]})

    assert len(records(directory / "again")) == 4
    for run_id in records(directory / "again"):
        first, second = (place / "runs" / run_id for place in (results, directory / "again"))
        assert capture_differences(first, second, SAME_MOMENT_NS) == [], run_id


def test_a_gap_that_no_datagram_holds_ends_the_sender_as_its_profile_says(directory: Path) -> None:
    channel = directory / "outage.yaml"
    channel.write_text(json.dumps(OUTAGE))
    link = {"rate": None, "delay": None, "packet_error_rate": None}
    perform(
        directory, directory / "outage", implementations=["pycfdp"], channel=[str(channel)], file_size="1 MB", **link
    )

    (run_id,) = records(directory / "outage")
    assert "must be in range(0, 256)" in (directory / "outage" / "runs" / run_id / "sender.err").read_text()


def pdus(results: Path, run_id: str, field: str) -> int:
    """How many packets of a run, as they left their senders, have this field of CFDP."""
    found = 0
    for side, address in (("sender", "10.77.0.1"), ("receiver", "10.77.0.2")):
        command = [require_command("tshark"), "-r", str(results / "runs" / run_id / f"{side}.pcap")]
        command += ["-d", "udp.port==2501,cfdp", "-Y", f"ip.src == {address} && {field}"]
        found += len(subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines())
    return found
