"""Sends or counts UDP packets that carry their number in their first eight bytes.

packets.py send ADDRESS COUNT SIZE_BYTES PAUSE_S | packets.py receive ADDRESS (until SIGTERM, prints the count)
"""

import contextlib
import signal
import socket
import sys
import time
from types import FrameType

PORT = 47000
SO_SNDBUFFORCE, SO_RCVBUFFORCE = 32, 33  # asm-generic/socket.h: root may pass the limit
BUFFER_BYTES = 1 << 28


def send(address: str, count: str, size_bytes: str, pause_s: str) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as out:
        out.setsockopt(socket.SOL_SOCKET, SO_SNDBUFFORCE, BUFFER_BYTES)
        out.connect((address, PORT))
        padding = bytes(int(size_bytes) - 8)
        for number in range(int(count)):
            out.send(number.to_bytes(8, "big") + padding)
            if float(pause_s):
                time.sleep(float(pause_s))


def receive(address: str) -> None:
    received = 0
    signal.signal(signal.SIGTERM, _end)
    with contextlib.suppress(InterruptedError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as into:
        into.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, BUFFER_BYTES)
        into.bind((address, PORT))
        print("bound", flush=True)
        while True:
            into.recv(65536)
            received += 1
    print(received, flush=True)


def _end(signum: int, frame: FrameType | None) -> None:
    raise InterruptedError


if __name__ == "__main__":
    (send if sys.argv[1] == "send" else receive)(*sys.argv[2:])
