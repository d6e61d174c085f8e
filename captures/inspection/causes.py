"""The causes of additional time in a session: the parts of its critical path grouped by cause, largest first; and what
differs between two runs of one transfer with the same losses, for example with two versions of an implementation.

A cause is something that can be changed: a timer, a wait, round trips before the data, round trips of recovery, a
queue, a slow return link. The time that the channel takes for any protocol has no cause: one transmission of the file,
one propagation delay to the receiver, and one back for its last message.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import zip_longest
from typing import Literal, NamedTuple

from owlt.captures.frames.session import HOSTS, Host
from owlt.captures.inspection.critical_path import PHASES, WAITS, WAYS, CriticalPath, Part, Phase, is_lost
from owlt.captures.protocols.ladder import Rung

What = Literal["timer", "waiting", "round trips", "queueing", "serialization", "processing"]
_ONE_LENGTH = 1.02
"""Waits of one host, before messages of one name, are one cause if none is longer than so many times the shortest."""
_BETWEEN_PACKETS = 0.5
"""Waits that are shorter than this share of the shortest transit are pauses between packets, such as those of pacing:
an answer from the other host takes longer. All of them before messages of one name are one cause."""
LEAST_SHARE = 0.005
"""The share of the session that a cause takes at least, to be one."""
_REST = 0.01
"""A way is not counted if the transmission of new data leaves at most this share of the longest way of its host."""


@dataclass(frozen=True)
class Cause:
    """A cause of the session time, and the parts that it took, `total_ns` in all.

    Of timers and waits, `count` is how many there were, `host` who waited, `message` what it sent then, and `phase` the
    one in which the longest waits ended; of round trips, `count` is how often a packet crossed the channel, in this
    phase, `host` who sent the first of them and `message` their names; of the rest, `host` is whose packets took the
    time. `lost` are the lost packets that may be the reason (indices of rungs).
    """

    what: What
    host: Host
    phase: Phase
    message: str
    count: int
    total_ns: int
    parts: tuple[Part, ...]
    lost: tuple[int, ...] = ()


def causes(path: CriticalPath) -> list[Cause]:
    """The causes of the time that the channel does not take for any protocol, largest first, without small ones."""
    found = [*_late_start(path), *_waits(path), *_round_trips(path), *_others(path)]
    least_ns = LEAST_SHARE * path.length_ns
    return sorted((cause for cause in found if cause.total_ns >= least_ns), key=lambda cause: -cause.total_ns)


def _late_start(path: CriticalPath) -> Iterable[Cause]:
    """The wait before the first packet, which is before the session."""
    part = path.late_start
    if part is not None:
        what: What = "timer" if part.kind == "timer" else "waiting"
        yield Cause(what, part.host, part.phase, _name(path, part), 1, part.length_ns, (part,))


def _name(path: CriticalPath, part: Part) -> str:
    return path.rungs[part.packet].message.name if part.packet >= 0 else ""


def _waits(path: CriticalPath) -> Iterable[Cause]:
    """Waits of a host before messages of one name, of about one length or all short. A wait has several parts if new
    data were transmitted meanwhile."""
    parts_of: dict[tuple[Host, int], list[Part]] = {}
    for part in path.parts:
        if part.kind in WAITS[1:]:
            parts_of.setdefault((part.host, part.packet), []).append(part)
    whole = [tuple(parts) for parts in parts_of.values()]
    whole.sort(key=lambda parts: (_what_is_awaited(path, parts), _length_ns(parts)))
    alike: list[list[tuple[Part, ...]]] = []
    for parts in whole:
        shortest = alike[-1][0] if alike else None
        if shortest and _is_alike(path, shortest, parts):
            alike[-1].append(parts)
        else:
            alike.append([parts])
    for group in alike:
        parts = tuple(part for each in group for part in each)
        first = group[0][-1]
        what: What = "timer" if first.kind == "timer" else "waiting"
        is_pause = max(map(_length_ns, group)) <= _BETWEEN_PACKETS * path.least_transit_ns
        lost = () if is_pause else path.lost_before((each[0].begin_ns, each[-1]) for each in group)
        phase = max(PHASES, key=partial(_ended_in_ns, group))
        yield Cause(what, first.host, phase, _name(path, first), len(group), _length_ns(parts), parts, lost)


def _ended_in_ns(group: Iterable[tuple[Part, ...]], phase: Phase) -> int:
    """The length of the waits that ended in a phase."""
    return sum(_length_ns(parts) for parts in group if parts[-1].phase == phase)


def is_one_length(lengths_ns: Collection[int]) -> bool:
    """Whether waits have about one length."""
    return max(lengths_ns) <= _ONE_LENGTH * min(lengths_ns)


def _is_alike(path: CriticalPath, shorter: Sequence[Part], longer: Sequence[Part]) -> bool:
    if _what_is_awaited(path, shorter) != _what_is_awaited(path, longer):
        return False
    lengths_ns = _length_ns(shorter), _length_ns(longer)
    return is_one_length(lengths_ns) or lengths_ns[1] <= _BETWEEN_PACKETS * path.least_transit_ns


def _what_is_awaited(path: CriticalPath, wait: Sequence[Part]) -> tuple[str, ...]:
    """What is equal for all waits of one cause: the host, the message, and the program's timer."""
    part = wait[-1]
    program = (part.timer.process, part.timer.kind) if part.timer else ("", "")
    return part.kind, part.host, _name(path, part), *program, str(part.is_polling)


