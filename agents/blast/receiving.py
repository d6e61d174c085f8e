"""The receiver's side: puts each piece of a file in its place, or counts the data of a given time."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import Self

from owlt.agents.blast.datagrams import HEADER, Pieces, Stream, Unreadable
from owlt.agents.endpoint.event_loop import sending_s
from owlt.agents.endpoint.exit import Failed
from owlt.agents.endpoint.files import IncomingFile
from owlt.agents.endpoint.intervals import Intervals


@dataclass(frozen=True, kw_only=True)
class Patience:
    """How long a receiver waits for further datagrams, in seconds."""

    first_s: float
    """For the first datagram."""

    silence_s: float
    """For the next, while no end marker was seen."""

    after_end_s: float
    """For the next, once an end marker was seen: datagrams may arrive out of order."""

    @classmethod
    def of(
        cls,
        *,
        rate_bps: float,
        one_way_delay_s: float,
        segment_bytes: int,
        idle_limit_s: float | None,
        over_ipv6: bool = False,
    ) -> Patience:
        """The waiting times that a channel needs.

        A silence in the middle may be an outage, so it may last as long as the first.
        """
        packet_s = sending_s(segment_bytes + HEADER.size, rate_bps, over_ipv6)
        longest_s = 30 + 10 * one_way_delay_s + 100 * packet_s if idle_limit_s is None else idle_limit_s
        return cls(first_s=longest_s, silence_s=longest_s, after_end_s=0.1 + one_way_delay_s + 10 * packet_s)


class _Listening:
    """A `Party` that sends nothing, and waits for datagrams until an end marker or a timeout."""

    def __init__(self, patience: Patience, now_s: float) -> None:
        self._patience = patience
        self._duplicates = 0
        self._unreadable = 0
        self._end_markers = 0
        self.ended = False
        self.wakes_at_s = now_s + patience.first_s

    def has_datagram(self) -> bool:
        return False

    def next_datagram(self, now_s: float) -> bytes:
        raise AssertionError("a blast receiver never sends")

    def advance(self, now_s: float) -> None:
        self.ended = now_s >= self.wakes_at_s

    def hear(self, datagram: bytes, now_s: float) -> None:
        try:
            self._take(datagram, now_s)
        except Unreadable:
            self._unreadable += 1
            return
        self.wakes_at_s = now_s + (self._patience.after_end_s if self._end_markers else self._patience.silence_s)

    def _take(self, datagram: bytes, now_s: float) -> None:
        """Take a datagram or an end marker. Raises Unreadable."""
        raise NotImplementedError


class Receiving(_Listening):
    """A `Party` that receives one file into `output`, which appears when it is complete. It sends nothing."""

    def __init__(self, output: Path, pieces: Pieces, patience: Patience, now_s: float) -> None:
        super().__init__(patience, now_s)
        self._file = IncomingFile(output)
        self._pieces = pieces
        self._has = bytearray(pieces.count)
        self._missing = pieces.count
        self._begun = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def advance(self, now_s: float) -> None:
        super().advance(now_s)
        self.ended = self.ended or (self._begun and self._missing == 0)

    def _take(self, datagram: bytes, now_s: float) -> None:
        number, data = self._pieces.decode(datagram)
        self._begun = True
        if number == self._pieces.count:
            self._end_markers += 1
        elif self._has[number]:
            self._duplicates += 1
        else:
            self._file.write(number * self._pieces.segment_bytes, data)
            self._has[number] = True
            self._missing -= 1

    def facts(self) -> str:
        """Publish the file and return the last line of output. Raises Failed if the file is incomplete."""
        came = self._pieces.count - self._missing
        facts = (
            f"{came} of {self._pieces.count} datagrams came; again={self._duplicates} unreadable={self._unreadable} "
            f"end_markers={self._end_markers}"
        )
        if self._missing or not self._begun:
            raise Failed(f"file incomplete: {facts}")
        self._file.finish()
        return facts


class Counting(_Listening):
    """A `Party` that counts pieces, each once, until an end marker or a timeout."""

    def __init__(self, stream: Stream, duration_s: float, patience: Patience, now_s: float) -> None:
        super().__init__(patience, now_s)
        self._stream = stream
        self._duration_s = duration_s
        self._counts_until_s = inf
        self._late = 0
        self._arrived = Intervals()

    def _take(self, datagram: bytes, now_s: float) -> None:
        number = self._stream.number_of(datagram)
        if number is None:
            self._end_markers += 1
        else:
            self._count(number, now_s)

    def _count(self, number: int, now_s: float) -> None:
        if not self._arrived:
            self._counts_until_s = now_s + self._duration_s
        if now_s > self._counts_until_s:
            self._late += 1
        elif not self._arrived.add(number, number + 1):
            self._duplicates += 1

    def facts(self) -> str:
        """The last line of output. Raises Failed if nothing came."""
        count = self._arrived.total
        facts = (
            f"received_bytes={count * self._stream.segment_bytes} datagrams={count} late={self._late} "
            f"again={self._duplicates} unreadable={self._unreadable} end_markers={self._end_markers}"
        )
        if not count:
            raise Failed(f"no data arrived: {facts}")
        return facts
