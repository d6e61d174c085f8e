"""The ledger of a direction: the fate of every packet that a host sent, compared with the emulator's counters.

The captures show which packets did not arrive, the emulator's counters show why (causes.py); contradictions are
sentences (suspect_captures.py).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict

from owlt.captures.accounting.causes import Cause, explain
from owlt.captures.accounting.crossing import Crossing
from owlt.captures.accounting.stages import DirectionCounters
from owlt.captures.accounting.suspect_captures import suspect_arrivals, suspect_counts
from owlt.captures.accounting.unrecognised import caveat, unrecognised_arrivals
from owlt.captures.frames.columns import Columns
from owlt.captures.frames.decoding import CE, ECT
from owlt.captures.matches.delivery import INTACT, Delivery, without
from owlt.captures.session.session import Host

Rows = NDArray[np.int64]


class Ledger(BaseModel):
    """What became of the session's packets that one host sent.

        sent = delivered + corrupted + unrecognised + lost + queue + mtu + in_flight + undetermined
             + unexplained_missing

    `delivered` and `corrupted` are the packets that arrived, by their first copy: intact, or with flipped bits
    (`corrupted_outside`: of these, those that the session's filter misses, for what was hit is an address, a port or
    a length; `corrupted_unseen`: those whose bits were hit where the captures do not show it, behind a cut, and that
    only the emulator counted). `duplicated` are further copies. The others did not arrive: `queue` found a queue full,
    `mtu` were too long for the link, `lost` were lost by it, `in_flight` were on their way at the end. `unrecognised`
    did arrive, in as many frames that are damaged too much to tell of which packet each is a copy. Where the
    emulator counted several of these causes, and frames of the background are missing too, the session's share of each
    cannot be told: those packets are `undetermined`. Without the emulator's counters all but those sent too late to
    arrive are `lost`.

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
        """Zero where the captures tell everything."""
        return self.unexplained_missing + self.unexplained_arrived


@dataclass(frozen=True, eq=False)
class Account:
    """The ledger; by cause the packets (rows of the near capture) of which it is known that this was their cause, the
    others under "undetermined"; the reasons not to trust the ledger and what else to know of it, each as a sentence.
    `hides_damage`: of packets whose frames are cut it is not known whether they arrived intact."""

    ledger: Ledger
    missing: dict[Cause, Rows]
    reasons: tuple[str, ...]
    caveats: tuple[str, ...] = ()
    hides_damage: bool = False


def account(
    near: Columns,
    far: Columns,
    delivery: Delivery,
    host: Host,
    counters: DirectionCounters | None,
    clock_error_ns: float | None = None,
) -> Account:
    """The account of what the host sent, from the capture at its port and the one behind the channel.

    `counters` are of this direction; None if no emulator of ours made the channel. `clock_error_ns`: how far delays
    corrected for two clocks may be wrong; None: one clock took both captures.
    """
    first = delivery.first_copies
    is_hit = delivery.flipped_bit[first] != INTACT
    sent, delivered = delivery.sent[first[~is_hit]], delivery.delivered[first[~is_hit]]
    outside = np.intersect1d(delivery.outside, delivery.delivered[first[is_hit]])
    reordered, extent = reordering(near, delivery, first)
    crossing = Crossing.of(far, delivery)
    unrecognised = unrecognised_arrivals(near, far, delivery, crossing, counters)
    crossing = replace(crossing, unrecognised=len(unrecognised))
    missing_by_cause = explain(near, far, delivery, crossing, counters)
    hit, unseen = int(is_hit.sum()), _corrupted_unseen(far, delivery, crossing, counters)
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
        ecn_marked=int(np.count_nonzero((near.ecn[sent] != CE) & (far.ecn[delivered] == CE))),
    )
    reasons = list(suspect_arrivals(near, far, delivery, unrecognised, host, clock_error_ns))
    if counters is not None:
        reasons += suspect_counts(crossing, counters, host)
    caveats = [caveat(ledger.unrecognised, host)] if ledger.unrecognised else []
    if completed := np.count_nonzero(near.checksum[sent] != far.checksum[delivered]):
        caveats.append(
            f"the {host} left the checksums of {completed} packets to its network card (checksum offload), which "
            f"completed them after the capture at its port; in that capture, these checksums show no damage"
        )
    hides_damage = _hides_damage(delivery, crossing, counters)
    return Account(ledger, missing_by_cause.named, tuple(reasons), tuple(caveats), hides_damage)


def _hides_damage(delivery: Delivery, crossing: Crossing, counters: DirectionCounters | None) -> bool:
    """Whether more copies may have been damaged than are known, behind the cut."""
    known = crossing.corrupted + crossing.unrecognised
    return delivery.was_cut and (counters is None or known < counters.corrupted_copies[1])


def _corrupted_unseen(far: Columns, delivery: Delivery, crossing: Crossing, counters: DirectionCounters | None) -> int:
    """How many packets that seem intact the emulator has damaged behind what was captured of them.

    0 if it cannot be told: no exact count, or further copies, of which any may be the one that was hit.
    """
    if counters is None or crossing.duplicated or not delivery.was_cut:
        return 0
    least, most = counters.corrupted_copies
    seem_intact = int(np.count_nonzero(far.is_cut[delivery.delivered] & (delivery.flipped_bit == INTACT)))
    return min(max(least - crossing.corrupted - crossing.unrecognised, 0), seem_intact) if least == most else 0


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
