"""Where the time of a session went: its critical path, from the last packet back to the first one.

Each packet on the path left its host because another had arrived there, or because the host had waited long enough, and
so on back to the beginning. The parts of the path are contiguous, so they add up to the session time. The time in which
the forward link transmitted bytes of the file for the first time is always counted as new data, because every protocol
needs it. Which packet ended a wait is read from times alone, so this works for every protocol; names and positions of
data are those of its messages. The method is critical path analysis as in Barford and Crovella, "Critical Path Analysis
of TCP Transactions", IEEE/ACM Transactions on Networking 9(3), 2001.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby, pairwise
from operator import attrgetter
from typing import Literal, NamedTuple

from owlt.captures.frames.session import HOSTS, Host
from owlt.captures.matches.bottleneck import Link
from owlt.captures.protocols.ladder import Rung
from owlt.captures.protocols.reader import Coverage
from owlt.results.waits import TimedWait

Kind = Literal[
    "new data", "serialization", "queueing", "propagation", "in the channel", "processing", "timer", "waiting"
]
"""What took the time:

- new data: the forward link transmits bytes of the file that it has not transmitted before;
- serialization: a link transmits another packet that is on the path;
- queueing: that packet waits for the link;
- propagation: that packet has been transmitted and has not arrived;
- in the channel: these three together, where the link changes or is not known;
- processing: a host needs the time between an arrival, or a packet that it sent, and its next packet;
- timer: a host does nothing until a timer of one of its programs expires;
- waiting: a host does nothing until it sends a packet for which no arrival and no known timer is the reason.
"""
KINDS: tuple[Kind, ...] = (
    "new data",
    "serialization",
    "queueing",
    "propagation",
    "in the channel",
    "processing",
    "timer",
    "waiting",
)
WAITS: tuple[Kind, ...] = ("processing", "timer", "waiting")
"""The kinds in which a host is the reason, not the channel."""
WAYS: tuple[Kind, ...] = ("propagation", "in the channel")
"""The kinds in which a packet crosses the channel."""
Phase = Literal["opening", "transfer", "recovery", "closing"]
"""Opening: until the first data of the file leave. Transfer: until the last data that are sent for the first time have
reached the receiver, or would have. Recovery: until the receiver has the file. Closing: until the last packet."""
PHASES: tuple[Phase, ...] = ("opening", "transfer", "recovery", "closing")
PROMPT_NS, PROMPT_BY_REAL_CLOCK_NS = 200_000, 5_000_000
"""The longest time in which a host answers, on the clock exact and on others: a longer one is a wait."""
_PACED = 1.05
"""Packets that leave at most this factor of their serialization apart are sent at the link's rate."""
_REGULAR = 0.02
"""Two gaps between packets that differ by at most this share are a pace."""
_STARTING = 500
"""A session that begins more than so many prompt times after the launch is late: programs start faster."""
_PERIODIC = 0.001
"""Two intervals between packets of one name that differ by at most this share are one period."""
_POLLED = 0.5
"""A program polls if its waits of one length fill at least this share of the time until it sends, and are at most
`_OF_A_POLL` of it."""
_OF_A_POLL = 0.1
NOT_TRANSMITTED = ("queue", "mtu")
"""The fates of packets that the link did not transmit."""


_NATURE = attrgetter("kind", "host", "phase")
"""What parts have in common that can be merged."""


class Part(NamedTuple):
    """A part of the session time, from `begin_ns` to before `end_ns` by the captures' clock.

    `host` waits or processes, or its packet is in the channel. `packet` is the index of the rung that is in the
    channel, or that the host sends at the end. `timer` is the wait that ended with it; `is_polling` says that the
    program waited like this over and over until then.
    """

    begin_ns: int
    end_ns: int
    kind: Kind
    host: Host
    packet: int
    phase: Phase = "transfer"
    timer: TimedWait | None = None
    is_polling: bool = False

    @property
    def length_ns(self) -> int:
        """How long it is."""
        return self.end_ns - self.begin_ns


