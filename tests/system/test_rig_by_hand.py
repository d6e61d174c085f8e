"""The virtual rig by hand: shells on its hosts, a channel that is changed meanwhile, and a certificate."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

from owlt.orchestrator.kernel.kernel import Kernel

OWLT = [sys.executable, "-m", "owlt"]
ECHO = """
import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind(("10.77.0.2", 7000))
for _ in range(2):
    s.sendto(*s.recvfrom(100))
"""
ASK = """
import socket, time
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
began = time.monotonic()
s.sendto(b"x", ("10.77.0.2", 7000))
s.recv(100)
print(time.monotonic() - began)
"""


def test_a_delay_changed_by_hand_is_that_of_the_next_packets_and_nothing_is_left(
    guest_kernel: Kernel, tmp_path: Path
) -> None:
    (tmp_path / "echo.py").write_text(ECHO)
    (tmp_path / "ask.py").write_text(ASK)
    owlt = shlex.join(OWLT)
    script = f"""
ssh -F $OWLT_SSH_CONFIG receiver python3 - <echo.py & sleep 2
ssh -F $OWLT_SSH_CONFIG sender python3 - <ask.py
{owlt} channel change --both delay=500ms >/dev/null
ssh -F $OWLT_SSH_CONFIG sender python3 - <ask.py
wait
exit 7
"""
    command = [*OWLT, "rigs", "up", "geo", "--rig", "virtual", "--command", script]
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    done = subprocess.run(
        command, cwd=tmp_path, env=os.environ | {"TMPDIR": str(temporary)}, capture_output=True, text=True, timeout=200
    )

    assert done.returncode == 7, done.stderr
    before_s, after_s = map(float, done.stdout.split())
    assert 0.5 < before_s < 0.9
    assert 1.0 <= after_s < 1.4
    assert list(temporary.iterdir()) == []


def test_a_channel_is_certified_in_a_guest(guest_kernel: Kernel) -> None:
    command = [*OWLT, "channel", "certify", "geo", "--rig", "virtual", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)

    assert json.loads(done.stdout)["verdict"] == "ok"
