"""Why packets did not leave the channel: the cause of each packet if it is known, else numbers by cause."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from owlt.captures.accounting.crossing import Crossing
from owlt.captures.accounting.stages import DirectionCounters
from owlt.captures.frames.columns import Columns
from owlt.captures.matches.delivery import Delivery, without
from owlt.captures.matches.pairing import DelayAround

Rows = NDArray[np.int64]
Cause = Literal["queue", "mtu", "lost", "in_flight", "unrecognised", "undetermined"]
CAUSES: tuple[Cause, ...] = ("queue", "mtu", "lost", "in_flight", "unrecognised", "undetermined")


@dataclass(frozen=True, eq=False)
class MissingByCause:
    """The session's packets that are missing: rows by cause, numbers by cause, and how many have no recorded drop.

    Rows whose causes are known as numbers only are under "undetermined" in `named`, but not in `counts`.
    """

    named: dict[Cause, Rows]
    counts: dict[Cause, int]
    unrecorded: int


def explain(
    near: Columns, far: Columns, delivery: Delivery, crossing: Crossing, counters: DirectionCounters | None
) -> MissingByCause:
    """Why packets are missing.

    A frame that is longer than all that arrived was too long, if there are as many as were dropped for that; those
    sent after all that arrived are in flight, if there are as many as waited. What is left has the one cause that is
    left, or its share of several. Without counters, what could not arrive before the far capture ended is in flight.
    """
    if counters is None:
        late = _too_late(near, far, delivery)
        named = dict.fromkeys(CAUSES, late[:0])
        named |= {"in_flight": late, "lost": without(crossing.session_missing, late)}
        return MissingByCause(named, _counts(named), 0)
    missing = _Missing.of(near, crossing, counters)
    unrecorded = max(crossing.missing - crossing.expected_missing(counters), 0)
    uncounted = missing.left[max(len(missing.left) - crossing.uncounted(counters), 0) :]
    if unrecorded <= len(uncounted):
        missing.name("in_flight", uncounted[len(uncounted) - unrecorded :])
        unrecorded = 0
    longest, last_ns = _of_arrived(near, delivery)
    missing.name_all("mtu", missing.left[near.wire_bytes[missing.left] > longest])
    missing.name_all("in_flight", missing.left[near.time_ns[missing.left] > last_ns])
    missing.name_the_rest()
    return missing.missing_by_cause(crossing.session_missing, unrecorded)


def _too_late(near: Columns, far: Columns, delivery: Delivery) -> Rows:
    """The packets that the far capture ended too early for, had they taken as long as the last one that arrived."""
    lost = delivery.lost
    if not len(lost) or not len(delivery.sent):
        return lost[:0]
    end_ns = far.time_ns.max(keepdims=True)
    delays = DelayAround(far.time_ns[delivery.delivered], near.time_ns[delivery.sent])
    late: Rows = lost[near.time_ns[lost] + delays.at(end_ns, otherwise=0) > end_ns]
    return late


def _of_arrived(near: Columns, delivery: Delivery) -> tuple[int, int]:
    """How long the longest frame that arrived is, and when the last one of them was sent."""
    parts = [delivery.sent, delivery.background.sent if delivery.background else delivery.sent[:0]]
    sent = np.concatenate(parts)
    return int(near.wire_bytes[sent].max(initial=0)), int(near.time_ns[sent].max(initial=0))


@dataclass
class _Missing:
    """Frames in the order of time whose cause is still open, how many each cause has still to account for, and the
    frames that have one."""

    left: Rows
    counts: dict[Cause, int]
    named: dict[Cause, Rows]

    @classmethod
    def of(cls, near: Columns, crossing: Crossing, counters: DirectionCounters) -> _Missing:
        left = np.concatenate([crossing.session_missing, crossing.background_missing])
        counts: dict[Cause, int] = {
            "queue": counters.queue_drops,
            "mtu": counters.mtu_drops,
            "lost": counters.losses
            - counters.not_delivered
            + crossing.expected_missing(counters)
            - crossing.unrecognised,
            "in_flight": counters.waiting,
            "unrecognised": crossing.unrecognised,
        }
        return cls(
            left=left[np.argsort(near.time_ns[left], kind="stable")],
            counts={cause: max(count, 0) for cause, count in counts.items()},
            named=dict.fromkeys(CAUSES, left[:0]),
        )

    @property
    def open_causes(self) -> list[Cause]:
        return [cause for cause, count in self.counts.items() if count]

    def name(self, cause: Cause, rows: Rows) -> None:
        self.named[cause] = np.concatenate([self.named[cause], rows])
        self.left = without(self.left, rows)

    def name_all(self, cause: Cause, rows: Rows) -> None:
        """If these are all that the cause accounts for."""
        if len(rows) == self.counts[cause]:
            self.name(cause, rows)
            self.counts[cause] = 0

    def name_the_rest(self) -> None:
        """If there is one cause that accounts for all of it."""
        if len(self.open_causes) == 1 and len(self.left) <= self.counts[self.open_causes[0]]:
            self.name(self.open_causes[0], self.left)

    def missing_by_cause(self, session_missing: Rows, unrecorded: int) -> MissingByCause:
        """What is known of the session's packets. Causes that are open are shared out if all that is left is the
        session's, or if there is only one; else the packets that are left stay undetermined."""
        background = without(np.concatenate([self.left, *self.named.values()]), session_missing)
        named = {cause: without(rows, background) for cause, rows in self.named.items()}
        left = without(self.left, background)
        counts = _counts(named)
        unrecorded = min(unrecorded, len(left))
        to_share = len(left) - unrecorded
        if len(self.open_causes) == 1:
            counts[self.open_causes[0]] += to_share
        elif len(left) == len(self.left) and to_share == sum(self.counts.values()):
            for cause in self.open_causes:
                counts[cause] += self.counts[cause]
        else:
            counts["undetermined"] += to_share
        return MissingByCause(named | {"undetermined": left}, counts, unrecorded)


def _counts(named: dict[Cause, Rows]) -> dict[Cause, int]:
    return {cause: len(named.get(cause, ())) for cause in CAUSES}
