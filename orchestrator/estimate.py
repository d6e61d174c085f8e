"""About how long a plan takes, from what runs have cost on this machine or on the one it was tuned on."""

from __future__ import annotations

import os
from dataclasses import dataclass

from orchestrator.clock import guests_side_by_side
from orchestrator.plan import Plan, Run

GUEST_BOOT_WALL_S = 1.5
CERTIFICATE_WALL_S = 3.0
RUN_WALL_S = 1.0
WALL_S_PER_MEGABYTE = 0.6
"""Measured on the demo sweep, two shared cores, exact clock."""

SESSION_RTTS = 3
"""A reliable transfer with losses takes about this many round trips beside the file itself."""


@dataclass(frozen=True)
class Estimate:
    """Durations in seconds: of the rig's clock, and of a clock on the wall."""

    runs: int
    rig_s: float
    wall_s: float
    side_by_side: int
    """Workers, each in a guest of its own on the virtual rig."""

    @property
    def told(self) -> str:
        """One line for people."""
        here = f"about {duration_text(self.wall_s)} here, {self.side_by_side} at a time"
        return f"{self.runs} runs, about {duration_text(self.rig_s)} on the rig's clock, {here}"


def estimate(plan: Plan, guests: int | None = None) -> Estimate:
    """How long a plan takes: on the real clock as long as its transfers, on a virtual one as long as computing them.

    `guests` side by side, by default one for each core; on the real clock one core is left free.
    """
    cores = len(os.sched_getaffinity(0))
    workers = min(guests or guests_side_by_side(plan.sweep.clock, cores), cores) if plan.sweep.rig == "virtual" else 1
    rig_s = sum(_session_s(run) for run in plan.runs)
    if plan.sweep.clock == "real":
        return Estimate(len(plan.runs), rig_s, (rig_s + RUN_WALL_S * len(plan.runs)) / workers, workers)
    megabytes = sum(run.permutation.file_size_bytes for run in plan.runs) / 1e6
    certificates = sum(len(batch.certify) for batch in plan.certifications)
    guests_s = GUEST_BOOT_WALL_S * len([*plan.batches, *plan.certifications]) + CERTIFICATE_WALL_S * certificates
    work_s = guests_s + RUN_WALL_S * len(plan.runs) + WALL_S_PER_MEGABYTE * megabytes
    return Estimate(len(plan.runs), rig_s, work_s / workers, workers)


def _session_s(run: Run) -> float:
    return SESSION_RTTS * run.rtt_s + run.file_time_s


def duration_text(seconds: float) -> str:
    """A duration for people, in s, min, or h and min."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h {minutes % 60} min"
