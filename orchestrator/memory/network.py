"""The test network of a rig in memory: whole messages, each at once, as a test lets them through."""

from __future__ import annotations

import threading
from collections import defaultdict, deque
from collections.abc import Callable


class Network:
    """Carries messages between hosts. `carry` gives what arrives of each; None: nothing."""

    def __init__(self, carry: Callable[[bytes], bytes | None] = bytes) -> None:
        self.carry = carry
        self._waiting: dict[tuple[str, int], deque[bytes]] = defaultdict(deque)
        self._conditions: list[threading.Condition] = []

    def join(self, changed: threading.Condition) -> None:
        """Notify this when a message arrives."""
        self._conditions.append(changed)

    def send(self, address: str, port: int, content: bytes) -> None:
        """Send a message to an address and a port."""
        arrived = self.carry(content)
        if arrived is None:
            return
        self._waiting[address, port].append(arrived)
        for changed in self._conditions:
            with changed:
                changed.notify_all()

    def has_any(self, address: str, port: int) -> bool:
        """Whether a message has arrived there."""
        return bool(self._waiting[address, port])

    def take(self, address: str, port: int) -> bytes:
        """The first message that has arrived there and was not taken."""
        return self._waiting[address, port].popleft()
