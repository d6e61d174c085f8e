"""The packets of a run by their messages: "the second EOF", "the first packet with these bytes of the file".

If a loss is added or removed, other packets are sent before the n-th packet of a direction, so it becomes a different
packet. The n-th message of a kind, and the n-th packet with a given part of the file, usually remain the same.
"""

from __future__ import annotations

import socket
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from owlt.captures.accounting.derived_files import CAPTURES
from owlt.captures.files.blocks import ETHERNET
from owlt.captures.files.pcap import read_frames
from owlt.captures.frames.columns import read_columns
from owlt.captures.frames.packets import LocatedPacket, find_packet
from owlt.captures.protocols.messages import messages
from owlt.emulator.channel.aimed_fault import MOST_CLASSES
from owlt.emulator.channel.packet_filter import ANY, classes_of, compiled, passes
from owlt.orchestrator.checks.fault_cases import DIRECTIONS, HOST_OF, Direction, Hit, Hits, Place
from owlt.orchestrator.run.analysis import case_of_run

UDP_HEADER_BYTES = 8
MOST_COMPARED_BYTES = 80
"""Of a UDP datagram: the headers of a protocol, and the beginning of the data."""


def by_message(run: Path, losses: Hits, protocol: str) -> Hits:
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
    for end in range(UDP_HEADER_BYTES + 1, min(len(own), MOST_COMPARED_BYTES) + 1):
        alike = [each for each in alike if each[end - 1 : end] == own[end - 1 : end]]
        if len(alike) == len(same):
            packet = " and ".join([_equal(own, 4, 2), *_beginning(own, end)])
            return Place(alone.direction, same.index(alone.number) + 1, packet, meaning)
    return None


def _beginning(datagram: bytes, end: int) -> list[str]:
    """The expressions of pcap-filter(7) for the content of a datagram up to `end`; they compare 4, 2 or 1 octets."""
    expressions, at = [], UDP_HEADER_BYTES
    while at < end:
        length = next(length for length in (4, 2, 1) if at + length <= end)
        expressions.append(_equal(datagram, at, length))
        at += length
    return expressions


def _equal(datagram: bytes, at: int, length: int) -> str:
    return f"udp[{at}:{length}] = 0x{datagram[at : at + length].hex()}"


def _content(datagram: bytes) -> tuple[bytes, bytes]:
    """The length of a UDP datagram, and what it carries."""
    return datagram[4:6], datagram[UDP_HEADER_BYTES:]


def _datagram(frame: bytes) -> bytes:
    """The UDP datagram in a frame, as far as it is captured; b"" if there is none."""
    packet = find_packet(frame, len(frame), ETHERNET)
    is_udp = isinstance(packet, LocatedPacket) and packet.protocol == socket.IPPROTO_UDP and not packet.is_fragment
    return frame[packet.body :] if isinstance(packet, LocatedPacket) and is_udp else b""