@dataclass(frozen=True)
class Clues:
    """What is known of a session beside its packets: the links, forward and reverse; when the receiver had the file;
    the waits of programs that a timer ended; the longest time in which a host answers; when the programs were
    launched; whether the file is known not to have arrived."""

    links: tuple[Link | None, Link | None] = (None, None)
    delivered_ns: int | None = None
    waits: Sequence[TimedWait] = ()
    prompt_ns: int = PROMPT_NS
    launched_ns: int | None = None
    has_failed: bool = False


@dataclass(frozen=True, eq=False)
class CriticalPath:
    """The parts of a session in their order: they cover it from its first packet to its last, each moment once.

    `rungs` are its messages in the order in which they left. `delivered_ns` is when the receiver had the file; None:
    never, or it is not known. `least_ns` is what the channel alone takes: the transmission of the file's bytes, once,
    and one propagation; None if the forward link changes or is not known.
    `late_start` is the time from the launch to the first packet, which is before the session, if it is long.
    """

    parts: tuple[Part, ...]
    rungs: Sequence[Rung]
    begin_ns: int
    end_ns: int
    delivered_ns: int | None
    least_ns: int | None
    late_start: Part | None = None

    @property
    def length_ns(self) -> int:
        """The session time."""
        return self.end_ns - self.begin_ns

    @cached_property
    def spent_ns(self) -> Counter[tuple[Phase, Kind, Host]]:
        """How long each kind took in each phase, for each host; the sum is `length_ns`."""
        spent: Counter[tuple[Phase, Kind, Host]] = Counter()
        for part in self.parts:
            spent[part.phase, part.kind, part.host] += part.length_ns
        return spent

    def lost_before(self, waits: Iterable[tuple[int, Part]]) -> tuple[int, ...]:
        """The packets (indices of rungs) whose loss may be the reason for waits of a host, each with its beginning and
        its last part: those that the host sent last before it waited, and those of the other host that would have
        arrived meanwhile."""
        spans: dict[Host, list[tuple[int, int]]] = {host: [] for host in HOSTS}
        for begin_ns, part in waits:
            own = bisect_left(self._sent_by[part.host], part.packet)
            last = self._sent_by[part.host][own - 1] if own else None
            own_since_ns = begin_ns if last is None else self.rungs[last].left_ns - PROMPT_NS
            for host in HOSTS:
                since_ns = own_since_ns if host == part.host else begin_ns - self._longest_transit_ns
                spans[host].append((since_ns, part.end_ns))
        return tuple(sorted(index for host in HOSTS for index in self._lost_within(host, spans[host])))

    def _lost_within(self, host: Host, spans: Iterable[tuple[int, int]]) -> Iterator[int]:
        """The lost packets of a host that left within one of several spans of time, each once."""
        lost, place = self._lost_by[host], 0
        for since_ns, end_ns in sorted(spans):
            place = max(place, bisect_left(lost, since_ns, key=lambda index: self.rungs[index].left_ns))
            while place < len(lost) and self.rungs[lost[place]].left_ns < end_ns:
                yield lost[place]
                place += 1

    @cached_property
    def _lost_by(self) -> dict[Host, list[int]]:
        return {host: [index for index in sent if is_lost(self.rungs[index])] for host, sent in self._sent_by.items()}

    @cached_property
    def _sent_by(self) -> dict[Host, list[int]]:
        return {host: [index for index, rung in enumerate(self.rungs) if rung.message.host == host] for host in HOSTS}

    @cached_property
    def least_transit_ns(self) -> int:
        """The shortest time in which a packet crossed the channel; 0 if none did."""
        return min(self._transits_ns, default=0)

    @cached_property
    def _longest_transit_ns(self) -> int:
        return max(self._transits_ns, default=0)

    @cached_property
    def _transits_ns(self) -> list[int]:
        return [rung.arrived_ns[0] - rung.left_ns for rung in self.rungs if rung.arrived_ns]


