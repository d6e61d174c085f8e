"""The engines, one row each: whole transfers of two parties through someone who changes what goes between them.

An input spells what is done to each datagram; once it ends, all datagrams pass. Whatever it was, both parties have to
end, by success or by one of the exceptions that an endpoint ends with.
"""

from __future__ import annotations

import heapq
import math
import random
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from tests.fuzz.changes import Change, changed
from tests.fuzz.examining import Target, scratch_directory

CONTENT = random.Random(1).randbytes(650)
SEGMENT_BYTES = 50
RTT_S, RATE_BPS = 1.0, 1e6
LATE_S = 1.7
MOST_STEPS = 30_000
"""Many times what a transfer needs that loses a third of its datagrams."""

REMEMBERED = 64


class NoEnd(Exception):
    """The parties went on and on."""


class Script:
    """The bytes of an input, one after the other; then nothing for ever."""

    def __init__(self, octets: bytes) -> None:
        self._octets = octets
        self._place = 0

    def take(self, count: int) -> bytes:
        """So many bytes, with zeros where there are no more."""
        begin, self._place = self._place, self._place + count
        return self._octets[begin : self._place].ljust(count, b"\0")

    def number(self) -> int:
        """One byte; 0 at the end."""
        return self.take(1)[0]


@dataclass
class Side:
    """A party, its pace, whether it has ended, and whether it has heard something since it was served."""

    party: Any
    pacer: Any
    ended: bool = False
    has_heard: bool = True

    def due_s(self) -> float:
        """When it wants to do something, as `converse` asks it before it sleeps."""
        if self.ended:
            return math.inf
        if self.has_heard:
            return -math.inf
        return float(min(self.party.wakes_at_s, self.pacer.opens_at_s if self.party.has_datagram() else math.inf))


class Channel:
    """Two sides, and what is between them, in simulated time."""

    def __init__(self, parties: tuple[Any, Any], script: Script, set_clock: Callable[[float], None]) -> None:
        from owlt.agents.endpoint.event_loop import Pacer
        from owlt.agents.endpoint.exit import Failed, Unsupported

        self._endings = Failed, Unsupported
        self._sides = [Side(party, Pacer(RATE_BPS)) for party in parties]
        self._script = script
        self._set_clock = set_clock
        self._arrivals: list[tuple[float, int, int, bytes]] = []
        self._seen: deque[bytes] = deque(maxlen=REMEMBERED)
        self._count = 0

    def run(self) -> None:
        """To the end of both. Raises NoEnd, and whatever a party raises that it must not."""
        now_s = 0.0
        for _ in range(MOST_STEPS):
            self._set_clock(now_s)
            self._deliver(now_s)
            for at, side in enumerate(self._sides):
                self._serve(at, side, now_s)
            if all(side.ended for side in self._sides):
                return
            now_s = max(now_s, min([side.due_s() for side in self._sides] + [due[0] for due in self._arrivals[:1]]))
            if now_s == math.inf:
                break
        raise NoEnd(f"after {self._count} datagrams, at {now_s} s")

    def _deliver(self, now_s: float) -> None:
        while self._arrivals and self._arrivals[0][0] <= now_s:
            _, _, at, datagram = heapq.heappop(self._arrivals)
            side = self._sides[at]
            side.has_heard = True
            if not side.ended:
                self._guarded(side, partial(_hear, datagram=datagram, now_s=now_s))

    def _serve(self, at: int, side: Side, now_s: float) -> None:
        if side.due_s() > now_s:
            return
        side.has_heard = False
        self._guarded(side, lambda party: party.advance(now_s))
        if side.party.ended and not side.ended:
            side.ended = True
            self._guarded(side, lambda party: party.facts())
        if side.ended or side.pacer.opens_at_s > now_s:
            return
        if side.party.has_datagram():
            self._guarded(side, lambda party: self._send(at, party.next_datagram(now_s), now_s))
        else:
            side.pacer.rest()

    def _guarded(self, side: Side, act: Callable[[Any], object]) -> None:
        try:
            act(side.party)
        except self._endings:
            side.ended = True

    def _send(self, at: int, datagram: bytes, now_s: float) -> None:
        self._sides[at].pacer.spend(len(datagram), now_s)
        self._seen.append(datagram)
        self._pass_on(at, datagram, now_s + RTT_S / 2)

    def _pass_on(self, at: int, datagram: bytes, arrives_s: float) -> None:
        """The half byte says what is done; most of them are changes."""
        script, other = self._script, 1 - at
        match (what := script.number()) & 0x0F:
            case 0 | 1 | 2:
                self._put(arrives_s, other, datagram)
            case 3:
                pass  # lost
            case 4:
                self._put(arrives_s, other, datagram)
                self._put(arrives_s, other, datagram)
            case 5:
                self._put(arrives_s + (1 + (what >> 4)) * LATE_S, other, datagram)
            case 6:
                self._put(arrives_s, other, datagram)
                self._put(arrives_s, other, self._seen[script.number() % len(self._seen)])
            case 7:
                self._put(arrives_s, at, datagram)
            case 8:
                self._put(arrives_s, other, script.take(script.number()))
            case 9 if what >> 4 > 12:
                self._sides[at].ended = True  # vanished
            case _:
                for _ in range(1 + (what >> 4 & 3)):
                    datagram = changed(datagram, Change.read(script.take(4)))
                self._put(arrives_s, other, datagram)

    def _put(self, arrives_s: float, at: int, datagram: bytes) -> None:
        self._count += 1
        heapq.heappush(self._arrivals, (arrives_s, self._count, at, datagram))


