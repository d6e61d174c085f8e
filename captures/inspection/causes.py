"""The causes of additional time in a session: the parts of its critical path grouped by cause, largest first.

A cause is something that can be changed: a timer, a wait, round trips before the data, round trips of recovery, a
queue, a slow return link. The time that the channel takes for any protocol has no cause: one transmission of the file,
one propagation delay to the receiver, and one back for its last message.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal, NamedTuple

from owlt.captures.frames.session import HOSTS, Host
from owlt.captures.inspection.critical_path import PHASES, WAITS, WAYS, CriticalPath, Part, Phase, is_lost

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