def is_lost(rung: Rung) -> bool:
    """Whether the packet did not arrive, or arrived damaged so that the host refused it."""
    return not rung.arrived_ns or (rung.is_damaged and not rung.is_accepted)


def critical_path(rungs: Sequence[Rung], begin_ns: int, end_ns: int, clues: Clues) -> CriticalPath:
    """The critical path of a session from its first to its last packet at the sender's port.

    `rungs` are its messages in the order in which they left, and `begin_ns` and `end_ns` the times of these packets.
    """
    transits = _transits(rungs, clues.links)
    hosts = {host: _Host(host, rungs, link, clues) for host, link in zip(HOSTS, clues.links, strict=True)}
    path = _covering(_path(rungs, transits, hosts, (begin_ns, end_ns), clues.prompt_ns), begin_ns, end_ns)
    delivered_ns = _delivered_ns(rungs, clues)
    ends_ns = _phase_ends(rungs, transits, delivered_ns, begin_ns, end_ns)
    parts = _merged(_in_phases(_with_transmissions(path, rungs, transits), ends_ns))
    link = clues.links[0]
    least_ns = None
    if link is not None:
        least_ns = link.delay_ns + sum(part.length_ns for part in parts if part.kind == "new data")
    return CriticalPath(tuple(parts), rungs, begin_ns, end_ns, delivered_ns, least_ns, _late_start(rungs, hosts, clues))


def _late_start(rungs: Sequence[Rung], hosts: Mapping[Host, _Host], clues: Clues) -> Part | None:
    """The wait of the host that sent the first packet, since the launch; None if programs take that long to start."""
    left_ns = rungs[0].left_ns
    if clues.launched_ns is None or left_ns - clues.launched_ns <= _STARTING * clues.prompt_ns:
        return None
    host = rungs[0].message.host
    timer = hosts[host].timers.before(left_ns)
    return Part(clues.launched_ns, left_ns, "timer" if timer else "waiting", host, 0, "opening", timer)


class _Transit(NamedTuple):
    """A packet in the channel: when its transmission begins and ends, and when it arrives or would have; each None if
    that is not known."""

    begins_ns: int | None
    ends_ns: int | None
    arrives_ns: int | None


def _transits(rungs: Sequence[Rung], links: tuple[Link | None, Link | None]) -> list[_Transit]:
    """The transit of each packet: of those that arrived, as their arrival shows; of the others, first in, first out."""
    free_ns = dict.fromkeys(HOSTS, 0)
    transits = []
    for rung in rungs:
        host = rung.message.host
        link = links[HOSTS.index(host)]
        arrived_ns = rung.arrived_ns[0] if rung.arrived_ns else None
        if link is None or (arrived_ns is None and rung.fate in NOT_TRANSMITTED):
            transits.append(_Transit(None, None, arrived_ns))
            continue
        taken_ns = int(8e9 * (rung.message.wire_bytes + link.overhead_bytes) / link.rate_bps)
        if arrived_ns is None:
            begins_ns = max(free_ns[host], rung.left_ns)
            ends_ns = begins_ns + taken_ns
        else:
            ends_ns = max(arrived_ns - link.delay_ns, rung.left_ns)
            begins_ns = max(ends_ns - taken_ns, rung.left_ns)
        free_ns[host] = max(free_ns[host], ends_ns)
        transits.append(_Transit(begins_ns, ends_ns, arrived_ns or ends_ns + link.delay_ns))
    return transits


class _Arrivals(NamedTuple):
    """The intact packets that reached a host, by time, and the index of each one's rung. One that arrives before it
    leaves, by two clocks or in a capture that somebody made up, is none of them."""

    time_ns: list[int]
    packet: list[int]


