"""An implementation whose ports the kernel chooses: what a check advises, and its packets once any port is its own."""

from __future__ import annotations

import json
from math import ceil
from pathlib import Path

import pytest

from owlt.orchestrator.rigs import guest
from tests.system.sweeps import IMPLEMENTATIONS, RECORDED, owlt, perform

FILE_BYTES, BLOCK_BYTES = 100_000, 1400
BLOCKS = ceil(FILE_BYTES / BLOCK_BYTES)


def implementation(directory: Path, session: str) -> Path:
    """The implementation with another session, where a guest sees the project."""
    text = (IMPLEMENTATIONS / "blocks.yaml").read_text().replace("project: PROJECT", f"project: {guest.PROJECT}")
    path = directory / "blocks.yaml"
    path.write_text(text.replace("{ports: any}", session))
    return path


@pytest.mark.parametrize(
    ("session", "packets"),
    [("{ports: any}", BLOCKS + 2), ('{udp_ports: ["32768-60999"]}', BLOCKS + 2), ("{udp_ports: [5069]}", 1)],
    ids=["any", "range", "the port that is asked at"],
)
def test_the_packets_of_a_session_are_those_on_its_ports(
    tmp_path: Path, guest_kernel: object, session: str, packets: int
) -> None:
    done = perform(
        tmp_path, tmp_path / "results", implementations=[str(implementation(tmp_path, session))], certify=False
    )

    assert done.returncode in RECORDED, done.stderr
    (path,) = (tmp_path / "results").glob("runs/*/summary.json")
    assert json.loads(path.read_text())["str_sent"] == packets


def test_a_check_advises_any_port_and_not_the_one_that_it_saw(tmp_path: Path, guest_kernel: object) -> None:
    done = owlt("implementations", "check", implementation(tmp_path, "{udp_ports: [5069]}"))
    said = " ".join(done.stdout.split())

    assert done.returncode == 1
    assert "the kernel chooses them, from 32768 to 60999 (net.ipv4.ip_local_port_range)" in said
    assert 'write session: {ports: any}, or udp_ports: ["32768-60999"]' in said
    assert "add " not in said
