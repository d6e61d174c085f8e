"""A real tcpdump, started and stopped as a run does it, in a network namespace of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from owlt.captures.files.tcpdump_command import IN_BLOCKS, ONE_BY_ONE, WHOLE_FRAMES, parse_counters
from owlt.captures.frames.columns import read_columns
from owlt.captures.frames.decoding import Kind
from tests.conftest import require, require_command

PACKETS = 1000
PACKET_BYTES = 1000

SEND_AND_STOP = f"""
import signal, socket, subprocess, sys, time
from owlt.captures.files.tcpdump_command import READY_LINE, capture_command, parse_counters

for command in (
    "ip link add test0 type veth peer name port",
    "ip link set test0 up",
    "ip link set port up",
    "ip address add 10.77.0.1/24 dev test0",
    "ip neighbour add 10.77.0.2 lladdr 02:00:00:00:00:02 dev test0",
):
    subprocess.run(command.split(), check=True)
command = capture_command("port", sys.argv[1], int(sys.argv[2]), sys.argv[3:])
capture = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
said = capture.stderr.readline()
assert READY_LINE.search(said), said


def drained():
    capture.send_signal(signal.SIGUSR1)
    return parse_counters(capture.stderr.readline()).drained


with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as out:
    for number in range({PACKETS}):
        out.sendto(number.to_bytes(4, "big") * {PACKET_BYTES // 4}, ("10.77.0.2", 5222))
while not drained():
    time.sleep(0.001)
capture.send_signal(signal.SIGINT)
print(said + capture.communicate()[1])
"""


@pytest.mark.parametrize("snaplen_bytes", [96, WHOLE_FRAMES])
@pytest.mark.parametrize("delivery", [ONE_BY_ONE, IN_BLOCKS])
def test_a_capture_drained_after_a_burst_has_every_packet_and_says_so(
    tmp_path: Path, snaplen_bytes: int, delivery: tuple[str, ...]
) -> None:
    require(os.geteuid() == 0, "root (a network namespace of its own, and a capture in it)")
    for command in ("unshare", "tcpdump", "ip"):
        require_command(command)
    capture = tmp_path / "x.pcap"
    script = [sys.executable, "-c", SEND_AND_STOP, str(capture), str(snaplen_bytes), *delivery]
    done = subprocess.run(["unshare", "--net", *script], capture_output=True, text=True, timeout=60, check=True)
    counters = parse_counters(done.stdout)
    columns = read_columns(capture)
    sent = (columns.kind == Kind.UDP) & (columns.destination_port == 5222)
    assert counters.complete
    assert counters.captured == len(columns)
    assert sent.sum() == PACKETS
    assert columns.captured_bytes.max() == min(snaplen_bytes, 14 + 20 + 8 + PACKET_BYTES)
