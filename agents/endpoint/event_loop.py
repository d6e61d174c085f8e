"""The loop that connects a protocol engine without I/O to UDP: it sleeps until something is due, and never polls.

On a virtual clock computation may be free: only a sleep in the kernel advances such a clock. In a guest a system call
takes longer than the Python around it, so the clock is read once for each turn of the loop and passed on as a value.
`Pacer` sends no faster than a channel carries, counted in layer-2 bytes.
"""

from __future__ import annotations

import math
import os
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol, Self

from owlt.agents.endpoint.exit import Failed, exit_status
from owlt.agents.endpoint.udp import Endpoint

IP_MTU_BYTES = 1500
IPV4_HEADER_BYTES, IPV6_HEADER_BYTES = 20, 40
FRAGMENT_HEADER_BYTES = 8
"""Of IPv6 (RFC 8200, section 4.5); IPv4 has these fields in its header."""
UDP_HEADER_BYTES = 8
ETHERNET_HEADER_BYTES = 14

CATCH_UP_S = 0.002
"""The largest delay that a sender makes up for. Timers fire some 50 us late, those of a busy host some ms.

The packets sent to catch up arrive at the channel as a burst: 3 packets of 1 kB at 10 Mbit/s, 240 at 1 Gbit/s.
"""


def longest_whole_bytes(over_ipv6: bool = False) -> int:
    """The longest UDP payload that crosses the channel without fragments."""
    return IP_MTU_BYTES - (IPV6_HEADER_BYTES if over_ipv6 else IPV4_HEADER_BYTES) - UDP_HEADER_BYTES


def frame_bytes(payload_bytes: int, over_ipv6: bool = False) -> int:
    """Layer-2 bytes of a UDP payload on Ethernet, including IP fragments, without preamble and checksum.

    This is what netem's and tbf's rate count.
    """
    datagram_bytes = payload_bytes + UDP_HEADER_BYTES
    header_bytes = IPV6_HEADER_BYTES if over_ipv6 else IPV4_HEADER_BYTES
    fragments = 1
    if payload_bytes > longest_whole_bytes(over_ipv6):
        header_bytes += FRAGMENT_HEADER_BYTES if over_ipv6 else 0
        fragments = math.ceil(datagram_bytes / ((IP_MTU_BYTES - header_bytes) // 8 * 8))
    return datagram_bytes + fragments * (header_bytes + ETHERNET_HEADER_BYTES)


def sending_s(payload_bytes: int, rate_bps: float, over_ipv6: bool = False) -> float:
    """How long a UDP payload takes at a rate of layer-2 bytes. A rate of 0 is no limit."""
    return 8 * frame_bytes(payload_bytes, over_ipv6) / rate_bps if rate_bps else 0.0


class Pacer:
    """A schedule on which packets leave back to back at `rate_bps`, and never faster. 0 is no limit.

    A packet may leave from `opens_at_s` on (seconds of the caller's clock). Lateness is made up for, idleness
    is not.
    """

    def __init__(self, rate_bps: float, over_ipv6: bool = False) -> None:
        self._rate_bps = rate_bps
        self._over_ipv6 = over_ipv6
        self._resting = True
        self.opens_at_s = -math.inf

    def spend(self, payload_bytes: int, now_s: float) -> None:
        """A packet leaves now: the next one may leave when the channel has taken this one."""
        if self._rate_bps > 0:
            begins_at_s = max(self.opens_at_s, now_s if self._resting else now_s - CATCH_UP_S)
            self.opens_at_s = begins_at_s + sending_s(payload_bytes, self._rate_bps, self._over_ipv6)
        self._resting = False

    def rest(self) -> None:
        """There is nothing to send: later packets do not make up for the time from now on."""
        self._resting = True


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


class SuspendableClock:
    """The monotonic clock of a side; if `can_suspend`, SIGUSR1 stops the side until SIGUSR2 or SIGHUP, and the time
    between does not count. While it is suspended, it sends and reads nothing. An engine that reads another clock finds
    at the end that its timers have expired.
    """

    def __init__(self, can_suspend: bool) -> None:
        self._suspended_s = 0.0
        self._can_suspend = can_suspend
        if can_suspend:
            signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR2})
            signal.signal(signal.SIGUSR1, self._suspend)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """The transaction is over: SIGUSR1 is ignored, also while the interpreter ends."""
        if self._can_suspend:
            signal.signal(signal.SIGUSR1, signal.SIG_IGN)

    def __call__(self) -> float:
        """The time in seconds, without the times of suspension."""
        return time.monotonic() - self._suspended_s

    def _suspend(self, *_: object) -> None:
        begin_s = time.monotonic()
        others = {signal.SIGUSR1, signal.SIGHUP}
        signal.pthread_sigmask(signal.SIG_BLOCK, others)
        while (came := signal.sigwait({signal.SIGUSR2, *others})) == signal.SIGUSR1:
            pass  # it is suspended already
        self._suspended_s += time.monotonic() - begin_s
        if came == signal.SIGHUP:
            signal.raise_signal(signal.SIGHUP)  # for its own handler
        signal.pthread_sigmask(signal.SIG_UNBLOCK, others)


