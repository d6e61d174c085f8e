"""How the stand-ins of this directory carry a file: numbered datagrams over UDP, paced, nothing repeated.

No protocol, and no implementation: what a stand-in has to be like is its console, its options and its files.
"""

from __future__ import annotations

import socket
import struct
import sys
import time
from collections.abc import Iterator
from typing import NoReturn

HEADER = struct.Struct("!IQQ")
DATA_BYTES = 1000
FRAME_OVERHEAD_BYTES = 14 + 20 + 8


def refuse(told: str) -> NoReturn:
    """End with status 2: the caller did what the original would not have taken."""
    print(f"stand-in: refused: {told}", file=sys.stderr)
    sys.exit(2)


def open_udp(address: str, port: int) -> socket.socket:
    """A bound socket with room for what a stand-in sends at once."""
    udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    udp.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    udp.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_000_000)
    udp.bind((address, port))
    return udp


def datagrams(content: bytes, number: int = 0) -> Iterator[bytes]:
    """The pieces of a content, each with its number, its place and the whole length."""
    for at in range(0, len(content), DATA_BYTES):
        yield HEADER.pack(number, at, len(content)) + content[at : at + DATA_BYTES]


def send(udp: socket.socket, to: tuple[str, int], content: bytes, rate_bps: float = 0, number: int = 0) -> None:
    """Send a content, at a rate of frames unless that is 0."""
    for datagram in datagrams(content, number):
        udp.sendto(datagram, to)
        if rate_bps:
            time.sleep(8 * (len(datagram) + FRAME_OVERHEAD_BYTES) / rate_bps)


class Reassembly:
    """Puts contents together again, whatever order their pieces come in."""

    def __init__(self) -> None:
        self._pieces: dict[int, dict[int, bytes]] = {}

    def take(self, datagram: bytes) -> bytes | None:
        """A content whose last missing piece this was."""
        number, at, total = HEADER.unpack_from(datagram)
        pieces = self._pieces.setdefault(number, {})
        pieces[at] = datagram[HEADER.size :]
        if sum(map(len, pieces.values())) < total:
            return None
        return b"".join(pieces[place] for place in sorted(pieces))


def receive(udp: socket.socket) -> tuple[bytes, tuple[str, int]]:
    """The next whole content, and from where it came."""
    reassembly = Reassembly()
    while True:
        datagram, source = udp.recvfrom(65535)
        if len(datagram) >= HEADER.size and (whole := reassembly.take(datagram)) is not None:
            return whole, source
