"""The sender sends every piece of a file in order, at the rate of the channel, then the end markers; or pieces without
a file, for a given time. The receiver puts each piece in its place, or counts the data of a given time.
"""

from __future__ import annotations

import errno
import socket
import struct
import time
from collections.abc import Iterator
from dataclasses import dataclass
from math import inf
from mmap import mmap
from pathlib import Path
from typing import Self

from owlt.agents.blast.datagrams import HEADER, Pieces, Stream, Unreadable, encode, require_segment
from owlt.agents.endpoint.event_loop import Pacer, sending_s
from owlt.agents.endpoint.exit import Failed, Unsupported
from owlt.agents.endpoint.files import IncomingFile, map_file
from owlt.agents.endpoint.intervals import Intervals
from owlt.agents.endpoint.udp import LARGEST_PAYLOAD_BYTES, Address

END_MARKERS = 5
"""The number of end markers.

At PER 0.1 all of them are lost in one run of 100,000; the receiver's timeout ends such a run.
"""

TOGETHER_S = 0.0005
"""Datagrams that leave within this time are handed to the kernel in one call: at 10 Mbit/s one, at 1 Gbit/s 60."""

MOST_TOGETHER = 64
"""UDP_MAX_SEGMENTS of Linux before 6.9."""

UDP_SEGMENT = 103
"""Linux's option to divide the data of one call into datagrams of a given size (udp(7)).

The kernel divides it for interfaces that cannot.
"""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Choices of the sender. Raises Unsupported when they send nothing."""

    rate_bps: float
    segment_bytes: int = 1000
    passes: int = 1

    def __post_init__(self) -> None:
        if self.passes < 1:
            raise Unsupported(f"{self.passes} passes; at least 1 is needed to send the file")

    @property
    def datagram_bytes(self) -> int:
        """The size of every datagram except a shorter last one."""
        return HEADER.size + self.segment_bytes

    @property
    def together(self) -> int:
        """How many datagrams one call hands over."""
        fit = min(MOST_TOGETHER, LARGEST_PAYLOAD_BYTES // self.datagram_bytes)
        due = int(TOGETHER_S * self.rate_bps / (8 * self.datagram_bytes)) if self.rate_bps else MOST_TOGETHER
        return max(1, min(fit, due))


def send(file: Path, local: Address, peer: Address, settings: Settings) -> str:
    """Send a file, each piece `settings.passes` times. Returns counters as text; whether the file arrived is not known.

    Raises:
        Failed: the address is not this host's.
        Unsupported: no datagram holds such a segment.
    """
    content = map_file(file)
    pieces = Pieces(len(content), settings.segment_bytes)
    sent, duration_s = _blast(_batches(content, pieces, settings), local, peer, settings)
    return f"sent={sent - END_MARKERS} end_markers={END_MARKERS} passes={settings.passes} duration_s={duration_s:.6f}"


def send_for(duration_s: float, local: Address, peer: Address, settings: Settings) -> str:
    """Send pieces for a time. Returns and raises as `send` does."""
    require_segment(settings.segment_bytes)
    sent, lasted_s = _blast(_batches_for(duration_s, settings), local, peer, settings)
    return f"sent={sent - END_MARKERS} end_markers={END_MARKERS} duration_s={lasted_s:.6f}"


def _blast(batches: Iterator[list[bytes]], local: Address, peer: Address, settings: Settings) -> tuple[int, float]:
    """Send batch after batch at the rate of the channel. Returns the number of datagrams, and how long it took."""
    sent = 0
    with socket.socket(local.family, socket.SOCK_DGRAM) as endpoint:
        try:
            endpoint.bind(local)
        except OSError as error:
            raise Failed(f"cannot send from {local}: {error.strerror}; give an address of this host") from error
        begin_s = time.monotonic()
        pacer = Pacer(settings.rate_bps, local.is_ipv6)
        for batch in batches:
            now_s = _sleep_until(pacer.opens_at_s)
            for datagram in batch:
                pacer.spend(len(datagram), now_s)
            _hand_over(endpoint, peer, batch, settings.datagram_bytes)
            sent += len(batch)
    return sent, time.monotonic() - begin_s


def _batches(content: mmap | bytes, pieces: Pieces, settings: Settings) -> Iterator[list[bytes]]:
    """The datagrams of each call: pieces of equal length except the last, or one end marker."""
    together_bytes = settings.together * pieces.segment_bytes
    for _ in range(settings.passes):
        for begin in range(0, pieces.file_bytes, together_bytes):
            data = content[begin : begin + together_bytes]
            yield [
                encode(begin + at, data[at : at + pieces.segment_bytes])
                for at in range(0, len(data), pieces.segment_bytes)
            ]
    for _ in range(END_MARKERS):
        yield [encode(pieces.file_bytes, b"")]


def _batches_for(duration_s: float, settings: Settings) -> Iterator[list[bytes]]:
    """Pieces for the given time, from when the first is taken, then the end markers."""
    data = bytes(settings.segment_bytes)
    end_s, number = time.monotonic() + duration_s, 0
    while time.monotonic() < end_s:
        numbers = range(number, number + settings.together)
        yield [encode(each * settings.segment_bytes, data) for each in numbers]
        number = numbers.stop
    for _ in range(END_MARKERS):
        yield [encode(number * settings.segment_bytes, b"")]


def _sleep_until(moment_s: float) -> float:
    """Returns the time: after a sleep the intended one, so that the next call makes up for lateness."""
    now_s = time.monotonic()
    if moment_s <= now_s:
        return now_s
    time.sleep(moment_s - now_s)
    return moment_s


def _hand_over(endpoint: socket.socket, peer: Address, batch: list[bytes], datagram_bytes: int) -> None:
    """Send datagrams; sleeps while the socket has no room. One by one where the kernel does not cut them."""
    if len(batch) > 1:
        size = (socket.IPPROTO_UDP, UDP_SEGMENT, struct.pack("H", datagram_bytes))
        try:
            endpoint.sendmsg(batch, [size], 0, peer)
        except OSError as error:
            if error.errno not in (errno.EIO, errno.EINVAL, errno.EMSGSIZE):
                raise
        else:
            return
    for datagram in batch:
        endpoint.sendto(datagram, peer)


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
