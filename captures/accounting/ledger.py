"""The ledger of a direction: the fate of every packet that a host sent, compared with the emulator's counters.

The captures show which packets did not arrive. The emulator's counters show why: the cause of each missing packet where
it is known, else numbers by cause. Contradictions are sentences of suspicion.py.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from pydantic import BaseModel, ConfigDict

from owlt.captures.accounting.measures import CapturedFrames, DirectionCounters, marked_packets
from owlt.captures.accounting.suspicion import suspect_arrivals, suspect_counts
from owlt.captures.frames.columns import Columns, Rows
from owlt.captures.frames.decoding import ECT
from owlt.captures.frames.session import Host
from owlt.captures.matches.by_key import DelayAround
from owlt.captures.matches.delivery import INTACT, Delivery, OneWay, without

Cause = Literal["queue", "mtu", "lost", "in_flight", "unrecognised", "undetermined"]
CAUSES: tuple[Cause, ...] = ("queue", "mtu", "lost", "in_flight", "unrecognised", "undetermined")


class Ledger(BaseModel):
    """The fates of the session's packets that one host sent.

        sent = delivered + corrupted + unrecognised + lost + queue + mtu + in_flight + undetermined
             + unexplained_missing

    `delivered` and `corrupted` are the packets that arrived, by their first copy: intact, or with flipped bits
    (`corrupted_outside`: those of them that the session's filter misses, because an address, a port or a length was
    hit; `corrupted_unseen`: those that were hit beyond the captured part of a cut frame, and that only the emulator
    counted). `duplicated` are further copies. The others did not arrive: `queue` found a queue full, `mtu` were too
    long for the link, `lost` were lost by it, `in_flight` were on their way at the end. `unrecognised` did arrive, in
    as many frames that are too damaged to assign them to a packet. If the emulator counted several of these causes, and
    frames of the background are missing too, the session's share of each is not known: those packets are
    `undetermined`. Without the emulator's counters all but those sent too late to arrive are `lost`.

    `ecn_capable` are the packets that were sent as ECT, `ecn_marked` those that arrived intact with the mark CE and
    were sent without it (RFC 3168); None in summaries of older versions, which took such marks for damage.

    `unexplained_missing` have no recorded drop; `unexplained_arrived` are packets that arrived but were not captured
    as sent. Either is a fault of the captures or of how they were read.

    A packet is `reordered` if one sent after it arrived before it, and its extent is the number of packets by which it
    came too late: RFC 4737, sections 3.3 and 4.2.1, over first copies.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    sent: int
    delivered: int
    corrupted: int
    corrupted_outside: int
    corrupted_unseen: int
    lost: int
    queue: int
    mtu: int
    in_flight: int
    undetermined: int
    unexplained_missing: int
    unexplained_arrived: int
    duplicated: int
    reordered: int
    reordering_extent: int
    unrecognised: int = 0
    ecn_capable: int | None = None
    ecn_marked: int | None = None

    @property
    def unexplained(self) -> int:
        """Zero if the captures explain everything."""
        return self.unexplained_missing + self.unexplained_arrived


@dataclass(frozen=True, eq=False)
class Account:
    """The ledger; by cause the packets (rows of the near capture) of which it is known that this was their cause, the
    others under "undetermined"; the reasons not to trust the ledger and what else to know of it, each as a sentence.
    `hides_damage`: whether packets with cut frames arrived intact is not known."""

    ledger: Ledger
    missing: dict[Cause, Rows]
    reasons: tuple[str, ...]
    caveats: tuple[str, ...] = ()
    hides_damage: bool = False


