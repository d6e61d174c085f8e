"""The session as a ladder: each message with the times at which it left one host and arrived at the other.

Values only; drawing them belongs to reports.ladder.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from owlt.captures.frames.columns import Columns
from owlt.captures.matches.delivery import INTACT, Delivery
from owlt.captures.protocols.messages import Message
from owlt.captures.protocols.readers.coverage import Coverage
from owlt.captures.protocols.termination import ALIKE, LEAD, MOST, left_out_text, termination_start, thinned
from owlt.captures.session.session import Host

Kind = Literal["new data", "data again", "of the sender", "of the receiver"]


@dataclass(frozen=True)
class Rung:
    """A message, with the times of its captures' clock: when it left, and when each copy arrived, none if it was lost.

    `is_damaged` says that the first copy differs in some bits. "new data" carries bytes of the file that no message
    before it carried or, where the packets do not say which, any; "data again" others.
    """

    message: Message
    left_ns: int
    arrived_ns: tuple[int, ...]
    is_damaged: bool
    kind: Kind


@dataclass(frozen=True)
class LeftOut:
    """Messages that come between two that are shown: what they are in a few words, and the host that sent most."""

    host: Host
    text: str
    rungs: tuple[Rung, ...]


Step = Rung | LeftOut


def rungs(
    sent: Sequence[Message],
    at_receiver: Columns,
    forward: Delivery,
    answered: Sequence[Message],
    at_sender: Columns,
    reverse: Delivery,
) -> list[Rung]:
    """The rungs of the sender's messages (from its own capture) and of the receiver's (from its own), as they left."""
    coverage = Coverage()
    rungs = _rungs_one_way(sent, at_receiver, forward, coverage) + _rungs_one_way(
        answered, at_sender, reverse, coverage
    )
    return sorted(rungs, key=lambda rung: rung.left_ns)


def _rungs_one_way(messages: Sequence[Message], far: Columns, delivery: Delivery, coverage: Coverage) -> list[Rung]:
    copies: dict[int, list[tuple[int, bool]]] = defaultdict(list)
    for pair in range(len(delivery.sent)):
        arrival_ns = int(far.time_ns[delivery.delivered[pair]])
        copies[int(delivery.sent[pair])].append((arrival_ns, bool(delivery.flipped_bit[pair] != INTACT)))
    rungs = []
    for message in messages:
        arrivals = sorted(copies[message.frame - 1])
        is_damaged = bool(arrivals) and arrivals[0][1]
        times_ns = tuple(time_ns for time_ns, _ in arrivals)
        rungs.append(Rung(message, message.time_ns, times_ns, is_damaged, _kind(message, coverage)))
    return rungs


def _kind(message: Message, coverage: Coverage) -> Kind:
    if message.host == "receiver":
        return "of the receiver"
    if message.first_byte is not None:
        new_bytes = sum(coverage.add(first, first + count) for first, count in message.placed_pieces)
        return "new data" if new_bytes else "data again"
    if message.unplaced:
        return "data again" if message.name == "retransmission" else "new data"
    return "of the sender"


def ending(rungs: Sequence[Rung], lead: int = LEAD, alike: int = ALIKE, most: int = MOST) -> list[Step]:
    """The termination phase of a ladder, thinned out: owlt.captures.protocols.termination says how."""
    start = termination_start([rung.message for rung in rungs], lead)
    return thin(rungs[start:], alike, most)


def thin(rungs: Sequence[Rung], alike: int = ALIKE, most: int = MOST) -> list[Step]:
    """The rungs with those left out that are like others before them."""
    steps: list[Step] = []
    for step in thinned([rung.message for rung in rungs], alike, most):
        if isinstance(step, int):
            steps.append(rungs[step])
            continue
        hidden = [rungs[index] for index in step]
        text = left_out_text([rung.message for rung in hidden])
        by_sender = sum(rung.message.host == "sender" for rung in hidden)
        host: Host = "sender" if 2 * by_sender >= len(hidden) else "receiver"
        steps.append(LeftOut(host, text, tuple(hidden)))
    return steps
