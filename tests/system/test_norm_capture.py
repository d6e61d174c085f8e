"""What tshark finds in captures of NORM, in a group and from address to address, and what the endpoints say of it."""

from __future__ import annotations

import json
import re
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from owlt.orchestrator.rigs.network import MAC
from tests.conftest import require_command
from tests.system.sweeps import RECORDED, perform, records

SEGMENTS = 100
ROBUST_FACTOR = 20
INFO, DATA, COMMAND, NACK, ACK = "12345"
FLUSH, CONGESTION_CONTROL = f"{COMMAND}/1", f"{COMMAND}/4"
GROUP = "224.1.2.3"
ADDRESSES = {"sender": "10.77.0.1", "receiver": "10.77.0.2"}
GRID = {
    "implementations": ["norm", "norm-cc"],
    "parameters": {"norm": {"destination": ["group", "address"], "end": ["acknowledged", "flushed"]}},
    "file_size": "100 kB",
    "delay": "250 ms",
    "packet_error_rate": [0, 0.1],
    "certify": False,
    "keep_captures": "full",
    "runs_per_guest": 10,
}


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory, guest_kernel: object) -> Path:
    """Both destinations with both ends, and congestion control; each with and without errors: ten runs."""
    directory = tmp_path_factory.mktemp("norm")
    done = perform(directory, directory / "results", **GRID)
    assert done.returncode in RECORDED, done.stderr
    assert {run["outcome"] for run in records(directory / "results").values()} == {"completed"}
    return directory / "results"


def shown(results: Path, run_id: str, side: str, *wanted: str) -> list[list[str]]:
    """Fields of what a side sent, from the capture at its own port, before the channel could damage it."""
    command = [require_command("tshark"), "-n", "-r", str(results / "runs" / run_id / f"{side}.pcap")]
    command += ["--enable-heuristic", "rmt_norm_udp", "-Y", f"udp && !icmp && ip.src == {ADDRESSES[side]}"]
    command += ["-T", "fields", *(part for name in wanted for part in ("-e", name))]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return [line.split("\t") for line in text.splitlines()]


def counted(results: Path, run_id: str, side: str) -> Counter[str]:
    """Messages by type: one digit, a command with its flavor."""
    rows = shown(results, run_id, side, "norm.type", "norm.flavor")
    return Counter(f"{kind}/{flavor}" if kind == COMMAND else kind for kind, flavor in rows)


def runs(results: Path, *parts: str) -> list[str]:
    """The runs whose ids have all the parts."""
    found = [run_id for run_id in records(results) if all(part in run_id for part in parts)]
    assert found, parts
    return found


def test_no_message_is_malformed(results: Path) -> None:
    for run_id in records(results):
        for side in ADDRESSES:
            rows = shown(results, run_id, side, "norm.version", "_ws.malformed")
            assert all(row == ["1", ""] for row in rows), (run_id, side)


def test_every_packet_of_the_session_is_a_message_of_norm(results: Path) -> None:
    for run_id in records(results):
        summary = json.loads((results / "runs" / run_id / "summary.json").read_text())
        for side, name in (("sender", "str_sent"), ("receiver", "rts_sent")):
            assert counted(results, run_id, side).total() == summary[name], (run_id, side)


def test_the_emulator_counts_the_frames_of_the_captures_with_the_reports_of_a_group_after_the_programs(
    results: Path,
) -> None:
    for run_id, record in records(results).items():
        for side, way in (("sender", "forward"), ("receiver", "reverse")):
            command = [require_command("tshark"), "-n", "-r", str(results / "runs" / run_id / f"{side}.pcap")]
            sent = subprocess.run(
                [*command, "-Y", f"eth.src == {MAC[side]}"], capture_output=True, text=True, check=True
            ).stdout.splitlines()
            assert record["emulator_statistics"][way]["bottleneck"]["packets"] == len(sent), (run_id, way)


def test_without_errors_each_segment_is_sent_once_and_the_name_once(results: Path) -> None:
    for run_id in runs(results, "per0_"):
        counts = counted(results, run_id, "sender")
        assert (counts[DATA], counts[INFO]) == (SEGMENTS, 1), run_id


def test_with_errors_the_receiver_asks_and_more_is_sent(results: Path) -> None:
    for run_id in runs(results, "per0.1"):
        assert counted(results, run_id, "sender")[DATA] > SEGMENTS, run_id
        assert counted(results, run_id, "receiver")[NACK] > 0, run_id


def test_an_end_without_an_acknowledgement_has_as_many_flushes_as_the_robust_factor_says(results: Path) -> None:
    for run_id in runs(results, "end=flushed", "per0_"):
        assert counted(results, run_id, "sender")[FLUSH] == ROBUST_FACTOR, run_id
        assert counted(results, run_id, "receiver")[ACK] == 0, run_id


def test_an_acknowledged_end_has_one_flush_and_one_acknowledgement(results: Path) -> None:
    for run_id in runs(results, "end=acknowledged", "per0_"):
        assert counted(results, run_id, "sender")[FLUSH] == 1, run_id
        assert counted(results, run_id, "receiver") == {ACK: 1}, run_id


def test_a_fixed_rate_probes_nothing_and_congestion_control_is_answered(results: Path) -> None:
    for run_id in runs(results, "norm+"):
        assert counted(results, run_id, "sender")[CONGESTION_CONTROL] == 0, run_id
    for run_id in runs(results, "norm-cc", "per0_"):
        probes = counted(results, run_id, "sender")[CONGESTION_CONTROL]
        assert 5 < probes <= counted(results, run_id, "receiver")[ACK], run_id


@pytest.mark.parametrize(
    ("destination", "to_receiver", "to_sender"), [("group", GROUP, GROUP), ("address", "10.77.0.2", "10.77.0.1")]
)
def test_data_and_nacks_go_where_the_destination_says(
    results: Path, destination: str, to_receiver: str, to_sender: str
) -> None:
    for run_id in runs(results, f"destination={destination}", "per0.1"):
        assert (
            shown(results, run_id, "sender", "ip.dst") == [[to_receiver]] * counted(results, run_id, "sender").total()
        )
        assert {row[0] for row in shown(results, run_id, "receiver", "ip.dst")} == {to_sender}, run_id


def test_the_sender_says_the_round_trip_that_its_messages_carry(results: Path) -> None:
    for run_id in runs(results, "norm+"):
        told = re.search(r"grtt_s=([0-9.]+)", (results / "runs" / run_id / "sender.out").read_text())
        assert told
        for (carried,) in shown(results, run_id, "sender", "norm.grtt"):
            assert float(carried) == pytest.approx(float(told[1]), rel=1e-4), run_id
        assert 0.5 <= float(told[1]) < 0.5 * 1.08, run_id