def account(way: OneWay, counters: DirectionCounters | None, clock_error_ns: float | None = None) -> Account:
    """The account of the host's packets, from the capture at its port and the one after the channel. `counters` are of
    this direction; None without an emulator of owlt. `clock_error_ns`: how far delays corrected for two clocks may be
    wrong; None: one clock took both captures.
    """
    near, far, delivery, host = way.near, way.far, way.delivery, way.host
    first = delivery.first_copies
    is_hit = delivery.flipped_bit[first] != INTACT
    sent, delivered = delivery.sent[first[~is_hit]], delivery.delivered[first[~is_hit]]
    outside = np.intersect1d(delivery.outside, delivery.delivered[first[is_hit]])
    reordered, extent = reordering(near, delivery, first)
    captured = CapturedFrames.of(way)
    unrecognised = _unrecognised_arrivals(way, captured, counters)
    captured = replace(captured, unrecognised=len(unrecognised))
    missing_by_cause = _explain(way, captured, counters)
    hit, unseen = int(is_hit.sum()), _corrupted_unseen(way, captured, counters)
    ledger = Ledger(
        sent=len(delivery.near),
        delivered=len(first) - hit - unseen,
        corrupted=hit + unseen,
        corrupted_outside=len(outside),
        corrupted_unseen=unseen,
        **missing_by_cause.counts,
        unexplained_missing=missing_by_cause.unrecorded,
        unexplained_arrived=len(without(delivery.unexplained, unrecognised)),
        duplicated=len(delivery.sent) - len(first),
        reordered=reordered,
        reordering_extent=extent,
        ecn_capable=int(np.count_nonzero(np.isin(near.ecn[delivery.near], ECT))),
        ecn_marked=marked_packets(way, delivery),
    )
    reasons = list(suspect_arrivals(way, unrecognised, clock_error_ns))
    if counters is not None:
        reasons += suspect_counts(captured, counters, host)
    caveats = [_unrecognised_caveat(ledger.unrecognised, host)] if ledger.unrecognised else []
    if completed := np.count_nonzero(near.checksum[sent] != far.checksum[delivered]):
        caveats.append(
            f"the {host} left the checksums of {completed} packets to its network card (checksum offload), which "
            f"completed them after the capture at its port; in that capture, these checksums show no damage"
        )
    hides_damage = _hides_damage(delivery, captured, counters)
    return Account(ledger, missing_by_cause.named, tuple(reasons), tuple(caveats), hides_damage)


def _hides_damage(delivery: Delivery, captured: CapturedFrames, counters: DirectionCounters | None) -> bool:
    """Whether more copies may have been damaged than are known, beyond the captured part of the frames."""
    known = captured.corrupted + captured.unrecognised
    return delivery.was_cut and (counters is None or known < counters.corrupted_copies[1])


def _corrupted_unseen(way: OneWay, captured: CapturedFrames, counters: DirectionCounters | None) -> int:
    """How many packets that seem intact the emulator has damaged beyond their captured part. 0 if that is not known: no
    exact count, or further copies, any of which may have been hit.
    """
    far, delivery = way.far, way.delivery
    if counters is None or captured.duplicated or not delivery.was_cut:
        return 0
    least, most = counters.corrupted_copies
    seem_intact = int(np.count_nonzero(far.is_cut[delivery.delivered] & (delivery.flipped_bit == INTACT)))
    return min(max(least - captured.corrupted - captured.unrecognised, 0), seem_intact) if least == most else 0


def reordering(near: Columns, delivery: Delivery, first: Rows) -> tuple[int, int]:
    """How many packets are type-P-reordered, and the greatest extent, of the `first` copies in their order of arrival.

    RFC 4737, sections 3.3 and 4.2.1: a packet is reordered if one with a higher sequence number (here: sent later)
    has arrived before it; its extent is how many arrivals ago the first such one came.
    """
    departures = near.time_ns[delivery.sent[first]]
    if (np.diff(departures) >= 0).all():
        return 0, 0
    places = np.empty(len(near), np.int64)
    places[np.argsort(near.time_ns, kind="stable")] = np.arange(len(near))
    sequence = places[delivery.sent[first]]
    highest = np.maximum.accumulate(sequence)
    late = np.flatnonzero(sequence < highest)
    extents = late - np.searchsorted(highest, sequence[late], "right")
    return len(late), int(extents.max(initial=0))


@dataclass(frozen=True, eq=False)
class _MissingByCause:
    """The session's packets that are missing: rows by cause, numbers by cause, and how many have no recorded drop.

    Rows whose causes are known as numbers only are under "undetermined" in `named`, but not in `counts`.
    """

    named: dict[Cause, Rows]
    counts: dict[Cause, int]
    unrecorded: int


