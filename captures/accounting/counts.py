"""The numbers of frames that crossed a direction of the channel: by the emulator's counters, and in the captures. Both
count all frames, also those outside the session (ARP, IGMP), so that they can be compared. The emulator counts from the
moment the channel was applied, in all stages that a frame passes. What its counters mean is defined by the emulator's
`statistics` and by netem (sch_netem.c of Linux 7.3).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from owlt.captures.frames.decoding import CE
from owlt.captures.matches.delivery import INTACT, Delivery, OneWay

Stages = Mapping[str, Mapping[str, float]]
"""Stage (gate, bottleneck, faults, errors, pipe: the order in which a frame meets them) to counter to value."""


@dataclass(frozen=True)
class DirectionCounters:
    """Frames that one direction of the channel took in, dropped, held at the end, damaged and doubled.

    `entered` is None if no stage was there to count. `queue_drops` found the queue full, `mtu_drops` were too long,
    `losses` were lost by the link. netem draws a loss and a duplication for the same frame, which then arrives once and
    is counted in `losses` and in `duplicates`; so only their difference can be compared with captures. `duplicates` and
    `corrupted_by_netem` are None if the kernel does not count them; `hit_by_errors` are those that the errors stage let
    through damaged, and that the pipe, behind it, may still have lost. `marked` got the mark CE (RFC 3168) before
    anything else of the link; None if no rule marked any.
    """

    entered: int | None
    queue_drops: int
    mtu_drops: int
    losses: int
    losses_behind_errors: int
    waiting: int
    duplicates: int | None
    corrupted_by_netem: int | None
    hit_by_errors: int
    marked: int | None = None

    @property
    def not_delivered(self) -> int:
        """Frames that entered and did not leave."""
        return self.queue_drops + self.mtu_drops + self.losses + self.waiting

    @property
    def corrupted_copies(self) -> tuple[int, int]:
        """The least and the most copies that can have come out with a flipped bit.

        The pipe may lose or duplicate frames that the errors stage has hit, and damaged frames may still be in flight.
        """
        by_netem = self.corrupted_by_netem or 0
        surviving = max(self.hit_by_errors - self.losses_behind_errors, 0)
        both = min(surviving, by_netem)  # frames that may have been hit in both
        least = max(surviving + by_netem - both - self.waiting, 0)
        return least, self.hit_by_errors + by_netem + (self.duplicates or 0 if self.hit_by_errors else 0)


def direction_counters(stages: Stages) -> DirectionCounters:
    """The counters of one direction, including stages that existed for a part of the time."""
    values = {stage: {name: int(value) for name, value in counters.items()} for stage, counters in stages.items()}
    names = ("gate", "bottleneck", "faults", "errors", "pipe")
    gate, bottleneck, faults, errors, pipe = (values.get(name, {}) for name in names)
    gate_drops = gate.get("dropped_queue_packets", 0) + gate.get("dropped_mtu_packets", 0)
    queue_drops = gate.get("dropped_queue_packets", 0) + bottleneck.get("dropped_packets", 0)
    lost_in_pipe = pipe.get("lost_packets", pipe.get("dropped_packets", 0))
    error_drops = errors.get("dropped_packets", 0)
    fault_drops, held_by_faults = faults.get("dropped_packets", 0), faults.get("waiting_packets", 0)
    doubled, doubled_by_faults = pipe.get("duplicated_packets"), faults.get("duplicated_packets", 0)
    to_bottleneck = _into(bottleneck, bottleneck.get("dropped_packets", 0))
    to_pipe = _into(pipe, lost_in_pipe - (doubled or 0))
    held = bottleneck.get("waiting_packets", 0)
    before_faults = queue_drops + gate.get("dropped_mtu_packets", 0) + held
    before_errors = before_faults + fault_drops + held_by_faults - doubled_by_faults
    entered = [
        packets + before
        for packets, before in (
            (gate.get("packets"), 0),
            (to_bottleneck, gate_drops),
            (faults.get("packets"), before_faults),
            (errors.get("packets"), before_errors),
            (to_pipe, before_errors + error_drops),
        )
        if packets is not None
    ]
    return DirectionCounters(
        entered=max(entered, default=None),
        queue_drops=queue_drops,
        mtu_drops=gate.get("dropped_mtu_packets", 0),
        losses=fault_drops + error_drops + lost_in_pipe,
        losses_behind_errors=lost_in_pipe,
        waiting=held + held_by_faults + pipe.get("waiting_packets", 0),
        duplicates=None if pipe and doubled is None else (doubled or 0) + doubled_by_faults,
        corrupted_by_netem=pipe.get("corrupted_packets") if pipe else 0,
        hit_by_errors=errors.get("hit_packets", 0) - error_drops + faults.get("corrupted_packets", 0),
        marked=gate.get("marked_packets"),
    )


def _into(netem: Mapping[str, int], gone: int) -> int | None:
    """The frames that entered a netem: those that left it, are in it, or were dropped; None if there is no netem."""
    return netem["packets"] + netem["waiting_packets"] + gone if netem else None


_SHORTEST_FRAME_BYTES = 60
"""Network cards pad shorter frames to this length.

