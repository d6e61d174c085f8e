#!/usr/bin/env python3
"""Stand-in for NRL's application norm as a command. Not an implementation: it knows nothing of NORM.

Words and values without dashes; a sender that flushes 20 times after its file, says so on its errors, and stays.
"""

from __future__ import annotations

import signal
import socket
import struct
import sys
import time
from pathlib import Path

import moving

RECEIVER = {"address", "interface", "rxcachedir", "debug", "id"}
SENDER = {"address", "interface", "sendfile", "debug", "id", "rate"}
FLUSHES = 20


def say(told: str) -> None:
    """Where Protolib writes."""
    print(told, file=sys.stderr, flush=True)


def main() -> None:
    """One side, until it is ended."""
    asked = dict(zip(sys.argv[1::2], sys.argv[2::2], strict=True))
    if asked.keys() not in (RECEIVER, SENDER):
        moving.refuse(f"got {sorted(asked)}, expected {sorted(RECEIVER)} or {sorted(SENDER)}")
    group, _, port = asked["address"].partition("/")
    if int(asked["debug"]) < 3:
        moving.refuse("so little is said that nobody learns of the last flush")
    say(f"Proto Info: ProtoDebug>SetDebugLevel: debug level changed from 1 to {asked['debug']}")
    index = socket.if_nametoindex(asked["interface"])
    membership = struct.pack("=4s4si", socket.inet_aton(group), b"\0" * 4, index)
    if "sendfile" in asked:
        send(asked, (group, int(port)), membership)
    udp = moving.open_udp(group, int(port))
    udp.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, membership)
    name = udp.recv(65535).removeprefix(b"name ").decode()
    content, _ = moving.receive(udp)
    Path(asked["rxcachedir"], name).write_bytes(content)
    say("Proto Debug: NormApp::Notify(RX_OBJECT_COMPLETED)")
    signal.pause()


def send(asked: dict[str, str], to: tuple[str, int], membership: bytes) -> None:
    """The file at the rate, and the flushes."""
    if float(asked["rate"]) <= 0:
        moving.refuse(f"rate {asked['rate']}: nothing would be sent")
    udp = moving.open_udp("", 0)
    udp.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, membership)
    file = Path(asked["sendfile"])
    udp.sendto(f"name {file.name}".encode(), to)
    moving.send(udp, to, file.read_bytes(), float(asked["rate"]))
    say("Proto Fatal: norm: End of tx file list reached.")
    for count in range(1, FLUSHES + 1):
        say(f"Proto Debug: NormSession::SenderQueueFlush() node>{asked['id']}, flush queued (flush_count:{count})...")
        time.sleep(0.5)
    say("Proto Debug: NormApp::Notify(TX_FLUSH_COMPLETED) ...")
    signal.pause()


if __name__ == "__main__":
    main()
