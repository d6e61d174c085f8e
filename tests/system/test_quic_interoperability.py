"""aioquic and ngtcp2 over HTTP/3, each as sender and as receiver, deliver a file over a lossy channel."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.conftest import require
from tests.system.sweeps import RECORDED, perform, records

PAIRS = ["aioquic-http3-to-ngtcp2", "ngtcp2-to-aioquic-http3"]


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory, guest_kernel: object) -> Path:
    """Both pairs and ngtcp2 alone, with and without errors: six runs."""
    require(shutil.which("gtlsclient"), "gtlsclient (owlt third-party install ngtcp2)")
    directory = tmp_path_factory.mktemp("quic")
    done = perform(
        directory,
        directory / "results",
        implementations=[*PAIRS, "ngtcp2"],
        packet_error_rate=[0, 0.05],
        certify=False,
        runs_per_guest=12,
    )
    assert done.returncode in RECORDED, done.stderr
    return directory / "results"


def test_every_file_arrives_complete_whichever_sends_it(results: Path) -> None:
    found = records(results)

    assert len(found) == 6
    assert {run["outcome"] for run in found.values()} == {"completed"}
    assert all(run["received_sha256"] == run["file_sha256"] for run in found.values())


@pytest.mark.parametrize("pair", PAIRS)
def test_the_two_sides_are_different_programs(results: Path, pair: str) -> None:
    (record,) = (run for name, run in records(results).items() if name.startswith(f"{pair}_") and "per0_" in name)
    programs = [" ".join(record[side]["command"]) for side in ("sender", "receiver")]

    assert ["owlt.agents.quic" in program for program in programs] == [
        name == "aioquic-http3" for name in pair.split("-to-")
    ]


def test_the_endpoint_ends_without_an_error_when_the_other_side_has_the_file(results: Path) -> None:
    for name in records(results):
        if name.startswith("ngtcp2-to-aioquic"):
            assert (results / "runs" / name / "receiver.out").read_text().splitlines()[-1].startswith("complete sent=")
