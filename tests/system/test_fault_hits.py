"""Runs with aimed faults: each hit is named with the frame that tcpdump counts as that occurrence of its class."""

from __future__ import annotations

import csv
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from owlt.emulator.channel.aimed_fault import expression_of, over_both_versions
from tests.conftest import require_command
from tests.system.sweeps import RECORDED, owlt, perform

FAULTS = [
    {"direction": "forward", "packet": "any", "occurrence": "5-6", "action": "drop"},
    {"direction": "reverse", "packet": "any", "occurrence": 1, "action": "drop"},
    {"direction": "forward", "packet": "any", "occurrence": 9, "action": {"delay": "400 ms"}},
    {"direction": "forward", "packet": "cfdp.eof", "occurrence": [1, 2], "action": "drop"},
    {"direction": "forward", "packet": "tcp.fin", "occurrence": 1, "action": "drop"},
]
GRID = {"implementations": ["cfdp", "tcp"], "file_size": "20 kB", "delay": "250 ms", "certify": False}
OWN = {"cfdp": [("cfdp.eof", 1), ("cfdp.eof", 2)], "tcp": [("tcp.fin", 1)]}
"""The hits of each implementation's own classes; the EOF and its first repetition are equal octet for octet."""
ADDRESSES = {"sender": "10.77.0.1", "receiver": "10.77.0.2"}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory, guest_kernel: object) -> dict[str, Path]:
    """The analysed runs, by implementation."""
    directory = tmp_path_factory.mktemp("hits")
    done = perform(directory, directory / "results", **GRID, faults=FAULTS, keep_captures="full")
    assert done.returncode in RECORDED, done.stderr
    found = {path.name.partition("_")[0]: path for path in (directory / "results/runs").iterdir()}
    for run in found.values():
        assert owlt("analyse", run).returncode == 0
    return found


def hits(run: Path) -> list[dict[str, Any]]:
    return list(json.loads((run / "analysis/analysis.json").read_text())["faults"])


def frames_of(run: Path, host: str, packet: str) -> list[int]:
    """The frames of the class that the host sent, in the capture at its port, as tcpdump filters them."""
    numbers = {}
    for what, extra in (("all", ""), ("class", over_both_versions(expression_of(packet)))):
        expression = " and ".join(
            f"({part})" for part in (f"src host {ADDRESSES[host]}", extra) if part and what != "all"
        )
        command = [require_command("tcpdump"), "-n", "-S", "--nano", "-tt", "-r", str(run / f"{host}.pcap"), expression]
        lines = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
        numbers[what] = [line for line in lines if line[0].isdigit()]
    return [numbers["all"].index(line) + 1 for line in numbers["class"]]


@pytest.mark.parametrize("name", ["cfdp", "tcp"])
def test_the_frame_of_each_hit_is_the_occurrence_of_its_class_by_tcpdump(runs: dict[str, Path], name: str) -> None:
    found = hits(runs[name])

    assert [hit["frame"] for hit in found] == [
        frames_of(runs[name], hit["host"], hit["packet"])[hit["occurrence"] - 1] for hit in found
    ]
    assert {("any", 5), ("any", 6), ("any", 9), *OWN[name]} <= {(hit["packet"], hit["occurrence"]) for hit in found}


@pytest.mark.parametrize("name", ["cfdp", "tcp"])
def test_exactly_the_packets_that_were_dropped_are_lost(runs: dict[str, Path], name: str) -> None:
    with (runs[name] / "analysis/packets.csv").open() as file:
        lost = {(row["host"], int(row["frame"])) for row in csv.DictReader(file) if row["fate"] == "lost"}

    assert lost == {(hit["host"], hit["frame"]) for hit in hits(runs[name]) if hit["action"] == "dropped"}


@pytest.mark.parametrize("name", ["cfdp", "tcp"])
def test_the_page_of_the_run_names_each_hit(runs: dict[str, Path], name: str) -> None:
    page = (runs[name] / "analysis/index.html").read_text()

    assert all(hit["text"] in page for hit in hits(runs[name]))
    assert "delayed by 400 ms: packet #9, frame " in page