def _round_trips(path: CriticalPath) -> Iterable[Cause]:
    """Ways of packets on the path through the channel, by phase, but for the one to the receiver that any file needs,
    and the one back that closes the session."""
    ways = list(_ways(path))
    needed = [*_last(ways, "sender", ("transfer",)), *_last(ways, "receiver", ("closing",))]
    if not any(way.host == "sender" for way in needed):  # a wait for a later packet hides it
        needed += _last(ways[::-1], "sender", ("recovery", "closing"))
    for phase in PHASES:
        if left := [way for way in ways if way.phase == phase and way not in needed]:
            parts = tuple(part for way in left for part in way.parts)
            is_after_losses = phase == "recovery" or (phase == "transfer" and len(left) > 1)
            yield Cause(
                "round trips",
                left[0].host,
                phase,
                ", ".join(dict.fromkeys(_name(path, part) for part in parts)),
                len(left),
                _length_ns(parts),
                parts,
                _lost_until(path, parts[-1].end_ns) if is_after_losses else (),
            )


class _Way(NamedTuple):
    """A packet's way through the channel. It has several parts if new data were transmitted or a phase ended meanwhile;
    its phase is the one with the largest part of it."""

    host: Host
    phase: Phase
    parts: tuple[Part, ...]


def _ways(path: CriticalPath) -> Iterable[_Way]:
    """The ways of packets on the path, in order, without those of which the transmission of new data leaves nearly
    nothing."""
    parts_of: dict[int, list[Part]] = {}
    for part in path.parts:
        if part.kind in WAYS:
            parts_of.setdefault(part.packet, []).append(part)
    longest_ns = dict.fromkeys(HOSTS, 0)
    for parts in parts_of.values():
        longest_ns[parts[0].host] = max(longest_ns[parts[0].host], _length_ns(parts))
    for parts in parts_of.values():
        if _length_ns(parts) > _REST * longest_ns[parts[0].host]:
            phase = max(PHASES, key=lambda phase: _length_ns([part for part in parts if part.phase == phase]))
            yield _Way(parts[0].host, phase, tuple(parts))


def _last(ways: Sequence[_Way], host: Host, phases: Sequence[Phase]) -> Sequence[_Way]:
    """The last way of a host's packets in these phases, if there is one."""
    return [way for way in ways if way.host == host and way.phase in phases][-1:]


def _lost_until(path: CriticalPath, end_ns: int) -> tuple[int, ...]:
    """The packets that were lost before a time: they are sent again, or make the window smaller."""
    return tuple(index for index, rung in enumerate(path.rungs) if is_lost(rung) and rung.left_ns < end_ns)


def _others(path: CriticalPath) -> Iterable[Cause]:
    """Queueing, processing, and the serialization of packets other than new data, by host and phase. The receiver's
    packets wait for each other's serialization: these are one cause."""
    of_kind: dict[tuple[What, Host, Phase], list[Part]] = {}
    for part in path.parts:
        for what in ("queueing", "serialization", "processing"):
            if part.kind == what:
                is_behind_own = (what, part.host) == ("queueing", "receiver")
                of_kind.setdefault(("serialization" if is_behind_own else what, part.host, part.phase), []).append(part)
    for (what, host, phase), parts in of_kind.items():
        names = ", ".join(dict.fromkeys(_name(path, part) for part in parts))
        yield Cause(what, host, phase, names, len(parts), _length_ns(parts), tuple(parts))


def _length_ns(parts: Sequence[Part]) -> int:
    return sum(part.length_ns for part in parts)


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


def _totals(found: Sequence[Cause]) -> dict[_Which, tuple[int, int]]:
    totals: dict[_Which, tuple[int, int]] = {}
    for cause in found:
        which = _which(cause)
        count, total_ns = totals.get(which, (0, 0))
        totals[which] = (count + cause.count, total_ns + cause.total_ns)
    return totals
