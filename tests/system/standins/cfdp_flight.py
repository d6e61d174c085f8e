#!/usr/bin/env python3
"""Stand-in for the console of NASA Goddard's CFDP sample application. Not an implementation: it knows nothing of CFDP.

`cfdp_flight ENTITY NODES`: a terminal, the lines `set PARAMETER VALUE` and `put FILE ENTITY`, a table of nodes with
lines such as `101 udp 192.0.2.1 2501`.
"""

from __future__ import annotations

import os
import select
import sys
from pathlib import Path

import moving

PARAMETERS = {"ack_timeout", "ack_limit", "nak_timeout", "nak_limit", "inactivity_timeout", "outgoing_file_chunk_size"}
WHOLE = b"whole"


def nodes(path: Path) -> dict[str, tuple[str, int]]:
    """Where each entity is."""
    table = {}
    for line in path.read_text().splitlines():
        words = line.split()
        if len(words) != 4 or words[1] != "udp":
            moving.refuse(f"{path}: got {line!r}, expected an entity, udp, an address and a port")
        table[words[0]] = (words[2], int(words[3]))
    return table


def finish(transaction: str) -> None:
    """What the engine says at the end of a transaction."""
    print(f":::Trans Finished trans {transaction} successful.")
    print(f":::Machine Deallocated trans {transaction}.", flush=True)


def main() -> None:
    """The console, until it is ended."""
    if len(sys.argv) != 3 or not sys.argv[1].isdecimal():
        moving.refuse(f"got {sys.argv[1:]}, expected an entity and a table of nodes")
    if not sys.stdin.isatty():
        moving.refuse("no terminal")
    entity, table = sys.argv[1], nodes(Path(sys.argv[2]))
    if entity not in table:
        moving.refuse(f"Node '{entity}' is not in the nodes file")
    udp, reassembly, name = moving.open_udp(*table[entity]), moving.Reassembly(), ""
    print(f"CFDP Sample Application Version stand-in\ncfdp_engine: entity-id set to '{entity}'.")
    print("<Link_Type> We now have a two-way link.", flush=True)
    while True:
        ready, _, _ = select.select([sys.stdin.fileno(), udp], [], [])
        if udp in ready:
            datagram, source = udp.recvfrom(65535)
            if datagram == WHOLE:
                finish(f"{entity}_1")
            elif datagram.startswith(b"name "):
                name = datagram.removeprefix(b"name ").decode()
            elif (content := reassembly.take(datagram)) is not None:
                Path(name).write_bytes(content)
                udp.sendto(WHOLE, source)
                finish("101_1")
        if sys.stdin.fileno() in ready:
            for line in os.read(sys.stdin.fileno(), 4096).decode().splitlines():
                obey(line.split(), table, udp)


def obey(words: list[str], table: dict[str, tuple[str, int]], udp: object) -> None:
    """Carry out one line."""
    match words:
        case ["set", parameter, value] if parameter in PARAMETERS and value.isdecimal():
            print(f"Setting MIB parameter '{parameter}' to '{value}'.", flush=True)
        case ["put", file, partner] if partner in table and "/" not in file:
            print("cfdp_engine: version = stand-in", flush=True)
            udp.sendto(f"name {file}".encode(), table[partner])  # type: ignore[attr-defined]
            moving.send(udp, table[partner], Path(file).read_bytes())  # type: ignore[arg-type]
        case _:
            moving.refuse(f"<Invalid_User_Input> ({' '.join(words)})")


if __name__ == "__main__":
    main()
