"""Two sides of a bundle transfer over a simulated link, and the answers of other implementations."""

from __future__ import annotations

import heapq
import math
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from owlt.agents.bundle.blocks import Bundle, Eid, Timestamp, decode
from owlt.agents.bundle.convergence import Convergence
from owlt.agents.bundle.nodes import DtnClock
from owlt.agents.bundle.receiving import Receiving
from owlt.agents.bundle.sending import Sending
from owlt.agents.bundle.settings import Custody, Settings
from owlt.agents.endpoint.event_loop import Pacer, frame_bytes
from owlt.agents.endpoint.exit import Failed
from owlt.agents.endpoint.files import IncomingFile, map_file

Rule = Callable[[str, int, bytes], list[bytes]]
"""From "sender" or "receiver", how many datagrams it has sent, and this one: what arrives at the other."""
CLOCK = DtnClock(820_000_000.0)


def everything(_side: str, _number: int, datagram: bytes) -> list[bytes]:
    return [datagram]


def lose_at_random(rate: float, seed: int) -> Rule:
    chance = random.Random(seed)
    return lambda _side, _number, datagram: [] if chance.random() < rate else [datagram]


@dataclass
class Side:
    """A party, its pace, and how it ended."""

    party: Sending | Receiving
    pacer: Pacer
    said: str = ""

    def due_s(self) -> float:
        """When it wants to do something."""
        if self.said:
            return math.inf
        sends_s = self.pacer.opens_at_s if self.party.has_datagram() else math.inf
        return min(self.party.wakes_at_s, sends_s)


@dataclass
class Ending:
    """What became of a transfer. `sent` has time, side and datagram of all that was sent."""

    same: bool
    sender_said: str
    receiver_said: str
    now_s: float
    sent: list[tuple[float, str, bytes]] = field(default_factory=list)

    def count(self, side: str) -> int:
        return sum(sent_by == side for _, sent_by, _ in self.sent)

    def channel_bytes(self, side: str) -> int:
        return sum(frame_bytes(len(datagram)) for _, sent_by, datagram in self.sent if sent_by == side)


def transfer(
    directory: Path,
    rule: Rule = everything,
    *,
    size_bytes: int = 50_000,
    receiver: dict[str, object] | None = None,
    **choices: object,
) -> Ending:
    """Send random bytes to the end of both parties. What the receiver is given otherwise stands in `receiver`."""
    told = {"rate_bps": 1e6, "rtt_s": 2.0, **choices}
    settings = Settings(**told)  # type: ignore[arg-type]
    receivers = Settings(**(told | (receiver or {})))  # type: ignore[arg-type]
    file, output = directory / "file", directory / "output"
    file.write_bytes(random.Random(1).randbytes(size_bytes))
    with IncomingFile(output) as incoming:
        sides = {
            "sender": Side(Sending(map_file(file), settings, CLOCK, 0.0), Pacer(settings.rate_bps)),
            "receiver": Side(Receiving(incoming, receivers, CLOCK, 0.0), Pacer(settings.signal_rate_bps)),
        }
        now_s, sent = run(sides, rule, settings)
    same = output.exists() and output.read_bytes() == file.read_bytes()
    return Ending(same, sides["sender"].said, sides["receiver"].said, now_s, sent)


def run(sides: dict[str, Side], rule: Rule, settings: Settings) -> tuple[float, list[tuple[float, str, bytes]]]:
    arrivals: list[tuple[float, int, str, bytes]] = []
    sent: list[tuple[float, str, bytes]] = []
    counts: Counter[str] = Counter()
    now_s = 0.0
    while now_s < math.inf:
        while arrivals and arrivals[0][0] <= now_s:
            _, _, name, datagram = heapq.heappop(arrivals)
            if not sides[name].said:
                sides[name].party.hear(datagram, now_s)
        for name, side in sides.items():
            if not step(side, now_s):
                continue
            datagram = side.party.next_datagram(now_s)
            side.pacer.spend(len(datagram), now_s)
            sent.append((now_s, name, datagram))
            counts[name] += 1
            arrives_s = max(now_s, side.pacer.opens_at_s) + settings.rtt_s / 2
            other = "receiver" if name == "sender" else "sender"
            for copy in rule(name, counts[name], datagram):
                heapq.heappush(arrivals, (arrives_s, len(sent), other, copy))
        if all(side.said for side in sides.values()):
            return now_s, sent
        now_s = max(now_s, min([side.due_s() for side in sides.values()] + [arrival[0] for arrival in arrivals[:1]]))
    raise AssertionError("nobody wants to do anything, and not both have ended")


def step(side: Side, now_s: float) -> bool:
    """Whether the party has something to send now. Notes its end."""
    if side.said:
        return False
    try:
        side.party.advance(now_s)
    except Failed as failure:
        side.said = f"failed: {failure}"
        return False
    if side.party.ended:
        side.said = side.party.facts()
        return False
    if not side.party.has_datagram():
        side.pacer.rest()
        return False
    return side.pacer.opens_at_s <= now_s


BOTH = pytest.mark.parametrize("custody", [Custody.SINGLE, Custody.AGGREGATE])


class Answers:
    """A receiver of one 10-byte file that hears bundles in datagrams, and what it answers."""

    def __init__(self, directory: Path, **choices: Any) -> None:
        self._settings = Settings(rate_bps=0, rtt_s=2.0, convergence=Convergence.UDP, bundle_bytes=10, **choices)
        self._file = IncomingFile(directory / "output")
        self.party = Receiving(self._file, self._settings, CLOCK, 0.0)

    def to(self, *bundles: bytes) -> list[bytes]:
        """The payloads of all that is sent in answer, within a minute."""
        with self._file:
            for octets in bundles:
                self.party.hear(octets, 0.0)
            payloads = []
            self.party.advance(60.0)
            while self.party.has_datagram():
                payloads.append(decode(self.party.next_datagram(60.0)).payload)
                self.party.advance(60.0)
            return payloads


FOREIGN = Bundle(
    source=Eid(1, 1),
    destination=Eid(2, 1),
    custodian=Eid(1, 0),
    report_to=Eid(1, 0),
    created=Timestamp(820_000_000, 1),
    payload=b"ten bytes.",
)


def with_unknown_block(bundle: Bundle, flags: int) -> bytes:
    octets = bundle.encode()
    payload_at = octets.index(b"\x01\x08\x0aten bytes.")
    return octets[:payload_at] + bytes([0x55, flags, 2]) + b"??" + octets[payload_at:]
