"""Plain facts about one side of a transfer, for its last line of output."""

from collections import Counter


class Tally:
    """Counts PDUs by kind (`FileData`, `Metadata`, `Eof`, `Ack`, `Nak`, `Finished`), and data that went again."""

    def __init__(self) -> None:
        self._sent: Counter[str] = Counter()
        self._received: Counter[str] = Counter()
        self._offsets: set[int] = set()
        self._again = 0
        self._first_s: float | None = None
        self._last_s = 0.0
        self.unreadable = 0

    def sent(self, kind: str, offset: int | None, now_s: float) -> None:
        """A PDU leaves; `offset` is that of its file data."""
        self._count(self._sent, kind, offset, now_s)

    def received(self, kind: str, offset: int | None, now_s: float) -> None:
        """A PDU has come."""
        self._count(self._received, kind, offset, now_s)

    def _count(self, counter: Counter[str], kind: str, offset: int | None, now_s: float) -> None:
        counter[kind] += 1
        if offset is not None:
            self._again += offset in self._offsets
            self._offsets.add(offset)
        self._first_s = now_s if self._first_s is None else self._first_s
        self._last_s = now_s

    def facts(self) -> str:
        """One line: PDUs by kind each way, file data more than once, damaged datagrams, first to last PDU."""
        return (
            f"sent={sum(self._sent.values())} ({_listed(self._sent)}) "
            f"received={sum(self._received.values())} ({_listed(self._received)}) "
            f"data_again={self._again} unreadable={self.unreadable} "
            f"duration_s={self._last_s - (self._first_s or 0.0):.6f}"
        )


def _listed(counter: Counter[str]) -> str:
    return " ".join(f"{kind}={count}" for kind, count in sorted(counter.items())) or "none"
