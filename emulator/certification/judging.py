"""Verdicts: the measured value of a quantity compared with the specified one.

A judge is a check that waits for its share of the error probability: the number of checks is known only when all has
been measured. Exact checks do not need it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from math import inf

import numpy as np
from numpy.typing import NDArray

from owlt.emulator.certification.bursts import BurstLoss, accepted_counts, caught_counts, scaled
from owlt.emulator.certification.certificate import Check
from owlt.emulator.certification.expectations import Expectations
from owlt.emulator.certification.intervals import (
    FACTOR,
    POWER,
    Detectable,
    detectable_quantile,
    detectable_run_length,
    detectable_share,
    mean_run_interval,
    quantile_ranks,
    share_interval,
    wrong_amount,
    wrong_length,
    wrong_share,
)
from owlt.emulator.certification.probe_statistics import Count, Numbers
from owlt.emulator.channel.loss_models import FourState, GilbertElliott

RATE_TOLERANCE, RATE_ERROR = 0.0005, 0.0004
"""How far a measured rate may be from the specified one, and how far from the true one: together less than FRACTION."""
_FACTORS = (FACTOR, 2.0, 3.0, 5.0, 10.0, 30.0, 100.0)
"""The factors by which a wrong rate of burst losses is tried: each try needs a distribution of its own."""
NOTHING_AIMED = Detectable(None, None)
_SHOWN = 5
_NONE_ARRIVED = "no probe arrived"


class NotMeasured(Exception):
    """A quantity cannot be measured, or not within the budget. The text states why, and how long it would take."""


@dataclass(frozen=True)
class Judge:
    """A check that waits for its share of the error probability. `by_chance`: a correct channel may fail it."""

    judge: Callable[[float], Check]
    by_chance: bool = False

    def __call__(self, alpha: float) -> Check:
        """Return the check, wrong with at most the probability `alpha` if the channel is as specified."""
        return self.judge(alpha)


@dataclass(frozen=True)
class Measured:
    """A measured value, in `count` probes or events, and the interval in which the channel's value then lies."""

    value: float
    low: float
    high: float
    count: int

    @classmethod
    def exactly(cls, value: float, count: int) -> Measured:
        """A value that is known exactly."""
        return cls(value, value, value, count)


