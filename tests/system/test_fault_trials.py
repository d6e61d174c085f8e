"""`owlt prove` and `owlt conform` on the CFDP endpoint, sound and with planted defects: each defect is found, with the
smallest set of losses that shows it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from ruamel.yaml import YAML

from tests.system.conftest import GUEST_PROJECT, PROJECT, require

SUITE = """\
title: two tests
source: of the endpoint
protocol: CFDP
file_size: 2 kB
cases:
  metadata-lost:
    purpose: the metadata are requested
    reference: "4.6.4"
    faults: [{direction: forward, packet: cfdp.metadata, occurrence: 1, action: drop}]
    expected: delivered
  last-ack-lost:
    purpose: the acknowledgement of a Finished is repeated
    reference: "4.7.2"
    faults: [{direction: forward, packet: cfdp.ack-finished, occurrence: 1, action: drop}]
    expected: delivered
  nothing-hit:
    purpose: a fault without effect is no test
    reference: none
    faults: [{direction: forward, packet: cfdp.eof, occurrence: 9, action: drop}]
    expected: delivered
  limit:
    purpose: a parameter that it does not have
    reference: none
    expected: ends
    parameters: {no_such_parameter: 1}
"""


def with_defect(defect: str, folder: Path, name: str = "cfdp", parameters: Mapping[str, Any] | None = None) -> Path:
    """A profile of the endpoint with a defect, in its own file."""
    yaml = YAML()
    profile: Any = yaml.load((PROJECT / f"profiles/implementations/{name}.yaml").read_text())
    profile["name"] = f"{name}-{defect}"
    profile["parameters"] |= parameters or {}
    for side in ("sender", "receiver"):
        python, _, module, *rest = profile[side]["command"]
        program = f"{GUEST_PROJECT}/tests/system/programs/endpoint_with_defect.py"
        profile[side]["command"] = [python, program, module.rpartition(".")[2], defect, *rest]
    path = folder / f"{name}-{defect}.yaml"
    with path.open("w") as file:
        yaml.dump(profile, file)
    return path


def owlt(folder: Path, *words: str) -> tuple[int, Any]:
    """The exit status of a command and what it printed as JSON."""
    done = subprocess.run(
        [sys.executable, "-m", "owlt", *words, "--json"],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(PROJECT)},
        capture_output=True,
        text=True,
    )
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


@pytest.fixture(scope="module", autouse=True)
def kernel(guest_kernel: Any) -> None:
    require(guest_kernel, "the virtual-time kernel")


def test_a_sound_endpoint_delivers_after_the_loss_of_any_packet(tmp_path: Path) -> None:
    status, proof = owlt(tmp_path, "prove", str(with_defect("none", tmp_path)), "--file-size", "2 kB")
    lost = [trial["faults"] for trial in proof["trials"]]

    assert (status, proof["proven"], proof["counterexample"]) == (0, True, None)
    assert lost[0] == []
    assert sorted(name for (name,) in lost[1:]) == [
        "forward #1 (metadata)",
        "forward #2 (data)",
        "forward #3 (data)",
        "forward #4 (EOF)",
        "forward #5 (ACK of Finished)",
        "reverse #1 (ACK of EOF)",
        "reverse #2 (Finished)",
    ]


@dataclass(frozen=True)
class Planted:
    """A defect of an endpoint: the case of the protocol's suite that finds it, and the proof that finds it, with its
    smallest set of faults. `also_lost` is a further packet, in the form of a fault, whose loss does not matter."""

    defect: str
    endpoint: str
    case: str
    faults: list[str]
    also_lost: tuple[str, int]
    losses: int = 1
    kinds: str = "drop"
    parameters: Mapping[str, Any] = field(default_factory=dict)


UDP = {"convergence": "udp", "port": 4556, "bundle_bytes": 1000, "repeat_limit": 100_000}
TWO_REPORTS = {"segment_bytes": 500, "checkpoint_every": 2}
PLANTED = [
    Planted(
        "second-eof-opens-file",
        "cfdp",
        "eof-duplicated",
        ["forward #4 (EOF) is duplicated"],
        ("forward", 2),
        kinds="duplicate",
    ),
    Planted(
        "nak-loop",
        "cfdp",
        "first-nak-lost",
        ["forward #2 (data) is lost", "reverse #2 (NAK) is lost"],
        ("forward", 1),
        losses=2,
    ),
    Planted(
        "finished-unacknowledged",
        "cfdp",
        "first-ack-of-finished-lost",
        ["forward #5 (ACK of Finished) is lost"],
        ("forward", 2),
    ),
    Planted(
        "one-report-remembered",
        "ltp",
        "first-of-two-reports-lost",
        ["forward #1 (red data) is lost", "reverse #1 (report) is lost"],
        ("forward", 3),
        losses=2,
        parameters=TWO_REPORTS,
    ),
    Planted("checkpoint-without-timer", "ltp", "checkpoint-lost", ["forward #2 (checkpoint) is lost"], ("forward", 1)),
    Planted("flush-without-acknowledgement", "norm", "last-data-lost", ["forward #2 (DATA) is lost"], ("forward", 1)),
    Planted("status-ignored", "saratoga", "first-data-lost", ["forward #2 (data) is lost"], ("reverse", 1)),
    Planted(
        "second-signal-refused",
        "bp-cs",
        "first-signal-lost",
        ["reverse #1 (signal) is lost"],
        ("forward", 2),
        parameters=UDP,
    ),
]


def test_a_suite_names_what_is_passed_failed_inconclusive_and_not_applicable(tmp_path: Path) -> None:
    suite = tmp_path / "suite.yaml"
    suite.write_text(SUITE)
    profile = with_defect("metadata-not-requested", tmp_path)
    status, found = owlt(tmp_path, "conform", str(profile), "--suite", str(suite))
    (findings,) = found["findings"].values()
    page = tmp_path / "results/conformance/cfdp-metadata-not-requested"
    junit = ElementTree.parse(page / "junit.xml").getroot()

    assert status == 1
    assert {each["case"]: each["verdict"] for each in findings} == {
        "metadata-lost": "failed",
        "last-ack-lost": "passed",
        "nothing-hit": "inconclusive",
        "limit": "not applicable",
    }
    assert [junit.get(name) for name in ("tests", "failures", "errors", "skipped")] == ["4", "1", "1", "1"]
    assert "after the launch: cfdp.metadata #1: #1 dropped" in (page / "index.html").read_text()


def test_of_the_losses_of_a_failed_run_the_one_that_matters_is_left(tmp_path: Path) -> None:
    sweep = {
        "name": "lossy",
        "seed": 4,
        "implementations": ["cfdp"],
        "parameters": {"cfdp": {"ack_limit": 1}},
        "file_size": "50 kB",
        "rate": "1 Mbit/s",
        "delay": "250 ms",
        "packet_error_rate": 0.15,
        "repetitions": 3,
        "certify": False,
    }
    (tmp_path / "sweep.yaml").write_text(json.dumps(sweep))
    owlt(tmp_path, "run", "sweep.yaml", "--results", "lossy", "--no-report")
    failed = "lossy/runs/cfdp_50kB_1Mbps_250ms_per0.15_r3"
    status, shrunk = owlt(tmp_path, "shrink", failed)

    assert status == 0
    assert shrunk["losses"] > 1
    assert [each.partition(" (")[2] for each in shrunk["left"]] == ["EOF)"]
