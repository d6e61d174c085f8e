"""One direction of the channel between two captures, and pairs of packets and copies in it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from captures.frames.columns import Columns
from captures.matches.delivery import INTACT, Rows
from captures.matches.directions import Bound
from captures.matches.pairing import pair_by_key

Key = Callable[[Columns, Rows], NDArray[np.uint64]]
"""What rows of either capture that belong together share."""


@dataclass(frozen=True, eq=False)
class Pairs:
    """Row of a packet, row of its copy, the flipped bit or INTACT."""

    sent: Rows
    delivered: Rows
    flipped_bit: NDArray[np.int64]

    def __add__(self, other: Pairs) -> Pairs:
        if not len(other.sent):
            return self
        return Pairs(
            np.concatenate([self.sent, other.sent]),
            np.concatenate([self.delivered, other.delivered]),
            np.concatenate([self.flipped_bit, other.flipped_bit]),
        )

    def only(self, kept: NDArray[np.bool_] | Rows) -> Pairs:
        return Pairs(self.sent[kept], self.delivered[kept], self.flipped_bit[kept])


NO_PAIRS = Pairs(*np.empty((3, 0), np.int64))


@dataclass(frozen=True, eq=False)
class Crossing:
    """One direction of the channel: where its frames set out and where they arrive. `least_delay_ns` is 0 where one
    clock took both captures, None if a frame may seem to arrive before it was sent."""

    near_capture: Columns
    far_capture: Columns
    near: Bound
    far: Bound
    least_delay_ns: int | None

    @cached_property
    def kinds(self) -> Rows:
        """For each row of the near capture a number that frames equal in every byte share; -1 for a frame that has no
        equal in this direction."""
        near = self.near.all
        _, kinds, count = np.unique(frame_key(self.near_capture, near), return_inverse=True, return_counts=True)
        of_rows = np.full(len(self.near_capture), -1, np.int64)
        of_rows[near] = np.where(count[kinds] > 1, kinds, -1)
        return of_rows

    def intact(self, near: Rows, far: Rows, key: Key, reference: Pairs) -> Pairs:
        """The pairs of rows with equal keys, as of intact copies; `reference` are pairs that show the delay, too."""
        sent_ns, arrived_ns = self.near_capture.time_ns, self.far_capture.time_ns
        sent, delivered = pair_by_key(
            key(self.near_capture, near),
            sent_ns[near],
            key(self.far_capture, far),
            arrived_ns[far],
            reference=(sent_ns[reference.sent], arrived_ns[reference.delivered]),
            least_delay_ns=self.least_delay_ns,
        )
        return Pairs(near[sent], far[delivered], np.full(len(sent), INTACT, np.int64))

    def certain(self, pairs: Pairs) -> Pairs:
        """The pairs whose packet has no equal, which cannot be another's; all of them where there are none."""
        certain = self.kinds[pairs.sent] < 0
        return pairs.only(certain) if certain.any() else pairs

    def least_delay_of(self, reference: Pairs) -> int | None:
        """The least delay that a pair may have, where the known ones show a lower one."""
        if self.least_delay_ns is None:
            return None
        delays = self.far_capture.time_ns[reference.delivered] - self.near_capture.time_ns[reference.sent]
        return int(delays.min(initial=self.least_delay_ns))


def frame_key(capture: Columns, rows: Rows) -> NDArray[np.uint64]:
    return capture.header_hash[rows] * np.uint64(3) + capture.body_hash[rows]
