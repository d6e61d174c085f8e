"""The rate and delay given to an implementation: the channel's, unless the sweep advertises others.

The main paper's channel carries 1,024,000 bit/s while NORM paces itself to 1,000,000.
"""

from __future__ import annotations

from dataclasses import dataclass

from owlt.emulator.channel.quantities import format_delay
from owlt.orchestrator.planning.language.quantities import format_rate_or_unlimited
from owlt.orchestrator.planning.plan import Run
from owlt.orchestrator.planning.sweep import Advertised, Sweep
from owlt.orchestrator.planning.variants import base_name


@dataclass(frozen=True)
class AdvertisedValues:
    """Rate (None: unlimited), one-way delay and round trip as they are given to an implementation."""

    rate_bps: float | None
    one_way_delay_s: float
    rtt_s: float


def advertised_values(run: Run, sweep: Sweep) -> AdvertisedValues:
    """The values given to the run's implementation. An advertised delay applies in both directions."""
    point = run.permutation
    advertised = sweep.advertised.get(base_name(point.implementation), Advertised())
    rates = {"": point.rate_bps} | advertised.rate
    rate_bps = rates.get(format_rate_or_unlimited(point.rate_bps), rates[""])
    delay_ns = advertised.delay.get(format_delay(point.delay_ns), advertised.delay.get(""))
    if delay_ns is None:
        return AdvertisedValues(rate_bps, point.delay_ns / 1e9, run.rtt_s)
    return AdvertisedValues(rate_bps, delay_ns / 1e9, 2 * delay_ns / 1e9)
