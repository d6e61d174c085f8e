"""Aimed faults and restarts on rigs beside the virtual one: this machine's kernel needs no netem for them."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from owlt.orchestrator.rigs import namespaces, network
from tests.commands import owlt
from tests.conftest import require, require_command
from tests.lab.rack import rack
from tests.system.sweeps import RECORDED, records, sweep_file

EOF_IS_LOST = {"direction": "forward", "packet": "cfdp.eof", "occurrence": 1, "action": "drop"}
DATA_ARE_DAMAGED = {"direction": "forward", "packet": "cfdp.data", "occurrence": 2, "action": {"corrupt_bits": [800]}}
FAULTS = {"file_size": "20 kB", "rate": "unlimited", "delay": "0 s", "faults": [EOF_IS_LOST, DATA_ARE_DAMAGED]}
RESTART = {
    "implementations": ["cfdp"],
    "file_size": "20 kB",
    "advertised": {"cfdp": {"rate": "200 kbit/s"}},  # 0.8 s of sending
    "restarts": {"plain": {"side": "receiver", "at": "200 ms", "after": "100 ms"}},
}


@pytest.fixture(scope="module", params=["local", "lab"])
def rig(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[object]]:
    """Words of the command for a rig."""
    require(os.geteuid() == 0, "root, to make network namespaces")
    if request.param == "local":
        namespaces.clear_abandoned()
        require(not network.leftovers(), "a machine on which no local rig stands")
        yield []
        return
    for command in ("sshd", "sudo", "openssl"):
        require_command(command)
    with rack(tmp_path_factory.mktemp("rack")) as made:
        yield ["--rig", made.inventory]


def performed(rig: list[object], directory: Path, **changes: object) -> dict[str, Any]:
    """The record of the only run of a sweep."""
    sweep = sweep_file(directory, rig="lab" if rig else "local", clock="real", certify=False, **changes)
    done = owlt("run", sweep, *rig, "--results", directory / "results", "--no-report")
    assert done.returncode in RECORDED, done.stderr
    (record,) = records(directory / "results").values()
    return record


def test_packets_that_are_aimed_at_are_lost_or_damaged_on_every_rig(rig: list[object], tmp_path: Path) -> None:
    record = performed(rig, tmp_path, **FAULTS)

    assert record["outcome"] == "completed", record["reason"]
    assert [(each["fault"], each["hits"]) for each in record["faults"]["faults"]] == [
        ("cfdp.eof #1", 1),
        ("cfdp.data #2", 1),
    ]
    counted = record["emulator_statistics"]["forward"]["faults"]
    assert (counted["dropped_packets"], counted["corrupted_packets"]) == (1, 1)


def test_a_host_restarts_during_a_run_on_every_rig(rig: list[object], tmp_path: Path) -> None:
    (tmp_path / "plain.yaml").write_text(json.dumps({"title": "plain", "both": {}}))
    channel = {"channel": [str(tmp_path / "plain.yaml")], "rate": None, "delay": None, "packet_error_rate": None}
    performed(rig, tmp_path, **RESTART | channel)

    (run,) = (tmp_path / "results/runs").iterdir()
    assert {path.name for path in run.glob("receiver-restarted.*")} == {
        "receiver-restarted.out",
        "receiver-restarted.err",
    }
