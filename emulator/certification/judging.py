"""Verdicts: what was measured of a quantity beside what was asked of it.

A judge is a check that waits for its share of the error probability: how many there are is known only when all has
been measured. What is exact takes no notice of it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from math import inf

from emulator.certification.bursts import BurstLoss, accepted_counts, caught_counts, scaled
from emulator.certification.certificate import Check
from emulator.certification.expectations import Expectations
from emulator.certification.intervals import mean_run_interval, quantile_ranks, share_interval
from emulator.certification.measures import Count, Numbers
from emulator.certification.power import (
    FACTOR,
    POWER,
    Detectable,
    detectable_quantile,
    detectable_run_length,
    detectable_share,
    wrong_amount,
    wrong_length,
)
from emulator.impairments import FourState, GilbertElliott

RATE_TOLERANCE, RATE_ERROR = 0.0005, 0.0004
"""How far a measured rate may be from what was asked, and how far from the true one: together less than FRACTION."""
_FACTORS = (FACTOR, 2.0, 3.0, 5.0, 10.0, 30.0, 100.0)
"""By which a rate of losses in bursts is tried to be wrong: each try is a distribution of its own."""
NOTHING_AIMED = Detectable(None, None)
_SHOWN = 5
_NONE_ARRIVED = "no probe arrived"


@dataclass(frozen=True)
class Judge:
    """A check that waits for its share of the error probability. `by_chance`: a right channel may fail it."""

    judge: Callable[[float], Check]
    by_chance: bool = False

    def __call__(self, alpha: float) -> Check:
        """Return the check, wrong with the probability `alpha` at most if the channel is as asked."""
        return self.judge(alpha)


@dataclass(frozen=True)
class Judges:
    """Those of one direction. `tolerance_ns` is how much longer than asked a packet may take, for the clock's sake."""

    direction: str
    expected: Expectations
    tolerance_ns: int

    def steady_delay(self, quantity: str, asked_ns: int, delays_ns: Numbers, quantile: float) -> Judge:
        """Of packets that all take as long: a quantile, late by the clock's tolerance at most."""
        if not len(delays_ns):
            return self.not_measured(quantity, _NONE_ARRIVED, asked_ns)
        measured = int(sorted(delays_ns.tolist())[int(quantile * (len(delays_ns) - 1))])
        late_ns = self.tolerance_ns + 1
        detectable = Detectable(asked_ns - late_ns if asked_ns > late_ns else None, asked_ns + late_ns)
        aim = wrong_amount(asked_ns)
        low, count = measured - self.tolerance_ns, len(delays_ns)
        return self._within(quantity, asked_ns, measured, low, measured, count, detectable, aim)

    def jittered_delay(
        self, quantity: str, base_ns: int, delays_ns: Numbers, quantile: float, *, aimed: bool = False
    ) -> Judge:
        """A quantile, which lies between two of the delays seen but with probability alpha (without jitter, too).

        `aimed`: their number was chosen so that this quantile shows a delay that is wrong.
        """
        expected, count = self.expected, len(delays_ns)
        asked = base_ns + expected.offset_ns(quantile)
        if not count:
            return self.not_measured(quantity, _NONE_ARRIVED, asked)
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
            earlier = asked + off.low if off.low is not None and asked + off.low > 0 else None
            detectable = Detectable(earlier, asked + off.high if off.high is not None else None)
            aim = wrong_amount(asked) if aimed else NOTHING_AIMED
            low -= self.tolerance_ns
            return self._within(quantity, asked, measured, low, high, count, detectable, aim)(alpha)

        return Judge(judge, by_chance=True)

    def rate(self, measured: float | None, count: int, serialization_ns: int) -> Judge:
        """The rate; the kernel rounds the time that a frame takes down to whole nanoseconds."""
        quantity, asked = "rate, bit/s", self.expected.rate_bps
        if measured is None:
            return self.not_measured(quantity, "fewer than two probes arrived", asked)
        allowed = RATE_TOLERANCE + 1 / serialization_ns
        low, high = measured * (1 - allowed), measured * (1 + allowed)
        if asked is None:
            return self._within(quantity, inf, measured, low, high, count)
        off = allowed + RATE_ERROR
        detectable = Detectable(asked * (1 - off), asked * (1 + off))
        return self._within(quantity, asked, measured, low, high, count, detectable, wrong_amount(asked))

    def share(self, quantity: str, asked: float, count: Count, aim: Detectable = NOTHING_AIMED) -> Judge:
        """A probability, each trial drawn apart."""
        if not count.trials:
            return self.not_measured(quantity, _NONE_ARRIVED, asked)

        def judge(alpha: float) -> Check:
            low, high = share_interval(count.hits, count.trials, alpha)
            detectable = detectable_share(count.trials, asked, alpha)
            return self._within(quantity, asked, count.share, low, high, count.trials, detectable, aim)(alpha)

        return Judge(judge, by_chance=0 < asked < 1)

    def share_in_bursts(self, quantity: str, length_bytes: int, count: Count, aim: Detectable = NOTHING_AIMED) -> Judge:
        """The losses of a link that loses in bursts, by the exact distribution of their number.

        The interval is that of a rate which scales the number of losses, the bursts as they are.
        """
        expected = self.expected
        asked = expected.loss_probability(length_bytes)
        dropped = expected.dropped_probability(length_bytes)

        def judge(alpha: float) -> Check:
            fewest, most = accepted = accepted_counts(expected.burst_loss.lost_packets(count.trials, dropped), alpha)
            low = asked * (count.hits / most) if most else 0.0
            high = min(asked * (max(count.hits, 0.5) / fewest), 1.0) if fewest else 1.0
            assert expected.link.loss is not None
            detectable = _detectable_bursts(
                expected.link.loss, expected.link.duplication_rate, dropped, accepted, count.trials
            )
            return self._within(quantity, asked, count.share, low, high, count.trials, detectable, aim)(alpha)

        return Judge(judge, by_chance=True)

    def burst_length(self, asked: float, lengths: Numbers) -> Judge:
        """The mean length of geometric runs."""
        quantity = "mean length of a burst of losses, packets"
        runs, total = len(lengths), int(lengths.sum())
        if not runs:
            return self.not_measured(quantity, "no burst was seen from its beginning to its end", asked)

        def judge(alpha: float) -> Check:
            low, high = mean_run_interval(runs, total, alpha)
            detectable = detectable_run_length(runs, asked, alpha)
            return self._within(quantity, asked, total / runs, low, high, runs, detectable, wrong_length(asked))(alpha)

        return Judge(judge, by_chance=asked > 1)

    def none(self, quantity: str, measured: int, count: int) -> Judge:
        """A number of events that is to be 0: the fewest that are likely to show among so many packets."""
        least = 1 - (1 - POWER) ** (1 / count)
        return self._within(quantity, 0, measured, measured, measured, count, Detectable(None, least * count))

    def exactly(self, quantity: str, asked: int, measured: int, count: int) -> Judge:
        """A whole number that leaves nothing to chance."""
        others = Detectable(asked - 1, asked + 1)
        return self._within(quantity, asked, measured, measured, measured, count, others, certain=True)

    def at_most(self, quantity: str, asked: int, measured: int, count: int) -> Judge:
        """A whole number that no packet of those seen exceeded. What others would show is not known."""
        return self._within(quantity, asked, measured, measured, measured, count)

    def roughly(self, quantity: str, asked: float, measured: float, margin: float, count: int) -> Judge:
        """A number to within a margin."""
        others = Detectable(asked - 2 * margin if asked > 2 * margin else None, asked + 2 * margin)
        low, high = measured - margin, measured + margin
        return self._within(quantity, asked, measured, low, high, count, others, certain=True)

    def listed(self, quantity: str, asked: Sequence[int], measured: Sequence[int], count: int) -> Judge:
        """Exactly those numbers."""
        missing, others = sorted({*asked} - {*measured}), sorted({*measured} - {*asked})
        wrong = [
            f"{text}: {_some(numbers)}" for text, numbers in (("not hit", missing), ("also hit", others)) if numbers
        ]
        check = Check(
            self.direction,
            quantity,
            "failed" if wrong else "ok",
            len(asked),
            len(measured),
            count=count,
            reason="; ".join(wrong),
            detection_probability=1.0,
        )
        return Judge(lambda _: check)

    def not_measured(self, quantity: str, reason: str, asked: float | None = None) -> Judge:
        """Nothing can be said of it."""
        check = Check(self.direction, quantity, "not measured", asked, reason=reason)
        return Judge(lambda _: check)

    def _within(
        self,
        quantity: str,
        asked: float,
        measured: float,
        low: float,
        high: float,
        count: int,
        detectable: Detectable = NOTHING_AIMED,
        aim: Detectable = NOTHING_AIMED,
        *,
        certain: bool = False,
    ) -> Judge:
        """Whether what was asked lies within; `certain`: what is detectable is always caught, not just likely."""
        met = low <= asked <= high
        check = Check(
            self.direction,
            quantity,
            "ok" if met else "failed",
            float(asked),
            float(measured),
            low=float(low) if low != -inf else None,
            high=float(high) if high != inf else None,
            count=count,
            reason="" if met else "what was asked lies outside of what the measurement leaves possible",
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
    """The least wrong of a few wrong rates either way that so many packets catch."""

    def model(other: GilbertElliott | FourState) -> BurstLoss:
        return BurstLoss.of(other).duplicated(duplicated)

    def caught(factor: float) -> float | None:
        wrong = scaled(loss, factor, model)
        if wrong is None or caught_counts(accepted, wrong.lost_packets(packets, dropped)) < POWER:
            return None
        return dropped + (1 - dropped) * wrong.mean_rate

    less = (caught(1 / factor) for factor in _FACTORS)
    more = (caught(factor) for factor in _FACTORS)
    return Detectable(
        next((share for share in less if share is not None), None) if accepted[0] else None,
        next((share for share in more if share is not None), None),
    )


def _some(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers[:_SHOWN])) + (f" and {len(numbers) - _SHOWN} more" if numbers[_SHOWN:] else "")
