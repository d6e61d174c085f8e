"""A transfer that gives up: the sender sends the first 61,440 bytes over TCP and ends with status 3.

The receiver keeps what came, in a file that it has allocated before if it is told so, and stays if it is told so.
"""

import socket
import sys
import time
from pathlib import Path

PORT, PART_BYTES = 5000, 61_440


def send(address: str, file: str) -> int:
    with socket.create_connection((address, PORT)) as connection:
        connection.sendall(Path(file).read_bytes()[:PART_BYTES])
    print(f"gave up after {PART_BYTES}")
    return 3


def receive(address: str, received: str, size: str, allocates: str, stays: str) -> int:
    with socket.create_server((address, PORT)) as server, Path(received).open("wb", buffering=0) as file:
        file.truncate(int(size) if allocates == "1" else 0)
        print("listening", flush=True)
        connection, _ = server.accept()
        with connection:
            while piece := connection.recv(65536):
                file.write(piece)
    if stays == "1":
        time.sleep(1000)
    return 0


sys.exit({"send": send, "receive": receive}[sys.argv[1]](*sys.argv[2:]))
