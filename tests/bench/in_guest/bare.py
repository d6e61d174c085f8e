"""Performs transfers with nothing around them: the recorded commands of both programs, over the recorded channel.

bare.py FILE: a JSON list of `sender`, `receiver` (commands), `file` (the sender's), `file_bytes`, `received` (the
receiver's file) and `channel` (written). No SSH, no captures, no record. Prints how many files arrived, as JSON.
"""

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from owlt.emulator.channel.spec import ChannelSpec
from owlt.emulator.service.client import EmulatorClient
from tests.system.guest_scripts import three_hosts

SETTLING_S = 1.0
"""From the receiver's start to the sender's: virtual time, which costs nothing."""
LIMIT_S = 7200.0
"""Virtual time."""


def transfer(emulator: EmulatorClient, run: dict[str, Any]) -> bool:
    """Whether the file arrived."""
    emulator.configure(ChannelSpec.from_wire(run["channel"]))
    sent, received = Path(run["file"]), Path(run["received"])
    for path in (sent, received):
        path.parent.mkdir(parents=True, exist_ok=True)
    content = os.urandom(run["file_bytes"])
    sent.write_bytes(content)
    receiver = start("receiver", run["receiver"])
    time.sleep(SETTLING_S)
    sender = start("sender", run["sender"])
    for program in (sender, receiver):
        try:
            program.wait(LIMIT_S)
        except subprocess.TimeoutExpired:
            program.kill()
            program.wait()
    has_arrived = received.exists() and received.read_bytes() == content
    received.unlink(missing_ok=True)
    return has_arrived


def start(host: str, command: list[str]) -> "subprocess.Popen[bytes]":
    """A program on a host, its output discarded."""
    return subprocess.Popen(
        three_hosts.on(host, command), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL
    )


def main(runs: list[dict[str, Any]]) -> None:
    """One transfer after the other."""
    for host in three_hosts.ADDRESSES:
        three_hosts.run(f"ip -n {host} route add 224.0.0.0/4 dev test0")
    with three_hosts.service() as emulator:
        arrived = [transfer(emulator, run) for run in runs]
    print(json.dumps({"arrived": sum(arrived)}))


if __name__ == "__main__":
    three_hosts.make()
    main(json.loads(Path(sys.argv[1]).read_text()))
