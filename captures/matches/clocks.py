"""The offset and drift between the clocks of the receiver's and the sender's capture, if two hosts took them. A packet
takes at least the propagation delay and its serialization time at the channel's rate, so the least delays of many lie
on a plane over time and size, whose slope in time is the drift: S. Moon, P. Skelly and D. Towsley, "Estimation and
removal of clock skew from network delay measurements", INFOCOM 1999; here over both directions at once, and with the
size. Clocks that are stepped or slewed while the captures are taken do not fit, which the residual shows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict

from owlt.captures.matches.bottleneck import Link
from owlt.captures.matches.delivery import Crossing

Times = NDArray[np.int64]
Numbers = NDArray[np.float64]

_PARTS = 500
"""The time is divided into this many parts; the least delay of each, in each direction, nearly always excludes
queueing."""
_SIZES = 16
"""The least delay is found in each of so many ranges of packet sizes: else the small packets of a part hide its large
ones."""
_INDEPENDENT = 100
"""The most residuals that count as independent: packets that meet the same queue have similar delays."""
_CONFIDENCE = 0.999
_MOST_GAINED = 0.001
"""The largest clock drift, in ns per ns: twice the most that daemons correct, ten times that of crystals.

A larger change of the delay is caused by a growing queue.
"""
_RESOLUTIONS_NS = (1_000, 1)
"""Resolutions of times in captures; the first of which all times are multiples is used."""
_ROUNDED = 1.001
"""A specified delay is accepted if it is at most this factor above the measured one."""
_EXACTLY = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}
"""Tolerances of the linear programs, whose unit is the longest delay, which is seconds in space."""


LEAST_ERROR_NS = 1000.0
"""Time stamps of two clocks agree to about this at best."""


class ClockRelation(BaseModel):
    """The receiver's clock by the sender's: receiver time - sender time = offset + drift × time.

    `offset_ns` holds when the receiver's clock shows `at_ns`. Captures show the least round trip of a packet without
    bytes, `least_round_trip_ns`, but not how it is divided between the directions: unless the true delays were given,
    the offset is the one that makes both ways equal, and `offset_uncertainty_ns` has half the round trip in it; with
    true delays that exceed the round trip, half of that excess. It is None if packets went one way only.

    `drift_ppm` is the drift of the receiver's clock against the sender's, in µs per second; None if all packets came at
    one moment, or if delays grow faster than clocks drift: then no drift is corrected. `residual_p50_ns` and
    `residual_max_ns` are how far the least delays of the parts of the time lie above what was fitted. The uncertainties
    are the distances to solutions that fit not much worse, for exponentially distributed residuals: they are large if
    time and size of the packets are correlated. They are None if anything fits.
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

    @property
    def error_ns(self) -> float:
        """How far corrected delays may be wrong: the residual of what was fitted, at least LEAST_ERROR_NS."""
        return max(self.residual_p50_ns, LEAST_ERROR_NS)

    def to_sender_clock(self, receiver_times_ns: Times) -> Times:
        """Times of the receiver's clock as the sender's would have shown them; without the offset where it is None."""
        gained = (self.drift_ppm or 0.0) / 1e6
        ahead_ns = (self.offset_ns or 0.0) + (receiver_times_ns - self.at_ns) * (gained / (1 + gained))
        corrected: Times = receiver_times_ns - np.rint(ahead_ns).astype(np.int64)
        return corrected


@dataclass(frozen=True, eq=False)
class _Way:
    """Packets of one direction: their times by the receiver's clock, in ns from a common origin, and their apparent
    delays. If that clock gains, the apparent delay grows forward (sign 1) and shrinks in reverse (-1). `wire_bytes` are
    all 0 if the serialization time is not estimated."""

    sign: int
    seen: Numbers
    took: Numbers
    wire_bytes: Numbers

    @property
    def has_sizes(self) -> bool:
        return bool(np.ptp(self.wire_bytes) > 0)

    def least(self, span_ns: float) -> _Way:
        """The packet that took least in each part of the time, of each range of sizes."""
        part = np.minimum(self.seen * (_PARTS / max(span_ns, 1)), _PARTS - 1).astype(np.int64)
        smallest = self.wire_bytes.min()
        range_bytes = max(float(np.ptp(self.wire_bytes)), 1.0)
        size = np.minimum((self.wire_bytes - smallest) * (_SIZES / range_bytes), _SIZES - 1).astype(np.int64)
        group = part * _SIZES + size
        order = np.lexsort((self.took, group))
        first = order[np.flatnonzero(np.diff(group[order], prepend=-1))]
        return _Way(self.sign, self.seen[first], self.took[first], self.wire_bytes[first])


