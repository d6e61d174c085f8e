"""Two CFDP engines that know nothing of each other, cfdp-py and LibreCube's, deliver a file over a lossy channel."""

from __future__ import annotations

import re
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import require_command
from tests.system.sweeps import RECORDED, perform, records

GRID = {
    "implementations": ["cfdp-to-cfdp-librecube", "cfdp-librecube-to-cfdp"],
    "delay": ["25 ms", "1250 ms"],
    "packet_error_rate": [0, 0.1],
    "certify": False,
    "keep_captures": "full",
    "runs_per_guest": 8,
}


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory, guest_kernel: object) -> Path:
    """Each engine as sender and as receiver, near and far, with and without errors: eight runs."""
    directory = tmp_path_factory.mktemp("interoperability")
    done = perform(directory, directory / "results", **GRID)
    assert done.returncode in RECORDED, done.stderr
    return directory / "results"


def said(results: Path, run_id: str, side: str) -> str:
    """A side's last line."""
    return (results / "runs" / run_id / f"{side}.out").read_text().splitlines()[-1]


def test_every_file_arrives_complete_whichever_engine_sends_it(results: Path) -> None:
    found = records(results)

    assert len(found) == 8
    assert {run["outcome"] for run in found.values()} == {"completed"}
    assert all(run["received_sha256"] == run["file_sha256"] for run in found.values())


def test_both_engines_end_with_the_transfer_complete(results: Path) -> None:
    for run_id in records(results):
        for side in ("sender", "receiver"):
            assert said(results, run_id, side).startswith("complete "), (run_id, side)


def test_neither_engine_refuses_a_pdu_of_the_other(results: Path) -> None:
    for run_id in records(results):
        for side in ("sender", "receiver"):
            assert " unreadable=0 " in said(results, run_id, side), (run_id, side)


def test_lost_data_are_asked_for_by_one_engine_and_sent_again_by_the_other(results: Path) -> None:
    lossy = [run_id for run_id in records(results) if "per0.1" in run_id]

    assert len(lossy) == 4
    for run_id in lossy:
        again = re.search(r"data_again=(\d+)", said(results, run_id, "sender"))
        assert again is not None
        assert int(again[1]) > 0, run_id
        assert "Nak=" in said(results, run_id, "receiver"), run_id


def test_tshark_counts_as_many_pdus_of_each_kind_as_a_side_says_it_sent(results: Path) -> None:
    for run_id, run in records(results).items():
        for side, kinds in (("sender", ("Metadata", "Eof")), ("receiver", ("Nak", "Finished"))):
            stated = re.search(r"sent=\d+ \(([^)]*)\)", said(results, run_id, side))
            assert stated is not None
            counts = {name: int(number) for name, number in re.findall(r"(\w+)=(\d+)", stated[1])}
            assert {kind: counts.get(kind, 0) for kind in kinds} == tshark_counts(results, run, side, kinds), run_id


def tshark_counts(results: Path, run: dict[str, Any], side: str, kinds: tuple[str, ...]) -> dict[str, int]:
    """The directives of some kinds that a side sent, in the capture at its own port."""
    codes = {"Eof": 4, "Finished": 5, "Metadata": 7, "Nak": 8}
    command = [require_command("tshark"), "-r", str(results / "runs" / run["run_id"] / f"{side}.pcap")]
    command += [
        "-d",
        "udp.port==2501,cfdp",
        "-d",
        "udp.port==2502,cfdp",
        "-T",
        "fields",
        "-e",
        "cfdp.fdtype",
    ]
    command += ["-Y", f"ip.src == {run['session'][f'{side}_address']}"]
    shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    found = Counter(int(code, 0) for code in shown)
    return {kind: found[codes[kind]] for kind in kinds}
