#!/usr/bin/env python3
"""A console that sends and receives files over TCP: what docs/implementations.md shows a dialogue with."""

import hashlib
import socket
import struct
import sys
import threading
from pathlib import Path

SO_MAX_PACING_RATE = 47
"""The kernel's number for it, see socket(7); the value is in bytes a second."""


def receive(address: str, port: str, path: str) -> None:
    """Take one file, and answer with its SHA-256 once it is there."""
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
    """Send one file, and wait for the hash of what has come."""
    content = Path(path).read_bytes()
    with socket.socket() as connection:
        if float(rate_bytes_per_s):
            connection.setsockopt(socket.SOL_SOCKET, SO_MAX_PACING_RATE, int(float(rate_bytes_per_s)))
        connection.connect((address, int(port)))
        connection.sendall(struct.pack("!Q", len(content)) + content)
        answer = connection.makefile("rb").read(32)
    verdict = "delivered" if answer == hashlib.sha256(content).digest() else "failed: another hash, of"
    print(f"\n{verdict} {len(content)} bytes", flush=True)


def begin(transfer: str, arguments: list[str]) -> None:
    """Do a transfer while the console goes on."""

    def whole() -> None:
        try:
            {"receive": receive, "send": send}[transfer](*arguments)
        except (OSError, struct.error, TypeError, ValueError) as problem:
            print(f"\nfailed: {problem}", flush=True)

    threading.Thread(target=whole, daemon=True).start()


def main() -> None:
    """Take commands from a terminal until one is quit; with --version, tell it and end."""
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
