"""Timers of the segments that are sent again until they are answered: checkpoints, reports and cancellations.

RFC 5326, sections 6.7, 6.8 and 6.16. `agents.ltp.sending` handles data that reports show to be missing.
"""

import math
from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, TypeVar

from owlt.agents.ltp.segments import Segment

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
