"""A file block by block over UDP, as TFTP does it (RFC 1350): the receiver answers from a port of its own.

The sender asks at PORT; from then on both talk on ports that the kernel chose. Each block is acknowledged.
"""

import socket
import sys
import zlib
from pathlib import Path

PORT, BLOCK_BYTES, NUMBER_BYTES, CHECK_BYTES = 5069, 1400, 4, 4
MOST_TRIES = 8


def sealed(number: int, content: bytes = b"") -> bytes:
    octets = number.to_bytes(NUMBER_BYTES) + content
    return octets + zlib.crc32(octets).to_bytes(CHECK_BYTES)


def opened(octets: bytes) -> tuple[int, bytes] | None:
    body, check = octets[:-CHECK_BYTES], octets[-CHECK_BYTES:]
    if len(body) < NUMBER_BYTES or zlib.crc32(body).to_bytes(CHECK_BYTES) != check:
        return None
    return int.from_bytes(body[:NUMBER_BYTES]), body[NUMBER_BYTES:]


def send(address: str, file: str, timer_s: float) -> int:
    content = Path(file).read_bytes()
    blocks = [content[at : at + BLOCK_BYTES] for at in range(0, len(content), BLOCK_BYTES)] + [b""]
    peer: tuple[str, int] = (address, PORT)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.settimeout(timer_s)
        for number, block in enumerate([b"please take a file", *blocks]):
            for _ in range(MOST_TRIES):
                sender.sendto(sealed(number, block), peer)
                try:
                    answer, origin = sender.recvfrom(2048)
                except TimeoutError:
                    continue
                if opened(answer) == (number, b""):
                    peer = origin
                    break
            else:
                return 1
    return 0


def receive(address: str, received: str, timer_s: float) -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        asked.bind((address, PORT))
        print("listening", flush=True)
        while True:
            request, sender = asked.recvfrom(2048)
            if opened(request) is not None:
                break
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as own, Path(received).open("wb") as file:
        own.bind((address, 0))
        own.settimeout(MOST_TRIES * timer_s)
        own.sendto(sealed(0), sender)
        expected = 1
        while True:
            block = opened(own.recv(2048))
            if block is None:
                continue
            number, content = block
            own.sendto(sealed(number), sender)
            if number == expected:
                file.write(content)
                expected += 1
                if not content:
                    return 0


if __name__ == "__main__":
    side, address, path, timer_s = sys.argv[1:]
    sys.exit({"send": send, "receive": receive}[side](address, path, float(timer_s)))
