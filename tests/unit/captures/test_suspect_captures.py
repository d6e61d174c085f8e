"""What a capture says of itself that makes it suspect."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from owlt.captures.accounting.suspicion import suspect_capture
from owlt.captures.frames.columns import Columns, read_columns
from owlt.results.record import CaptureCounters
from tests.unit.captures.making import timed, udp_frame, write_pcap


def capture(folder: Path, payload_bytes: int = 10) -> Columns:
    return read_columns(write_pcap(folder / "sender.pcap", timed([udp_frame(bytes(payload_bytes))] * 3)))


def test_a_complete_capture_is_not_suspect(tmp_path: Path) -> None:
    assert list(suspect_capture(capture(tmp_path), CaptureCounters(3, 3, 0, 0), 1500)) == []


def test_packets_that_a_file_says_were_dropped_are_reported(tmp_path: Path) -> None:
    (reason,) = suspect_capture(replace(capture(tmp_path), dropped=7), None, 1500)
    assert "7 packets were dropped" in reason


def test_frames_without_a_time_are_reported(tmp_path: Path) -> None:
    (reason,) = suspect_capture(replace(capture(tmp_path), untimed_frames=2), None, 1500)
    assert "2 frames have no timestamp" in reason


def test_packets_that_tcpdump_counted_and_the_file_lacks_are_reported(tmp_path: Path) -> None:
    (reason,) = suspect_capture(capture(tmp_path), CaptureCounters(4, 4, 0, 0), 1500)
    assert "has 3 packets, but tcpdump counted 4" in reason


def test_frames_longer_than_the_mtu_are_reported(tmp_path: Path) -> None:
    (reason,) = suspect_capture(capture(tmp_path, payload_bytes=1600), None, 1500)
    assert "segmentation offload" in reason
