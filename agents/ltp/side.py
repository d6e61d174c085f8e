"""What both engines of a transfer share: reading and writing segments, the timers of those that are sent again until
they are answered (checkpoints, reports and cancellations: RFC 5326, sections 6.7, 6.8 and 6.16), and cancelling a
session, from either side.
"""

import math
from abc import ABC, abstractmethod
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Generic, TypeVar

from owlt.agents.endpoint.event_loop import Tally
from owlt.agents.endpoint.exit import Failed
from owlt.agents.ltp.segments import (
    Cancel,
    CancelAck,
    Malformed,
    Reason,
    Segment,
    SegmentType,
    SessionId,
    decode,
    encode,
    segment_type,
)
from owlt.agents.ltp.settings import Settings

Key = TypeVar("Key")
Kind = TypeVar("Kind", bound=Segment)


class LimitReached(Exception):
    """A segment was retransmitted as often as it may be, without an answer."""

    def __init__(self, segment: Segment, limit: int) -> None:
        super().__init__(f"no answer to {type(segment).__name__}, retransmitted {limit} times")
        self.segment = segment


class Unanswered(Generic[Key, Kind]):
    """The segments that wait for an answer. All wait equally long, so what left first is due first.

    The time runs from the moment that a segment leaves, not while it waits for its turn.
    """

    def __init__(self, interval_s: float, limit: int) -> None:
        self._interval_s = interval_s
        self._limit = limit
        self._segments: dict[Key, Kind] = {}
        self._times_left: dict[Key, int] = {}
        self._due_s: OrderedDict[Key, float] = OrderedDict()

    def __len__(self) -> int:
        return len(self._segments)

    def left(self, key: Key, segment: Kind, now_s: float) -> None:
        """A segment has left, for the first time or again."""
        self._segments[key] = segment
        self._times_left[key] = self._times_left.get(key, 0) + 1
        self._due_s[key] = now_s + self._interval_s
        self._due_s.move_to_end(key)

    def answered(self, key: Key) -> bool:
        """An answer has come, or is no longer needed. Returns whether the segment had been taken to be sent again."""
        known = self._segments.pop(key, None) is not None
        self._times_left.pop(key, None)
        return known and self._due_s.pop(key, None) is None

    def forget(self, which: Callable[[Key], bool]) -> None:
        """Stop waiting for answers to the segments whose keys `which` selects."""
        for key in [key for key in self._segments if which(key)]:
            self.answered(key)

    @property
    def next_due_s(self) -> float:
        """When `take_due` next returns a segment; infinity: never."""
        return next(iter(self._due_s.values()), math.inf)

    def take_due(self, now_s: float) -> list[Kind]:
        """The segments to send again now.

        Raises:
            LimitReached: a segment has left as often as it may.
        """
        taken = []
        while self.next_due_s <= now_s:
            key, _ = self._due_s.popitem(last=False)
            if self._times_left[key] > self._limit:
                raise LimitReached(self._segments[key], self._limit)
            taken.append(self._segments[key])
        return taken

    def hasten(self, key: Key) -> Kind | None:
        """The segment to send again now because the peer has requested it again. None where it is about to be sent
        anyway, is answered, or was retransmitted as often as it may be."""
        if key not in self._due_s or self._times_left[key] > self._limit:
            return None
        del self._due_s[key]
        return self._segments[key]


LINGER_TIMERS = 4
"""How many of the peer's timers a side stays after the last received segment, to answer a retransmitted one again."""

MOST_ANSWERS = 1 << 16
"""Answers that wait to be sent; while there are more, nothing is received."""


