"""An interface of a pcapng file: the resolution of its times, and the packets that were dropped at it."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

_RESOLUTION, _OFFSET = 9, 14
"""Codes of options of an interface description."""
_LATEST_NS = 2**63 - 1


@dataclass
class Interface:
    """An interface description, where it ends in the file, and how many packets the file reports as dropped at it."""

    known_at: int
    link_type: int
    snaplen_bytes: int
    tick_ns: Fraction = Fraction(1000)
    offset_ns: int = 0
    reported_dropped: int | None = None
    missed: int | None = None

    @property
    def dropped(self) -> int | None:
        """By its statistics, or by its packets if they report more."""
        counts = [number for number in (self.reported_dropped, self.missed) if number is not None]
        return max(counts, default=None)

    def time_ns(self, ticks: NDArray[np.uint64]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """The times, rounded down, and which of them 64 bits of ns can hold; the others (after 2262) are 0."""
        if abs(self.offset_ns) > _LATEST_NS // 2:
            return np.zeros(len(ticks), np.int64), np.zeros(len(ticks), np.bool_)
        numerator, denominator = self.tick_ns.numerator, self.tick_ns.denominator
        latest = (_LATEST_NS - max(self.offset_ns, 0)) * denominator // numerator
        is_held = ticks <= np.uint64(min(latest, 2**64 - 1))
        held = np.where(is_held, ticks, np.uint64(0))
        if denominator == 1:
            since = held * np.uint64(numerator)
        elif numerator == 1 and denominator < 2**64:
            since = held // np.uint64(denominator)
        else:
            since = np.array([tick * numerator // denominator for tick in held.tolist()], np.uint64)
        return np.where(is_held, since.astype(np.int64) + self.offset_ns, 0), is_held


def described_interface(
    known_at: int, link_type: int, snaplen_bytes: int, options: dict[int, bytes], order: str
) -> Interface:
    tick_ns, offset_ns = Fraction(1000), 0
    if len(options.get(_RESOLUTION, b"")) == 1:
        resolution = options[_RESOLUTION][0]
        tick_ns = Fraction(10**9, (2 if resolution & 0x80 else 10) ** (resolution & 0x7F))
    if len(options.get(_OFFSET, b"")) == 8:
        offset_ns = struct.unpack(order + "q", options[_OFFSET])[0] * 10**9
    return Interface(known_at, link_type, snaplen_bytes, tick_ns, offset_ns)
