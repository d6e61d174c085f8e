"""All frames that crossed a direction of the channel, of the session and of the background, in numbers.

The emulator counts them all alike; so these are what its counters are held against.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from owlt.captures.accounting.stages import DirectionCounters
from owlt.captures.frames.columns import Columns
from owlt.captures.matches.delivery import INTACT, Delivery

_SHORTEST_FRAME_BYTES = 60
"""Cards fill shorter frames up to this, and the filling is in no hash: a bit hit there is not seen."""


@dataclass(frozen=True, eq=False)
class Crossing:
    """What the captures have of the frames bound one way.

    `session_missing` and `background_missing` are the rows of the near capture without a copy, `duplicated` counts
    the further copies and `corrupted` all copies with flipped bits. Up to `unseen` more copies may have been hit where
    it cannot be seen: in the filling of a short frame, or behind what was captured. Of `undirected` frames of the near
    capture it cannot be told whether they were bound this way. So many of the missing are `unrecognised`: they did come
    out, damaged.
    """

    entered: int
    session_missing: NDArray[np.int64]
    background_missing: NDArray[np.int64]
    duplicated: int
    corrupted: int
    unseen: int
    undirected: int
    unrecognised: int = 0

    @classmethod
    def of(cls, far: Columns, delivery: Delivery) -> Crossing:
        """Of the session's packets and of the frames of the background."""
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
        )

    @property
    def missing(self) -> int:
        """How many frames no copy was found of."""
        return len(self.session_missing) + len(self.background_missing)

    def expected_missing(self, counters: DirectionCounters) -> int:
        """How many frames had to be missing, by the counters.

        Frames in = copies out - duplicates + not delivered. So each duplicate that did not come out stands for a
        packet that the emulator counts as lost, and that arrived once. Unrecognised frames came out.
        """
        gone = max((counters.duplicates or 0) - self.duplicated, 0)
        dropped = counters.not_delivered - min(gone, counters.losses_behind_errors + counters.waiting)
        return dropped + self.unrecognised

    def uncounted(self, counters: DirectionCounters) -> int:
        """How many frames came when the counters had been read, for the captures go on a little longer."""
        return max(self.entered - counters.entered, 0) if counters.entered is not None else 0
