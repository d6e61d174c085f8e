"""Carries a file over TCP: `receive ADDRESS PORT FILE` and `send ADDRESS PORT FILE`.

`tell ADDRESS PORT FILE PROGRAM NAME...` prints what a program prints, sends each line as a datagram, except the lines
that begin with one of the names, and then sends the file.
"""

import shutil
import socket
import subprocess
import sys
from pathlib import Path

how, address, port, file, *program = sys.argv[1:]
peer = (address, int(port))
if how == "receive":
    with (
        socket.create_server(peer) as server,
        server.accept()[0].makefile("rb") as stream,
        Path(file).open("wb") as out,
    ):
        shutil.copyfileobj(stream, out)
if how == "tell":
    told = subprocess.run(program[:1], stdout=subprocess.PIPE, check=True).stdout
    print(told.decode(), end="")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        for line in told.splitlines():
            if not line.startswith(tuple(name.encode() for name in program[1:])):
                sock.sendto(line, peer)
if how in ("send", "tell"):
    with socket.create_connection(peer) as sock, Path(file).open("rb") as stream:
        sock.sendfile(stream)
