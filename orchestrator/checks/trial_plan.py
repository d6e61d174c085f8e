"""Trial runs: few channels that show whether an implementation works, as plans like any other.

A check is one implementation over a clean, a lossy and a dead channel; the table is every implementation over a clean,
a lossy and a lossier channel.
"""

from __future__ import annotations

from collections.abc import Mapping

from owlt.agents.contract.implementation import Clock, Implementation
from owlt.emulator.channel.spec import ChannelSpec, LinkSpec
from owlt.orchestrator.planning.plan import Plan, plan_sweep
from owlt.orchestrator.planning.sweep import Sweep

BEST_FIRST: tuple[Clock, ...] = ("exact", "skip", "real")
RATE_BPS = 10_000_000
FILE_SIZE = "1 MB"
SEED = 2012

CLEAN, LOSSY, LOSSIER, DEAD = "clean-25ms", "one-percent-250ms", "ten-percent-1250ms", "dead-25ms"


def _both_ways(delay_ms: int, packet_error_rate: float) -> ChannelSpec:
    link = LinkSpec(delay_ns=delay_ms * 1_000_000, rate_bps=RATE_BPS, packet_error_rate=packet_error_rate)
    return ChannelSpec(forward=link, reverse=link)


CHANNELS: Mapping[str, ChannelSpec] = {
    CLEAN: _both_ways(25, 0),
    LOSSY: _both_ways(250, 0.01),
    LOSSIER: _both_ways(1250, 0.1),
    DEAD: _both_ways(25, 1),
}
"""Equal in both directions. On the dead one nothing arrives: an implementation that reports success there is wrong."""


def check_plan(implementation: Implementation, channels: tuple[str, ...] = (CLEAN, LOSSY, DEAD)) -> Plan:
    """One implementation over a clean, a lossy and a dead channel, on which it must report a failure."""
    return _plan(
        f"check-{implementation.name}",
        {implementation.name: implementation},
        channels,
        "full",
        best_clock(implementation),
    )


def table_plans(implementations: Mapping[str, Implementation]) -> dict[Clock, Plan]:
    """Every implementation over a clean, a lossy and a lossier channel: one plan per clock, each on its best clock."""
    plans: dict[Clock, Plan] = {}
    for clock in BEST_FIRST:
        on_this_clock = {
            name: implementation
            for name, implementation in implementations.items()
            if best_clock(implementation) == clock
        }
        if on_this_clock:
            plans[clock] = _plan("implementations-table", on_this_clock, (CLEAN, LOSSY, LOSSIER), "headers", clock)
    return plans


def best_clock(implementation: Implementation) -> Clock:
    """The clock on which the runs of an implementation are most repeatable."""
    return next(clock for clock in BEST_FIRST if clock in implementation.clocks)


def _plan(
    name: str, implementations: Mapping[str, Implementation], channels: tuple[str, ...], packets: str, clock: Clock
) -> Plan:
    sweep = Sweep.model_validate(
        {
            "name": name.replace("_", "-").replace(".", "-"),
            "seed": SEED,
            "clock": clock,
            "implementations": list(implementations),
            "file_size": FILE_SIZE,
            "channel": list(channels),
            "certify": False,
            "keep_captures": packets,
            "runs_per_guest": 4,
        }
    )
    return plan_sweep(sweep, dict(implementations), {channel: CHANNELS[channel] for channel in channels})
