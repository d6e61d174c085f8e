"""Plain facts about one side of a transfer, for its last line of output."""

from collections import Counter

from agents.ltp.segments import SegmentType, segment_type


class Tally:
    """Counts segments by type, and data that went more than once."""

    def __init__(self) -> None:
        self._sent: Counter[SegmentType] = Counter()
        self._received: Counter[SegmentType] = Counter()
        self._first_s: float | None = None
        self._last_s = 0.0
        self.data_again = 0
        self.unreadable = 0
        """Datagrams that are no segment."""
        self.refused = 0
        """Segments that do not fit what is known of their session, or belong to none."""

    def sent(self, datagram: bytes, now_s: float) -> None:
        self._sent[segment_type(datagram)] += 1
        self._see(now_s)

    def received(self, datagram: bytes, now_s: float) -> None:
        self._received[segment_type(datagram)] += 1
        self._see(now_s)

    def _see(self, now_s: float) -> None:
        self._first_s = now_s if self._first_s is None else self._first_s
        self._last_s = now_s

    def facts(self) -> str:
        """One line: segments by type each way, data segments sent again, what was dropped, first to last segment."""
        return (
            f"sent={sum(self._sent.values())} ({_listed(self._sent)}) "
            f"received={sum(self._received.values())} ({_listed(self._received)}) "
            f"data_again={self.data_again} unreadable={self.unreadable} refused={self.refused} "
            f"duration_s={self._last_s - (self._first_s or 0.0):.6f}"
        )


def _listed(counter: Counter[SegmentType]) -> str:
    return " ".join(f"{kind.name}={count}" for kind, count in sorted(counter.items())) or "none"
