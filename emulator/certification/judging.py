"""Verdicts: what was measured of a quantity beside what was asked of it.

A judge is a check that waits for its share of the error probability: how many there are is known only when all has
been measured. What is exact takes no notice of it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf

from emulator.certification.certificate import Check
from emulator.certification.expectations import Expectations
from emulator.certification.intervals import mean_run_interval, quantile_ranks, share_interval
from emulator.certification.measures import Count, Numbers

Judge = Callable[[float], Check]

RATE_TOLERANCE = 0.001
_SHOWN = 5
_NONE_ARRIVED = "no probe arrived"


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
        return self._within(quantity, asked_ns, measured, measured - self.tolerance_ns, measured, len(delays_ns))

    def jittered_delay(self, quantity: str, base_ns: int, delays_ns: Numbers, quantile: float) -> Judge:
        """A quantile, which lies between two of the delays seen but with probability alpha (without jitter, too)."""
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
            return self._within(quantity, asked, measured, low - self.tolerance_ns, high, count)(alpha)

        return judge

    def rate(self, measured: float | None, count: int) -> Judge:
        """The rate, to a thousandth."""
        quantity, asked = "rate, bit/s", self.expected.rate_bps
        if measured is None:
            return self.not_measured(quantity, "fewer than two probes arrived", asked)
        low, high = measured * (1 - RATE_TOLERANCE), measured * (1 + RATE_TOLERANCE)
        return self._within(quantity, asked or inf, measured, low, high, count)

    def share(self, quantity: str, asked: float, count: Count, packets_each: float = 1.0) -> Judge:
        """A probability, each trial drawn apart, or so many of them together."""
        if not count.trials:
            return self.not_measured(quantity, _NONE_ARRIVED, asked)

        def judge(alpha: float) -> Check:
            low, high = share_interval(count.hits / packets_each, count.trials / packets_each, alpha)
            return self._within(quantity, asked, count.share, low, high, count.trials)(alpha)

        return judge

    def burst_length(self, asked: float, lengths: Numbers) -> Judge:
        """The mean length of geometric runs."""
        quantity = "mean length of a burst of losses, packets"
        runs, total = len(lengths), int(lengths.sum())
        if not runs:
            return self.not_measured(quantity, "no burst was seen from its beginning to its end", asked)

        def judge(alpha: float) -> Check:
            low, high = mean_run_interval(runs, total, alpha)
            return self._within(quantity, asked, total / runs, low, high, runs)(alpha)

        return judge

    def exactly(self, quantity: str, asked: float, measured: float, count: int) -> Judge:
        """A number that leaves nothing to chance."""
        return self._within(quantity, asked, measured, measured, measured, count)

    def roughly(self, quantity: str, asked: float, measured: float, margin: float, count: int) -> Judge:
        """A number to within a margin."""
        return self._within(quantity, asked, measured, measured - margin, measured + margin, count)

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
        )
        return lambda _: check

    def not_measured(self, quantity: str, reason: str, asked: float | None = None) -> Judge:
        """Nothing can be said of it."""
        check = Check(self.direction, quantity, "not measured", asked, reason=reason)
        return lambda _: check

    def _within(self, quantity: str, asked: float, measured: float, low: float, high: float, count: int) -> Judge:
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
        )
        return lambda _: check


def _some(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers[:_SHOWN])) + (f" and {len(numbers) - _SHOWN} more" if numbers[_SHOWN:] else "")
