"""A UDP relay between a CFDP sender and receiver, with rules that lose, repeat or damage chosen PDUs.

It reads PDU types from the raw bytes on its own (CCSDS 727.0-B-5, section 5), so that it checks the engine's.
"""

import select
import socket
import threading
from collections import Counter
from collections.abc import Callable
from typing import Self

Rule = Callable[[str, int, bytes], list[bytes]]
"""From a PDU's kind, how many of that kind have come, and its bytes: what is passed on."""

DIRECTIVES = {4: "EOF", 5: "Finished", 7: "Metadata", 8: "NAK"}


def kind_of(pdu: bytes) -> str:
    """Data, Metadata, EOF, NAK, Finished, ACK(EOF) or ACK(Finished)."""
    if pdu[0] & 0x10:
        return "Data"
    header_bytes = 4 + 2 * ((pdu[3] >> 4 & 7) + 1) + (pdu[3] & 7) + 1
    directive = pdu[header_bytes]
    return f"ACK({DIRECTIVES[pdu[header_bytes + 1] >> 4]})" if directive == 6 else DIRECTIVES[directive]


def lose(kind: str, *numbers: int) -> Rule:
    """Lose the first, second, ... PDU of a kind (counted from 1)."""
    return lambda seen, number, pdu: [] if seen == kind and number in numbers else [pdu]


class Relay:
    """Two sockets on loopback. The endpoints take each for their peer."""

    def __init__(self, rule: Rule) -> None:
        self._rule = rule
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.passed: Counter[str] = Counter()
        self.seen: Counter[str] = Counter()
        self.largest: Counter[str] = Counter()
        self.to_sender, self.to_receiver = _socket(), _socket()
        self.sender_address, self.receiver_address = _free_address(), _free_address()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        self.to_sender.close()
        self.to_receiver.close()

    def inject(self, pdu: bytes) -> None:
        """Hand something to both sides that neither has sent."""
        self.to_sender.sendto(pdu, self.sender_address)
        self.to_receiver.sendto(pdu, self.receiver_address)

    def _run(self) -> None:
        while not self._stop.is_set():
            for readable in select.select([self.to_sender, self.to_receiver], [], [], 0.05)[0]:
                self._relay(readable.recv(65536), forward=readable is self.to_sender)

    def _relay(self, pdu: bytes, *, forward: bool) -> None:
        kind = kind_of(pdu)
        self.seen[kind] += 1
        self.largest[kind] = max(self.largest[kind], len(pdu))
        for copy in self._rule(kind, self.seen[kind], pdu):
            self.passed[kind] += 1
            if forward:
                self.to_receiver.sendto(copy, self.receiver_address)
            else:
                self.to_sender.sendto(copy, self.sender_address)


def _socket() -> socket.socket:
    bound = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
    bound.bind(("127.0.0.1", 0))
    return bound


def _free_address() -> tuple[str, int]:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("127.0.0.1", 0))
        address: tuple[str, int] = probe.getsockname()
        return address
