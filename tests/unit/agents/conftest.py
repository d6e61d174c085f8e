"""A run's values, the shipped profiles, and running the endpoints as the programs that they are."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from agents.placeholders import RunValues

REPOSITORY = Path(__file__).parents[3]

Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def run_values() -> RunValues:
    return RunValues(
        python=sys.executable,
        builds="/var/builds",
        file="/run/owlt/file",
        received_file="/run/owlt/received",
        file_size_bytes=100_000,
        rate_bps=10e6,
        reverse_rate_bps=10e6,
        one_way_delay_s=0.025,
        rtt_s=0.05,
        channel_rate_bps=10e6,
        channel_one_way_delay_s=0.025,
        mtu_bytes=1500,
        packet_error_rate=0.001,
        bit_error_rate=0,
        reverse_bit_error_rate=0,
        sender_address="10.77.0.1",
        receiver_address="10.77.0.2",
        sender_interface="test0",
        receiver_interface="test0",
        run_dir="/run/owlt",
        seed=4_000_000_000,
    )


@pytest.fixture
def start() -> Iterator[Start]:
    """Start a module of the package as a program; what still runs at the end is killed by its handle."""
    running: list[subprocess.Popen[str]] = []

    def start_module(module: str, *arguments: object) -> "subprocess.Popen[str]":
        command = [sys.executable, "-m", module, *map(str, arguments)]
        pipe = subprocess.PIPE
        running.append(subprocess.Popen(command, cwd=REPOSITORY, stdout=pipe, stderr=pipe, text=True))
        return running[-1]

    yield start_module
    for program in running:
        program.kill()
        program.communicate()