No hash covers the padding, so a bit that is flipped there is not seen.
"""


def marked_packets(way: OneWay, delivery: Delivery) -> int:
    """How many packets arrived intact with the mark CE and were sent without it (RFC 3168), by their first copies."""
    first = delivery.first_copies
    first = first[delivery.flipped_bit[first] == INTACT]
    before, after = way.near.ecn[delivery.sent[first]], way.far.ecn[delivery.delivered[first]]
    return int(np.count_nonzero((before != CE) & (after == CE)))


@dataclass(frozen=True, eq=False)
class CapturedFrames:
    """The captured frames of one direction, of the session and of the background.

    `session_missing` and `background_missing` are the rows of the near capture without a copy, `duplicated` counts the
    further copies and `corrupted` all copies with flipped bits. Up to `unseen` more copies may have been hit where it
    cannot be seen: in the padding of a short frame, or beyond the captured part. `marked` are the first copies that
    arrived intact with CE and were sent without it. The direction of the `undirected` frames of the near capture is not
    known. `unrecognised` is how many of the missing frames did arrive, damaged.
    """

    entered: int
    session_missing: NDArray[np.int64]
    background_missing: NDArray[np.int64]
    duplicated: int
    corrupted: int
    unseen: int
    undirected: int
    unrecognised: int = 0
    marked: int = 0

    @classmethod
    def of(cls, way: OneWay) -> CapturedFrames:
        """Count the session's packets and the frames of the background."""
        far, delivery = way.far, way.delivery
        parts = [delivery] if delivery.background is None else [delivery, delivery.background]
        delivered = np.concatenate([part.delivered for part in parts])
        is_hit = np.concatenate([part.flipped_bit for part in parts]) != INTACT
        wire_bytes = far.wire_bytes[delivered]
        hides = (far.is_cut[delivered] & delivery.was_cut) | (wire_bytes <= _SHORTEST_FRAME_BYTES)
        return cls(
            entered=sum(len(part.near) for part in parts),
            session_missing=delivery.lost,
            background_missing=delivery.background.lost if delivery.background else np.empty(0, np.int64),
            duplicated=len(delivered) - sum(len(part.first_copies) for part in parts),
            corrupted=int(np.count_nonzero(is_hit)),
            unseen=int(np.count_nonzero(hides & ~is_hit)),
            undirected=delivery.undirected,
            marked=sum(marked_packets(way, part) for part in parts),
        )

    @property
    def missing(self) -> int:
        """The number of frames without a copy."""
        return len(self.session_missing) + len(self.background_missing)

    def expected_missing(self, counters: DirectionCounters) -> int:
        """The number of missing frames according to the counters.

        Frames in = copies out - duplicates + not delivered. So each duplicate that did not leave belongs to a packet
        that the emulator counts as lost and that arrived once. Unrecognised frames did leave.
        """
        gone = max((counters.duplicates or 0) - self.duplicated, 0)
        dropped = counters.not_delivered - min(gone, counters.losses_behind_errors + counters.waiting)
        return dropped + self.unrecognised

    def uncounted(self, counters: DirectionCounters) -> int:
        """How many frames came after the counters were read, because the captures last a little longer."""
        return max(self.entered - counters.entered, 0) if counters.entered is not None else 0