def _hear(party: Any, datagram: bytes, now_s: float) -> None:
    party.hear(datagram, now_s)


Parties = AbstractContextManager[tuple[Any, Any]]


def _engine(
    parties: Callable[[Path], Parties], set_clock: Callable[[], Callable[[float], None]] = lambda: lambda _: None
) -> Callable[[], Target]:
    """A target from what opens a sender and a receiver in a directory with a `file`."""

    def make() -> Target:
        directory = scratch_directory()
        (directory / "file").write_bytes(CONTENT)
        clock = set_clock()

        def run(octets: bytes) -> None:
            clock(0.0)
            with parties(directory) as both:
                Channel(both, Script(octets), clock).run()

        chance = random.Random(1)
        seeds = [b"", *(bytes(chance.choices(range(256), k=length)) for length in (20, 60, 200))]
        seeds += [bytes(chance.choices((0, 0, 0, 0, 3, 4, 5, 0xFA), k=100)) for _ in range(4)]
        return Target(run, (), seeds, floor_bytes=8 << 20)

    return make


def _ltp(**choices: Any) -> Callable[[], Target]:
    @contextmanager
    def parties(directory: Path) -> Iterator[tuple[Any, Any]]:
        from owlt.agents.ltp.receiving import Receiving
        from owlt.agents.ltp.sending import Sending
        from owlt.agents.ltp.settings import Settings

        told = {"checkpoint_limit": 5, "report_limit": 5, "segment_bytes": SEGMENT_BYTES, "seed": 1, **choices}
        settings = Settings(rate_bps=RATE_BPS, rtt_s=RTT_S, **told)
        file_bytes = len(CONTENT) if settings.block_bytes else None
        with Receiving(directory / "output", settings, 0.0, file_bytes) as receiving:
            yield Sending(directory / "file", settings), receiving

    return _engine(parties)


def _bundle(custody: str, convergence: str, bundle_check: str = "none") -> Callable[[], Target]:
    @contextmanager
    def parties(directory: Path) -> Iterator[tuple[Any, Any]]:
        from owlt.agents.bundle.convergence import Convergence
        from owlt.agents.bundle.nodes import DtnClock
        from owlt.agents.bundle.receiving import Receiving
        from owlt.agents.bundle.sending import Sending
        from owlt.agents.bundle.settings import BundleCheck, Custody, Settings
        from owlt.agents.endpoint.files import IncomingFile

        settings = Settings(
            rate_bps=RATE_BPS,
            rtt_s=RTT_S,
            custody=Custody(custody),
            convergence=Convergence(convergence),
            bundle_bytes=2 * SEGMENT_BYTES,
            segment_bytes=2 * SEGMENT_BYTES,
            acs_bytes=32,
            repeat_limit=5,
            bundle_check=BundleCheck(bundle_check),
        )
        clock = DtnClock(820_000_000.0)
        content = (directory / "file").read_bytes()
        with IncomingFile(directory / "output") as incoming:
            yield Sending(content, settings, clock, 0.0), Receiving(incoming, settings, clock, 0.0)

    return _engine(parties)


def _saratoga(wanted: str | None = None, **choices: Any) -> Callable[[], Target]:
    @contextmanager
    def parties(directory: Path) -> Iterator[tuple[Any, Any]]:
        from owlt.agents.saratoga.receiving import Receiving
        from owlt.agents.saratoga.sending import Sending
        from owlt.agents.saratoga.settings import Settings

        told = {"segment_bytes": SEGMENT_BYTES, "status_packets": 4, **choices}
        settings = Settings(rate_bps=RATE_BPS, rtt_s=RTT_S, **told)
        output = directory / "output"
        with Receiving(output, settings, 0.0, wanted) as receiving:
            yield Sending(directory / "file", settings, 0.0), receiving

    return _engine(parties)


