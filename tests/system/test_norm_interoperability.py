"""owlt's NORM endpoint and NRL's own normCast, each as sender and as receiver, deliver a file over a lossy channel."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from owlt.orchestrator.own_directories import third_party_directory
from tests.conftest import require
from tests.system.sweeps import RECORDED, perform, records

GRID = {
    "implementations": ["norm-to-normcast", "normcast-to-norm", "normcast"],
    "delay": ["25 ms", "250 ms"],
    "packet_error_rate": [0, 0.05],
    "certify": False,
    "runs_per_guest": 12,
}


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory, guest_kernel: object) -> Path:
    """Each as sender and as receiver, and normCast alone; near and far, with and without errors: twelve runs."""
    place = os.pathsep.join((os.environ.get("PATH", ""), str(third_party_directory() / "normcast" / "bin")))
    require(shutil.which("normCast", path=place), "normCast (owlt third-party install normcast)")
    directory = tmp_path_factory.mktemp("norm")
    done = perform(directory, directory / "results", **GRID)
    assert done.returncode in RECORDED, done.stderr
    return directory / "results"


def said(results: Path, run_id: str, side: str) -> str:
    """All that a side printed."""
    run = results / "runs" / run_id
    return (run / f"{side}.out").read_text() + (run / f"{side}.err").read_text()


def test_every_file_arrives_complete_whichever_sends_it(results: Path) -> None:
    found = records(results)

    assert len(found) == 12
    assert {run["outcome"] for run in found.values()} == {"completed"}
    assert all(run["received_sha256"] == run["file_sha256"] for run in found.values())


def test_the_acknowledgement_of_one_is_what_the_other_waits_for(results: Path) -> None:
    for run_id in records(results):
        ended = "complete end=acknowledged" if run_id.startswith("norm-to") else "final file acknowledged, exiting"
        assert ended in said(results, run_id, "sender"), run_id


def test_nothing_is_said_of_messages_that_cannot_be_read(results: Path) -> None:
    for run_id in records(results):
        for side in ("sender", "receiver"):
            assert "rror" not in said(results, run_id, side), (run_id, side)
