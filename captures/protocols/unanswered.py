"""What a host received after it had sent its last packet: where a failed transfer stopped.

A host that does not understand a packet sends nothing more, or repeats itself; the captures show the packets that
arrived intact and got no answer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from owlt.captures.frames.session import Host
from owlt.captures.protocols.ladder import Rung
from owlt.captures.protocols.messages import Message

ICMP = "ICMP "
"""The beginning of the name of an error message of a host's kernel, which is no answer of its program."""
MOST_NAMES = 3


@dataclass(frozen=True)
class Unanswered:
    """The messages that arrived intact at a host after its last one. `last` is None if it sent none at all."""

    host: Host
    last: Message | None
    messages: tuple[Message, ...]

    @property
    def text(self) -> str:
        """A sentence: the receiver sent nothing after NAK (frame 7), although 12 EOF arrived, the first as frame 30."""
        names = [*Counter(message.name for message in self.messages).items()]  # in the order of their first
        counts = ", ".join(f"{count} {name}" for name, count in names[:MOST_NAMES])
        more = sum(count for _, count in names[MOST_NAMES:])
        first = self.messages[0]
        after = f" after its {self.last.name}, frame {self.last.frame} of its capture" if self.last else ""
        others = f" and {more} others" if more else ""
        return (
            f"the {self.host} sent nothing{after}, although these arrived: {counts}{others}; the first is "
            f"{first.name}, frame {first.frame} of {first.host}.pcap"
        )


def unanswered(rungs: Sequence[Rung]) -> Unanswered | None:
    """The messages that a host left without any answer; of the host with more of them. None if both sent last."""
    found = [each for host in ("sender", "receiver") if (each := _left_by(host, rungs)).messages]
    return max(found, key=lambda each: len(each.messages), default=None)


def _left_by(host: Host, rungs: Sequence[Rung]) -> Unanswered:
    own = [rung for rung in rungs if rung.message.host == host and not rung.message.name.startswith(ICMP)]
    last = max(own, key=lambda rung: rung.left_ns, default=None)
    after_ns = last.left_ns if last else -1
    arrived = [
        (rung.arrived_ns[0], rung.message)
        for rung in rungs
        if rung.message.host != host and rung.arrived_ns and not rung.is_damaged and rung.arrived_ns[0] > after_ns
    ]
    arrived = [each for each in arrived if not each[1].name.startswith(ICMP)]
    messages = tuple(message for _, message in sorted(arrived, key=lambda each: each[0]))
    return Unanswered(host, last.message if last else None, messages)
