"""The loop that connects a protocol engine without I/O to UDP: it sleeps until something is due, and never polls.

On a virtual clock computation may be free: only a sleep in the kernel advances such a clock. In a guest a system call
takes longer than the Python around it, so the clock is read once for each turn of the loop and passed on as a value.
"""

import math
import time
from typing import Protocol

from owlt.agents.endpoint.exit import Failed
from owlt.agents.endpoint.pacing import Pacer
from owlt.agents.endpoint.udp import Endpoint


class Party(Protocol):
    """One side of a conversation. It computes; sockets, clock and sleeping belong to the loop."""

    ended: bool
    """The conversation is over for this side."""

    wakes_at_s: float
    """The latest time for the next call of `advance`, in seconds of the monotonic clock; infinity: never."""

    def advance(self, now_s: float) -> None:
        """Do what is due at this time, and set `wakes_at_s`."""

    def hear(self, datagram: bytes, now_s: float) -> None:
        """A datagram of the peer has arrived."""

    def has_datagram(self) -> bool:
        """Whether there is something to send."""

    def next_datagram(self, now_s: float) -> bytes:
        """The next datagram to send. Called only if the pacer permits it."""

    def facts(self) -> str:
        """The counters of the party, in one line."""


def converse(party: Party, endpoint: Endpoint, pacer: Pacer) -> str:
    """Run one side to its end. Returns the counters of the party and of its endpoint, in one line.

    Raises:
        Failed: if the party fails, with the counters of the endpoint after its reason.
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
    now_s = time.monotonic()
    while True:
        party.advance(now_s)
        if party.ended:
            return
        unsent = _send_next(unsent, party, endpoint, pacer, now_s)
        has_come = endpoint.wait(_timeout_s(unsent, party, pacer, now_s), until_writable=unsent is not None)
        now_s = time.monotonic()
        if has_come:
            now_s = _hear_all(party, endpoint, now_s)


def _hear_all(party: Party, endpoint: Endpoint, now_s: float) -> float:
    """Hear what has come. Returns the time afterwards, which may be the same: a clock is read only if it matters.

    One datagram without an answer takes less time than a timer is exact. What is sent is paced exactly.
    """
    datagrams = endpoint.received()
    for datagram in datagrams:
        party.hear(datagram, now_s)
    return time.monotonic() if len(datagrams) > 1 or party.has_datagram() else now_s


def _send_next(unsent: bytes | None, party: Party, endpoint: Endpoint, pacer: Pacer, now_s: float) -> bytes | None:
    """Send what is due. Returns a datagram for which the socket buffer had no space."""
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
