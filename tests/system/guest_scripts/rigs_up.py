"""In a guest on the real clock: the round trip over a rig that was set up by hand, before and after a change of delay.

Starts itself as the command of `owlt rigs up`, which starts it on both hosts.
"""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time

from tests.commands import OWLT

PORT = 5222


def on(role: str, task: str) -> list[str]:
    return ["ip", "netns", "exec", f"owlt-{role}", sys.executable, __file__, task]


def echo() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as answering:
        answering.bind(("10.77.0.2", PORT))
        print("listening", flush=True)
        while True:
            answering.sendto(*answering.recvfrom(100))


def ask() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        asking.settimeout(10)
        began_s = time.monotonic()
        asking.sendto(b"?", ("10.77.0.2", PORT))
        asking.recv(100)
        print(time.monotonic() - began_s)


def round_trip_s() -> float:
    return float(subprocess.run(on("sender", "ask"), capture_output=True, text=True, check=True).stdout)


def experiment() -> None:
    with subprocess.Popen(on("receiver", "echo"), stdout=subprocess.PIPE, text=True) as receiver:
        assert receiver.stdout is not None
        receiver.stdout.readline()
        before_s = round_trip_s()
        subprocess.run([*OWLT, "channel", "change", "--both", "delay=700ms"], check=True, stdout=sys.stderr)
        after_s = round_trip_s()
        receiver.kill()
    print(json.dumps([before_s, after_s]))


task = sys.argv[1] if len(sys.argv) > 1 else "up"
if task == "up":
    command = f"{sys.executable} {__file__} experiment"
    sys.exit(subprocess.run([*OWLT, "rigs", "up", "geo", "--command", command], check=False).returncode)
{"echo": echo, "ask": ask, "experiment": experiment}[task]()