def _arrivals_at(host: Host, rungs: Sequence[Rung]) -> _Arrivals:
    found = sorted(
        (time_ns, index)
        for index, rung in enumerate(rungs)
        if rung.message.host != host
        for time_ns in rung.arrived_ns[1 if is_lost(rung) else 0 :]
        if time_ns >= rung.left_ns
    )
    return _Arrivals([time_ns for time_ns, _ in found], [index for _, index in found])


class ExpiredTimers:
    """The waits of a host that a timer ended, by the packet that left then."""

    def __init__(self, host: Host, waits: Iterable[TimedWait], prompt_ns: int) -> None:
        self._waits = sorted((wait for wait in waits if wait.host == host), key=lambda wait: wait.end_ns)
        self._ends_ns = [wait.end_ns for wait in self._waits]
        self._prompt_ns = prompt_ns

    def before(self, left_ns: int) -> TimedWait | None:
        """The longest wait that a timer ended in the moment before a packet left."""
        first = bisect_left(self._ends_ns, left_ns - self._prompt_ns)
        ended = self._waits[first : bisect_right(self._ends_ns, left_ns)]
        return max(ended, key=lambda wait: wait.length_ns, default=None)

    def is_polling(self, timer: TimedWait, since_ns: int) -> bool:
        """Whether a wait is the last of many alike since a time: then its timer is not what the program waited for."""
        span_ns = timer.end_ns - since_ns
        if timer.length_ns > _OF_A_POLL * span_ns:
            return False
        during = self._waits[bisect_right(self._ends_ns, since_ns) : bisect_right(self._ends_ns, timer.end_ns)]
        alike = (
            wait.length_ns
            for wait in during
            if (wait.process, wait.kind) == (timer.process, timer.kind)
            and abs(wait.length_ns - timer.length_ns) <= _OF_A_POLL * timer.length_ns
        )
        return sum(alike) >= _POLLED * span_ns


