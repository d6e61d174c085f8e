"""What a build is told of the channel: its rate and delay, unless the sweep tells it something else.

The main paper's channel carries 1,024,000 bit/s while NORM paces itself to 1,000,000.
"""

from __future__ import annotations

from dataclasses import dataclass

from emulator.quantities import format_delay
from orchestrator.plan import Run
from orchestrator.sweep import Sweep, Told, format_rate_or_unlimited
from orchestrator.variants import base_name


@dataclass(frozen=True)
class ToldValues:
    """Rate (None: unlimited), one-way delay and round trip as a build is told them."""

    rate_bps: float | None
    one_way_delay_s: float
    rtt_s: float


def told_values(run: Run, sweep: Sweep) -> ToldValues:
    """What the run's build is told. A delay of its own counts both ways."""
    point = run.permutation
    told = sweep.told.get(base_name(point.implementation), Told())
    rates = {"": point.rate_bps} | told.rate
    rate_bps = rates.get(format_rate_or_unlimited(point.rate_bps), rates[""])
    delay_ns = told.delay.get(format_delay(point.delay_ns), told.delay.get(""))
    if delay_ns is None:
        return ToldValues(rate_bps, point.delay_ns / 1e9, run.rtt_s)
    return ToldValues(rate_bps, delay_ns / 1e9, 2 * delay_ns / 1e9)
