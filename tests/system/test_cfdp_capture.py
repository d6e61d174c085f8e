"""What tshark reads in captures of both CFDP endpoints: sound PDUs, as many of each kind as the endpoints count."""

from __future__ import annotations

import re
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from tests.conftest import require_command
from tests.system.sweeps import RECORDED, perform, records

GRID = {
    "implementations": ["cfdp", "cfdp-librecube"],
    "delay": "250 ms",
    "packet_error_rate": 0.1,
    "keep_captures": "full",
    "certify": False,
    "runs_per_guest": 2,
}
ADDRESSES = {"sender": "10.77.0.1", "receiver": "10.77.0.2"}
KINDS = {"4": "Eof", "5": "Finished", "6": "Ack", "7": "Metadata", "8": "Nak", "": "FileData"}
"""By directive code (CCSDS 727.0-B-5, table 5-4); file data have none."""


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory, guest_kernel: object) -> Path:
    """A lossy run of each endpoint, with its captures whole."""
    directory = tmp_path_factory.mktemp("capture")
    done = perform(directory, directory / "results", **GRID)
    assert done.returncode in RECORDED, done.stderr
    return directory / "results"


def as_sent(results: Path, run_id: str, side: str, *options: str) -> list[str]:
    """What tshark says about each packet that a side sent, at the port where it came from, before any error."""
    capture = results / "runs" / run_id / f"{side}.pcap"
    ports = ["-d", "udp.port==2501,cfdp", "-d", "udp.port==2502,cfdp"]
    command = [require_command("tshark"), "-r", str(capture), *ports, *options]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()


def counted(results: Path, run_id: str, side: str) -> Counter[str]:
    """What a side says that it sent."""
    line = (results / "runs" / run_id / f"{side}.out").read_text().splitlines()[-1]
    listed = re.search(r" sent=\d+ \(([^)]*)\)", line)
    assert listed is not None, line
    return Counter({kind: int(number) for kind, number in re.findall(r"(\w+)=(\d+)", listed[1])})


def test_tshark_counts_what_the_endpoints_count(results: Path) -> None:
    for run_id in records(results):
        for side, address in ADDRESSES.items():
            fields = ["-Y", f"cfdp && ip.src=={address}", "-T", "fields", "-e", "cfdp.fdtype"]
            seen = Counter(KINDS[line] for line in as_sent(results, run_id, side, *fields))
            assert seen == counted(results, run_id, side), (run_id, side)


def test_a_lossy_run_has_every_kind_of_pdu(results: Path) -> None:
    for run_id in records(results):
        kinds = counted(results, run_id, "sender") | counted(results, run_id, "receiver")
        assert set(kinds) == set(KINDS.values()), run_id


def test_no_pdu_is_malformed(results: Path) -> None:
    for run_id in records(results):
        for side, address in ADDRESSES.items():
            bad = f"ip.src=={address} && (_ws.malformed || _ws.expert.severity >= warning || !cfdp)"
            assert as_sent(results, run_id, side, "-Y", bad) == [], (run_id, side)


def test_both_endpoints_give_their_entities_the_same_ids(results: Path) -> None:
    for run_id in records(results):
        for side, address in ADDRESSES.items():
            fields = ["-Y", f"cfdp && ip.src=={address}", "-T", "fields", "-e", "cfdp.srcid", "-e", "cfdp.dstid"]
            assert set(as_sent(results, run_id, side, *fields)) == {"101\t102"}, (run_id, side)
