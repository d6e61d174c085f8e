"""Carries a file over TCP until it is answered: `receive ADDRESS PORT FILE` and `send ADDRESS PORT FILE`.

`tell ADDRESS PORT FILE PROGRAM NAME...` prints what a program prints, sends each line as a datagram, except the lines
that begin with one of the names, and then sends the file.
"""

import socket
import subprocess
import sys
from pathlib import Path

how, address, port, file, *program = sys.argv[1:]
peer = (address, int(port))
if how == "receive":
    with socket.create_server(peer) as server, server.accept()[0] as sock, sock.makefile("rb") as stream:
        Path(file).write_bytes(stream.read(int(stream.readline())))
        sock.sendall(b"!")
if how == "tell":
    told = subprocess.run(program[:1], stdout=subprocess.PIPE, check=True).stdout
    print(told.decode(), end="")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        for line in told.splitlines():
            if not line.startswith(tuple(name.encode() for name in program[1:])):
                sock.sendto(line, peer)
if how in ("send", "tell"):
    content = Path(file).read_bytes()
    with socket.create_connection(peer) as sock:
        sock.sendall(b"%d\n" % len(content) + content)
        sock.recv(1)
