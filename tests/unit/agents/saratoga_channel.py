"""Two Saratoga parties and a channel between them, in simulated time: loses, repeats or changes chosen datagrams."""

from __future__ import annotations

import heapq
import math
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from owlt.agents.endpoint.event_loop import Pacer, Party, frame_bytes
from owlt.agents.endpoint.exit import Failed
from owlt.agents.saratoga.receiving import Receiving
from owlt.agents.saratoga.sending import Sending
from owlt.agents.saratoga.settings import Settings

Rule = Callable[[str, int, bytes], list[bytes]]
"""From a packet's kind, how many of that kind have come, and its bytes: what is passed on."""

KINDS = ("Beacon", "Request", "Metadata", "Data", "Status")
RATE_BPS = 10e6
LONGEST_S = 100_000


def kind_of(datagram: bytes) -> str:
    """The type of a packet, read from its first octet; those of the file's sender and receiver alike."""
    return KINDS[datagram[0] & 0x1F]


def everything(_kind: str, _number: int, datagram: bytes) -> list[bytes]:
    return [datagram]


def lose(kind: str, *numbers: int) -> Rule:
    """Lose the first, second, ... packet of a kind (counted from 1)."""
    return lambda seen, number, datagram: [] if seen == kind and number in numbers else [datagram]


def lose_at_random(rate: float, seed: int) -> Rule:
    chance = random.Random(seed)
    return lambda _kind, _number, datagram: [] if chance.random() < rate else [datagram]


@dataclass
class Ending:
    """What a transfer came to. `sent` has every datagram that was sent, by either side, in order."""

    same: bool
    sender_said: str
    receiver_said: str
    ended_s: dict[str, float]
    sent: list[bytes] = field(default_factory=list)

    @property
    def seen(self) -> Counter[str]:
        return Counter(map(kind_of, self.sent))


class _Side:
    def __init__(self, party: Party, rate_bps: float, reverse_bps: float) -> None:
        self.party = party
        self.pacer = Pacer(rate_bps)
        self.channel_bps = reverse_bps
        self.free_s = 0.0
        self.said = ""
        self.ended_s = math.inf

    def ends(self, now_s: float, said: str) -> None:
        self.said, self.ended_s = said, now_s

    def due_s(self) -> float:
        if self.ended_s < math.inf:
            return math.inf
        sends_at_s = self.pacer.opens_at_s if self.party.has_datagram() else math.inf
        return min(sends_at_s, self.party.wakes_at_s)


def transfer(
    directory: Path,
    rule: Rule = everything,
    *,
    content: bytes = b"",
    one_way_s: float = 0.25,
    reverse_bps: float = RATE_BPS,
    parties: tuple[str, ...] = ("sender", "receiver"),
    wanted: str = "file",
    **choices: object,
) -> Ending:
    """Carry `content` over the channel until both sides have ended."""
    (directory / "file").write_bytes(content)
    told = {"rate_bps": RATE_BPS, "rtt_s": 2 * one_way_s, **choices}
    settings = Settings(**told)  # type: ignore[arg-type]
    asks = wanted if settings.transfer == "get" else None
    sending = Sending(directory / "file", settings, 0.0)
    receiving = Receiving(directory / "output", settings, 0.0, asks)
    with receiving:
        sides = {
            "sender": _Side(sending, settings.rate_bps, RATE_BPS),
            "receiver": _Side(receiving, settings.rate_bps, reverse_bps),
        }
        for absent in sides.keys() - set(parties):
            sides[absent].ends(0.0, "absent")
        sent = _run(sides, rule, one_way_s)
    output = directory / "output"
    return Ending(
        same=output.exists() and output.read_bytes() == content,
        sender_said=sides["sender"].said,
        receiver_said=sides["receiver"].said,
        ended_s={name: side.ended_s for name, side in sides.items()},
        sent=sent,
    )


def _run(sides: dict[str, _Side], rule: Rule, one_way_s: float) -> list[bytes]:
    arrivals: list[tuple[float, int, str, bytes]] = []
    sent: list[bytes] = []
    seen: Counter[str] = Counter()
    now_s = 0.0
    while any(side.ended_s == math.inf for side in sides.values()):
        assert now_s < LONGEST_S, "the transfer does not end"
        while arrivals and arrivals[0][0] <= now_s:
            _, _, name, datagram = heapq.heappop(arrivals)
            _guarded(sides[name], now_s, partial(sides[name].party.hear, datagram, now_s))
        for name, side in sides.items():
            _guarded(side, now_s, partial(side.party.advance, now_s))
            if side.ended_s == math.inf and not side.party.has_datagram():
                side.pacer.rest()
                continue
            if side.ended_s < math.inf or side.pacer.opens_at_s > now_s:
                continue
            datagram = side.party.next_datagram(now_s)
            side.pacer.spend(len(datagram), now_s)
            sent.append(datagram)
            seen[kind_of(datagram)] += 1
            side.free_s = max(side.free_s, now_s) + 8 * frame_bytes(len(datagram)) / side.channel_bps
            other = "receiver" if name == "sender" else "sender"
            for copy in rule(kind_of(datagram), seen[kind_of(datagram)], datagram):
                heapq.heappush(arrivals, (side.free_s + one_way_s, len(sent), other, copy))
        upcoming = [side.due_s() for side in sides.values()] + [arrival[0] for arrival in arrivals[:1]]
        now_s = max(now_s, min(upcoming))
    return sent


def _guarded(side: _Side, now_s: float, act: Callable[[], None]) -> None:
    """Let a side do something, if it has not ended, and note its end."""
    if side.ended_s < math.inf:
        return
    try:
        act()
    except Failed as failure:
        side.ends(now_s, f"failed: {failure}")
        return
    if side.party.ended:
        try:
            side.ends(now_s, side.party.facts())  # type: ignore[attr-defined]
        except Failed as failure:
            side.ends(now_s, f"failed: {failure}")
