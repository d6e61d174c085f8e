"""Boots a kernel as the virtual rig does, to see what it can do here: seccomp, clocks, netem's seed, bpf()."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from orchestrator.clock import Clock
from orchestrator.errors import OwltError
from orchestrator.rigs.guest import Boot, launch

GUEST_LIMIT_S = 30.0
"""A guest that only probes takes two seconds; one that takes this long hangs."""
MEMORY_MB = 256
FINDINGS_NAME = "findings.json"
SLEEP_S: dict[Clock, float] = {"exact": 1000.0, "skip": 1000.0, "real": 0.05}
"""How long the guest sleeps by its own clock; on a virtual one that takes no time."""


@dataclass(frozen=True)
class Abilities:
    """What was seen in guests on this machine."""

    seccomp: bool
    clocks: list[Clock]
    ends_spins: bool
    netem_seed: bool
    bpf: bool


@dataclass(frozen=True)
class GuestRun:
    """One guest from boot to power-off, or to its end by force. `console` is what it printed."""

    wall_s: float
    hung: bool
    console: str


def abilities(linux: Path) -> Abilities:
    """Boot guests and see. Raises OwltError for a kernel that cannot serve the virtual rig here at all."""
    seen = _findings(linux, "exact", True) if knows_seccomp(linux) else {}
    seccomp = bool(seen)
    seen = seen or _findings(linux, "exact", False)
    others: tuple[Clock, ...] = ("skip", "real")
    found: dict[Clock, dict[str, Any]] = {"exact": seen}
    found |= {clock: _findings(linux, clock, seccomp) for clock in others}
    kept = [clock for clock, findings in found.items() if _kept_time(clock, findings)]
    if "exact" not in kept or "capabilities" not in seen:
        raise OwltError(f"{linux.name} was built, but no guest came up on the exact clock here: use another --source")
    netem = seen["capabilities"]["netem"]
    if not netem["available"]:
        raise OwltError(f"{linux.name} was built, but its netem does not work: {netem['reason']}")
    return Abilities(
        seccomp=seccomp,
        clocks=kept,
        ends_spins=seen.get("ends_spins", False),
        netem_seed=seen["capabilities"]["seed"]["available"],
        bpf=seen["bpf"],
    )


def run_guest(boot: Boot, directory: Path, program: list[str], limit_s: float = GUEST_LIMIT_S) -> GuestRun:
    """Run a program in a guest to its power-off. One that takes longer than `limit_s` of wall time is ended."""
    start_s = time.monotonic()
    guest = launch(boot, directory, program)
    try:
        console, hung = guest.communicate(timeout=limit_s)[0], False
    except subprocess.TimeoutExpired:
        with suppress(ProcessLookupError):
            os.killpg(guest.pid, signal.SIGKILL)
        console, hung = guest.communicate()[0], True
    return GuestRun(time.monotonic() - start_s, hung, console)


def boot_for(linux: Path, clock: Clock, seccomp: bool) -> Boot:
    """A small guest on the last of the CPUs that we may use."""
    cpu = max(os.sched_getaffinity(0))
    return Boot(kernel=linux, clock=clock, cpu=cpu, memory_mb=MEMORY_MB, seed=1, seccomp=seccomp)


def knows_seccomp(linux: Path) -> bool:
    """Whether the kernel has the option; one that has not would take it for a word to its init."""
    told = subprocess.run([linux, "--help"], capture_output=True, text=True, errors="replace", check=False)
    return "\nseccomp=" in told.stdout


def _findings(linux: Path, clock: Clock, seccomp: bool) -> dict[str, Any]:
    """What the guest wrote before it ended; nothing when it did not come up."""
    with tempfile.TemporaryDirectory(prefix="owlt-probe-") as name:
        program = [sys.executable, "-m", "orchestrator.kernel.inside", clock]
        run_guest(boot_for(linux, clock, seccomp), Path(name), program)
        findings = Path(name, FINDINGS_NAME)
        return dict(json.loads(findings.read_text())) if findings.exists() else {}


def _kept_time(clock: Clock, findings: dict[str, Any]) -> bool:
    """A virtual clock that did not skip the guest's sleep would have run into the guest's limit."""
    slept_s = float(findings.get("slept_s", 0.0))
    return SLEEP_S[clock] <= slept_s < SLEEP_S[clock] + 1.0