def _explain(way: OneWay, captured: CapturedFrames, counters: DirectionCounters | None) -> _MissingByCause:
    """Why packets are missing.

    A frame that is longer than all that arrived was too long, if there are as many as were dropped for that; those sent
    after all that arrived are in flight, if there are as many as waited. The rest have the one remaining cause, or a
    share of several. Without counters, packets that could not arrive before the far capture ended are in flight.
    """
    if counters is None:
        late = _too_late(way)
        named = dict.fromkeys(CAUSES, late[:0])
        named |= {"in_flight": late, "lost": without(captured.session_missing, late)}
        return _MissingByCause(named, _counts(named), 0)
    near = way.near
    missing = _Missing.of(near, captured, counters)
    unrecorded = max(captured.missing - captured.expected_missing(counters), 0)
    uncounted = missing.left[max(len(missing.left) - captured.uncounted(counters), 0) :]
    if unrecorded <= len(uncounted):
        missing.name("in_flight", uncounted[len(uncounted) - unrecorded :])
        unrecorded = 0
    longest, last_ns = _of_arrived(near, way.delivery)
    missing.name_all("mtu", missing.left[near.wire_bytes[missing.left] > longest])
    missing.name_all("in_flight", missing.left[near.time_ns[missing.left] > last_ns])
    missing.name_the_rest()
    return missing.missing_by_cause(captured.session_missing, unrecorded)


def _too_late(way: OneWay) -> Rows:
    """The packets sent too late for the far capture, with the delay of the last packet that arrived."""
    near, far, delivery = way.near, way.far, way.delivery
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
    """Frames in the order of time without a cause, how many frames each cause has still to explain, and the frames with
    a cause."""

    left: Rows
    counts: dict[Cause, int]
    named: dict[Cause, Rows]

    @classmethod
    def of(cls, near: Columns, captured: CapturedFrames, counters: DirectionCounters) -> _Missing:
        left = np.concatenate([captured.session_missing, captured.background_missing])
        counts: dict[Cause, int] = {
            "queue": counters.queue_drops,
            "mtu": counters.mtu_drops,
            "lost": counters.losses
            - counters.not_delivered
            + captured.expected_missing(counters)
            - captured.unrecognised,
            "in_flight": counters.waiting,
            "unrecognised": captured.unrecognised,
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
        """Assign the cause to these frames if there are as many as the cause has to explain."""
        if len(rows) == self.counts[cause]:
            self.name(cause, rows)
            self.counts[cause] = 0

    def name_the_rest(self) -> None:
        """Assign the rest if a single cause explains all of them."""
        if len(self.open_causes) == 1 and len(self.left) <= self.counts[self.open_causes[0]]:
            self.name(self.open_causes[0], self.left)

    def missing_by_cause(self, session_missing: Rows, unrecorded: int) -> _MissingByCause:
        """The missing packets of the session by cause.

        Open causes are distributed if all remaining frames are the session's, or if there is only one cause; else the
        remaining packets stay undetermined.
        """
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
        return _MissingByCause(named | {"undetermined": left}, counts, unrecorded)


def _counts(named: dict[Cause, Rows]) -> dict[Cause, int]:
    return {cause: len(named.get(cause, ())) for cause in CAUSES}


def _unrecognised_arrivals(way: OneWay, captured: CapturedFrames, counters: DirectionCounters | None) -> Rows:
    """Arrivals (rows of the far capture) that are copies of missing packets, without knowing of which.

    There are no more of them than packets that are missing although the emulator did not drop them, than frames that it
    damaged and of which no damaged copy was recognised, and, of each length, than missing frames. Those that pass the
    session's filter come first. None without counters: then what is missing may have been lost.
    """
    if counters is None:
        return np.empty(0, np.int64)
    near, far, delivery = way.near, way.far, way.delivery
    let_through = captured.missing - captured.expected_missing(counters) - captured.uncounted(counters)
    damaged = counters.corrupted_copies[1] - captured.corrupted
    left = Counter(near.wire_bytes[np.concatenate([captured.session_missing, captured.background_missing])].tolist())
    is_session = np.isin(delivery.unmatched, delivery.unexplained)
    fitting = []
    for row in np.concatenate([delivery.unmatched[is_session], delivery.unmatched[~is_session]]).tolist():
        length = int(far.wire_bytes[row])
        if left[length]:
            left[length] -= 1
            fitting.append(row)
    return np.array(fitting[: max(min(let_through, damaged), 0)], np.int64)


def _unrecognised_caveat(count: int, host: Host) -> str:
    """The caveat for a ledger with so many unrecognised packets."""
    return (
        f"{count} packets from the {host} passed the emulator but were not matched, and {count} frames of the same "
        f"lengths arrived that match no packet because too many bits are damaged: these packets count as "
        f"unrecognised, not as lost"
    )