class SessionSide(ABC):
    """The part of a `Party` that sender and receiver share; subclasses add the rest.

    Raises from `advance`:
        Failed: the peer was silent for too long, or a session was cancelled by one of the two.
    """

    def __init__(self, settings: Settings, *, sends_block: bool) -> None:
        self._settings = settings
        self._sends_block = sends_block
        self._urgent: deque[Segment] = deque()
        self._cancels: Unanswered[SessionId, Cancel] = Unanswered(settings.interval_s, settings.cancel_limit)
        self._failure: str | None = None
        self._peer_gave_up = False
        self._quiet_since_s = math.inf
        self._tally = Tally("data_again", "unreadable", "refused", kinds=SegmentType.__members__)
        self.ended = False
        self.wakes_at_s = -math.inf

    def has_datagram(self) -> bool:
        return bool(self._urgent) or (self._failure is None and self._has_more())

    def next_datagram(self, now_s: float) -> bytes:
        segment = self._next_urgent() if self._urgent else self._next_segment(now_s)
        datagram = encode(segment)
        self._tally.sent(segment_type(datagram).name, now_s)
        if isinstance(segment, Cancel):
            self._cancels.left(segment.session, segment, now_s)
        self._left(segment, now_s)
        return datagram

    def _next_urgent(self) -> Segment:
        segment = self._urgent.popleft()
        if not self._urgent:
            self.wakes_at_s = -math.inf  # timers are looked at once all is sent
        return segment

    def hear(self, datagram: bytes, now_s: float) -> None:
        try:
            segment = decode(datagram)
        except Malformed:
            self._tally.count("unreadable")
            return
        if segment.session.engine != self._settings.sender_engine or len(self._urgent) > MOST_ANSWERS:
            self._tally.count("refused")
            return
        self._tally.received(segment_type(datagram).name, now_s)
        self._quiet_since_s = now_s
        self.wakes_at_s = -math.inf
        match segment:
            case Cancel(by_sender=by_sender) if by_sender != self._sends_block:
                self._hear_cancel(segment)
            case CancelAck(to_sender=to_sender) if to_sender == self._sends_block:
                self._cancels.answered(segment.session)
            case _ if self._failure is None:
                self._hear(segment, now_s)

    def advance(self, now_s: float) -> None:
        if now_s < self.wakes_at_s:
            return
        try:
            if self._failure is None:
                self._advance(now_s)
            else:
                self._end_after_failure(now_s)
        except LimitReached as limit:
            if isinstance(limit.segment, Cancel):
                raise self._failed() from None
            self._give_up(limit.segment.session, Reason.RLEXC, str(limit))
            self.wakes_at_s = now_s

    def facts(self) -> str:
        """The last line of output."""
        return self._tally.facts()

    def _give_up(self, session: SessionId, reason: Reason, why: str) -> None:
        """Cancel a session. The file is useless without one of its blocks, so the transfer ends."""
        if self._failure is None:
            self._failure = f"{why}: cancelled with {reason.name}"
            self._urgent.clear()
            self._urgent.append(Cancel(session, self._sends_block, reason))

    def _hear_cancel(self, cancel: Cancel) -> None:
        known = cancel.reason in Reason.__members__.values()
        if self._failure is None and self._is_open(cancel.session):
            name = Reason(cancel.reason).name if known else f"the reserved reason {cancel.reason}"
            self._failure = f"the peer cancelled with {name}"
            self._peer_gave_up = True
            self._urgent.clear()
        self._urgent.append(CancelAck(cancel.session, to_sender=not self._sends_block))

    def _end_after_failure(self, now_s: float) -> None:
        """Raise Failed once our cancellation is acknowledged, or the peer no longer retransmits its own."""
        self._urgent.extend(self._cancels.take_due(now_s))
        if self._urgent or len(self._cancels):
            self.wakes_at_s = self._cancels.next_due_s
            return
        self.wakes_at_s = self._quiet_since_s + LINGER_TIMERS * self._settings.interval_s
        if not self._peer_gave_up or now_s >= self.wakes_at_s:
            raise self._failed()

    def _failed(self) -> Failed:
        return Failed(f"{self._failure}; {self._tally.facts()}")

    def _wake_or_fail(self, now_s: float, next_due_s: float, whom: str) -> None:
        """Wake for a timer, or fail when the peer has been silent for too long."""
        limit_s = self._settings.silence_limit_s
        if now_s >= self._quiet_since_s + limit_s:
            raise Failed(f"the {whom} was silent for {limit_s:g} s; {self._tally.facts()}")
        self.wakes_at_s = min(next_due_s, self._quiet_since_s + limit_s)

    @abstractmethod
    def _has_more(self) -> bool:
        """Whether there are segments to send that are not urgent."""

    @abstractmethod
    def _next_segment(self, now_s: float) -> Segment:
        """The next segment that is not urgent."""

    @abstractmethod
    def _left(self, segment: Segment, now_s: float) -> None:
        """A segment leaves now."""

    @abstractmethod
    def _hear(self, segment: Segment, now_s: float) -> None:
        """A segment of the transfer has come; not a cancellation."""

    @abstractmethod
    def _advance(self, now_s: float) -> None:
        """Handle expired timers. May raise LimitReached."""

    @abstractmethod
    def _is_open(self, session: SessionId) -> bool:
        """Whether a session is under way."""
