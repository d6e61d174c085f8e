"""A transfer of a small file whose sender waits three times for an answer that never comes, and then sends the file.

`patient.py sender ADDRESS FILE` and `patient.py receiver FILE`. The receiver has no timer.
"""

from __future__ import annotations

import select
import socket
import sys
from pathlib import Path

PORT = 5000
TIMER_S, TIMES = 3.75, 3


def send(address: str, file: str) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as port:
        port.connect((address, PORT))
        answer = select.poll()
        answer.register(port, select.POLLIN)
        for _ in range(TIMES):
            port.send(b"")
            answer.poll(TIMER_S * 1000)
        port.send(Path(file).read_bytes())


def receive(file: str) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as port:
        port.bind(("", PORT))
        print("ready", flush=True)
        while not (content := port.recv(65536)):
            pass
        Path(file).write_bytes(content)


if __name__ == "__main__":
    {"sender": send, "receiver": receive}[sys.argv[1]](*sys.argv[2:])
