"""The numbers of a sweep: equal when repeated, equal to what tshark counts, and no packet faster than its channel."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from owlt.captures.frames.columns import read_columns
from owlt.captures.frames.session import Session, summary_filter
from owlt.captures.matches.matching import match_captures
from tests.conftest import require_command
from tests.system.sweeps import RECORDED, differences, perform, records

GRID = {
    "implementations": ["cfdp", "norm"],
    "file_size": "100 kB",
    "delay": ["25 ms", "1250 ms"],
    "packet_error_rate": [0, 0.02],
    "keep_captures": "full",
    "runs_per_guest": 4,
}


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory, guest_kernel: object) -> Path:
    """CFDP and NORM, both light times, with and without errors: eight runs with their captures whole."""
    directory = tmp_path_factory.mktemp("truth")
    done = perform(directory, directory / "results", **GRID)
    assert done.returncode in RECORDED, done.stderr
    return directory / "results"


def summaries(results: Path) -> dict[str, dict[str, Any]]:
    return {path.parent.name: json.loads(path.read_text()) for path in sorted(results.glob("runs/*/summary.json"))}


def test_every_run_delivers_its_file(results: Path) -> None:
    found = records(results)

    assert len(found) == 8
    assert {run["outcome"] for run in found.values()} == {"completed"}
    assert all(run["received_sha256"] == run["file_sha256"] for run in found.values())


def test_no_capture_lost_a_packet_and_no_run_is_suspect(results: Path) -> None:
    for run_id, run in records(results).items():
        assert run["suspect"] == [], run_id
        assert summaries(results)[run_id]["suspect"] == [], run_id


@pytest.fixture(scope="module")
def again(results: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same sweep with the same seed, once more."""
    directory = tmp_path_factory.mktemp("again")
    perform(directory, directory / "results", **GRID)
    return directory / "results"


def test_the_same_sweep_again_gives_the_same_records_and_packets(results: Path, again: Path) -> None:
    """Times to a tenth of a packet, for CFDP. libnorm starts with a loop that waits, which the host's real time
    ends."""
    of_cfdp = sorted((results / "runs").glob("cfdp_*"))
    assert len(of_cfdp) == 4
    for run in of_cfdp:
        assert differences(run, again / "runs" / run.name) == [], run.name


def test_runs_with_other_errors_are_distinguished(results: Path) -> None:
    clean, lossy = (results / "runs" / f"cfdp_100kB_10Mbps_25ms_per{rate}_r1" for rate in ("0", "0.02"))
    assert {"sender.pcap: other packets", "receiver.pcap: other packets"} <= set(differences(clean, lossy))


def test_the_same_sweep_again_gives_norm_the_same_numbers(results: Path, again: Path) -> None:
    """Packet counts equal; times within 1 ms, for the start of libnorm's threads."""
    for run_id, summary in summaries(results).items():
        other = summaries(again)[run_id]
        counts = ("str_sent", "str_delivered", "rts_sent", "rts_delivered", "ledger_forward", "ledger_reverse")
        assert [summary[name] for name in counts] == [other[name] for name in counts], run_id
        assert abs(summary["session_s"] - other["session_s"]) < 0.001, run_id


def test_another_seed_meets_other_errors(results: Path, tmp_path: Path) -> None:
    perform(tmp_path, tmp_path / "other", **GRID, seed=12)

    def lossy(directory: Path) -> dict[str, Any]:
        return {run_id: s["str_sent"] for run_id, s in summaries(directory).items() if "per0.02" in run_id}

    assert lossy(tmp_path / "other") != lossy(results)


COUNTS = {
    "str_sent": ("sender.pcap", "sender"),
    "str_delivered": ("receiver.pcap", "sender"),
    "rts_sent": ("receiver.pcap", "receiver"),
    "rts_delivered": ("sender.pcap", "receiver"),
}


def test_packet_counts_are_those_of_tshark(results: Path) -> None:
    tshark = require_command("tshark")
    for run_id, summary in summaries(results).items():
        session = Session.model_validate(records(results)[run_id]["session"])
        for name, (capture, host) in COUNTS.items():
            expression = summary_filter(session, host)  # type: ignore[arg-type]
            command = [tshark, "-r", str(results / "runs" / run_id / capture), "-Y", expression]
            shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
            assert len(shown.splitlines()) == summary[name], (run_id, name)


def test_the_fastest_packet_takes_the_delay_and_its_serialization(results: Path) -> None:
    """Within 1 us, each way: no packet is faster, and the one that met no queue is not slower."""
    for run_id, run in records(results).items():
        near, far = (read_columns(results / "runs" / run_id / f"{role}.pcap") for role in ("sender", "receiver"))
        for way in match_captures(near, far, Session.model_validate(run["session"])).ways:
            serialization_ns = 8e9 * way.near.wire_bytes[way.delivery.sent] / run["rate_bps"]
            waited_ns = way.delivery.delay_ns - serialization_ns - run["delay_ns"]
            assert -1000 < waited_ns.min() < 1000, (run_id, waited_ns.min())


def test_the_captures_match_the_emulators_own_count(results: Path) -> None:
    """All that tcpdump saw go into the bottleneck is what netem says it let through; nothing was queued away."""
    for run_id, run in records(results).items():
        forward = run["emulator_statistics"]["forward"]["bottleneck"]
        assert forward["dropped_packets"] == 0, run_id
        assert forward["packets"] >= summaries(results)[run_id]["str_sent"], run_id
