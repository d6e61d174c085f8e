"""Two independent implementations of LTP deliver a file over a lossy channel; tshark counts their packets."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from owlt.agents.ltp.segments import SegmentType
from owlt.orchestrator.own_directories import third_party_directory
from tests.conftest import require, require_command
from tests.system.sweeps import RECORDED, perform, records

GRID = {
    "implementations": ["ltp", "licklider"],
    "pairs": "all",
    "delay": ["25 ms", "1250 ms"],
    "packet_error_rate": [0, 0.1],
    "certify": False,
    "keep_captures": "full",
    "runs_per_guest": 12,
}
ADDRESSES = {"sender": "10.77.0.1", "receiver": "10.77.0.2"}


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory, guest_kernel: object) -> Path:
    """Each implementation as sender and as receiver of each, near and far, with and without errors: 16 runs."""
    place = os.pathsep.join((os.environ.get("PATH", ""), str(third_party_directory() / "licklider" / "bin")))
    require(shutil.which("licklider", path=place), "licklider (owlt third-party install licklider)")
    directory = tmp_path_factory.mktemp("ltp")
    done = perform(directory, directory / "results", **GRID)
    assert done.returncode in RECORDED, done.stderr
    return directory / "results"


def test_every_file_arrives_complete_whichever_build_sends_it(results: Path) -> None:
    found = records(results)

    assert len(found) == 16
    assert {run["outcome"] for run in found.values()} == {"completed"}
    assert all(run["received_sha256"] == run["file_sha256"] for run in found.values())


def test_our_endpoint_refuses_no_segment_of_the_other_build(results: Path) -> None:
    for run_id, side in ours(results):
        if (line := last_line(results, run_id, side)) is not None:
            assert " unreadable=0 refused=0 " in line, (run_id, side)


def test_a_lossy_run_sends_data_again(results: Path) -> None:
    lossy = [run_id for run_id in records(results) if run_id.startswith("ltp_") and "per0.1" in run_id]

    assert len(lossy) == 2
    for run_id in lossy:
        line = last_line(results, run_id, "sender")
        assert line is not None
        again = re.search(r"data_again=(\d+)", line)
        assert again is not None
        assert int(again[1]) > 0, run_id


def test_tshark_counts_as_many_segments_of_each_type_as_the_endpoints_say(results: Path) -> None:
    for run_id in records(results):
        if run_id.startswith("ltp_"):
            for side in ("sender", "receiver"):
                sent, received = said_counts(results, run_id, side)
                assert tshark_counts(results, run_id, side, sent_by=side) == sent, (run_id, side)
                peer = "receiver" if side == "sender" else "sender"
                assert tshark_counts(results, run_id, side, sent_by=peer) == received, (run_id, side)


def test_tshark_finds_no_segment_malformed_as_it_was_sent(results: Path) -> None:
    tshark = require_command("tshark")
    for run_id in records(results):
        if run_id.startswith("ltp_"):
            for side, address in ADDRESSES.items():
                as_sent = f"ip.src == {address} && _ws.malformed"
                command = [tshark, "-r", str(results / "runs" / run_id / f"{side}.pcap"), "-Y", as_sent]
                assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "", run_id


def ours(results: Path) -> list[tuple[str, str]]:
    """The runs and sides that are this project's endpoint."""
    sides = {"ltp": ("sender", "receiver"), "ltp-to-licklider": ("sender",), "licklider-to-ltp": ("receiver",)}
    return [(run_id, side) for run_id, run in records(results).items() for side in sides.get(run["implementation"], ())]


def last_line(results: Path, run_id: str, side: str) -> str | None:
    """What a side said at its end; a sender that a receiver leaves alone is stopped and says nothing."""
    lines = (results / "runs" / run_id / f"{side}.out").read_text().splitlines()
    return lines[-1] if lines and lines[-1].startswith("complete ") else None


def said_counts(results: Path, run_id: str, side: str) -> tuple[Counter[str], Counter[str]]:
    """Segments by type that a side says it has sent and received."""
    line = last_line(results, run_id, side)
    assert line is not None, (run_id, side)
    found = [re.search(rf"{way}=\d+ \(([^)]*)\)", line) for way in ("sent", "received")]
    sent, received = (
        Counter({name: int(number) for name, number in re.findall(r"(\w+)=(\d+)", one[1])}) for one in found if one
    )
    return sent, received


def tshark_counts(results: Path, run_id: str, capture: str, *, sent_by: str) -> Counter[str]:
    """Segments by type in a capture, without those that a flipped bit kept from a program: a wrong checksum, or a
    hardware address that is not the host's."""
    source = ADDRESSES[sent_by]
    command = [require_command("tshark"), "-r", str(results / "runs" / run_id / f"{capture}.pcap")]
    command += ["-o", "udp.check_checksum:TRUE", "-o", "ip.check_checksum:TRUE"]
    command += ["-Y", f"ip.src == {source} && udp.checksum.status == 1 && ip.checksum.status == 1"]
    command += ["-T", "fields", "-e", "eth.dst", "-e", "ltp.type"]
    shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    frames = [line.split("\t") for line in shown.splitlines()]
    (hosts_own, _), *_ = Counter(address for address, _ in frames).most_common()
    return Counter(SegmentType(int(kind, 16)).name for address, kind in frames if address == hosts_own)