def _cfdp(**choices: Any) -> Callable[[], Target]:
    @contextmanager
    def parties(directory: Path) -> Iterator[tuple[Any, Any]]:
        from owlt.agents.cfdp.receiving import Receiving
        from owlt.agents.cfdp.sending import Sending
        from owlt.agents.cfdp.settings import Settings

        told = {"segment_bytes": SEGMENT_BYTES, "ack_limit": 5, "nak_limit": 5, **choices}
        settings = Settings(rate_bps=RATE_BPS, rtt_s=RTT_S, **told)
        with Receiving(directory / "output", settings, 0.0) as receiving:
            yield Sending(directory / "file", settings), receiving

    return _engine(parties, _countdowns_follow)


def _countdowns_follow() -> Callable[[float], None]:
    """cfdp-py's timers read the time of day; here they read that of the channel."""
    from spacepackets import countdown

    now_ms = [0]
    countdown.time_ms = lambda: now_ms[0]

    def set_clock(now_s: float) -> None:
        now_ms[0] = 10**12 + math.floor(1000 * now_s + 1e-6)

    return set_clock


def _librecube() -> Callable[[], Target]:
    @contextmanager
    def parties(directory: Path) -> Iterator[tuple[Any, Any]]:
        from owlt.agents.librecube.parties import Receiving, Sending
        from owlt.agents.librecube.settings import Settings

        settings = Settings(rate_bps=RATE_BPS, rtt_s=RTT_S, segment_bytes=SEGMENT_BYTES, ack_limit=5, nak_limit=5)
        with (
            closing(Sending(directory / "file", settings, 0.0)) as sending,
            closing(Receiving(directory / "output", settings, 0.0)) as receiving,
        ):
            yield sending, receiving

    return _engine(parties)


class _Blaster:
    """The datagrams of a blast, as a party sends them."""

    ended = False
    wakes_at_s = math.inf

    def __init__(self, datagrams: list[bytes]) -> None:
        self._datagrams = deque(datagrams)

    def advance(self, now_s: float) -> None:
        self.ended = not self._datagrams

    def hear(self, datagram: bytes, now_s: float) -> None:
        """It has no ears."""

    def has_datagram(self) -> bool:
        return bool(self._datagrams)

    def next_datagram(self, now_s: float) -> bytes:
        datagram = self._datagrams.popleft()
        self.wakes_at_s = math.inf if self._datagrams else now_s
        return datagram

    def facts(self) -> str:
        return "sent"


@contextmanager
def _blast(directory: Path) -> Iterator[tuple[Any, Any]]:
    from owlt.agents.blast.datagrams import Pieces, encode
    from owlt.agents.blast.sides import Patience, Receiving

    size, step = len(CONTENT), SEGMENT_BYTES
    datagrams = [encode(at, CONTENT[at : at + step]) for at in range(0, size, step)] + 3 * [encode(size, b"")]
    patience = Patience(first_s=60, silence_s=30, after_end_s=1)
    with Receiving(directory / "output", Pieces(size, step), patience, 0.0) as receiving:
        yield _Blaster(datagrams), receiving


@contextmanager
def _quic(directory: Path) -> Iterator[tuple[Any, Any]]:
    from owlt.agents.quic.connection import Logs, client_configuration, server_configuration
    from owlt.agents.quic.push import Receiving, Sending
    from owlt.agents.quic.settings import Settings

    settings = Settings(rate_bps=RATE_BPS, rtt_s=RTT_S)
    with (directory / "file").open("rb") as file, (directory / "output.part").open("wb") as store:
        receiver = server_configuration(settings, Logs())
        yield (
            Sending(file, settings, client_configuration(settings, Logs()), 0.0),
            Receiving(directory / "output", store, settings, receiver, 0.0),
        )


ENGINES: dict[str, Callable[[], Target]] = {
    "engine-ltp": _ltp(),
    "engine-ltp-blocks": _ltp(block_bytes=200, sessions=2, red_bytes=120, checkpoint_every=1),
    "engine-ltp-checkpoints": _ltp(checkpoint_every=2),
    "engine-bundle-acs-ltp": _bundle("acs", "ltp"),
    "engine-bundle-cs-udp": _bundle("cs", "udp"),
    "engine-bundle-checked": _bundle("acs", "udp", bundle_check="crc32c"),
    "engine-saratoga-put": _saratoga(timestamps="on", start="asked"),
    "engine-saratoga-get": _saratoga(wanted="file", transfer="get", voluntary_s=0.3),
    "engine-saratoga-v0": _saratoga(wanted="file", transfer="get", version=0),
    "engine-cfdp": _cfdp(),
    "engine-cfdp-immediate": _cfdp(nak="immediate", checksum="modular", closure="off"),
    "engine-librecube": _librecube(),
    "engine-blast": _engine(_blast),
    "engine-quic": _engine(_quic),
}
"""By name."""
