"""The certificates of a sweep's channels: measured before the first run, kept beside the runs, held against each."""

from __future__ import annotations

import json
import platform
import time
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict

from emulator.certification.certificate import Certificate, Check
from emulator.channel import DIRECTIONS, ChannelSpec
from emulator.faults import ChannelRefused
from orchestrator.clock import Clock
from orchestrator.rigs.rig import Rig
from orchestrator.run_channel import seeded
from orchestrator.seeds import derived_seed
from orchestrator.whole_file import write_whole

DIRECTORY_NAME = "certificates"
TOLERANCE_NS = {"exact": 1_000, "skip": 200_000, "real": 200_000}
"""How much later than asked a packet may come: where computing takes time, so does the kernel's way with it."""
BUDGET_S = {"exact": 50_000.0, "skip": 50_000.0, "real": 60.0}
"""How long the channel may take to send the probes of one measurement: virtual time costs nothing. All measurements of
a channel together take less than the lease of `worker`."""


class Certified(BaseModel):
    """What a channel's certificate comes to, for a run that uses it: the reasons for suspicion, if any."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    verdict: Literal["ok", "failed", "incomplete"]
    suspicion: list[str] = []


def certify(channel: ChannelSpec, key: str, rig: Rig, clock: Clock, netem_takes_seeds: bool, directory: Path) -> str:
    """Have the emulator measure a channel; write its certificate to `directory` and return the verdict.

    A channel that cannot be applied or measured has a certificate that says so.
    """
    asked = seeded(channel, lambda direction: derived_seed(key, direction), netem_takes_seeds)
    started_at_ns = time.time_ns()
    try:
        certificate = rig.channel.certify(asked, {"tolerance_ns": TOLERANCE_NS[clock], "budget_s": BUDGET_S[clock]})
    except ChannelRefused as refusal:
        certificate = _unmeasured(asked, started_at_ns, str(refusal)).to_wire()
    directory.mkdir(exist_ok=True)
    write_whole(directory / f"{key}.json", json.dumps(certificate, indent=2) + "\n")
    return str(certificate["verdict"])


def _unmeasured(channel: ChannelSpec, started_at_ns: int, reason: str) -> Certificate:
    checks = tuple(Check(direction, "the channel", "not measured", reason=reason) for direction in DIRECTIONS)
    return Certificate(channel, checks, started_at_ns, 0.0, platform.release(), alpha=0.0)


def read_certificate(results: Path, key: str) -> Certificate | None:
    """The certificate of a channel in a results directory; None if there is none that can be read."""
    path = results / DIRECTORY_NAME / f"{key}.json"
    try:
        return Certificate.from_wire(json.loads(path.read_bytes()))
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return None


def certified(results: Path, keys: set[str]) -> dict[str, Certified]:
    """What the certificates that are there come to, by the keys of their channels."""
    found = {key: read_certificate(results, key) for key in keys}
    return {
        key: Certified(verdict=certificate.verdict, suspicion=_suspicion(certificate))
        for key, certificate in found.items()
        if certificate is not None
    }


def _suspicion(certificate: Certificate) -> list[str]:
    """What failed; or that nothing at all could be measured."""
    if any(check.verdict != "not measured" for check in certificate.checks):
        return certificate.suspicion()
    reasons = dict.fromkeys(check.reason for check in certificate.checks)
    return [f"nothing of it could be measured: {'; '.join(reasons)}"]
