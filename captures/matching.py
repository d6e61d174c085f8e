"""Finding each packet in both captures: near, where it came from its host, and far, behind the channel.

How equal keys are paired is pairing.py's, how a damaged copy is recognised bitflips.py's; what follows from
the pairs is left to the summary.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from captures.bitflips import find_damaged, flipped_bit
from captures.columns import Columns
from captures.pairing import DelayAround, pair_by_key
from captures.pcap import LONGEST_FRAME_BYTES, read_frames
from captures.session import Host, Session, sent_by

Rows = NDArray[np.int64]
INTACT = -1

_HEADERS_BYTES = 14 + 60
"""Ethernet and the longest IPv4 header."""
_ODD_1, _ODD_2 = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xC2B2AE3D27D4EB4F)
"""Any large odd factors do that share no structure with what they are multiplied by."""

_Key = Callable[[Columns, Rows], NDArray[np.uint64]]
_Pairs = NDArray[np.int64]
"""One line a pair: row of the packet, row of its copy, the flipped bit or INTACT."""


def without(rows: Rows, taken: Rows) -> Rows:
    """The rows that are not among the taken ones, in their order."""
    return rows[~np.isin(rows, taken)]


@dataclass(frozen=True, eq=False)
class Delivery:
    """What became of the session's packets that one host sent.

    `near` are the rows of the packets in the capture at the host's port, `far` the rows that pass the
    filter in the other one. Pair by pair, `sent` and `delivered` are the row of a packet and that of its
    copy; a packet that the channel duplicated is in several pairs. `flipped_bit` is the bit of the frame
    that was hit, counted from the most significant bit of its first byte, or INTACT.
    """

    near: Rows
    far: Rows
    sent: Rows
    delivered: Rows
    flipped_bit: NDArray[np.int64]
    delay_ns: NDArray[np.int64]

    @property
    def lost(self) -> Rows:
        """The packets (rows of the near capture) that did not come out while the channel was captured."""
        return without(self.near, self.sent)

    @property
    def unexplained(self) -> Rows:
        """The rows that pass the filter in the far capture and are no copy of a packet in the near one."""
        return without(self.far, self.delivered)

    @property
    def outside(self) -> Rows:
        """The copies (rows of the far capture) that the filter misses, for the bit that was hit in them."""
        return without(self.delivered, self.far)

    @property
    def first_copies(self) -> NDArray[np.int64]:
        """The indices of the pairs without the duplicates: of every packet the copy that came first."""
        by_arrival = np.lexsort((self.delay_ns, self.sent))
        return by_arrival[np.unique(self.sent[by_arrival], return_index=True)[1]]


@dataclass(frozen=True, eq=False)
class _Crossing:
    """One direction of the channel: where its packets set out and where they arrive."""

    near_capture: Columns
    far_capture: Columns
    near: Rows
    far: Rows


def match_captures(sender_capture: Columns, receiver_capture: Columns, session: Session) -> tuple[Delivery, Delivery]:
    """What became of the packets of the sender, and of those of the receiver.

    Both columns must be hashed over the same number of bytes a frame (`read_columns`).
    """
    forward = _crossing(sender_capture, receiver_capture, session, "sender")
    reverse = _crossing(receiver_capture, sender_capture, session, "receiver")
    forward_pairs, reverse_pairs = _pair_unhurt(forward), _pair_unhurt(reverse)
    return (
        _delivery(forward, _add_flipped(forward, forward_pairs, explained=reverse_pairs[:, 0])),
        _delivery(reverse, _add_flipped(reverse, reverse_pairs, explained=forward_pairs[:, 0])),
    )


def _crossing(near_capture: Columns, far_capture: Columns, session: Session, host: Host) -> _Crossing:
    near, far = (np.flatnonzero(sent_by(capture, session, host)) for capture in (near_capture, far_capture))
    return _Crossing(near_capture, far_capture, near, far)


def _delivery(crossing: _Crossing, pairs: _Pairs) -> Delivery:
    sent, delivered, bit = pairs.T
    delay_ns = crossing.far_capture.time_ns[delivered] - crossing.near_capture.time_ns[sent]
    return Delivery(crossing.near, crossing.far, sent, delivered, bit, delay_ns)


def _pair_unhurt(crossing: _Crossing) -> _Pairs:
    """Equal frames; then, of what is left, frames with equal contents whose headers differ: one bit was hit
    that the filter does not look at, or a router has rewritten them, which is no damage."""
    sent, delivered = _pair(crossing, crossing.near, crossing.far, _frame_key)
    equal = np.column_stack([sent, delivered, np.full(len(sent), INTACT)])
    near_left, far_left = without(crossing.near, sent), without(crossing.far, delivered)
    sent, delivered = _pair(crossing, near_left, far_left, _content_key)
    packets = _frames(crossing.near_capture, sent, _HEADERS_BYTES)
    copies = _frames(crossing.far_capture, delivered, _HEADERS_BYTES)
    bits = [flipped_bit(*both) for both in zip(packets, copies, strict=True)]
    rewritten = np.column_stack([sent, delivered, [INTACT if bit is None else bit for bit in bits]])
    return np.concatenate([equal, rewritten.astype(np.int64)])


def _pair(crossing: _Crossing, near: Rows, far: Rows, key: _Key) -> tuple[Rows, Rows]:
    near_capture, far_capture = crossing.near_capture, crossing.far_capture
    sent, delivered = pair_by_key(
        key(near_capture, near), near_capture.time_ns[near], key(far_capture, far), far_capture.time_ns[far]
    )
    return near[sent], far[delivered]


def _frame_key(capture: Columns, rows: Rows) -> NDArray[np.uint64]:
    return capture.header_hash[rows] * np.uint64(3) + capture.body_hash[rows]


def _content_key(capture: Columns, rows: Rows) -> NDArray[np.uint64]:
    """What no router changes: addresses, protocol, identification and all behind the IPv4 header."""
    addresses = capture.source[rows].astype(np.uint64) << np.uint64(32) | capture.destination[rows]
    packet = capture.identification[rows].astype(np.uint64) << np.uint64(8) | capture.protocol[rows]
    key: NDArray[np.uint64] = capture.body_hash[rows] + addresses * _ODD_1 + packet * _ODD_2
    return key


def _add_flipped(crossing: _Crossing, pairs: _Pairs, explained: Rows) -> _Pairs:
    """The pairs and, with them, the damaged copies: sought among all frames of the far capture that are
    neither paired nor `explained`, whatever they look like."""
    near_capture, far_capture = crossing.near_capture, crossing.far_capture
    lost = without(crossing.near, pairs[:, 0])
    others = without(np.arange(len(far_capture)), np.concatenate([pairs[:, 1], explained]))
    lost_lengths, other_lengths = near_capture.wire_bytes[lost], far_capture.wire_bytes[others]
    lost = _by_time(near_capture, lost[np.isin(lost_lengths, other_lengths)])
    others = _by_time(far_capture, others[np.isin(other_lengths, lost_lengths)])
    if not len(others):
        return pairs
    departures, arrivals = near_capture.time_ns[lost], far_capture.time_ns[others]
    delays = DelayAround(far_capture.time_ns[pairs[:, 1]], near_capture.time_ns[pairs[:, 0]])
    flips = find_damaged(
        _frames(near_capture, lost),
        departures.tolist(),
        _frames(far_capture, others),
        (arrivals - delays.at(arrivals, otherwise=arrivals[0] - departures[0])).tolist(),
    )
    return np.concatenate([pairs, *([[lost[packet], others[copy], bit]] for packet, copy, bit in flips)])


def _by_time(capture: Columns, rows: Rows) -> Rows:
    return rows[np.argsort(capture.time_ns[rows], kind="stable")]


def _frames(capture: Columns, rows: Rows, most_bytes: int = LONGEST_FRAME_BYTES) -> list[bytes]:
    lengths = np.minimum(capture.captured_bytes[rows], min(capture.hashed_bytes, most_bytes))
    return read_frames(capture.path, capture.offset[rows], lengths)