class _Host:
    """What a host saw and did: its arrivals, its departures, and its waits that a timer ended."""

    def __init__(self, host: Host, rungs: Sequence[Rung], link: Link | None, clues: Clues) -> None:
        self.host, self._link, self._prompt_ns = host, link, clues.prompt_ns
        self._rungs = rungs
        self._arrivals = _arrivals_at(host, rungs)
        self._departures = [index for index, rung in enumerate(rungs) if rung.message.host == host]
        self.timers = ExpiredTimers(host, clues.waits, clues.prompt_ns)

    def reason(self, packet: int) -> tuple[int | None, int, bool, TimedWait | None]:
        """Why a packet left: the index of the packet that had arrived or left before it (None: nothing had), when, and
        whether that was an arrival; and the timer that had expired, if one had."""
        left_ns = self._rungs[packet].left_ns
        before, departed_ns = self._departed_before(packet)
        arrived, arrived_ns = self._arrived_before(packet, left_ns)
        is_prompt = arrived is not None and left_ns - arrived_ns <= self._prompt_ns
        if before is not None and self._is_at_rate(before, left_ns - departed_ns, is_prompt):
            return before, departed_ns, False, None
        if is_prompt and (before is None or arrived_ns >= departed_ns):
            return arrived, arrived_ns, True, None
        if before is not None and left_ns - departed_ns <= self._prompt_ns:
            return before, departed_ns, False, None
        timer = self.timers.before(left_ns)
        if timer is None and before is not None and self._is_regular(before, left_ns - departed_ns):
            return before, departed_ns, False, None
        if timer is not None:
            began_ns = min(timer.begin_ns + self._prompt_ns, left_ns)
            before, departed_ns = self._departed_until(packet, began_ns)
            arrived, arrived_ns = self._arrived_before(packet, began_ns)
        if arrived is not None and (before is None or arrived_ns >= departed_ns):
            if (
                timer is not None
                and before is not None
                and self._period_before(packet, 0, True) == (before, departed_ns)
            ):
                return before, departed_ns, False, timer
            return arrived, arrived_ns, True, timer
        if timer is not None:
            before, departed_ns = self._period_before(packet, arrived_ns) or (before, departed_ns)
        return before, departed_ns, False, timer

    def _period_before(self, packet: int, since_ns: int, is_undisturbed: bool = False) -> tuple[int, int] | None:
        """The packet of the same name one period earlier, if such packets leave periodically and it left after a time:
        then packets of other names in between are not the reason for the next one.

        `is_undisturbed`: also require that nothing arrived in the neighbouring period; then an arrival in this one is
        not the reason either.
        """
        alike = self._departures_by_name[self._rungs[packet].message.name]
        place = bisect_left(alike, packet)
        near = [self._rungs[index].left_ns for index in alike[max(place - 2, 0) : place + 2]]
        own = min(place, 2)
        if own == 0 or near[own - 1] < since_ns:
            return None
        period_ns = near[own] - near[own - 1]
        others = [(near[other - 1], near[other]) for other in (own - 1, own + 1) if 0 < other < len(near)]
        if not any(
            abs(end_ns - begin_ns - period_ns) <= _PERIODIC * period_ns
            and not (is_undisturbed and self._has_arrival(begin_ns, end_ns))
            for begin_ns, end_ns in others
        ):
            return None
        return alike[place - 1], near[own - 1]

    @cached_property
    def _departures_by_name(self) -> dict[str, list[int]]:
        by_name: dict[str, list[int]] = {}
        for index in self._departures:
            by_name.setdefault(self._rungs[index].message.name, []).append(index)
        return by_name

    def _is_at_rate(self, before: int, gap_ns: int, is_prompt: bool) -> bool:
        """Whether a packet follows the one before it at the link's rate; if it also follows an arrival, only if that
        one has been transmitted."""
        if self._link is None:
            return False
        wire_bytes = self._rungs[before].message.wire_bytes + self._link.overhead_bytes
        taken_ns = 8e9 * wire_bytes / self._link.rate_bps
        return (taken_ns / _PACED if is_prompt else 0) <= gap_ns <= _PACED * taken_ns

    def _is_regular(self, before: int, gap_ns: int) -> bool:
        """Whether a packet follows the one before it as regularly as that followed another."""
        earlier, earlier_ns = self._departed_before(before)
        earlier_gap_ns = self._rungs[before].left_ns - earlier_ns
        return earlier is not None and abs(gap_ns - earlier_gap_ns) <= _REGULAR * gap_ns

    def _departed_before(self, packet: int) -> tuple[int | None, int]:
        place = bisect_left(self._departures, packet)
        return self._departure(place - 1)

    def _departed_until(self, packet: int, time_ns: int) -> tuple[int | None, int]:
        """The last packet that left before this one and not after a time."""
        place = bisect_left(self._departures, packet)
        latest = bisect_right(self._departures, time_ns, hi=place, key=lambda index: self._rungs[index].left_ns)
        return self._departure(latest - 1)

    def _departure(self, place: int) -> tuple[int | None, int]:
        if place < 0:
            return None, 0
        index = self._departures[place]
        return index, self._rungs[index].left_ns

    def _has_arrival(self, begin_ns: int, end_ns: int) -> bool:
        """Whether a packet arrived between two times."""
        return bisect_left(self._arrivals.time_ns, begin_ns) < bisect_left(self._arrivals.time_ns, end_ns)

    def _arrived_before(self, packet: int, time_ns: int) -> tuple[int | None, int]:
        """The last packet that arrived not after a time, of those that left before this one."""
        place = bisect_right(self._arrivals.time_ns, time_ns) - 1
        while place >= 0 and self._arrivals.packet[place] >= packet:
            place -= 1
        return (None, 0) if place < 0 else (self._arrivals.packet[place], self._arrivals.time_ns[place])


