"""The result of matching: the fates of the packets of one direction, and of a complete crossing of the channel."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from owlt.captures.frames.columns import Columns, Rows
from owlt.captures.frames.session import Host

INTACT = -1
UNCHECKED_BITS = range(6 * 8, 12 * 8)
"""The bits of a frame that no checksum covers and no host compares: Ethernet's source address. A host accepts a copy
with errors in these bits."""


def without(rows: Rows, taken: Rows) -> Rows:
    """The rows that are not among the taken ones, in their order."""
    if not len(rows) or not len(taken):
        return rows
    is_taken = np.zeros(max(rows.max(), taken.max()) + 1, np.bool_)
    is_taken[taken] = True
    return rows[~is_taken[rows]]


@dataclass(frozen=True, eq=False)
class Delivery:
    """The fates of the session's packets that one host sent.

    `near` are the rows of the packets in the capture at the host's port (the near capture); `far` are the rows of the
    far capture that pass the filter. For each pair of a packet and its copy, in order of arrival, `sent` is the row of
    the packet and `delivered` the row of the copy; a packet that the channel duplicated is in several pairs.
    `flipped_bit` is the first flipped bit of the copy, counted from the most significant bit of the frame's first byte,
    or INTACT.

    `background` has the same for all other frames from the host's side; its `far` are the rows that seem to come from
    there. A background has no background of its own (None). `undirected` frames of the near capture are in neither,
    because the side from which they came is not known. `unmatched` are the rows of the far capture that are no copy of
    a frame in the near capture, and were not sent by the host at the far port; empty in a background. `was_cut`: frames
    were cut when the pairs were found, so a copy that seems intact may have errors behind the cut.
    """

    near: Rows
    far: Rows
    sent: Rows
    delivered: Rows
    flipped_bit: NDArray[np.int64]
    delay_ns: NDArray[np.int64]
    background: Delivery | None = None
    undirected: int = 0
    unmatched: Rows = field(default_factory=lambda: np.empty(0, np.int64))
    was_cut: bool = False

    @property
    def lost(self) -> Rows:
        """The packets (rows of the near capture) that did not arrive while the channel was captured."""
        return without(self.near, self.sent)

    @property
    def not_accepted(self) -> Rows:
        """The packets (rows of the near capture) that the other host did not accept: the lost ones, then those whose
        first copy was hit in a bit that hosts check."""
        first = self.first_copies
        is_refused = ~np.isin(self.flipped_bit[first], [INTACT, *UNCHECKED_BITS])
        return np.concatenate([self.lost, self.sent[first][is_refused]])

    @property
    def unexplained(self) -> Rows:
        """The rows that pass the filter in the far capture and are no copy of a frame in the near one."""
        own = without(self.far, self.delivered)
        return own if self.background is None else without(own, self.background.delivered)

    @property
    def outside(self) -> Rows:
        """The copies (rows of the far capture) that do not pass the filter because of their flipped bit."""
        return without(self.delivered, self.far)

    @property
    def first_copies(self) -> NDArray[np.int64]:
        """The indices of the pairs without duplicates: the first copy of every packet."""
        if not len(self.sent):
            return np.empty(0, np.int64)
        pairs = np.arange(len(self.sent))
        first = np.empty(self.sent.max() + 1, np.int64)
        first[self.sent[::-1]] = pairs[::-1]
        return np.flatnonzero(first[self.sent] == pairs)


@dataclass(frozen=True, eq=False)
class OneWay:
    """One direction of a crossing: the capture at the sending host's port, the one after the channel, and the fates of
    the host's packets between them."""

    host: Host
    near: Columns
    far: Columns
    delivery: Delivery


@dataclass(frozen=True, eq=False)
class Crossing:
    """A transfer as it crossed the channel: the captures at both ports, and the fates of each host's packets."""

    at_sender: Columns
    at_receiver: Columns
    forward: Delivery
    reverse: Delivery

    @property
    def captures(self) -> tuple[Columns, Columns]:
        """At the sender's port and at the receiver's."""
        return self.at_sender, self.at_receiver

    @property
    def ways(self) -> tuple[OneWay, OneWay]:
        """Forward and reverse."""
        return (
            OneWay("sender", self.at_sender, self.at_receiver, self.forward),
            OneWay("receiver", self.at_receiver, self.at_sender, self.reverse),
        )
