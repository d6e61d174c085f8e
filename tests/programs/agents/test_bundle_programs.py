"""Bundles with custody between the two programs."""

from __future__ import annotations

import random
import socket
from pathlib import Path

import pytest

from owlt.agents.bundle.settings import Custody
from tests.programs.agents.conftest import Start

BOTH = pytest.mark.parametrize("custody", [Custody.SINGLE, Custody.AGGREGATE])


def free_ports() -> list[int]:
    sockets = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(2)]
    for probe in sockets:
        probe.bind(("127.0.0.1", 0))
    ports = [probe.getsockname()[1] for probe in sockets]
    for probe in sockets:
        probe.close()
    return ports


@BOTH
def test_the_two_programs_carry_a_file(tmp_path: Path, start: Start, custody: Custody) -> None:
    file, output = tmp_path / "file", tmp_path / "output"
    file.write_bytes(random.Random(2).randbytes(60_000))
    near, far = (f"127.0.0.1:{port}" for port in free_ports())
    common = [
        "--rate-bps",
        20e6,
        "--rtt-s",
        0.01,
        "--timer-margin-s",
        0.03,
        "--acs-window-s",
        0.02,
        "--custody",
        custody,
    ]

    receiver = start("owlt.agents.bundle", "receive", "--output", output, "--local", far, "--peer", near, *common)
    assert receiver.stdout is not None
    assert receiver.stdout.readline() == f"listening on {far}\n"
    sender = start("owlt.agents.bundle", "send", "--file", file, "--local", near, "--peer", far, *common)
    said = [side.communicate(timeout=120) for side in (sender, receiver)]

    assert (sender.returncode, receiver.returncode) == (0, 0), said
    assert output.read_bytes() == file.read_bytes()
    assert said[0][0].startswith("complete bundles=12 bundles_again=")


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (["--bundle-bytes", 0], 127, "unsupported: bundles of 0 bytes"),
        (["--convergence", "udp", "--bundle-bytes", 66_000], 127, "unsupported: bundles of 66000 bytes; over udp 1 to"),
        (["--custody", "none"], 2, "invalid"),
        (["--custody-timer-s", "-1"], 2, "got '-1', expected a number of at least 0"),
        (["--reverse-rate-bps", "x"], 2, "got 'x', expected a number of at least 0"),
        (["--file", "/no/such/file"], 1, "failed: /no/such/file: No such file or directory"),
    ],
)
def test_what_cannot_be_done_ends_with_one_line(start: Start, arguments: list[object], status: int, said: str) -> None:
    usual = ["--file", "/dev/null", "--local", "127.0.0.1:25070", "--peer", "127.0.0.1:9"]

    program = start("owlt.agents.bundle", "send", *usual, "--rate-bps", 0, "--rtt-s", 0, *arguments)
    _, error = program.communicate(timeout=120)

    assert program.returncode == status
    assert said in error.splitlines()[-1]