def _path(
    rungs: Sequence[Rung],
    transits: Sequence[_Transit],
    hosts: Mapping[Host, _Host],
    session_ns: tuple[int, int],
    prompt_ns: int,
) -> Iterator[Part]:
    """The parts of the path, from the end of the session to its beginning."""
    begin_ns, end_ns = session_ns
    packet, is_arrival, at_ns = _last(rungs, end_ns)
    while packet is not None and at_ns > begin_ns:
        rung = rungs[packet]
        if is_arrival:
            yield from _in_channel(packet, rung, transits[packet], at_ns)
            is_arrival, at_ns = False, rung.left_ns
            continue
        host = rung.message.host
        before, before_ns, is_arrival, timer = hosts[host].reason(packet)
        since_ns = begin_ns if before is None else before_ns
        kind: Kind = "processing" if at_ns - since_ns <= prompt_ns else "timer" if timer else "waiting"
        ended = timer if kind == "timer" else None
        is_polling = ended is not None and hosts[host].timers.is_polling(ended, since_ns)
        yield Part(since_ns, at_ns, kind, host, packet, timer=ended, is_polling=is_polling)
        packet, at_ns = before, since_ns


def _last(rungs: Sequence[Rung], end_ns: int) -> tuple[int | None, bool, int]:
    """The packet that was the last one at the sender's port, whether it arrived there, and when."""
    seen = [
        (time_ns, index, rung.message.host == "receiver")
        for index, rung in enumerate(rungs)
        for time_ns in ((rung.left_ns,) if rung.message.host == "sender" else rung.arrived_ns)
        if rung.left_ns <= time_ns <= end_ns
    ]
    if not seen:
        return None, False, end_ns
    time_ns, index, is_arrival = max(seen)
    return index, is_arrival, time_ns


def _in_channel(packet: int, rung: Rung, transit: _Transit, arrived_ns: int) -> Iterator[Part]:
    """The parts of a packet's way through the channel, from its arrival back to its departure."""
    host = rung.message.host
    if transit.begins_ns is None or transit.ends_ns is None or arrived_ns != rung.arrived_ns[0]:
        yield Part(rung.left_ns, arrived_ns, "in the channel", host, packet)
        return
    yield Part(transit.ends_ns, arrived_ns, "propagation", host, packet)
    yield Part(transit.begins_ns, transit.ends_ns, "serialization", host, packet)
    yield Part(rung.left_ns, transit.begins_ns, "queueing", host, packet)


def _covering(parts: Iterable[Part], begin_ns: int, end_ns: int) -> list[Part]:
    """The parts, given from the last to the first, in order, cut to the session; what none covers is waiting."""
    ordered = [
        part._replace(begin_ns=max(part.begin_ns, begin_ns), end_ns=min(part.end_ns, end_ns))
        for part in reversed(list(parts))
        if part.begin_ns < end_ns and part.end_ns > begin_ns and part.length_ns
    ]
    edges = [begin_ns, *(time_ns for part in ordered for time_ns in (part.begin_ns, part.end_ns)), end_ns]
    missing = [
        Part(edges[place], edges[place + 1], "waiting", "sender", -1)
        for place in (0, len(edges) - 2)
        if edges[place + 1] > edges[place]
    ]
    return sorted({*ordered, *missing}, key=lambda part: part.begin_ns)


def _with_transmissions(parts: list[Part], rungs: Sequence[Rung], transits: Sequence[_Transit]) -> list[Part]:
    """The parts of the path. While the forward link transmits new data, the part is that transmission; while a host
    waits and its link transmits its other packets, the part is their serialization: it sends at the link's rate."""
    for host, is_new in (("sender", True), *((host, False) for host in HOSTS)):
        sent = [
            (transit.begins_ns, transit.ends_ns, index)
            for index, (rung, transit) in enumerate(zip(rungs, transits, strict=True))
            if transit.begins_ns is not None
            and transit.ends_ns is not None
            and rung.message.host == host
            and (rung.kind == "new data") == is_new
        ]
        parts = _merged(_replaced(parts, sent, host, is_new))
    return parts


