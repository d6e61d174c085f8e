"""A receiver that serves many transfers over TCP and leaves something behind after each, and its sender:
file_server.py receive FILE ADDRESS:PORT LEAK, file_server.py send FILE ADDRESS:PORT.

LEAK is none, memory, open-file or temporary-file.
"""

import socket
import sys
import tempfile
from pathlib import Path

PIECE_BYTES = 65536
LEAKED_BYTES = 40_000
left: list[object] = []


def leak(kind: str) -> None:
    """Leave something behind."""
    if kind == "memory":
        left.append(b"x" * LEAKED_BYTES)
    elif kind == "open-file":
        left.append(Path("/dev/null").open())  # noqa: SIM115
    elif kind == "temporary-file":
        tempfile.NamedTemporaryFile(delete=False).close()


def receive(file: str, address: tuple[str, int], kind: str) -> None:
    """Write the bytes of each connection to the file, and then close the connection."""
    with socket.create_server(address) as server:
        print("listening", flush=True)
        while True:
            connection, _ = server.accept()
            with connection:
                content = bytearray()
                while piece := connection.recv(PIECE_BYTES):
                    content += piece
                Path(file).write_bytes(content)
            leak(kind)


def send(file: str, address: tuple[str, int]) -> None:
    """Send the file, and wait until the receiver has written it."""
    with socket.create_connection(address) as connection:
        connection.sendall(Path(file).read_bytes())
        connection.shutdown(socket.SHUT_WR)
        connection.recv(1)


side, path, where, *kinds = sys.argv[1:]
host, _, port = where.rpartition(":")
if side == "receive":
    receive(path, (host, int(port)), kinds[0])
else:
    send(path, (host, int(port)))
