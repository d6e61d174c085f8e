"""For how long packets were in the emulator that should have left it: the time by which its machine was late.

A packet is due one propagation delay after its last bit could have entered the link: when it had come, and the packet
before it had left the bottleneck. What a late packet costs those behind it is therefore counted once.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from owlt.captures.frames.columns import Columns
from owlt.captures.matches.bottleneck import Link
from owlt.captures.matches.delivery import Delivery

Integers = NDArray[np.int64]
Intervals = tuple[Integers, Integers]
"""Beginnings and ends."""

TOLERANCE_NS = 500_000
"""A packet is overdue from so long after it was due. A quiet machine, also a guest on it, takes 0.1 to 0.4 ms."""


def overdue_ns(
    captures: tuple[Columns, Columns],
    deliveries: tuple[Delivery, Delivery],
    links: tuple[Link | None, Link | None],
    first_ns: int,
    last_ns: int,
) -> int | None:
    """How much of the time from `first_ns` to `last_ns` some packet was overdue in the emulator.

    Captures are those at the sender's and at the receiver's port, with one clock; deliveries and links are forward and
    reverse. None if a link is None: it is not known when its packets are due.
    """
    forward, reverse = links
    if forward is None or reverse is None:
        return None
    late = [
        _late(near, delivery, link)
        for near, delivery, link in zip(captures, deliveries, (forward, reverse), strict=True)
    ]
    return _covered_ns(late, first_ns, last_ns)


def _late(near: Columns, delivery: Delivery, link: Link) -> Intervals:
    """When each packet of a host became overdue, and when it arrived; only those that did.

    A packet that was lost is taken to have used the link, so that the next is never thought to be due too early.
    """
    crossings = [delivery] if delivery.background is None else [delivery, delivery.background]
    entered = np.unique(np.concatenate([rows for crossing in crossings for rows in (crossing.near, crossing.sent)]))
    copies = np.zeros(len(near), np.int64)
    left_ns = np.zeros(len(near), np.int64)
    for crossing in crossings:
        np.add.at(copies, crossing.sent, 1)
        first = crossing.first_copies
        left_ns[crossing.sent[first]] = near.time_ns[crossing.sent[first]] + crossing.delay_ns[first] - link.delay_ns
    busy_ns = np.cumsum(
        link.serialization_ns(near.wire_bytes[entered].astype(np.int64)) * np.maximum(copies[entered], 1)
    )
    arrived = np.flatnonzero(copies[entered])
    rows = entered[arrived]
    taken_ns = np.diff(busy_ns[arrived], prepend=0)
    before_ns = np.concatenate([near.time_ns[rows[:1]], left_ns[rows[:-1]]])
    due_ns = np.maximum(near.time_ns[rows], before_ns) + taken_ns
    late = left_ns[rows] > due_ns + TOLERANCE_NS
    return (due_ns[late] + TOLERANCE_NS + link.delay_ns, left_ns[rows][late] + link.delay_ns)


def _covered_ns(late: Sequence[Intervals], first_ns: int, last_ns: int) -> int:
    """How much of a span the intervals cover together."""
    begins, ends = (np.clip(np.concatenate(side), first_ns, last_ns) for side in zip(*late, strict=True))
    order = np.argsort(begins, kind="stable")
    begins, ends = begins[order], ends[order]
    if not len(begins):
        return 0
    reached = np.concatenate([begins[:1], np.maximum.accumulate(ends)[:-1]])
    return int(np.maximum(ends - np.maximum(begins, reached), 0).sum())
