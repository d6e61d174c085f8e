"""Signals of custody on their way out: one for each bundle, or gathered into aggregates."""

import math
from collections import deque
from dataclasses import dataclass, field
from typing import Protocol

from owlt.agents.bundle.blocks import Bundle
from owlt.agents.bundle.custody import (
    AggregateCustodySignal,
    CustodySignal,
    Extent,
    Fill,
    Status,
    first_fills,
)
from owlt.agents.bundle.nodes import DtnClock
from owlt.agents.endpoint.intervals import Intervals

Record = CustodySignal | AggregateCustodySignal

MOST_SIGNALS = 1 << 20
"""That wait for the channel. A file has 2^31 bytes at most, and some of its bundles come more than once."""


class Signals(Protocol):
    """The signals that are due. Times are seconds of the monotonic clock."""

    def note(self, bundle: Bundle, status: Status, now_s: float) -> None:
        """A bundle has come; this signal is about it."""

    def hasten(self) -> None:
        """Let nothing wait for more: nothing more is expected."""

    def due_at_s(self) -> float:
        """When the next record may be sent; infinity while there is nothing to say."""

    def next_record(self) -> Record:
        """The next record, which is due."""


class SingleSignals:
    """A custody signal for each bundle, at once and in order. Beyond MOST_SIGNALS none is sent: the bundle comes
    again."""

    def __init__(self, clock: DtnClock) -> None:
        self._clock = clock
        self._due: deque[CustodySignal] = deque()

    def note(self, bundle: Bundle, status: Status, now_s: float) -> None:
        if len(self._due) == MOST_SIGNALS:
            return
        signal = CustodySignal(
            status=status,
            source=bundle.source,
            created=bundle.created,
            extent=Extent(bundle.fragment.offset, len(bundle.payload)) if bundle.fragment else None,
            signalled=self._clock.time(now_s),
        )
        self._due.append(signal)

    def hasten(self) -> None:
        pass

    def due_at_s(self) -> float:
        return -math.inf if self._due else math.inf

    def next_record(self) -> CustodySignal:
        return self._due.popleft()


@dataclass
class _Gathering:
    """An aggregate that still grows."""

    due_at_s: float
    numbers: Intervals = field(default_factory=Intervals)

    @property
    def fills(self) -> list[Fill]:
        return [Fill(first, end - first) for first, end in self.numbers]


class AggregateSignals:
    """Aggregates by status: due when their window is over or they are full, made when the channel takes them.

    So what comes while an aggregate waits for the channel still gets into it, and there is no queue of them. A bundle
    without a number for aggregates has a signal of its own.
    """

    def __init__(self, window_s: float, record_bytes: int, clock: DtnClock) -> None:
        self._window_s = window_s
        self._record_bytes = record_bytes
        self._single = SingleSignals(clock)
        self._gathering: dict[Status, _Gathering] = {}

    def note(self, bundle: Bundle, status: Status, now_s: float) -> None:
        number = bundle.aggregate_id
        if number is None:
            self._single.note(bundle, status, now_s)
            return
        if any(gathering.numbers.covers(number, number + 1) for gathering in self._gathering.values()):
            return
        gathering = self._gathering.setdefault(status, _Gathering(now_s + self._window_s))
        gathering.numbers.add(number, number + 1)
        if len(AggregateCustodySignal(status, tuple(gathering.fills)).encode()) > self._record_bytes:
            gathering.due_at_s = -math.inf

    def hasten(self) -> None:
        for gathering in self._gathering.values():
            gathering.due_at_s = -math.inf

    def due_at_s(self) -> float:
        aggregates_s = min((gathering.due_at_s for gathering in self._gathering.values()), default=math.inf)
        return min(self._single.due_at_s(), aggregates_s)

    def next_record(self) -> Record:
        if self._single.due_at_s() < math.inf:
            return self._single.next_record()
        status = min(self._gathering, key=lambda status: self._gathering[status].due_at_s)
        gathering = self._gathering[status]
        waiting = gathering.fills
        fills = first_fills(waiting, self._record_bytes)
        gathering.numbers = Intervals((fill.first, fill.last + 1) for fill in waiting[len(fills) :])
        if not gathering.numbers:
            del self._gathering[status]
        return AggregateCustodySignal(status, tuple(fills))
