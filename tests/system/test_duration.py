"""A sweep for a duration in guests: the goodput is that of the packets, read by tshark."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from owlt.captures.accounting.summary import load_summary
from owlt.results.record import Outcome, read_record
from tests.system.sweeps import owlt

SWEEP = """\
name: timed
seed: 3
implementations: [tcp]
duration: 5 s
rate: 2 Mbit/s
delay: 25 ms
packet_error_rate: 0.002
keep_captures: full
"""


def in_order_bytes(capture: Path, duration_s: float) -> int:
    """The data of the sender that is complete at the receiver so long after the end of the handshake."""
    fields = ["-T", "fields", "-e", "frame.time_epoch", "-e", "tcp.seq", "-e", "tcp.len"]
    accepted = "tcp.dstport == 5001 && tcp.flags.syn == 0 && tcp.checksum.status != 0"
    command = ["tshark", "-r", capture, "-o", "tcp.check_checksum:TRUE", "-Y", accepted, *fields]
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    rows = [line.split("\t") for line in printed.splitlines()]
    end_s = float(rows[0][0]) + duration_s
    arrived: dict[int, int] = {}
    next_byte = 1
    for time_s, first, length in rows:
        if float(time_s) <= end_s and int(length):
            arrived[int(first)] = int(length)
            while next_byte in arrived:
                next_byte += arrived.pop(next_byte)
    return next_byte - 1


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("timed")
    (directory / "timed.yaml").write_text(SWEEP)
    done = owlt("run", directory / "timed.yaml", "--results", directory / "results", "--no-report")
    assert done.returncode == 0, done.stderr
    [run] = (directory / "results" / "runs").iterdir()
    return run


def test_goodput_is_the_data_that_arrived_in_order_in_the_duration(run: Path) -> None:
    record, summary = read_record(run), load_summary(run)

    assert (record.outcome, record.suspect) == (Outcome.COMPLETED, [])
    assert record.received_bytes == in_order_bytes(run / "receiver.pcap", 5)
    assert summary is not None and summary.suspect == []
    assert summary.goodput_bps == 8 * in_order_bytes(run / "receiver.pcap", 5) / 5


def test_the_session_lasts_longer_than_the_duration_until_the_queue_is_empty(run: Path) -> None:
    summary = load_summary(run)

    assert summary is not None and summary.session_s is not None and summary.session_s > 5
    assert summary.goodput_to_delivery_bps is None
