"""Plain facts about one side of a transfer, for its last line of output."""

from collections import Counter

from agents.saratoga.packets import Packet


class Tally:
    """Counts packets by kind, data that went more than once, and what was dropped."""

    def __init__(self) -> None:
        self._sent: Counter[str] = Counter()
        self._received: Counter[str] = Counter()
        self._first_s: float | None = None
        self._last_s = 0.0
        self.data_again = 0
        self.unreadable = 0
        self.refused = 0
        self.round_trip_s: float | None = None

    def sent(self, packet: Packet, now_s: float) -> None:
        self._count(self._sent, packet, now_s)

    def received(self, packet: Packet, now_s: float) -> None:
        self._count(self._received, packet, now_s)

    def _count(self, counter: Counter[str], packet: Packet, now_s: float) -> None:
        counter[type(packet).__name__] += 1
        self._first_s = now_s if self._first_s is None else self._first_s
        self._last_s = now_s

    def facts(self) -> str:
        """One line: packets by kind each way, DATA more than once, datagrams that were no packets, packets of no use,
        the last round trip that a timestamp made, first to last packet."""
        round_trip = "" if self.round_trip_s is None else f"round_trip_s={self.round_trip_s:.6f} "
        return (
            f"sent={sum(self._sent.values())} ({_listed(self._sent)}) "
            f"received={sum(self._received.values())} ({_listed(self._received)}) "
            f"data_again={self.data_again} unreadable={self.unreadable} refused={self.refused} {round_trip}"
            f"duration_s={self._last_s - (self._first_s or 0.0):.6f}"
        )


def _listed(counter: Counter[str]) -> str:
    return " ".join(f"{kind}={count}" for kind, count in sorted(counter.items())) or "none"
