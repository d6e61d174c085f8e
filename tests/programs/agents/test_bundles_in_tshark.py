"""What our bundle endpoints write, tshark reads with the same values."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from owlt.agents.bundle.blocks import Eid
from owlt.agents.bundle.convergence import Convergence
from owlt.agents.bundle.settings import Custody
from tests.conftest import require_command
from tests.unit.agents.bundle_channel import (
    BOTH,
    FOREIGN,
    Answers,
    Ending,
    Rule,
    lose_at_random,
    transfer,
    with_unknown_block,
)
from tests.unit.captures.making import RECEIVER, SENDER, START_NS, udp_frame, write_pcap


def test_tshark_reads_a_status_report(tmp_path: Path) -> None:
    (report, _) = Answers(tmp_path, custody=Custody.SINGLE).to(with_unknown_block(FOREIGN, 0x02))
    octets = replace(FOREIGN, source=Eid(2, 0), destination=Eid(1, 0), payload=report, administrative=True).encode()
    capture = write_pcap(tmp_path / "report.pcap", [(START_NS, udp_frame(octets, RECEIVER, SENDER, port=4556))])

    (row,) = fields(
        capture, "bundle", "bundle.admin.record_type", "bundle.status_report_reason_code", "bundle.admin.endpoint_id"
    )
    assert row == ["1", "8", "ipn:1.1"]
    assert fields(capture, DAMAGED, "frame.number") == []


def fields(capture: Path, shown: str, *names: str) -> list[list[str]]:
    """What tshark shows of the frames that its filter passes."""
    options = [option for name in names for option in ("-e", name)]
    command = [require_command("tshark"), "-r", str(capture), "-Y", shown, "-T", "fields", *options]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return [line.split("\t") for line in told.splitlines()]


def capture_of(ending: Ending, path: Path, port: int) -> Path:
    frames = []
    for at_s, side, datagram in ending.sent:
        ends = (SENDER, RECEIVER) if side == "sender" else (RECEIVER, SENDER)
        frames.append((START_NS + round(1e9 * at_s), udp_frame(datagram, *ends, port=port)))
    return write_pcap(path, frames)


DAMAGED = "_ws.malformed || _ws.expert.severity >= warning"

DATA = "bundle.primary.proc.admin == 0"


@BOTH
@pytest.mark.parametrize(("convergence", "port"), [(Convergence.LTP, 1113), (Convergence.UDP, 4556)])
def test_tshark_counts_the_same_bundles_and_signals(
    tmp_path: Path, custody: Custody, convergence: Convergence, port: int
) -> None:
    rule = lose_at_random(0.1, 8)
    ending = transfer(tmp_path, rule, custody=custody, convergence=convergence, bundle_bytes=1300, segment_bytes=500)
    capture = capture_of(ending, tmp_path / "all.pcap", port)
    kind, record_type = ("acs", 4) if custody is Custody.AGGREGATE else ("cs", 2)

    assert fields(capture, DAMAGED, "frame.number") == []
    assert f"sent=(bundle={len(fields(capture, DATA, 'frame.number'))})" in ending.sender_said
    signals = fields(capture, f"bundle.admin.record_type == {record_type}", "frame.number")
    assert f"sent=({kind}={len(signals)})" in ending.receiver_said


def test_tshark_reads_the_same_values_of_a_bundle(tmp_path: Path) -> None:
    ending = transfer(tmp_path, size_bytes=12_000)
    capture = capture_of(ending, tmp_path / "all.pcap", 1113)

    rows = fields(
        capture,
        DATA,
        "bundle.primary.source",
        "bundle.primary.destination",
        "bundle.primary.custodian",
        "bundle.primary.fragment_offset",
        "bundle.primary.total_adu_len",
        "bundle.payload.length",
        "bundle.block.cteb_custody_id",
        "bundle.block.cteb_creator_custodian_eid",
    )
    assert rows == [
        ["1.1", "2.1", "1.0", "0", "12000", "5000", "1", "ipn:1.0"],
        ["1.1", "2.1", "1.0", "5000", "12000", "5000", "2", "ipn:1.0"],
        ["1.1", "2.1", "1.0", "10000", "12000", "2000", "3", "ipn:1.0"],
    ]
    assert len(fields(capture, "bundle.block.control.cteb_valid", "frame.number")) == 3


def test_tshark_reads_the_same_values_of_a_custody_signal(tmp_path: Path) -> None:
    ending = transfer(tmp_path, size_bytes=12_000, custody=Custody.SINGLE)
    capture = capture_of(ending, tmp_path / "all.pcap", 1113)

    rows = fields(
        capture,
        "bundle.admin.record_type == 2",
        "bundle.custody_trf_succ_flg",
        "bundle.custody_signal_reason_code",
        "bundle.admin.fragment_offset",
        "bundle.admin.fragment_length",
        "bundle.admin.endpoint_id",
    )
    assert rows == [
        ["1", "0", str(offset), str(length), "ipn:1.1"] for offset, length in ((0, 5000), (5000, 5000), (10000, 2000))
    ]


def test_tshark_reads_the_same_values_of_an_aggregate(tmp_path: Path) -> None:
    """Its first fill. Of a further one tshark 4.0 shows the gap, and an end that is one too high for each gap."""
    rule: Rule = lambda side, number, it: [] if (side, number) == ("sender", 20) else [it]  # noqa: E731
    ending = transfer(tmp_path, rule, acs_window_s=1.0)
    capture = capture_of(ending, tmp_path / "all.pcap", 1113)

    rows = fields(
        capture,
        "bundle.admin.record_type == 4",
        "bundle.custody_trf_succ_flg",
        "bundle.custody_id_range_start",
        "bundle.custody_id_range_end",
    )
    assert rows == [["1", "1,2", "3,11"], ["1", "4", "4"]]
