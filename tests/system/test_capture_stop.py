"""A real tcpdump, started and stopped as a run does it, in a network namespace of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from captures.columns import Kind, read_columns
from captures.tcpdump import parse_counters
from tests.conftest import require, require_command

PACKETS = 1000

SEND_AND_STOP = f"""
import signal, socket, subprocess, sys, time
from captures.tcpdump import READY_LINE, capture_command, parse_counters

for command in (
    "ip link add test0 type veth peer name port",
    "ip link set test0 up",
    "ip link set port up",
    "ip address add 10.77.0.1/24 dev test0",
    "ip neighbour add 10.77.0.2 lladdr 02:00:00:00:00:02 dev test0",
):
    subprocess.run(command.split(), check=True)
command = capture_command("port", sys.argv[1], int(sys.argv[2]))
capture = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
said = ""


def read_until(condition):
    global said
    while not condition(said):
        line = capture.stderr.readline()
        assert line, said
        said += line


def drained():
    capture.send_signal(signal.SIGUSR1)
    read_until(lambda said: said.endswith("dropped by kernel\\n"))
    return parse_counters(said).drained


read_until(READY_LINE.search)
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as out:
    for number in range({PACKETS}):
        out.sendto(number.to_bytes(4, "big") * 250, ("10.77.0.2", 5222))
if sys.argv[3] == "drain":
    while not drained():
        time.sleep(0.001)
capture.send_signal(signal.SIGINT)
print(said + capture.communicate()[1])
"""


@pytest.mark.parametrize("snaplen_bytes", [96, 262_144])
def test_a_capture_stopped_right_after_the_last_packet_has_every_packet_and_says_so(
    tmp_path: Path, snaplen_bytes: int
) -> None:
    require(os.geteuid() == 0, "root (a network namespace of its own, and a capture in it)")
    for command in ("unshare", "tcpdump", "ip"):
        require_command(command)
    capture = tmp_path / "x.pcap"
    script = [sys.executable, "-c", SEND_AND_STOP, str(capture), str(snaplen_bytes), "drain"]
    done = subprocess.run(["unshare", "--net", *script], capture_output=True, text=True, timeout=60, check=True)
    counters = parse_counters(done.stdout)
    columns = read_columns(capture)
    sent = (columns.kind == Kind.UDP) & (columns.destination_port == 5222)
    assert counters.complete
    assert counters.captured == len(columns)
    assert sent.sum() == PACKETS
    assert columns.captured_bytes.max() == min(snaplen_bytes, 14 + 20 + 8 + 1000)
