"""Custody signals against aggregates over ten minutes of light and a reverse channel 250 times slower.

The channel and the claims are those of Yang et al., "Acknowledgment Mechanisms for Reliable File Transfer over Highly
Asymmetric Deep-Space Channels" (2022), with a smaller file.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import require_command
from tests.system.sweeps import RECORDED, perform, records

OWLT_S = 600
CHANNEL = {
    "name": "asymmetric",
    "title": "250 to 1, ten minutes",
    "forward": {"delay": f"{OWLT_S} s", "rate": "2.5 Mbit/s"},
    "reverse": {"delay": f"{OWLT_S} s", "rate": "10 kbit/s"},
}
KINDS = {"bp-cs": ("cs", 2), "bp-acs": ("acs", 4)}
"""What an implementation calls its signals, and their type of administrative record."""


def swept(directory: Path, **parameters: float | str) -> Path:
    """Both implementations, 500 kB, with the same parameters; 100 bundles, whose signals take over 8 s one by one."""
    channel = directory / "asymmetric.yaml"
    channel.write_text(json.dumps(CHANNEL))
    done = perform(
        directory,
        directory / "results",
        implementations=list(KINDS),
        parameters=dict.fromkeys(KINDS, parameters),
        file_size="500 kB",
        channel=str(channel),
        certify=False,
        keep_captures="full",
    )
    assert done.returncode in RECORDED, done.stderr
    return directory / "results"


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory, guest_kernel: object) -> Path:
    """With custody timers that follow the queue of signals."""
    return swept(tmp_path_factory.mktemp("acs"))


@pytest.fixture(scope="module")
def hurried(tmp_path_factory: pytest.TempPathFactory, guest_kernel: object) -> Path:
    """With custody timers of the light both ways and 3 s."""
    return swept(tmp_path_factory.mktemp("hurried"), custody_timer_s=2 * OWLT_S + 3)


def summary(results: Path, implementation: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((run_of(results, implementation) / "summary.json").read_text())
    return found


def run_of(results: Path, implementation: str) -> Path:
    (run_id,) = (run_id for run_id, record in records(results).items() if record["implementation"] == implementation)
    return results / "runs" / run_id


def shown(capture: Path, expression: str, field: str) -> list[int]:
    """A number from each frame that tshark's filter passes."""
    command = [require_command("tshark"), "-r", str(capture), "-Y", expression, "-T", "fields", "-e", field]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return [int(line) for line in told.split()]


def test_every_run_delivers_its_file(results: Path, hurried: Path) -> None:
    for record in [*records(results).values(), *records(hurried).values()]:
        assert (record["outcome"], record["suspect"]) == ("completed", [])
        assert record["received_sha256"] == record["file_sha256"]


def test_aggregates_take_a_fraction_of_the_reverse_bytes(results: Path) -> None:
    single, aggregate = (summary(results, implementation)["rts_sent_bytes"] for implementation in KINDS)

    assert aggregate < single / 5, (aggregate, single)


def test_reverse_bytes_are_those_that_tshark_counts(results: Path) -> None:
    for implementation in KINDS:
        lengths = shown(
            run_of(results, implementation) / "receiver.pcap", "ip.src == 10.77.0.2 && udp.port == 1113", "frame.len"
        )
        assert sum(lengths) == summary(results, implementation)["rts_sent_bytes"]


def test_bundles_and_signals_are_those_that_tshark_counts(results: Path) -> None:
    for implementation, (kind, record_type) in KINDS.items():
        run = run_of(results, implementation)
        bundles = shown(run / "sender.pcap", "bundle.primary.proc.admin == 0", "frame.number")
        signals = shown(run / "receiver.pcap", f"bundle.admin.record_type == {record_type}", "frame.number")

        assert f"sent=(bundle={len(bundles)}) " in (run / "sender.out").read_text()
        assert f"sent=({kind}={len(signals)}) " in (run / "receiver.out").read_text()
        assert shown(run / "sender.pcap", "_ws.malformed || _ws.expert.severity >= warning", "frame.number") == []


def test_a_timer_without_the_queue_repeats_bundles_that_had_arrived_unless_signals_are_aggregates(
    results: Path, hurried: Path
) -> None:
    """The paper's figure 5, at its shortest timer: about 60 % more data with single signals."""
    forward = {implementation: summary(hurried, implementation)["str_sent_bytes"] for implementation in KINDS}

    assert forward["bp-acs"] == summary(results, "bp-acs")["str_sent_bytes"]
    assert forward["bp-cs"] > 1.3 * forward["bp-acs"]


def test_aggregates_end_sooner(results: Path) -> None:
    single, aggregate = (summary(results, implementation)["session_s"] for implementation in KINDS)

    assert 2 * OWLT_S < aggregate < single - 3
