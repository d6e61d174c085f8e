"""How the clock of the receiver's capture stands to that of the sender's, where two hosts took them: offset and drift.

Packets take at least the light time, so the least delays of many lie on a straight line whose slope is the drift: S.
Moon, P. Skelly and D. Towsley, "Estimation and removal of clock skew from network delay measurements", INFOCOM 1999;
here over both directions at once. Clocks that are stepped or slewed while the captures are taken do not fit a line,
which the residual shows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict

from captures.columns import Columns
from captures.matching import Delivery

Times = NDArray[np.int64]
Numbers = NDArray[np.float64]

_PARTS = 500
"""Of so many parts of the time each direction's least delay is taken: what queues add is nearly always left out."""


class ClockRelation(BaseModel):
    """The receiver's clock by the sender's: receiver time - sender time = offset + drift × time.

    `offset_ns` holds when the receiver's clock shows `at_ns`. What captures tell is the least round trip,
    `least_round_trip_ns`, but not how its two ways share it: unless the true delays were given, the offset is the one
    that makes both ways equal, and true to within `offset_uncertainty_ns`, half the round trip. It is None where
    packets went one way only.

    `drift_ppm` is what the receiver's clock gains on the sender's, in µs a second; None where all packets came at one
    moment. `residual_p50_ns` and `residual_max_ns` are how far the least delays of the parts of the time lie above the
    line; `drift_uncertainty_ppm` is the former over the time from the first packet to the last.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    at_ns: int
    offset_ns: float | None
    offset_uncertainty_ns: float | None
    least_round_trip_ns: float | None
    drift_ppm: float | None
    drift_uncertainty_ppm: float | None
    residual_p50_ns: float
    residual_max_ns: float

    def to_sender_clock(self, receiver_times_ns: Times) -> Times:
        """Times of the receiver's clock as the sender's would have shown them; without the offset where it is None."""
        gained = (self.drift_ppm or 0.0) / 1e6
        ahead_ns = (self.offset_ns or 0.0) + (receiver_times_ns - self.at_ns) * (gained / (1 + gained))
        corrected: Times = receiver_times_ns - np.rint(ahead_ns).astype(np.int64)
        return corrected


@dataclass(frozen=True, eq=False)
class _Way:
    """Packets of one direction, in ns from where they are counted: when the receiver's clock saw them, and how long
    they seem to have taken. As that clock gains, so does this time: forward (sign 1); in reverse (-1) it loses."""

    sign: int
    seen: Numbers
    took: Numbers

    def least(self, span_ns: float) -> _Way:
        """The packet that took least in each part of the time."""
        part = np.minimum(self.seen * (_PARTS / max(span_ns, 1)), _PARTS - 1).astype(np.int64)
        order = np.lexsort((self.took, part))
        first = order[np.flatnonzero(np.diff(part[order], prepend=-1))]
        return _Way(self.sign, self.seen[first], self.took[first])

    def level(self, slope: float) -> Numbers:
        """How long the packets took beside what the clock gained."""
        level: Numbers = self.took - self.sign * slope * self.seen
        return level


def relate_clocks(
    sender_capture: Columns,
    receiver_capture: Columns,
    forward: Delivery,
    reverse: Delivery,
    least_delays_ns: tuple[float, float] | None = None,
) -> ClockRelation | None:
    """How the clocks of the two captures stand to each other, from the first copies of all matched packets.

    `least_delays_ns` are the true least one-way delays, forward and reverse, where they are known. None if no packet
    was matched.
    """
    there, back = forward.first_copies, reverse.first_copies
    return relate(
        sender_capture.time_ns[forward.sent[there]],
        receiver_capture.time_ns[forward.delivered[there]],
        receiver_capture.time_ns[reverse.sent[back]],
        sender_capture.time_ns[reverse.delivered[back]],
        least_delays_ns,
    )


def relate(
    departed: Times,
    arrived: Times,
    returned: Times,
    came_back: Times,
    least_delays_ns: tuple[float, float] | None = None,
) -> ClockRelation | None:
    """The same from times in ns: of packets that left the sender (its clock) and arrived (receiver's clock), and of
    packets that left the receiver (its clock) and arrived at the sender (its clock)."""
    seen, others = np.concatenate([arrived, returned]), np.concatenate([departed, came_back])
    if not len(seen):
        return None
    start_ns, base_ns = int(seen.min()), int(seen[0] - others[0])
    from_start, ahead = (seen - start_ns).astype(np.float64), (seen - others - base_ns).astype(np.float64)
    there, span_ns = len(arrived), float(from_start.max())
    ways = [_Way(1, from_start[:there], ahead[:there]), _Way(-1, from_start[there:], -ahead[there:])]
    known = least_delays_ns if least_delays_ns is not None else (None, None)
    kept = [(way, delay_ns) for way, delay_ns in zip(ways, known, strict=True) if len(way.seen)]
    least = [way.least(span_ns) for way, _ in kept]
    slope = _slope(least, span_ns)
    floors = [float(way.level(slope or 0.0).min()) for way, _ in kept]
    residuals = np.concatenate([way.level(slope or 0.0) - floor for way, floor in zip(least, floors, strict=True)])
    middle_ns = float(np.quantile(residuals, 0.5, method="inverted_cdf"))
    round_trip_ns = sum(floors) if len(floors) == 2 else None
    told = [way.sign * (floor - delay) for (way, delay), floor in zip(kept, floors, strict=True) if delay is not None]
    offset_ns: float | None = None
    uncertainty_ns: float | None = None
    if told:
        offset_ns, uncertainty_ns = sum(told) / len(told), middle_ns
    elif round_trip_ns is not None:
        offset_ns, uncertainty_ns = (floors[0] - floors[1]) / 2, abs(round_trip_ns) / 2
    return ClockRelation(
        at_ns=start_ns,
        offset_ns=None if offset_ns is None else base_ns + offset_ns,
        offset_uncertainty_ns=uncertainty_ns,
        least_round_trip_ns=round_trip_ns,
        drift_ppm=None if slope is None else slope / (1 - slope) * 1e6,
        drift_uncertainty_ppm=None if slope is None else middle_ns / span_ns * 1e6,
        residual_p50_ns=middle_ns,
        residual_max_ns=float(residuals.max()),
    )


def _slope(ways: list[_Way], span_ns: float) -> float | None:
    """What the receiver's clock gains in a ns of its own: that of the lines below all packets, one a way, that are
    nearest to them in sum. A linear program; None where no way has packets at two times."""
    from scipy.optimize import linprog  # its import takes longer than all else here

    if max(len(way.seen) for way in ways) < 2:
        return None
    gain = [way.sign * way.seen / span_ns for way in ways]
    rows = [np.zeros((len(way.seen), 3)) for way in ways]
    for number, (row, column) in enumerate(zip(rows, gain, strict=True)):
        row[:, number], row[:, 2] = 1, column
    below, took = np.concatenate(rows), np.concatenate([way.took for way in ways])
    unit = max(float(np.ptp(took)), 1.0)
    found = linprog(-below.sum(axis=0), A_ub=below, b_ub=took / unit, bounds=(None, None))
    return float(found.x[2]) * unit / span_ns