def relate_clocks(
    crossing: Crossing,
    least_delays_ns: tuple[float, float] | None = None,
    links: tuple[Link, Link] | None = None,
) -> ClockRelation | None:
    """The relation of the clocks of the two captures, from the first copies of all matched packets.

    `least_delays_ns` are the true least one-way delays of packets without bytes, forward and reverse, where they are
    known, `links` the channel's, whose rates tell what the bytes take. None if no packet was matched.
    """
    sender_capture, receiver_capture = crossing.captures
    forward, reverse = crossing.forward, crossing.reverse
    there, back = forward.first_copies, reverse.first_copies
    arrived = receiver_capture.time_ns[forward.delivered[there]]
    came_back = sender_capture.time_ns[reverse.delivered[back]]
    wire_bytes = (
        sender_capture.wire_bytes[forward.sent[there]].astype(np.int64),
        receiver_capture.wire_bytes[reverse.sent[back]].astype(np.int64),
    )
    if links is not None:
        arrived = arrived - links[0].serialization_ns(wire_bytes[0])
        came_back = came_back - links[1].serialization_ns(wire_bytes[1])
    return relate(
        sender_capture.time_ns[forward.sent[there]],
        arrived,
        receiver_capture.time_ns[reverse.sent[back]],
        came_back,
        least_delays_ns,
        None if links is not None else wire_bytes,
    )


def relate(
    departed: Times,
    arrived: Times,
    returned: Times,
    came_back: Times,
    least_delays_ns: tuple[float, float] | None = None,
    wire_bytes: tuple[Times, Times] | None = None,
) -> ClockRelation | None:
    """The relation of the clocks from times in ns: of packets that left the sender (its clock) and arrived (receiver's
    clock), and of packets that left the receiver (its clock) and arrived at the sender (its clock).

    `least_delays_ns` are the true least one-way delays, forward and reverse, where they are known; `wire_bytes` the
    packets' sizes, where these add to their delays.
    """
    seen, others = np.concatenate([arrived, returned]), np.concatenate([departed, came_back])
    if not len(seen):
        return None
    start_ns, base_ns = int(seen.min()), int(seen[0] - others[0])
    from_start, ahead = (seen - start_ns).astype(np.float64), (seen - others - base_ns).astype(np.float64)
    sizes = np.concatenate(wire_bytes).astype(np.float64) if wire_bytes is not None else np.zeros(len(seen))
    there, span_ns = len(arrived), float(from_start.max())
    all_ways = [
        _Way(1, from_start[:there], ahead[:there], sizes[:there]),
        _Way(-1, from_start[there:], -ahead[there:], sizes[there:]),
    ]
    known = least_delays_ns if least_delays_ns is not None else (None, None)
    kept = [(way, delay_ns) for way, delay_ns in zip(all_ways, known, strict=True) if len(way.seen)]
    resolution_ns = _resolution_ns(departed, arrived, returned, came_back)
    fit = _Fit([way for way, _ in kept], span_ns, resolution_ns, sum(least_delays_ns or ()))
    best = fit.best if fit.drift_is_told else fit.best_without_drift
    round_trip_ns = float(fit.of_floors([1, 1]) @ best) if len(kept) == 2 else None
    offset_ns: float | None = None
    uncertainty_ns: float | None = None
    if least_delays_ns is not None or round_trip_ns is not None:
        shares = [way.sign / len(kept) for way, _ in kept]
        told_ns = sum(share * (delay_ns or 0.0) for share, (_, delay_ns) in zip(shares, kept, strict=True))
        offset_ns = float(fit.of_floors(shares) @ best) - told_ns
        uncertainty_ns = fit.uncertainty(fit.of_floors(shares), best)
        if round_trip_ns is not None and uncertainty_ns is not None:
            untold_ns = abs(round_trip_ns)
            if least_delays_ns is not None:
                untold_ns = max(sum(least_delays_ns) - round_trip_ns, 0.0)
            uncertainty_ns += untold_ns / 2
    drift = float(fit.of_drift @ best) if fit.drift_is_told else None
    residuals_ns = fit.residuals_ns(best)
    return ClockRelation(
        at_ns=start_ns,
        offset_ns=None if offset_ns is None else base_ns + offset_ns,
        offset_uncertainty_ns=uncertainty_ns,
        least_round_trip_ns=round_trip_ns,
        drift_ppm=None if drift is None else drift / (1 - drift) * 1e6,
        drift_uncertainty_ppm=_in_ppm(None if drift is None else fit.uncertainty(fit.of_drift, best)),
        residual_p50_ns=float(np.quantile(residuals_ns, 0.5, method="inverted_cdf")),
        residual_max_ns=float(residuals_ns.max()),
    )


def _in_ppm(gained: float | None) -> float | None:
    return None if gained is None else gained * 1e6


def _resolution_ns(*times: Times) -> int:
    """The coarsest among the clocks' resolutions: two captures may be of different kinds."""
    return next(unit for unit in _RESOLUTIONS_NS if any(len(some) and not (some % unit).any() for some in times))