class CancelSignal:
    """SIGHUP, by which the user requests that the transaction be cancelled; it ends a suspension."""

    def __init__(self) -> None:
        self._has_come = False
        self.alarm, self._written = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        """A pipe that ends the loop's sleep. The interpreter writes to it at once, also just before the loop sleeps,
        when its handler would run only afterwards."""
        signal.set_wakeup_fd(self._written, warn_on_full_buffer=False)
        signal.signal(signal.SIGHUP, self._note)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """The transaction is over: SIGHUP is ignored, also while the interpreter ends."""
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        signal.set_wakeup_fd(-1)
        os.close(self.alarm)
        os.close(self._written)

    def __call__(self) -> bool:
        """Whether it has come."""
        return self._has_come

    def _note(self, *_: object) -> None:
        self._has_come = True


def transfer_on_command(transfer: Callable[..., str], choices: Mapping[str, Any]) -> int:
    """Run a program's transfer, which the user may cancel and, if outages are announced, suspend and resume. It gets
    the request to cancel, its clock and the choices. Returns the exit status."""
    with CancelSignal() as is_cancelled, SuspendableClock(choices.get("outages") == "announced") as clock:
        return exit_status(lambda: transfer(is_cancelled, clock, **choices))


def never() -> bool:
    """The request of a user that does not cancel."""
    return False


def converse(party: Party, endpoint: Endpoint, pacer: Pacer, clock: Callable[[], float] | None = None) -> str:
    """Run one side to its end. Returns the counters of the party and of its endpoint, in one line. The default of
    `clock` is the monotonic clock.

    Raises:
        Failed: if the party fails, with the counters of the endpoint after its reason.
    """
    try:
        _run(party, endpoint, pacer, clock or time.monotonic)
    except Failed as failure:
        raise Failed(f"{failure} {_facts(endpoint)}") from failure
    return f"{party.facts()} {_facts(endpoint)}"


def _facts(endpoint: Endpoint) -> str:
    return f"from_other_addresses={endpoint.from_other_addresses}"


def _run(party: Party, endpoint: Endpoint, pacer: Pacer, clock: Callable[[], float]) -> None:
    unsent: bytes | None = None
    now_s = clock()
    while True:
        party.advance(now_s)
        if party.ended:
            return
        unsent = _send_next(unsent, party, endpoint, pacer, now_s)
        has_come = endpoint.wait(_timeout_s(unsent, party, pacer, now_s), until_writable=unsent is not None)
        now_s = clock()
        if has_come:
            now_s = _hear_all(party, endpoint, now_s, clock)


def _hear_all(party: Party, endpoint: Endpoint, now_s: float, clock: Callable[[], float]) -> float:
    """Pass the received datagrams to the party. Returns the time afterwards, which may be unchanged: the clock is read
    only if it matters, because one datagram without an answer takes less time than the precision of a timer. Sending is
    paced exactly.
    """
    datagrams = endpoint.received()
    for datagram in datagrams:
        party.hear(datagram, now_s)
    return clock() if len(datagrams) > 1 or party.has_datagram() else now_s


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


class Tally:
    """Counts packets by kind in each direction, and other events by name."""

    def __init__(self, *others: str, kinds: Iterable[str] = (), with_sums: bool = True) -> None:
        """`others` are printed in this order, kinds in the order of `kinds` or else alphabetically; `with_sums`: the
        total of each direction precedes its kinds."""
        self._others: dict[str, int] = dict.fromkeys(others, 0)
        self._measured: dict[str, float] = {}
        self._kinds = tuple(kinds)
        self._with_sums = with_sums
        self._sent: Counter[str] = Counter()
        self._received: Counter[str] = Counter()
        self._first_s: float | None = None
        self._last_s = 0.0

    def sent(self, kind: str, now_s: float) -> None:
        """A packet leaves."""
        self._sent[kind] += 1
        self.seen(now_s)

    def received(self, kind: str, now_s: float) -> None:
        """A packet has arrived."""
        self._received[kind] += 1
        self.seen(now_s)

    def seen(self, now_s: float) -> None:
        """A packet was sent or received: the duration is the time from the first to the last."""
        self._first_s = now_s if self._first_s is None else self._first_s
        self._last_s = now_s

    def count(self, other: str) -> None:
        """Count one more of an other event. Raises KeyError for an unknown name."""
        self._others[other] += 1

    def measured(self, name: str, value: float) -> None:
        """Set a measured value; the last one is printed after the counters."""
        self._measured[name] = value

    def facts(self) -> str:
        """One line: packets by kind in each direction, other counters, measured values, duration."""
        numbers = [
            *(f"{name}={count}" for name, count in self._others.items()),
            *(f"{name}={value:.6f}" for name, value in self._measured.items()),
        ]
        duration_s = self._last_s - (self._first_s or 0.0)
        ways = f"sent={self._listed(self._sent)} received={self._listed(self._received)}"
        return " ".join([ways, *numbers, f"duration_s={duration_s:.6f}"])

    def _listed(self, counter: Counter[str]) -> str:
        kinds = [f"{kind}={counter[kind]}" for kind in self._kinds or sorted(counter) if counter[kind]]
        listed = f"({' '.join(kinds) or 'none'})"
        return f"{counter.total()} {listed}" if self._with_sums else listed
