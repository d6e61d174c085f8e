#!/usr/bin/env python3
"""Stand-in for LTPlib's ltpd as a command. Not an implementation: it knows nothing of LTP.

A server writes what it was sent to ltpd.out-ADDRESS.PORT and stays; a client sends a file and stays too.
"""

from __future__ import annotations

import argparse
import signal
from pathlib import Path

import moving


def place(text: str) -> tuple[str, int]:
    """An address and a port."""
    address, _, port = text.rpartition(":")
    return address, int(port)


def main() -> None:
    """One side, until it is ended."""
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("-D", type=place, required=True)
    parser.add_argument("-S", type=place, required=True)
    parser.add_argument("-L", type=place)
    parser.add_argument("-m", choices=["server", "client"], required=True)
    parser.add_argument("-g", action="store_true")
    parser.add_argument("-v", action="store_true", required=True)
    parser.add_argument("-2", dest="mtu", type=int, required=True)
    parser.add_argument("-b", type=int, required=True)
    parser.add_argument("-i", type=Path)
    asked = parser.parse_args()
    print("ltpd running in verbose mode\nLTPD: Local parameters are:", f"LTPD: l2mtu={asked.mtu}", sep="\n")
    print(f"LTPD: rxbufsize={asked.b}", flush=True)
    if asked.m == "server":
        if asked.L is None or not asked.g or asked.i is not None or asked.L != asked.D:
            moving.refuse("a server has -L where it is, as -D, and -g, and no -i")
        serve(asked.L, asked.S)
    if asked.L is not None or asked.g or asked.i is None:
        moving.refuse("a client has -i and neither -L nor -g")
    content = asked.i.read_bytes()
    print(f"LTPD: sending {len(content)} bytes from file {asked.i}")
    moving.send(moving.open_udp("", 0), asked.D, content, rate_bps=400_000)
    print("LTPD: finished sending", flush=True)
    signal.pause()


def serve(at: tuple[str, int], source: tuple[str, int]) -> None:
    """Write every block that comes."""
    udp = moving.open_udp(*at)
    while True:
        print("LTPD: calling rcvfrom", flush=True)
        content, _ = moving.receive(udp)
        name = f"ltpd.out-{source[0]}.{source[1]}"
        Path(name).write_bytes(content)
        print(f"LTPD: Wrote {len(content)} bytes to {name}", flush=True)


if __name__ == "__main__":
    main()
