"""Which DATA a STATUS cannot know of yet, because it was still on its way: its holes there are no losses."""

from collections import deque
from dataclasses import dataclass

from owlt.agents.endpoint.intervals import Intervals
from owlt.agents.saratoga.packets import Status
from owlt.agents.saratoga.timestamps import made_at_s

SLICE_RTTS = 1 / 8
SHORTEST_SLICE_S = 0.01
"""DATA in a row are noted as one flight of this length at most: that long a loss may be taken for data on their way."""

SOONEST_RTTS = 0.95
"""No answer comes sooner than a round trip; a little less counts, for clocks are read twice and delays vary."""


@dataclass
class _Flight:
    """DATA in a row. `answer` is what "in response to" says if its last packet asked for a STATUS."""

    first_s: float
    last_s: float
    start: int
    end: int
    answer: int | None


class Flights:
    """What was sent, in order, until a STATUS reports it.

    `timer_s` is how long an answer is waited for: a STATUS knows of all that was sent longer ago.
    """

    def __init__(self, rtt_s: float, timer_s: float) -> None:
        self._rtt_s = rtt_s
        self._timer_s = timer_s
        self._slice_s = max(SHORTEST_SLICE_S, SLICE_RTTS * rtt_s)
        self._flights: deque[_Flight] = deque()
        self._answered: int | None = None

    def note(self, start: int, end: int, answer: int | None, now_s: float) -> None:
        """DATA were sent now. `answer` is None where they did not ask."""
        last = self._flights[-1] if self._flights else None
        if last and last.answer is None and last.end == start and now_s - last.first_s < self._slice_s:
            last.last_s, last.end, last.answer = now_s, end, answer
        else:
            self._flights.append(_Flight(now_s, now_s, start, end, answer))

    def unknown_to(self, status: Status, now_s: float) -> Intervals:
        """What was sent too late for this STATUS. All that was sent before is forgotten.

        Where it gives a timestamp back, that is known. Without, a STATUS that was asked for knows of all DATA up to
        those that asked: the last ones with its answer that are a round trip old. One that was not, or that answers
        DATA that nobody remembers, is taken to know of those older than a timer: on a thin reverse channel, where it
        waits in a queue, that has data sent twice.
        """
        for _ in range(self._known(status, now_s)):
            self._flights.popleft()
        return Intervals((flight.start, flight.end) for flight in self._flights)

    def _known(self, status: Status, now_s: float) -> int:
        """How many of the flights the STATUS knows of."""
        if status.timestamp:
            return sum(flight.last_s <= made_at_s(status.timestamp) for flight in self._flights)
        if not status.voluntary:
            asked_by_s = now_s - SOONEST_RTTS * self._rtt_s
            asked = [
                count
                for count, flight in enumerate(self._flights, 1)
                if flight.last_s <= asked_by_s and flight.answer == status.in_response_to
            ]
            if asked:
                self._answered = status.in_response_to
                return asked[-1]
            if self._answered == status.in_response_to:
                return 0  # another part of the answer
        return sum(flight.last_s < now_s - self._timer_s for flight in self._flights)
