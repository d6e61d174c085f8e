"""`owlt prove` and `owlt conform` on the CFDP endpoint, sound and with planted defects: each defect is found, with the
smallest set of losses that shows it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
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


def protocol_of(endpoint: str) -> str:
    """The protocol of an endpoint, in the name of its suite."""
    profile: Any = YAML(typ="safe").load((PROJECT / f"profiles/implementations/{endpoint}.yaml").read_text())
    return str(profile["protocol"]).lower()


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
        "forward #1 (metadata) is lost",
        "forward #2 (data) is lost",
        "forward #3 (data) is lost",
        "forward #4 (EOF) is lost",
        "forward #5 (ACK of Finished) is lost",
        "reverse #1 (ACK of EOF) is lost",
        "reverse #2 (Finished) is lost",
    ]


@dataclass(frozen=True)
class Planted:
    """A defect of an endpoint, the case of the protocol's suite that finds it, and the smallest set of faults with
    which a proof finds it. `also_lost` is a packet whose loss alone does no harm."""

    defect: str
    endpoint: str
    case: str
    faults: tuple[str, ...]
    also_lost: tuple[str, int]
    kinds: str = "drop"
    parameters: Mapping[str, Any] = field(default_factory=dict)


UDP = {"convergence": "udp", "port": 4556, "bundle_bytes": 1000, "repeat_limit": 100_000}
TWO_REPORTS = {"segment_bytes": 500, "checkpoint_every": 2}
PLANTED = {
    each.defect: each
    for each in (
        Planted(
            "second-eof-opens-file",
            "cfdp",
            "eof-duplicated",
            ("forward #4 (EOF) is duplicated",),
            ("forward", 2),
            kinds="duplicate",
        ),
        Planted(
            "nak-loop",
            "cfdp",
            "first-nak-lost",
            ("forward #2 (data) is lost", "reverse #2 (NAK) is lost"),
            ("forward", 3),
        ),
        Planted(
            "finished-unacknowledged",
            "cfdp",
            "first-ack-of-finished-lost",
            ("forward #5 (ACK of Finished) is lost",),
            ("reverse", 1),
        ),
        Planted(
            "one-report-remembered",
            "ltp",
            "first-of-two-reports-lost",
            ("forward #1 (red data) is lost", "reverse #1 (report) is lost"),
            ("forward", 3),
            parameters=TWO_REPORTS,
        ),
        Planted(
            "checkpoint-without-timer",
            "ltp",
            "checkpoint-lost",
            ("forward #2 (checkpoint) is lost",),
            ("forward", 1),
        ),
        Planted(
            "flush-without-acknowledgement", "norm", "last-data-lost", ("forward #2 (DATA) is lost",), ("forward", 4)
        ),
        Planted("status-ignored", "saratoga", "first-data-lost", ("forward #2 (data) is lost",), ("forward", 1)),
        Planted(
            "second-signal-refused",
            "bp-cs",
            "first-signal-lost",
            ("reverse #1 (custody signal) is lost",),
            ("forward", 2),
            parameters=UDP,
        ),
    )
}


def run_lossy(folder: Path, planted: Planted, profile: Path) -> list[tuple[str, Path]]:
    """Outcome and directory of three runs in which the packets of the smallest set are lost, and one more: what a
    duplicate shows, the loss of the answer to it does too."""
    lost = [fault.split() for fault in planted.faults if fault.endswith("lost")] or [["reverse", "#1"]]
    hit = [(direction, int(number[1:])) for direction, number, *_ in lost]
    sweep = {
        "name": "three",
        "seed": 1,
        "implementations": [str(profile)],
        "file_size": "2 kB",
        "rate": "1 Mbit/s",
        "delay": "250 ms",
        "packet_error_rate": 0,
        "repetitions": 3,
        "certify": False,
        "faults": [
            {"direction": direction, "occurrence": number, "action": "drop"}
            for direction, number in [*hit, planted.also_lost]
        ],
    }
    (folder / "sweep.yaml").write_text(json.dumps(sweep))
    owlt(folder, "run", "sweep.yaml", "--results", "three", "--no-report", "--guests", "1")
    runs = sorted((folder / "three/runs").iterdir())
    return [(json.loads((run / "record.json").read_text())["outcome"], run) for run in runs]


def conform(folder: Path, defect: str, endpoint: str, planted: Sequence[Planted]) -> dict[str, str]:
    """The verdict on each case of the suite of the protocol that finds one of the defects."""
    profile = with_defect(defect, folder, endpoint, planted[0].parameters)
    suite: Any = YAML(typ="safe").load((PROJECT / f"profiles/suites/{protocol_of(endpoint)}.yaml").read_text())
    suite["cases"] = {each.case: suite["cases"][each.case] for each in planted}
    (folder / "suite.yaml").write_text(json.dumps(suite))
    _, found = owlt(folder, "conform", str(profile), "--suite", "suite.yaml", "--guests", "1")
    (findings,) = found["findings"].values()
    return {finding["case"]: finding["verdict"] for finding in findings}


@pytest.mark.parametrize("defect", PLANTED)
def test_the_suite_of_the_protocol_finds_a_planted_defect(tmp_path: Path, defect: str) -> None:
    planted = PLANTED[defect]

    assert conform(tmp_path, defect, planted.endpoint, [planted]) == {planted.case: "failed"}


@pytest.mark.parametrize("endpoint", sorted({planted.endpoint for planted in PLANTED.values()}))
def test_a_sound_endpoint_passes_the_tests_that_find_defects(tmp_path: Path, endpoint: str) -> None:
    planted = [each for each in PLANTED.values() if each.endpoint == endpoint]

    assert conform(tmp_path, "none", endpoint, planted) == {each.case: "passed" for each in planted}


@pytest.mark.parametrize("defect", PLANTED)
def test_a_proof_finds_a_planted_defect_with_the_fewest_faults_that_show_it(tmp_path: Path, defect: str) -> None:
    planted = PLANTED[defect]
    profile = with_defect(defect, tmp_path, planted.endpoint, planted.parameters)
    words = ["--losses", str(len(planted.faults)), "--faults", planted.kinds, "--file-size", "2 kB"]
    status, proof = owlt(tmp_path, "prove", str(profile), *words)
    failed = [trial["faults"] for trial in proof["trials"] if trial["outcome"] != "completed"]

    assert status == 1
    assert list(planted.faults) in failed
    assert min(map(len, failed)) == len(planted.faults)
    channel = YAML(typ="safe").load(Path(tmp_path / proof["counterexample"]).read_text())
    hit = [fault["occurrence"] for fault in channel["faults"]]
    assert sum(len(each) if isinstance(each, list) else 1 for each in hit) == len(planted.faults)


@pytest.mark.parametrize("defect", PLANTED)
def test_a_run_that_shows_a_planted_defect_does_so_three_times_and_is_shrunk_to_the_fewest_losses(
    tmp_path: Path, defect: str
) -> None:
    planted = PLANTED[defect]
    profile = with_defect(defect, tmp_path, planted.endpoint, planted.parameters)
    outcomes, directories = zip(*run_lossy(tmp_path, planted, profile), strict=True)
    status, shrunk = owlt(tmp_path, "shrink", str(directories[0]), "--guests", "1")

    both_are_needed = planted.kinds == "duplicate"  # after the first alone, the sender ends before it repeats its EOF
    assert len(set(outcomes)) == 1 and outcomes[0] != "completed"
    assert (status, shrunk["losses"]) == (0, len(planted.faults) + 1)
    assert len(shrunk["left"]) == len(planted.faults) + both_are_needed


@pytest.mark.parametrize("endpoint", ["ltp", "norm", "saratoga", "bp-cs"])
def test_a_sound_endpoint_of_each_protocol_delivers_after_every_loss_duplicate_and_delay(
    tmp_path: Path, endpoint: str
) -> None:
    profile = with_defect("none", tmp_path, endpoint, UDP if endpoint == "bp-cs" else {})
    status, proof = owlt(tmp_path, "prove", str(profile), "--file-size", "2 kB", "--faults", "drop,duplicate,delay")

    assert (status, proof["proven"]) == (0, True)


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
        "repetitions": 12,  # an EOF that is lost ends a run: 1 in 7 of them, one of 12 with a probability of 0.85
        "certify": False,
    }
    (tmp_path / "sweep.yaml").write_text(json.dumps(sweep))
    owlt(tmp_path, "run", "sweep.yaml", "--results", "lossy", "--no-report")
    records = [json.loads(path.read_text()) for path in sorted((tmp_path / "lossy").glob("runs/*/record.json"))]
    failed = next(record["run_id"] for record in records if record["outcome"] != "completed")
    status, shrunk = owlt(tmp_path, "shrink", f"lossy/runs/{failed}")

    assert status == 0
    assert shrunk["losses"] > 1
    assert [each.partition(" (")[2] for each in shrunk["left"]] == ["EOF)"]