class _Fit:
    """The lower bounds of all delays, one for each direction, with the least sum of distances: a linear program. Its
    unknowns are the delay of a packet without bytes at the start in each direction, the gain of the receiver's clock
    over the complete time, and the additional delay of the largest packet over one without bytes, in each direction
    whose packets have different sizes. A packet that takes longer than the floor by chance does so by an exponential
    distribution: then the least sum is the likeliest, and by how much that of the truth is more is a ratio of two gamma
    variates.
    """

    def __init__(self, ways: Sequence[_Way], span_ns: float, resolution_ns: float, least_round_trip_ns: float) -> None:
        least = [way.least(span_ns) for way in ways]
        sized = [number for number, way in enumerate(least) if way.has_sizes]
        self._ways, self._span_ns, self._resolution_ns = len(ways), max(span_ns, 1.0), resolution_ns
        rows = [np.zeros((len(way.seen), len(ways) + 1 + len(sized))) for way in least]
        for number, (row, way) in enumerate(zip(rows, least, strict=True)):
            row[:, number], row[:, len(ways)] = 1, way.sign * way.seen / self._span_ns
            if way.has_sizes:
                row[:, len(ways) + 1 + sized.index(number)] = way.wire_bytes / way.wire_bytes.max()
        self._below, took_ns = np.concatenate(rows), np.concatenate([way.took for way in least])
        self._unit_ns = max(float(np.ptp(took_ns)), 1.0)
        self._took = took_ns / self._unit_ns
        self._least_round_trip = least_round_trip_ns / self._unit_ns
        has_times = max(len(np.unique(way.seen)) for way in least) > 1
        self._most = _MOST_GAINED * self._span_ns / self._unit_ns if has_times else 0.0
        self.best = self._nearest(self._most)
        self.drift_is_told = bool(abs(self.best[len(ways)]) < self._most * 0.999 * self._unit_ns)

    @property
    def best_without_drift(self) -> Numbers:
        """The best fit without drift."""
        return self._nearest(0.0)

    def _nearest(self, most_gained: float) -> Numbers:
        solution = self._solved(-self._below.sum(axis=0), self._below, self._took, most_gained)
        if solution is None:  # times that no clock shows
            solution = np.zeros(self._below.shape[1])
            solution[: self._ways] = [self._took[self._below[:, way] > 0].min() for way in range(self._ways)]
        return solution * self._unit_ns

    @property
    def of_drift(self) -> Numbers:
        """The weights of the unknowns that give the drift, in ns per ns."""
        weights = np.zeros(self._below.shape[1])
        weights[self._ways] = 1 / self._span_ns
        return weights

    def of_floors(self, shares: Sequence[float]) -> Numbers:
        """The weights that make a sum of the floors' shares, in ns."""
        weights = np.zeros(self._below.shape[1])
        weights[: self._ways] = shares
        return weights

    def residuals_ns(self, solution: Numbers) -> Numbers:
        """By how much the delays of packets exceed their lower bound."""
        residuals: Numbers = np.maximum(self._took * self._unit_ns - self._below @ solution, 0)
        return residuals

    def uncertainty(self, weights: Numbers, solution: Numbers) -> float | None:
        """How far a weighted sum of the unknowns may be from its fitted value, among all solutions with plausible
        residuals; None: unbounded."""
        limits, most = self._limits()
        below, took = np.vstack([self._below, *limits]), np.append(self._took, most)
        ends = [self._solved(sign * weights, below, took, self._most) for sign in (1, -1)]
        far_ns = [abs(float(weights @ (end * self._unit_ns - solution))) for end in ends if end is not None]
        read_ns = 2 * self._resolution_ns * float(np.abs(weights).max())
        return max(far_ns) + read_ns if len(far_ns) == 2 else None

    def _limits(self) -> tuple[list[Numbers], list[float]]:
        """Constraints as rows and upper limits: the sum of the residuals, and the difference between the least possible
        and the fitted round trip."""
        count, unknowns = len(self._took), self._below.shape[1]
        best = self.best / self._unit_ns
        limits: list[Numbers] = []
        most: list[float] = []
        if self._ways == 2:
            weights = self.of_floors([1, 1])
            solution = float(weights @ best)
            round_trip = self._least_round_trip if self._least_round_trip < _ROUNDED * solution else 0.0
            limits.append(-weights)
            most.append(2 * self._resolution_ns / self._unit_ns - min(round_trip, solution))
        if count > unknowns:
            from scipy.special import betaincinv

            free = min(count, max(_INDEPENDENT, unknowns + 1)) - unknowns
            part = float(betaincinv(unknowns, free, _CONFIDENCE))
            least = max(float(self.residuals_ns(self.best).sum()), count * self._resolution_ns) / self._unit_ns
            limits.append(-self._below.sum(axis=0))
            most.append(least * (1 + part / (1 - part)) - float(self._took.sum()))
        return limits, most

    def _solved(self, costs: Numbers, below: Numbers, took: Numbers, most_gained: float) -> Numbers | None:
        from scipy.optimize import linprog  # its import takes longer than all else here

        sizes = below.shape[1] - self._ways - 1
        bounds = [(None, None)] * self._ways + [(-most_gained, most_gained)] + [(0, None)] * sizes
        solution = linprog(costs / float(np.abs(costs).max()), A_ub=below, b_ub=took, bounds=bounds, options=_EXACTLY)
        solved: Numbers | None = solution.x
        return solved
