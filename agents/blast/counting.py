"""The receiver's side of a blast for a time: counts the data of that time, from the first piece, and stores nothing."""

from math import inf

from owlt.agents.blast.datagrams import Stream, Unreadable
from owlt.agents.blast.receiving import Patience
from owlt.agents.endpoint.exit import Failed
from owlt.agents.endpoint.intervals import Intervals


class Counting:
    """A `Party` that counts pieces, each once, until an end marker has come or nothing more comes."""

    def __init__(self, stream: Stream, duration_s: float, patience: Patience, now_s: float) -> None:
        self._stream = stream
        self._duration_s = duration_s
        self._patience = patience
        self._counts_until_s = inf
        self._late = 0
        self._arrived = Intervals()
        self._again = 0
        self._unreadable = 0
        self._end_markers = 0
        self.ended = False
        self.wakes_at_s = now_s + patience.first_s

    def has_datagram(self) -> bool:
        return False

    def next_datagram(self, now_s: float) -> bytes:
        raise AssertionError("a receiver of a blast has nothing to say")

    def advance(self, now_s: float) -> None:
        self.ended = now_s >= self.wakes_at_s

    def hear(self, datagram: bytes, now_s: float) -> None:
        try:
            number = self._stream.number_of(datagram)
        except Unreadable:
            self._unreadable += 1
            return
        if number is None:
            self._end_markers += 1
        else:
            self._count(number, now_s)
        self.wakes_at_s = now_s + (self._patience.after_end_s if self._end_markers else self._patience.silence_s)

    def _count(self, number: int, now_s: float) -> None:
        if not self._arrived:
            self._counts_until_s = now_s + self._duration_s
        if now_s > self._counts_until_s:
            self._late += 1
        elif not self._arrived.add(number, number + 1):
            self._again += 1

    def facts(self) -> str:
        """The last line of output. Raises Failed if nothing came."""
        count = self._arrived.total
        facts = (
            f"received_bytes={count * self._stream.segment_bytes} datagrams={count} late={self._late} "
            f"again={self._again} unreadable={self._unreadable} end_markers={self._end_markers}"
        )
        if not count:
            raise Failed(f"no data came: {facts}")
        return facts
