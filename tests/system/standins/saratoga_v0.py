#!/usr/bin/env python3
"""Stand-in for the console of NASA Glenn's Saratoga v0. Not an implementation: it knows nothing of Saratoga.

No arguments; addresses and rate from sara.conf; the line `get FILE` at a prompt.
"""

from __future__ import annotations

import os
import re
import select
import sys
from pathlib import Path

import moving

PORT = 4000
SETTING = re.compile(r'\$C_(hostaddr|peeraddr|verbose|rate) = (?:"([0-9.]+)"|([0-9]+));')
FASTEST_KBPS = 85_000


def settings() -> dict[str, str]:
    """What sara.conf says, each thing once."""
    found = {}
    for line in Path("sara.conf").read_text().splitlines():
        setting = SETTING.fullmatch(line)
        if setting is None:
            moving.refuse(f"sara.conf: {line!r}")
        found[setting[1]] = setting[2] or setting[3]
    if found.keys() != {"hostaddr", "peeraddr", "verbose", "rate"} or not 0 < int(found["rate"]) <= FASTEST_KBPS:
        moving.refuse(f"sara.conf: got {found}")
    return found


def main() -> None:
    """The console, until it is ended."""
    if len(sys.argv) > 1 or not sys.stdin.isatty():
        moving.refuse("expected a terminal and no arguments")
    asked = settings()
    udp = moving.open_udp(asked["hostaddr"], PORT)
    reassembly, name = moving.Reassembly(), ""
    print(f"info: listening at {asked['hostaddr']}:{PORT}\nsaratoga> ", end="", flush=True)
    while True:
        ready, _, _ = select.select([sys.stdin.fileno(), udp], [], [])
        if udp in ready:
            datagram, source = udp.recvfrom(65535)
            if datagram.startswith(b"get "):
                content = Path(datagram.removeprefix(b"get ").decode()).read_bytes()
                print(f"serving at {asked['rate']} Kbps", flush=True)
                moving.send(udp, source, content, 1000 * int(asked["rate"]))
            elif (whole := reassembly.take(datagram)) is not None:
                print(f"writing file {name}")
                Path(name).write_bytes(whole)
                print(f"{len(whole)} byte file was received in 1 seconds. 1 kbits per second.", flush=True)
        if sys.stdin.fileno() in ready:
            words = os.read(sys.stdin.fileno(), 4096).decode().split()
            if len(words) != 2 or words[0] != "get" or "/" in words[1]:
                moving.refuse(f"typed {words}")
            name = words[1]
            udp.sendto(f"get {name}".encode(), (asked["peeraddr"], PORT))


if __name__ == "__main__":
    main()