@dataclass(frozen=True)
class Judges:
    """The judges of one direction.

    `tolerance_ns`: how much longer than specified a packet may take, because of the clock.
    """

    direction: str
    expected: Expectations
    tolerance_ns: int

    def steady_delay(self, quantity: str, specified_ns: int, delays_ns: Numbers, quantile: float) -> Judge:
        """The delay of packets without jitter: a quantile, late by at most the clock's tolerance."""
        if not len(delays_ns):
            return self.not_measured(quantity, _NONE_ARRIVED, specified_ns)
        measured = int(sorted(delays_ns.tolist())[int(quantile * (len(delays_ns) - 1))])
        late_ns = self.tolerance_ns + 1
        detectable = Detectable(specified_ns - late_ns if specified_ns > late_ns else None, specified_ns + late_ns)
        aim = wrong_amount(specified_ns)
        result = Measured(measured, measured - self.tolerance_ns, measured, len(delays_ns))
        return self._within(quantity, specified_ns, result, detectable, aim)

    def jittered_delay(
        self, quantity: str, base_ns: int, delays_ns: Numbers, quantile: float, *, aimed: bool = False
    ) -> Judge:
        """A quantile of delays with jitter (or without): it lies between two of the measured delays, except with
        probability alpha. `aimed`: the number of probes was chosen so that this quantile shows a wrong delay.
        """
        expected, count = self.expected, len(delays_ns)
        specified = base_ns + expected.offset_ns(quantile)
        if not count:
            return self.not_measured(quantity, _NONE_ARRIVED, specified)
        in_order = sorted(delays_ns.tolist())
        measured = in_order[min(int(quantile * count), count - 1)]

        def judge(alpha: float) -> Check:
            if quantile == 0:
                likely_ns = expected.offset_ns(1 - alpha ** (1 / count)) - expected.offset_ns(0)
                low, high = measured - likely_ns, measured
            else:
                before, after = quantile_ranks(count, quantile, alpha)
                low = in_order[before - 1] if before else -inf
                high = in_order[after - 1] if after <= count else inf
            off = detectable_quantile(count, quantile, expected.offsets_ns, alpha, self.tolerance_ns)
            earlier = specified + off.low if off.low is not None and specified + off.low > 0 else None
            detectable = Detectable(earlier, specified + off.high if off.high is not None else None)
            aim = wrong_amount(specified) if aimed else NOTHING_AIMED
            result = Measured(measured, low - self.tolerance_ns, high, count)
            return self._within(quantity, specified, result, detectable, aim)(alpha)

        return Judge(judge, by_chance=True)

    def rate(self, measured: float | None, count: int, serialization_ns: int) -> Judge:
        """The rate; the kernel rounds the time that a frame takes down to whole nanoseconds."""
        quantity, specified = "rate, bit/s", self.expected.rate_bps
        if measured is None:
            return self.not_measured(quantity, "fewer than two probes arrived", specified)
        allowed = RATE_TOLERANCE + 1 / serialization_ns
        result = Measured(measured, measured * (1 - allowed), measured * (1 + allowed), count)
        if specified is None:
            return self._within(quantity, inf, result)
        off = allowed + RATE_ERROR
        detectable = Detectable(specified * (1 - off), specified * (1 + off))
        return self._within(quantity, specified, result, detectable, wrong_amount(specified))

    def share(self, quantity: str, specified: float, count: Count, aim: Detectable = NOTHING_AIMED) -> Judge:
        """A probability with independent trials."""
        if not count.trials:
            return self.not_measured(quantity, _NONE_ARRIVED, specified)

        def judge(alpha: float) -> Check:
            result = Measured(count.share, *share_interval(count.hits, count.trials, alpha), count.trials)
            detectable = detectable_share(count.trials, specified, alpha)
            return self._within(quantity, specified, result, detectable, aim)(alpha)

        return Judge(judge, by_chance=0 < specified < 1)

    def share_in_bursts(self, quantity: str, length_bytes: int, count: Count, aim: Detectable = NOTHING_AIMED) -> Judge:
        """The losses of a link that loses in bursts, by the exact distribution of their number.

        The interval is that of a rate which scales the number of losses, the bursts as they are.
        """
        expected = self.expected
        specified = expected.loss_probability(length_bytes)
        dropped = expected.dropped_probability(length_bytes)

        def detectable(accepted: tuple[int, int]) -> Detectable:
            assert expected.link.loss is not None
            return _detectable_bursts(
                expected.link.loss, expected.link.duplication_rate, dropped, accepted, count.trials
            )

        distribution = partial(expected.burst_loss.lost_packets, count.trials, dropped)
        return self._counted(quantity, specified, distribution, detectable, count, aim)

    def duplicates_in_bursts(self, quantity: str, length_bytes: int, count: Count) -> Judge:
        """The sent frames that arrive twice on a link with burst losses, by the exact distribution of their number.

        The interval is that of a rate which scales the number of duplicates.
        """
        chain = self.expected.duplicates_in_bursts
        specified = chain(length_bytes).mean_rate
        if not count.trials:
            return self.not_measured(quantity, _NONE_ARRIVED, specified)

        def detectable(accepted: tuple[int, int]) -> Detectable:
            def caught(times: float) -> float | None:
                if self.expected.link.duplication_rate * times > 1:
                    return None
                wrong = chain(length_bytes, times)
                is_caught = caught_counts(accepted, wrong.lost_packets(count.trials)) >= POWER
                return wrong.mean_rate if is_caught else None

            return _nearest_caught(caught, accepted)

        distribution = partial(chain(length_bytes).lost_packets, count.trials)
        return self._counted(quantity, specified, distribution, detectable, count, wrong_share(specified))

    def _counted(
        self,
        quantity: str,
        specified: float,
        distribution: Callable[[], NDArray[np.float64]],
        detectable: Callable[[tuple[int, int]], Detectable],
        count: Count,
        aim: Detectable,
    ) -> Judge:
        """A share by the distribution of the number of hits; `detectable` has the fewest and the most that pass."""

        def judge(alpha: float) -> Check:
            fewest, most = accepted = accepted_counts(distribution(), alpha)
            low = specified * (count.hits / most) if most else 0.0
            high = min(specified * (max(count.hits, 0.5) / fewest), 1.0) if fewest else 1.0
            result = Measured(count.share, low, high, count.trials)
            return self._within(quantity, specified, result, detectable(accepted), aim)(alpha)

        return Judge(judge, by_chance=True)

    def burst_length(self, specified: float, lengths: Numbers) -> Judge:
        """The mean length of geometric runs."""
        quantity = "mean length of a burst of losses, packets"
        runs, total = len(lengths), int(lengths.sum())
        if not runs:
            return self.not_measured(quantity, "no burst was observed from beginning to end", specified)

        def judge(alpha: float) -> Check:
            result = Measured(total / runs, *mean_run_interval(runs, total, alpha), runs)
            detectable = detectable_run_length(runs, specified, alpha)
            return self._within(quantity, specified, result, detectable, wrong_length(specified))(alpha)

        return Judge(judge, by_chance=specified > 1)

    def shortest_burst(self, specified: int, lengths: Numbers) -> Judge:
        """The shortest run of losses, which coded frames make at least as long as a frame. Losses of single packets
        make runs of 1, and shorter frames shorter runs. Longer frames show in the share of lost packets.
        """
        quantity = "shortest burst of losses, packets"
        if not len(lengths):
            return self.not_measured(quantity, "no burst was observed from beginning to end", specified)
        measured = int(lengths.min())
        result = Measured(measured, -inf, measured, len(lengths))
        return self._within(quantity, specified, result, Detectable(specified - 1, None), certain=True)

    def none(self, quantity: str, measured: int, count: int) -> Judge:
        """A number of events that must be 0, with the fewest that so many packets are likely to show."""
        least = 1 - (1 - POWER) ** (1 / count)
        return self._within(quantity, 0, Measured.exactly(measured, count), Detectable(None, least * count))

    def exactly(self, quantity: str, specified: int, measured: int, count: int) -> Judge:
        """A whole number that does not depend on chance."""
        others = Detectable(specified - 1, specified + 1)
        return self._within(quantity, specified, Measured.exactly(measured, count), others, certain=True)

    def at_most(self, quantity: str, specified: int, measured: int, count: int) -> Judge:
        """A whole number that none of the measured packets exceeded; others may exceed it."""
        return self._within(quantity, specified, Measured.exactly(measured, count))

    def roughly(self, quantity: str, specified: float, measured: float, margin: float, count: int) -> Judge:
        """A number to within a margin."""
        others = Detectable(specified - 2 * margin if specified > 2 * margin else None, specified + 2 * margin)
        result = Measured(measured, measured - margin, measured + margin, count)
        return self._within(quantity, specified, result, others, certain=True)

    def listed(self, quantity: str, specified: Sequence[int], measured: Sequence[int], count: int) -> Judge:
        """Exactly those numbers."""
        missing, others = sorted({*specified} - {*measured}), sorted({*measured} - {*specified})
        wrong = [
            f"{text}: {_some(numbers)}" for text, numbers in (("not hit", missing), ("also hit", others)) if numbers
        ]
        check = Check(
            self.direction,
            quantity,
            "failed" if wrong else "ok",
            len(specified),
            len(measured),
            count=count,
            reason="; ".join(wrong),
            detection_probability=1.0,
        )
        return Judge(lambda _: check)

    def not_measured(self, quantity: str, reason: str, specified: float | None = None) -> Judge:
        """The quantity could not be measured."""
        check = Check(self.direction, quantity, "not measured", specified, reason=reason)
        return Judge(lambda _: check)

    def _within(
        self,
        quantity: str,
        specified: float,
        measured: Measured,
        detectable: Detectable = NOTHING_AIMED,
        aim: Detectable = NOTHING_AIMED,
        *,
        certain: bool = False,
    ) -> Judge:
        """Whether the specified value lies within; `certain`: detectable values are always detected, not only with
        POWER."""
        met = measured.low <= specified <= measured.high
        check = Check(
            self.direction,
            quantity,
            "ok" if met else "failed",
            float(specified),
            float(measured.value),
            low=float(measured.low) if measured.low != -inf else None,
            high=float(measured.high) if measured.high != inf else None,
            count=measured.count,
            reason="" if met else "the measurement excludes the specified value",
            detectable_low=detectable.low,
            detectable_high=detectable.high,
            detection_probability=1.0 if certain else None if detectable == aim == NOTHING_AIMED else POWER,
            aim_low=aim.low,
            aim_high=aim.high,
        )
        return Judge(lambda _: check)


