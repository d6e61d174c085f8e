"""Blocks of a pcapng file, written by hand (draft-ietf-opsawg-pcapng): nothing of the code under test."""

from __future__ import annotations

import struct
from collections.abc import Sequence

SECTION, INTERFACE, OLD_PACKET, SIMPLE_PACKET, NAMES, STATISTICS, PACKET = 0x0A0D0D0A, 1, 2, 3, 4, 5, 6
COMMENT, RESOLUTION, OFFSET, SYSTEM_DROPS, INTERFACE_DROPS = 1, 9, 14, 7, 5
ETHERNET = 1

Options = Sequence[tuple[int, bytes]]


def padded(data: bytes) -> bytes:
    """Zeros to a multiple of 4 bytes."""
    return data + bytes(-len(data) % 4)


def block(kind: int, body: bytes, order: str = "<") -> bytes:
    """A block of any type."""
    length = struct.pack(order + "I", len(padded(body)) + 12)
    return struct.pack(order + "I", kind) + length + padded(body) + length


def options_of(options: Options, order: str) -> bytes:
    """The options and their end; nothing where there are none."""
    told = b"".join(struct.pack(order + "HH", code, len(value)) + padded(value) for code, value in options)
    return told + bytes(4) if options else b""


def section(options: Options = (), order: str = "<") -> bytes:
    """A section header of unknown length."""
    return block(SECTION, struct.pack(order + "IHHq", 0x1A2B3C4D, 1, 0, -1) + options_of(options, order), order)


def interface(options: Options = (), order: str = "<", snaplen: int = 0, link: int = ETHERNET) -> bytes:
    """An interface; without an option its unit of time is the microsecond."""
    return block(INTERFACE, struct.pack(order + "HHI", link, 0, snaplen) + options_of(options, order), order)


def packet(
    ticks: int,
    frame: bytes,
    number: int = 0,
    options: Options = (),
    order: str = "<",
    wire_bytes: int | None = None,
) -> bytes:
    """An enhanced packet block; `ticks` in the units of the interface with that number."""
    head = (number, ticks >> 32, ticks & 0xFFFFFFFF, len(frame), len(frame) if wire_bytes is None else wire_bytes)
    return block(PACKET, struct.pack(order + "5I", *head) + padded(frame) + options_of(options, order), order)


def old_packet(ticks: int, frame: bytes, order: str = "<") -> bytes:
    """The obsolete packet block, of interface 0."""
    head = struct.pack(order + "HH4I", 0, 0xFFFF, ticks >> 32, ticks & 0xFFFFFFFF, len(frame), len(frame))
    return block(OLD_PACKET, head + padded(frame), order)


def simple_packet(frame: bytes, order: str = "<") -> bytes:
    """A packet without a time."""
    return block(SIMPLE_PACKET, struct.pack(order + "I", len(frame)) + padded(frame), order)


def statistics(ticks: int, interface_drops: int, system_drops: int, number: int = 0, order: str = "<") -> bytes:
    """What the interface and the operating system dropped."""
    counts: Options = [
        (INTERFACE_DROPS, struct.pack(order + "Q", interface_drops)),
        (SYSTEM_DROPS, struct.pack(order + "Q", system_drops)),
    ]
    head = struct.pack(order + "III", number, ticks >> 32, ticks & 0xFFFFFFFF)
    return block(STATISTICS, head + options_of(counts, order), order)
