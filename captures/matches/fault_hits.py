"""The packets that aimed faults have hit, by their frames in the capture at the port of the host that sent them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from owlt.captures.files.pcap import read_frames
from owlt.captures.frames.session import Host
from owlt.captures.matches.delivery import Crossing, OneWay
from owlt.results.record import FaultHit, Faults

_ANY = "any"
"""The class of all packets."""
_SAME_MOMENT_NS = 1_000
"""By how much the capture's clock and that of the faults may differ within the emulator."""


@dataclass(frozen=True)
class NamedHit:
    """A packet that an aimed fault has hit: its class and which of the packets of that class it was, what happened to
    it, when, by the clock of the captures (0: not known), the host that sent it, and its frame in the capture at that
    host's port (None: not found there)."""

    action: str
    packet: str
    occurrence: int
    at_ns: int
    host: Host
    frame: int | None

    @property
    def text(self) -> str:
        """For example "dropped: cfdp.eof #2, frame 1003 of sender.pcap"."""
        where = f"frame {self.frame} of {self.host}.pcap" if self.frame else f"not found in {self.host}.pcap"
        packet = "packet" if self.packet == _ANY else self.packet
        return f"{self.action}: {packet} #{self.occurrence}, {where}"


def named_hits(faults: Faults, crossing: Crossing) -> list[NamedHit]:
    """The hits in the order of time. Raises OSError if a capture cannot be read."""
    by_way = ((way, [hit for hit in faults.hits if hit.direction == name]) for name, way in _named_ways(crossing))
    return sorted(
        (
            NamedHit(
                faults.faults[hit.fault].action,
                faults.faults[hit.fault].packet,
                hit.occurrence,
                faults.started_at_ns and faults.started_at_ns + hit.at_ns,
                way.host,
                frame,
            )
            for way, hits in by_way
            for hit, frame in zip(hits, _frames(way, hits, faults.started_at_ns), strict=True)
        ),
        key=lambda hit: hit.at_ns,
    )


def _named_ways(crossing: Crossing) -> tuple[tuple[str, OneWay], tuple[str, OneWay]]:
    forward, reverse = crossing.ways
    return ("forward", forward), ("reverse", reverse)


def _frames(way: OneWay, hits: Sequence[FaultHit], started_at_ns: int) -> list[int | None]:
    """The frame of each hit, in their order: of the session's packets with its beginning and its length, the latest
    that was sent before the hit and that no earlier hit has."""
    near, rows = way.near, way.delivery.near
    rows = rows[np.isin(near.wire_bytes[rows], [hit.frame_bytes for hit in hits])]
    head_bytes = max((len(hit.head) // 2 for hit in hits), default=0)
    heads = read_frames(near.path, near.offset[rows], np.minimum(near.captured_bytes[rows], head_bytes))
    alike: dict[tuple[int, bytes], list[int]] = defaultdict(list)
    for row, head in zip(rows.tolist(), heads, strict=True):
        alike[int(near.wire_bytes[row]), head].append(row)
    lengths = sorted({len(head) for head in heads}, reverse=True)
    frames: list[int | None] = []
    for hit in hits:
        head, until_ns = bytes.fromhex(hit.head), started_at_ns + hit.at_ns + _SAME_MOMENT_NS
        keys = [(hit.frame_bytes, head[:length]) for length in lengths]
        candidates = next((alike[key] for key in keys if key in alike), [])
        before = [row for row in candidates if not started_at_ns or near.time_ns[row] <= until_ns]
        frames.append(before[-1] + 1 if before else None)
        if before:
            candidates.remove(before[-1])
    return frames
