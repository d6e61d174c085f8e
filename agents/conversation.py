"""The loop that puts a protocol engine without I/O on UDP: it sleeps until something is due, never polls.

Time may be virtual and computing free: only a sleep in the kernel lets such a clock move on.
"""

import math
import time
from itertools import islice
from typing import Protocol

from agents.ending import Failed
from agents.pacing import Pacer
from agents.udp import Endpoint

AT_ONCE = 16
"""So many datagrams are heard before timers and sending have their turn, however many wait."""


class Party(Protocol):
    """One side of a conversation. It computes; sockets, clock and sleeping are the loop's."""

    ended: bool
    """The conversation is over for this side."""

    wakes_at_s: float
    """When `advance` wants to be called at the latest; infinity is never. Seconds of the monotonic clock."""

    def advance(self, now_s: float) -> None:
        """Do what time alone makes due, and say when that will be next."""

    def hear(self, datagram: bytes, now_s: float) -> None:
        """A datagram of the peer has come."""

    def has_datagram(self) -> bool:
        """Whether there is something to send."""

    def next_datagram(self, now_s: float) -> bytes:
        """What to send next. Asked for only when the pacer lets it go."""

    def facts(self) -> str:
        """What the party counted, in one line."""


def converse(party: Party, endpoint: Endpoint, pacer: Pacer) -> str:
    """Run one side to its end. Returns the facts of the party and of its endpoint, in one line.

    Raises:
        Failed: as the party does, with the facts of the endpoint behind its reason.
    """
    try:
        _run(party, endpoint, pacer)
    except Failed as failure:
        raise Failed(f"{failure} {_facts(endpoint)}") from failure
    return f"{party.facts()} {_facts(endpoint)}"


def _facts(endpoint: Endpoint) -> str:
    return f"from_other_addresses={endpoint.from_other_addresses}"


def _run(party: Party, endpoint: Endpoint, pacer: Pacer) -> None:
    unsent: bytes | None = None
    while True:
        now_s = time.monotonic()
        party.advance(now_s)
        if party.ended:
            return
        unsent = _send_next(unsent, party, endpoint, pacer, now_s)
        if endpoint.wait(_timeout_s(unsent, party, pacer, now_s), until_writable=unsent is not None):
            for datagram in islice(endpoint.received(), AT_ONCE):
                party.hear(datagram, time.monotonic())


def _send_next(unsent: bytes | None, party: Party, endpoint: Endpoint, pacer: Pacer, now_s: float) -> bytes | None:
    """Send what is due. Returns a datagram for which the socket had no room."""
    if unsent is None:
        if not party.has_datagram():
            pacer.rest()
            return None
        if pacer.opens_at_s > now_s:
            return None
        unsent = party.next_datagram(now_s)
        pacer.spend(len(unsent), now_s)
    return None if endpoint.send(unsent) else unsent


def _timeout_s(unsent: bytes | None, party: Party, pacer: Pacer, now_s: float) -> float | None:
    wakes_at_s = party.wakes_at_s
    if unsent is None and party.has_datagram():
        wakes_at_s = min(wakes_at_s, pacer.opens_at_s)
    return None if wakes_at_s == math.inf else max(0.0, wakes_at_s - now_s)