def _replaced(parts: Iterable[Part], sent: Sequence[tuple[int, int, int]], host: Host, is_new: bool) -> Iterator[Part]:
    kind: Kind = "new data" if is_new else "serialization"
    place = 0
    for part in parts:
        if not is_new and (part.kind not in WAITS or part.host != host):
            yield part
            continue
        at_ns = part.begin_ns
        while place < len(sent) and sent[place][1] <= at_ns:
            place += 1
        for number in range(place, len(sent)):
            begins_ns, ends_ns, packet = sent[number]
            if begins_ns >= part.end_ns:
                break
            if begins_ns > at_ns:
                yield part._replace(begin_ns=at_ns, end_ns=begins_ns)
                at_ns = begins_ns
            if min(ends_ns, part.end_ns) > at_ns:
                yield Part(at_ns, min(ends_ns, part.end_ns), kind, host, packet)
                at_ns = min(ends_ns, part.end_ns)
        if at_ns < part.end_ns:
            yield part._replace(begin_ns=at_ns)


def _delivered_ns(rungs: Sequence[Rung], clues: Clues) -> int | None:
    """When the receiver had the file, or else when all bytes that were ever sent had reached it; None if some did not,
    if the file is known not to have arrived, or if it is not known which bytes a packet carries."""
    if clues.delivered_ns is not None or clues.has_failed:
        return clues.delivered_ns
    data = [
        rung
        for rung in rungs
        if rung.message.host == "sender" and (rung.message.placed_pieces or rung.kind == "new data")
    ]
    if not data or any(rung.message.unplaced for rung in data):
        return None
    sent, arrived, delivered_ns = Coverage(), Coverage(), None
    total = sum(sent.add_all(rung.message.placed_pieces) for rung in data)
    intact = (rung for rung in data if not is_lost(rung))
    for rung in sorted(intact, key=lambda rung: rung.arrived_ns[0]):
        if new := arrived.add_all(rung.message.placed_pieces):
            total, delivered_ns = total - new, rung.arrived_ns[0]
    return delivered_ns if total == 0 else None


def _phase_ends(
    rungs: Sequence[Rung], transits: Sequence[_Transit], delivered_ns: int | None, begin_ns: int, end_ns: int
) -> tuple[int, int, int]:
    """When opening, transfer and recovery end."""
    new = [index for index, rung in enumerate(rungs) if rung.kind == "new data"]
    if not new:
        return begin_ns, end_ns, end_ns
    opened_ns = rungs[new[0]].left_ns
    last, transit = rungs[new[-1]], transits[new[-1]]
    transferred_ns = max(transit.arrives_ns or last.left_ns, opened_ns)
    return opened_ns, transferred_ns, end_ns if delivered_ns is None else max(delivered_ns, transferred_ns)


def _in_phases(parts: Iterable[Part], ends_ns: tuple[int, int, int]) -> Iterator[Part]:
    """The parts, each in its phase; one in which a phase ends becomes two."""
    for part in parts:
        within = sorted({end_ns for end_ns in ends_ns if part.begin_ns < end_ns < part.end_ns})
        for begin_ns, end_ns in pairwise([part.begin_ns, *within, part.end_ns]):
            phase = PHASES[bisect_right(ends_ns, begin_ns)]
            yield part._replace(begin_ns=begin_ns, end_ns=end_ns, phase=phase)


def _merged(parts: Iterable[Part]) -> list[Part]:
    """The parts, without a boundary between two in a row that differ only in their packets; waits are left apart."""
    merged: list[Part] = []
    for (kind, _, _), group in groupby(parts, key=_NATURE):
        alike = list(group)
        if len(alike) == 1 or kind in WAITS[1:]:
            merged += alike
        else:
            merged.append(alike[0]._replace(end_ns=alike[-1].end_ns, packet=alike[-1].packet))
    return merged
