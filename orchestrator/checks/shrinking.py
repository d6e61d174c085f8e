"""From the losses of a run to the fewest of them that still have the same effect: delta debugging (Zeller and
Hildebrandt, "Simplifying and Isolating Failure-Inducing Input", IEEE Transactions on Software Engineering 28(2), 2002).

The n-th packet of a direction is another one if earlier losses are left out, because these change what is sent: a loss
may be needed only because it keeps the number of another one. So the losses that are left are also addressed by their
messages, such as "the second EOF" and "the first packet with these bytes of the file", which usually remain the same,
and it is tried whether fewer of these are enough. The result is a set of losses that has the effect, and of which none
can be left out; it need not be the smallest of all.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from itertools import compress, pairwise
from pathlib import Path
from typing import Generic, TypeVar

import numpy as np

from owlt.captures.accounting.derived_files import CAPTURES, PAIRS, load_pairs
from owlt.captures.accounting.summary import CaptureSummary, load_summary, read_both
from owlt.captures.files.blocks import ETHERNET
from owlt.captures.files.pcap import read_frames
from owlt.captures.frames.columns import by_time, read_columns
from owlt.captures.frames.packets import LocatedPacket, find_packet
from owlt.captures.matches.matching import match_captures
from owlt.captures.protocols.messages import messages
from owlt.emulator.channel.aimed_fault import ANY, MOST_CLASSES, MOST_RULES, classes_of, compiled, passes
from owlt.emulator.channel.link import LinkSpec
from owlt.emulator.channel.spec import ChannelSpec
from owlt.inputs.mistake import Mistake
from owlt.inputs.mistake import Place as InFile
from owlt.orchestrator.checks.fault_cases import DIRECTIONS, HOST_OF, Direction, Hit, Hits, Place
from owlt.orchestrator.errors import OwltError
from owlt.orchestrator.planning.run_channel import with_links
from owlt.orchestrator.run.analysis import case_of_run

OF_LOSSES = ("packet_error_rate", "bit_error_rate", "pattern", "coding", "loss")
"""The fields of a link that lose or damage packets."""
_RANDOM = (*OF_LOSSES, "jitter", "reordering", "duplication_rate")
"""The fields of a link with random or listed effects."""
_UDP_HEADER_BYTES = 8
_MOST_COMPARED_BYTES = 80
"""Of a UDP datagram: the headers of a protocol, and the beginning of the data."""


T = TypeVar("T")
Search = Generator[list[tuple[T, ...]], Sequence[bool], tuple[T, ...]]
"""Yields sets to try, all at once; is sent for each whether it has the effect; returns what is left."""


def losses_of(run: Path) -> Hits:
    """The packets of a run that were lost, or damaged so that the other host did not accept them, in the order in which
    they were sent.

    Raises OwltError for a run without captures, with cut captures whose stored pairs are missing, or whose packets a
    queue or an MTU dropped: these are not numbered as faults number them; and for more losses than a channel can have
    faults. OSError.
    """
    _, case = case_of_run(run)
    summary = load_summary(run)
    _require_no_drops(run, summary)
    both = read_both(*(run / capture for capture in CAPTURES))
    crossing = load_pairs(run, *both, case.session) or match_captures(*both, case.session)
    if any(way.delivery.was_cut for way in crossing.ways):
        problem = f"{PAIRS} is missing or damaged, and captures cut to headers do not show which packets were damaged"
        raise OwltError(Mistake(problem, "the run as it was recorded", where=InFile(str(run))))
    found: list[tuple[int, Place]] = []
    for direction, way in zip(DIRECTIONS, crossing.ways, strict=True):
        delivery = way.delivery
        rows = by_time(way.near, delivery.near)
        hit = set(delivery.not_accepted.tolist())
        found += [
            (int(way.near.time_ns[row]), Place(direction, number))
            for number, row in enumerate(rows.tolist(), start=1)
            if row in hit
        ]
    for direction in DIRECTIONS:
        count = sum(place.direction == direction for _, place in found)
        if count > MOST_RULES:
            problem, fix = f"{count} packets of the direction {direction} were lost", "shrink a run of a smaller file"
            raise OwltError(Mistake(problem, f"at most {MOST_RULES}", fix, InFile(str(run))))
    return tuple(Hit(place) for _, place in sorted(found))


def _require_no_drops(run: Path, summary: CaptureSummary | None) -> None:
    ledgers = (summary.ledger_forward, summary.ledger_reverse) if summary else ()
    if any(each and each.queue + each.mtu for each in ledgers):
        problem = "a queue or an MTU dropped packets, not only the link's errors"
        raise OwltError(Mistake(problem, "a run whose packets were lost by errors", where=InFile(str(run))))


def without_random_effects(channel: ChannelSpec) -> ChannelSpec:
    """The channel with its delays, rates and timeline, and without errors, jitter and aimed faults."""
    defaults = {name: LinkSpec.model_fields[name].default for name in (*_RANDOM, "seed")}

    calm = with_links(channel, lambda _, link: link.model_copy(update=defaults))
    return calm.model_copy(update={"faults": (), "fault_scope": ""})


def shrink(losses: tuple[T, ...]) -> Search[T]:
    """Yield sets of losses to try, all at once; is sent for each whether it still has the effect. Returns the set that
    is left, of which no loss can be left out."""
    parts = 2
    while len(losses) > 1:
        pieces = _pieces(losses, parts)
        complements = [tuple(each for each in losses if each not in piece) for piece in pieces] if parts > 2 else []
        has_effect = yield [*pieces, *complements]
        kept = next((each for each, has in zip([*pieces, *complements], has_effect, strict=True) if has), None)
        if kept is not None:
            parts = 2 if kept in pieces else max(parts - 1, 2)
            losses = kept
        elif parts >= len(losses):
            break
        else:
            parts = min(2 * parts, len(losses))
    return losses


def shrink_by_message(losses: Hits) -> Search[Hit]:
    """As `shrink`, but try each loss alone first: the others may be there only for the number of one."""
    singles = [(loss,) for loss in losses]
    has_effect = yield list[Hits](singles)
    for single, has in zip(singles, has_effect, strict=True):
        if has:
            return single
    return (yield from shrink(losses))


def result_of(search: Search[Hit], has_effect: Callable[[Sequence[Hits]], Sequence[bool]]) -> Hits:
    """The result of a search; `has_effect` decides for each set that it tries whether it has the effect."""
    try:
        sets = next(search)
        while True:
            sets = search.send(has_effect(sets))
    except StopIteration as end:
        left: Hits = end.value
        return left


@dataclass(frozen=True)
class Fewest(Generic[T]):
    """The losses that are left, whether all of them are needed, and the number of sets that were tried."""

    left: tuple[T, ...]
    is_least: bool
    tried: int


def fewest(
    losses: tuple[T, ...], has_effect: Callable[[Sequence[tuple[T, ...]]], Sequence[bool]], most: int
) -> Fewest[T]:
    """The fewest losses that still have the effect of all of them, found with at most so many sets.

    First each loss is left out alone; if the losses that are needed in this test have the effect together, they are the
    result, else what `shrink` finds. A set is assumed to have the effect of each of its subsets.
    """
    if len(losses) < 2:
        return Fewest(losses, True, 0)
    tried = 0
    if len(losses) < most:
        has_without = has_effect([tuple(each for each in losses if each != out) for out in losses])
        needed = tuple(each for each, has in zip(losses, has_without, strict=True) if not has)
        tried = len(losses)
        if needed == losses:
            return Fewest(losses, True, tried)
        tried += 1
        if needed and has_effect([needed])[0]:
            return Fewest(needed, True, tried)
    return _shrunk(losses, has_effect, most, tried)


def _shrunk(
    losses: tuple[T, ...], has_effect: Callable[[Sequence[tuple[T, ...]]], Sequence[bool]], most: int, tried: int
) -> Fewest[T]:
    """The result of `shrink`, ended early if it would try more than `most` sets."""
    search, left = shrink(losses), losses
    try:
        sets = next(search)
        while tried + len(sets) <= most:
            tried += len(sets)
            has = has_effect(sets)
            left = min([left, *compress(sets, has)], key=len)
            sets = search.send(has)
    except StopIteration as end:
        return Fewest(end.value, True, tried)
    return Fewest(left, False, tried)


def _pieces(losses: tuple[T, ...], parts: int) -> list[tuple[T, ...]]:
    bounds = [len(losses) * number // parts for number in range(parts + 1)]
    return [losses[begin:end] for begin, end in pairwise(bounds)]


def addressed_by_message(run: Path, losses: Hits, protocol: str) -> Hits:
    """The losses of a run by their messages: the n-th packet of its class, and of those that carry the same part of the
    file the n-th of them. By number where there is no class for a packet, or a channel cannot have so many classes.

    Raises OwltError for a run without captures, OSError.
    """
    _, case = case_of_run(run)
    lost = {loss.place for loss in losses}
    named: dict[Place, Place] = {}
    for direction, capture in zip(DIRECTIONS, CAPTURES, strict=True):
        columns = read_columns(run / capture)
        own = [
            each for each in messages(columns, case.session, case.dissector) if each.host == HOST_OF[direction]
        ]  # in the order of `sent_packets`
        rows = np.array([message.frame - 1 for message in own], np.int64)
        frames = read_frames(columns.path, columns.offset[rows], columns.captured_bytes[rows])
        datagrams = list(map(_datagram, frames))
        of_direction = places_by_class(direction, frames, columns.wire_bytes[rows].tolist(), protocol)
        for number, message in enumerate(own, start=1):
            if (alone := Place(direction, number)) in lost and message.placed_pieces:
                first, count = message.placed_pieces[0]
                content = place_by_content(alone, datagrams, f"{message.name} {first}-{first + count - 1}")
                of_direction |= {alone: content} if content else {}
        kept = {alone: place for alone, place in of_direction.items() if alone in lost}
        named |= kept if len({place.packet for place in kept.values()}) < MOST_CLASSES else {}
    return tuple(Hit(named.get(loss.place, loss.place), loss.action) for loss in losses)


def places_by_class(
    direction: Direction, frames: Sequence[bytes], frame_bytes: Sequence[int], protocol: str
) -> dict[Place, Place]:
    """For the packets of a direction, in their order, the place of each in the class that has the fewest of them, by
    its place among all."""
    members = {}
    for name in classes_of(protocol):
        program = compiled(name)
        each = zip(frames, frame_bytes, strict=True)
        members[name] = [number for number, frame in enumerate(each, start=1) if passes(program, *frame)]
    places: dict[Place, Place] = {}
    for name, numbers in sorted(members.items(), key=lambda each: -len(each[1])):
        if not name.endswith(f".{ANY}"):
            places |= {Place(direction, number): Place(direction, at, name) for at, number in enumerate(numbers, 1)}
    return places


def place_by_content(alone: Place, datagrams: Sequence[bytes], meaning: str) -> Place | None:
    """The place of a packet among the UDP datagrams of its direction with the same content, which their length and
    their beginning tell from all others; None if they do not."""
    own = datagrams[alone.number - 1]
    same = [number for number, each in enumerate(datagrams, start=1) if _content(each) == _content(own)]
    alike = [each for each in datagrams if each[4:6] == own[4:6]]
    for end in range(_UDP_HEADER_BYTES + 1, min(len(own), _MOST_COMPARED_BYTES) + 1):
        alike = [each for each in alike if each[end - 1 : end] == own[end - 1 : end]]
        if len(alike) == len(same):
            packet = " and ".join([_equal(own, 4, 2), *_beginning(own, end)])
            return Place(alone.direction, same.index(alone.number) + 1, packet, meaning)
    return None


def _beginning(datagram: bytes, end: int) -> list[str]:
    """The expressions of pcap-filter(7) for the content of a datagram up to `end`; they compare 4, 2 or 1 octets."""
    expressions, at = [], _UDP_HEADER_BYTES
    while at < end:
        length = next(length for length in (4, 2, 1) if at + length <= end)
        expressions.append(_equal(datagram, at, length))
        at += length
    return expressions


def _equal(datagram: bytes, at: int, length: int) -> str:
    return f"udp[{at}:{length}] = 0x{datagram[at : at + length].hex()}"


def _content(datagram: bytes) -> tuple[bytes, bytes]:
    """The length of a UDP datagram, and what it carries."""
    return datagram[4:6], datagram[_UDP_HEADER_BYTES:]


def _datagram(frame: bytes) -> bytes:
    """The UDP datagram in a frame, as far as it is captured; b"" if there is none."""
    packet = find_packet(frame, len(frame), ETHERNET)
    is_udp = isinstance(packet, LocatedPacket) and packet.protocol == socket.IPPROTO_UDP and not packet.is_fragment
    return frame[packet.body :] if isinstance(packet, LocatedPacket) and is_udp else b""