@cache
def _detectable_bursts(
    loss: GilbertElliott | FourState, duplicated: float, dropped: float, accepted: tuple[int, int], packets: int
) -> Detectable:
    """The nearest lower and higher of a few wrong rates that so many packets detect."""

    def model(other: GilbertElliott | FourState) -> BurstLoss:
        return BurstLoss.of(other).duplicated(duplicated)

    def caught(factor: float) -> float | None:
        wrong = scaled(loss, factor, model)
        if wrong is None or caught_counts(accepted, wrong.lost_packets(packets, dropped)) < POWER:
            return None
        return dropped + (1 - dropped) * wrong.mean_rate

    return _nearest_caught(caught, accepted)


def _nearest_caught(caught: Callable[[float], float | None], accepted: tuple[int, int]) -> Detectable:
    """The nearest lower and higher rates that are detected; `caught` returns the rate for a factor, or None."""
    less = (caught(1 / factor) for factor in _FACTORS)
    more = (caught(factor) for factor in _FACTORS)
    return Detectable(
        next((share for share in less if share is not None), None) if accepted[0] else None,
        next((share for share in more if share is not None), None),
    )


def _some(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers[:_SHOWN])) + (f" and {len(numbers) - _SHOWN} more" if numbers[_SHOWN:] else "")
