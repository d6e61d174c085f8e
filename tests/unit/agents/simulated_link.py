"""Two parties on a link that exists in a test alone: delay, losses by rule, and a clock that jumps to what is next."""

from __future__ import annotations

import heapq
import itertools
import random
from collections.abc import Callable
from dataclasses import dataclass, field

from owlt.agents.endpoint.event_loop import Party

Loses = Callable[[str, bytes], bool]
"""Whether a datagram of "sender" or "receiver" is lost."""

MOST_STEPS_AT_ONE_TIME = 1000


def nothing(_side: str, _datagram: bytes) -> bool:
    return False


def at_random(rate: float, seed: int) -> Loses:
    """Each datagram apart, at this rate."""
    draws = random.Random(seed)
    return lambda _side, _datagram: draws.random() < rate


@dataclass
class Link:
    """Carries datagrams both ways until both parties have ended."""

    one_way_delay_s: float
    loses: Loses = nothing
    now_s: float = 1000.0
    copies: int = 1
    """So many of each datagram that is not lost arrive."""
    sent: list[tuple[str, float, bytes]] = field(default_factory=list)
    steps: int = 0

    def run(self, parties: dict[str, Party], *, until_s: float = float("inf")) -> None:
        """Raises what a party raises; AssertionError when time stands still."""
        arrivals: list[tuple[float, int, str, bytes]] = []
        numbers = itertools.count()
        at_this_time = 0
        while self.now_s < until_s:
            for side, party in parties.items():
                self._serve(side, party, arrivals, numbers)
            running = [party for party in parties.values() if not party.ended]
            if not running:
                return
            next_s = min([party.wakes_at_s for party in running] + [arrival[0] for arrival in arrivals[:1]])
            at_this_time = 0 if next_s > self.now_s else at_this_time + 1
            assert at_this_time < MOST_STEPS_AT_ONE_TIME, f"time stands still at {self.now_s}"
            self.now_s = max(self.now_s, next_s)
            while arrivals and arrivals[0][0] <= self.now_s:
                _, _, side, datagram = heapq.heappop(arrivals)
                for _ in range(self.copies):
                    if not parties[side].ended:
                        parties[side].hear(datagram, self.now_s)

    def _serve(
        self, side: str, party: Party, arrivals: list[tuple[float, int, str, bytes]], numbers: itertools.count[int]
    ) -> None:
        if party.ended:
            return
        self.steps += 1
        party.advance(self.now_s)
        while not party.ended and party.has_datagram():
            datagram = party.next_datagram(self.now_s)
            self.sent.append((side, self.now_s, datagram))
            other = "receiver" if side == "sender" else "sender"
            if not self.loses(side, datagram):
                heapq.heappush(arrivals, (self.now_s + self.one_way_delay_s, next(numbers), other, datagram))
