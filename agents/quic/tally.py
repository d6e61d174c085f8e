"""Counters of one side of a transfer, for its last line of output."""

from dataclasses import dataclass


@dataclass
class Tally:
    """Counts datagrams and bytes of UDP payload each way. Only the engine can read their content."""

    sent_datagrams: int = 0
    sent_bytes: int = 0
    received_datagrams: int = 0
    received_bytes: int = 0
    strange: int = 0
    first_s: float | None = None
    last_s: float = 0.0

    def sent(self, datagram: bytes, now_s: float) -> None:
        self.sent_datagrams += 1
        self.sent_bytes += len(datagram)
        self._note(now_s)

    def received(self, datagram: bytes, now_s: float) -> None:
        self.received_datagrams += 1
        self.received_bytes += len(datagram)
        self._note(now_s)

    def _note(self, now_s: float) -> None:
        self.first_s = now_s if self.first_s is None else self.first_s
        self.last_s = now_s

    def facts(self) -> str:
        """One line: datagrams and bytes each way, datagrams before the connection that did not begin one, first to
        last datagram."""
        return (
            f"sent={self.sent_datagrams} sent_bytes={self.sent_bytes} "
            f"received={self.received_datagrams} received_bytes={self.received_bytes} strange={self.strange} "
            f"duration_s={self.last_s - (self.first_s or 0.0):.6f}"
        )
