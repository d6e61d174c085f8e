"""The certification of a channel before the first run that uses it: the emulator measures it."""

from __future__ import annotations

import platform
import time
from functools import partial
from pathlib import Path

from owlt.emulator.certification.certificate import Certificate, Check
from owlt.emulator.channel.spec import DIRECTIONS, ChannelSpec
from owlt.emulator.faults import ChannelRefused
from owlt.orchestrator.planning.clock import Clock
from owlt.orchestrator.planning.run_channel import seeded
from owlt.orchestrator.planning.seeds import link_seed
from owlt.orchestrator.results.certificates import write_certificate
from owlt.orchestrator.rigs.rig import Rig

TOLERANCE_NS = {"exact": 1_000, "skip": 200_000, "real": 200_000}
"""Largest delay of a packet beyond the specification: the kernel adds some on clocks where computation takes time."""
BUDGET_S = {"exact": 50_000.0, "skip": 50_000.0, "real": 60.0}
"""Longest time to send the probes of one measurement: virtual time is free. All measurements of a channel together take
less than the lease of `worker`."""


def certify(channel: ChannelSpec, key: str, rig: Rig, clock: Clock, netem_takes_seeds: bool, directory: Path) -> str:
    """Have the emulator measure a channel; write its certificate to `directory` and return the verdict.

    A channel that cannot be applied or measured has a certificate that says so.
    """
    specified = seeded(channel, partial(link_seed, key), netem_takes_seeds)
    started_at_ns = time.time_ns()
    try:
        certificate = rig.channel.certify(specified, {"tolerance_ns": TOLERANCE_NS[clock], "budget_s": BUDGET_S[clock]})
    except ChannelRefused as refusal:
        certificate = _unmeasured(specified, started_at_ns, str(refusal)).to_wire()
    write_certificate(certificate, key, directory)
    return str(certificate["verdict"])


def _unmeasured(channel: ChannelSpec, started_at_ns: int, reason: str) -> Certificate:
    checks = tuple(Check(direction, "the channel", "not measured", reason=reason) for direction in DIRECTIONS)
    return Certificate(channel, checks, started_at_ns, 0.0, platform.release(), alpha=0.0)
