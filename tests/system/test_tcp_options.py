"""What a TCP profile asks for is what the wire shows: options, acknowledgements, segments, as tshark reads them."""

from __future__ import annotations

import csv
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from owlt.orchestrator.profiles.catalogue import PROFILES
from owlt.results.files import SAMPLES_NAME
from tests.conftest import require_command
from tests.system.sweeps import RECORDED, perform, records

SENDER, RECEIVER = "10.77.0.1", "10.77.0.2"
SYNS, ACKS, DATA = "tcp.flags.syn == 1", "tcp.len == 0 && tcp.flags == 0x010", "tcp.len > 0"

Read = Callable[..., list[list[str]]]


def run_with(results: Path, **parameters: object) -> Path:
    """The directory of the one run with these parameters."""
    wanted = parameters.items()
    for run_id in records(results):
        chosen = dict(part.split("=", 1) for part in run_id.split("_1", 1)[0].split("+")[1:])
        if all(chosen.get(name) == str(value) for name, value in wanted):
            return results / "runs" / run_id
    raise AssertionError(f"no run with {parameters} among {sorted(records(results))}")


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory, guest_kernel: object) -> Path:
    """SACK, timestamps and quickack, each off and on: eight runs with their captures whole."""
    directory = tmp_path_factory.mktemp("options")
    varied = {"sack": [0, 1], "timestamps": [0, 1], "quickack": ["0", "1"]}
    changes = {"implementations": ["tcp"], "parameters": {"tcp": varied}, "certify": False, "keep_captures": "full"}
    done = perform(directory, directory / "results", **changes)
    assert done.returncode in RECORDED, done.stderr
    return directory / "results"


@pytest.fixture
def read() -> Read:
    """Fields of the packets of a host, as the sender's port of the emulator saw them."""
    tshark = require_command("tshark")

    def reading(run: Path, host: str, chosen: str, *fields: str) -> list[list[str]]:
        shown = [argument for field in fields for argument in ("-e", field)]
        command = [
            tshark,
            "-r",
            str(run / "sender.pcap"),
            "-Y",
            f"ip.src == {host} && {chosen}",
            "-T",
            "fields",
            *shown,
        ]
        told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        return [line.split("\t") for line in told.splitlines()]

    return reading


def test_every_combination_delivers_its_file(results: Path) -> None:
    outcomes: list[Any] = [record["outcome"] for record in records(results).values()]

    assert outcomes == ["completed"] * 8


@pytest.mark.parametrize(
    ("name", "option"), [("sack", "tcp.options.sack_perm"), ("timestamps", "tcp.options.timestamp.tsval")]
)
@pytest.mark.parametrize("asked", [0, 1])
def test_an_option_is_in_both_syns_exactly_when_it_is_on(
    results: Path, read: Read, name: str, option: str, asked: int
) -> None:
    run = run_with(results, **{name: asked})
    for host in (SENDER, RECEIVER):
        shown = read(run, host, SYNS, option)
        assert shown
        assert all(bool(values[0]) == bool(asked) for values in shown), (host, shown)


def test_with_quickack_every_segment_is_acknowledged_and_without_half_of_them(results: Path, read: Read) -> None:
    acknowledged = {
        quickack: len(read(run_with(results, quickack=quickack, sack=1, timestamps=1), RECEIVER, ACKS, "tcp.ack"))
        for quickack in (0, 1)
    }

    assert acknowledged[1] >= 100
    assert acknowledged[0] < 70


def test_a_full_segment_has_the_data_that_was_asked_for_with_and_without_timestamps(results: Path, read: Read) -> None:
    for timestamps in (0, 1):
        lengths = [int(length) for (length,) in read(run_with(results, timestamps=timestamps), SENDER, DATA, "tcp.len")]
        assert max(lengths) == 1000
        assert lengths.count(1000) >= 95


@pytest.fixture(scope="module")
def variants(tmp_path_factory: pytest.TempPathFactory, guest_kernel: object) -> Path:
    """Congestion controls of the papers; and one that no kernel has, with a profile that does not state the choices."""
    directory = tmp_path_factory.mktemp("variants")
    profile = (PROFILES / "implementations" / "tcp.yaml").read_text()
    unaware = directory / "unaware.yaml"
    unaware.write_text(
        "".join(line for line in profile.splitlines(keepends=True) if not line.startswith("choices:")).replace(
            "name: tcp\n", "name: unaware\n"
        )
    )
    varied = {"tcp": {"congestion_control": ["reno", "hybla"]}, "unaware": {"congestion_control": "nosuch"}}
    changes = {"implementations": ["tcp", str(unaware)], "parameters": varied, "certify": False}
    done = perform(directory, directory / "results", **changes)
    assert done.returncode in RECORDED, done.stderr
    return directory / "results"


@pytest.mark.parametrize("name", ["reno", "hybla"])
def test_the_kernel_says_that_it_used_the_congestion_control_that_was_asked_for(variants: Path, name: str) -> None:
    run = run_with(variants, congestion_control=name)

    assert f"congestion_control={name} " in (run / "sender.out").read_text()


def test_a_congestion_control_that_the_kernel_has_not_got_is_unsupported(variants: Path) -> None:
    (record,) = [each for run_id, each in records(variants).items() if run_id.startswith("unaware")]

    assert record["outcome"] == "unsupported"
    assert "it has: reno bbr" in record["reason"]


@pytest.fixture(scope="module")
def thresholds(tmp_path_factory: pytest.TempPathFactory, guest_kernel: object) -> Path:
    """Reno without a loss, with an initial slow start threshold of 20 segments and without one."""
    directory = tmp_path_factory.mktemp("thresholds")
    varied = {"congestion_control": "reno", "initial_ssthresh": ["", 20]}
    changes = {"implementations": ["tcp"], "parameters": {"tcp": varied}, "certify": False}
    done = perform(directory, directory / "results", **changes)
    assert done.returncode == 0, done.stderr
    return directory / "results"


@pytest.mark.parametrize(("asked", "thresholds_segments"), [(20, {20}), ("", {None})])
def test_slow_start_ends_at_the_initial_threshold_that_was_asked_for(
    thresholds: Path, asked: object, thresholds_segments: set[int | None]
) -> None:
    with (run_with(thresholds, initial_ssthresh=asked) / SAMPLES_NAME).open() as samples:
        rows = [row for row in csv.DictReader(samples) if row["state"] != "syn_sent"]

    assert {int(row["ssthresh_segments"]) if row["ssthresh_segments"] else None for row in rows} == thresholds_segments
