"""Plain facts about one side of a transfer, for its last line of output."""

from collections import Counter


class Tally:
    """Counts bundles and signals each way, and what could not be read."""

    def __init__(self) -> None:
        self.sent: Counter[str] = Counter()
        self.received: Counter[str] = Counter()
        self.datagrams_sent = 0
        self.unreadable = 0
        self._first_s: float | None = None
        self._last_s = 0.0

    def datagram(self, now_s: float) -> None:
        """A datagram went or came."""
        self._first_s = now_s if self._first_s is None else self._first_s
        self._last_s = now_s

    def facts(self) -> str:
        """One line: bundles by kind each way, datagrams, first to last datagram."""
        return (
            f"sent=({_listed(self.sent)}) received=({_listed(self.received)}) datagrams_sent={self.datagrams_sent} "
            f"unreadable={self.unreadable} duration_s={self._last_s - (self._first_s or 0.0):.6f}"
        )


def _listed(counter: Counter[str]) -> str:
    return " ".join(f"{kind}={count}" for kind, count in sorted(counter.items())) or "none"
