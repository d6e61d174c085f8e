"""Trying builds: the few channels that tell whether one works, as plans like any other.

A check is one build over a clean, a lossy and a dead channel; the table is every build over the three that the papers'
builds are compared on first.
"""

from __future__ import annotations

from collections.abc import Mapping

from agents.contract import Implementation
from emulator.channel import ChannelSpec, LinkSpec
from orchestrator.clock import Clock
from orchestrator.plan import Plan, plan_sweep
from orchestrator.sweep import Sweep

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
"""The same both ways. Over the dead one nothing arrives: a build that claims success there cannot be believed."""


def check_plan(build: Implementation) -> Plan:
    """One build: does it carry a file over a clean and a lossy channel, and does it fail honestly over a dead one."""
    return _plan(f"check-{build.name}", {build.name: build}, (CLEAN, LOSSY, DEAD), "whole", best_clock(build))


def table_plans(builds: Mapping[str, Implementation]) -> dict[Clock, Plan]:
    """Every build over a clean, a lossy and a lossier channel: a plan for each clock, a build on the best it can."""
    plans: dict[Clock, Plan] = {}
    for clock in BEST_FIRST:
        able = {name: build for name, build in builds.items() if best_clock(build) == clock}
        if able:
            plans[clock] = _plan("builds-table", able, (CLEAN, LOSSY, LOSSIER), "headers", clock)
    return plans


def best_clock(build: Implementation) -> Clock:
    """The clock on which a build's runs can be repeated best."""
    return next(clock for clock in BEST_FIRST if clock in build.clocks)


def _plan(
    name: str, builds: Mapping[str, Implementation], channels: tuple[str, ...], packets: str, clock: Clock
) -> Plan:
    sweep = Sweep.model_validate(
        {
            "name": name.replace("_", "-").replace(".", "-"),
            "seed": SEED,
            "clock": clock,
            "implementations": list(builds),
            "file_size": FILE_SIZE,
            "channel": list(channels),
            "certify": False,
            "keep_captures": packets,
            "runs_per_guest": 4,
        }
    )
    return plan_sweep(sweep, dict(builds), {channel: CHANNELS[channel] for channel in channels})
