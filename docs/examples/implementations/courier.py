#!/usr/bin/env python3
"""A console that sends and receives files over TCP: the example of a dialogue in docs/implementations.md."""

import hashlib
import socket
import struct
import sys
import threading
from pathlib import Path

SO_MAX_PACING_RATE = 47
"""The number of this socket option, see socket(7). Its value is in bytes per second."""


def receive(address: str, port: str, path: str) -> None:
    """Receive one file, and answer with its SHA-256."""
    with socket.create_server((address, int(port))) as server:
        print(f"\nlistening on {address}:{port}", flush=True)
        connection, _ = server.accept()
    with connection, connection.makefile("rb") as stream:
        (size_bytes,) = struct.unpack("!Q", stream.read(8))
        content = stream.read(size_bytes)
        draft = Path(f"{path}.part")
        draft.write_bytes(content)
        draft.rename(path)
        connection.sendall(hashlib.sha256(content).digest())
    print(f"\nreceived {len(content)} bytes", flush=True)


def send(path: str, address: str, port: str, rate_bytes_per_s: str) -> None:
    """Send one file, and wait for the hash of the received file."""
    content = Path(path).read_bytes()
    with socket.socket() as connection:
        if float(rate_bytes_per_s):
            connection.setsockopt(socket.SOL_SOCKET, SO_MAX_PACING_RATE, int(float(rate_bytes_per_s)))
        connection.connect((address, int(port)))
        connection.sendall(struct.pack("!Q", len(content)) + content)
        answer = connection.makefile("rb").read(32)
    verdict = "delivered" if answer == hashlib.sha256(content).digest() else "failed: the hash differs, after"
    print(f"\n{verdict} {len(content)} bytes", flush=True)


def begin(transfer: str, arguments: list[str]) -> None:
    """Start a transfer in the background, so that the console accepts further commands."""

    def run() -> None:
        try:
            {"receive": receive, "send": send}[transfer](*arguments)
        except (OSError, struct.error, TypeError, ValueError) as problem:
            print(f"\nfailed: {problem}", flush=True)

    threading.Thread(target=run, daemon=True).start()


def main() -> None:
    """Execute commands from a terminal until the command quit. With --version, print the version only."""
    print("courier 1.0")
    if sys.argv[1:] == ["--version"]:
        return
    while (words := input("courier> ").split()) != ["quit"]:
        if words and words[0] in ("receive", "send"):
            begin(words[0], words[1:])
        elif words:
            print("what? receive ADDRESS PORT FILE; send FILE ADDRESS PORT BYTES_PER_SECOND; quit")


if __name__ == "__main__":
    main()
