"""Two runs of one transfer with the same losses, such as of two versions: the first packet that differs, and the
differences between the causes of their time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest

from owlt.captures.frames.session import HOSTS, Host
from owlt.captures.inspection.causes import Cause, What, causes
from owlt.captures.inspection.critical_path import CriticalPath, Phase
from owlt.captures.protocols.ladder import Rung

SAME_MOMENT_NS = 1_000
"""Packets that leave at most this far apart count as simultaneous: software takes some hundred ns for each packet."""


@dataclass(frozen=True)
class PacketDifference:
    """The first packet that differs: the `number`-th of its host, from 1. A run in which the host sent fewer packets
    has None.

    `left_ns` is when the packet left in each run, since the session's first packet.
    """

    host: Host
    number: int
    rungs: tuple[Rung | None, Rung | None]
    left_ns: tuple[int | None, int | None]

    @property
    def names(self) -> tuple[str | None, str | None]:
        """The names of its messages."""
        one, other = self.rungs
        return one.message.name if one else None, other.message.name if other else None

    @property
    def later_ns(self) -> int | None:
        """How much later it left in the second run."""
        return None if self.left_ns[0] is None or self.left_ns[1] is None else self.left_ns[1] - self.left_ns[0]


@dataclass(frozen=True)
class CauseDifference:
    """A cause that one or both runs have: its number of occurrences and its total time in each run.

    `message` is what a host sent after a wait, and "" for other causes. Of round trips, `host` is the sender.
    """

    what: What
    host: Host
    phase: Phase
    message: str
    counts: tuple[int, int]
    totals_ns: tuple[int, int]

    @property
    def more_ns(self) -> int:
        """How much more it took in the second run."""
        return self.totals_ns[1] - self.totals_ns[0]


@dataclass(frozen=True)
class Comparison:
    """Two runs: the first packet that differs, None if all are the same, and the causes that differ, the largest
    difference first."""

    lengths_ns: tuple[int, int]
    first: PacketDifference | None
    causes: tuple[CauseDifference, ...]


def compare(one: CriticalPath, other: CriticalPath) -> Comparison:
    """What differs between two runs, of which these are the critical paths."""
    return Comparison(
        (one.length_ns, other.length_ns), first_difference(one, other), cause_differences(causes(one), causes(other))
    )


def first_difference(one: CriticalPath, other: CriticalPath) -> PacketDifference | None:
    """The first packet whose name, length, piece of the file, or time differs from that of the packet with the same
    number in the other run; of both hosts, the packet that leaves first. None if all are the same."""
    found = [each for host in HOSTS for each in [_of_host(host, one, other)] if each]
    return min(found, key=lambda each: min(left_ns for left_ns in each.left_ns if left_ns is not None), default=None)


def _of_host(host: Host, one: CriticalPath, other: CriticalPath) -> PacketDifference | None:
    sides = ([rung for rung in path.rungs if rung.message.host == host] for path in (one, other))
    for number, (here, there) in enumerate(zip_longest(*sides), start=1):
        left_ns = here.left_ns - one.begin_ns if here else None, there.left_ns - other.begin_ns if there else None
        if here is None or there is None or not _is_same(here, there, one.begin_ns - other.begin_ns):
            return PacketDifference(host, number, (here, there), left_ns)
    return None


def _is_same(here: Rung, there: Rung, later_ns: int) -> bool:
    """Whether two packets are the same; the first run began `later_ns` after the second one."""
    is_same_moment = abs(here.left_ns - there.left_ns - later_ns) <= SAME_MOMENT_NS
    return is_same_moment and _content(here) == _content(there)


def _content(rung: Rung) -> tuple[object, ...]:
    message = rung.message
    return message.name, message.wire_bytes, message.placed_pieces


def cause_differences(one: Sequence[Cause], other: Sequence[Cause]) -> tuple[CauseDifference, ...]:
    """The causes of two runs side by side; without those that took the same time. Waits of the same kind, host, phase
    and message are together, and so are round trips of one phase."""
    sides = [_totals(one), _totals(other)]
    found = []
    for which in dict.fromkeys(key for side in sides for key in side):
        (count, total_ns), (other_count, other_ns) = (side.get(which, (0, 0)) for side in sides)
        if abs(other_ns - total_ns) > SAME_MOMENT_NS:
            found.append(CauseDifference(*which, (count, other_count), (total_ns, other_ns)))
    return tuple(sorted(found, key=lambda each: -abs(each.more_ns)))


_Which = tuple[What, Host, Phase, str]


def _which(cause: Cause) -> _Which:
    if cause.what in ("timer", "waiting"):
        return cause.what, cause.host, cause.phase, cause.message
    return cause.what, "sender" if cause.what == "round trips" else cause.host, cause.phase, ""


def _totals(causes: Sequence[Cause]) -> dict[_Which, tuple[int, int]]:
    totals: dict[_Which, tuple[int, int]] = {}
    for cause in causes:
        which = _which(cause)
        count, total_ns = totals.get(which, (0, 0))
        totals[which] = (count + cause.count, total_ns + cause.total_ns)
    return totals
