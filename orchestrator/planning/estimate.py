"""The approximate duration of a plan, from costs measured on one machine, and the disk space of a run on a lab rig."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

from owlt.orchestrator.planning.clock import Clock, guests_side_by_side
from owlt.orchestrator.planning.plan import Batch, Plan, Run

GUEST_BOOT_WALL_S = 1.5
"""On a clock on which guests are booted; on the exact clock they are copied, which RUN_WALL_S includes."""
CERTIFICATE_WALL_S = 1.6
RUN_WALL_S = 0.5
WALL_S_PER_MEGABYTE = 0.13
"""With the analysis, of a core that does nothing else: the 5,760 runs of profiles/sweeps/grc-nack-2012.yaml, exact
clock, took 0.88 s each, with certificates and report. Their share that grows with the file is from runs of 10 kB, 1 MB
and 10 MB."""

FILES_ON_A_HOST = 4
"""A host's files together, in sizes of the test file: two captures at the emulator, each with the packets' headers and
some retransmissions; the file itself and a capture at the other hosts."""
PORTS = 2
"""The emulator captures at both; each capture has what the sender sends."""

SESSION_RTTS = 3
"""A reliable transfer with losses takes about this many round trips in addition to the file itself."""


@dataclass(frozen=True)
class Estimate:
    """Durations in seconds, on the rig's clock and on the wall clock."""

    runs: int
    rig_s: float
    wall_s: float
    side_by_side: int
    """Workers, each in a guest of its own on the virtual rig."""

    @property
    def text(self) -> str:
        """One line for users."""
        runs = "1 run" if self.runs == 1 else f"{self.runs} runs"
        here = f"about {duration_text(self.wall_s)} on this machine, {self.side_by_side} at a time"
        return f"{runs}, about {duration_text(self.rig_s)} on the rig's clock, {here}"


@dataclass(frozen=True)
class RigTime:
    """The duration of runs on one kind of rig, in seconds of wall time."""

    rig: str
    wall_s: float


def estimate(plan: Plan, guests: int | None = None, left: Sequence[Run] | None = None) -> Estimate:
    """The duration of a plan: of its transfers on the real clock, of their computation on a virtual clock.

    `guests` run in parallel, by default one per core; on the real clock one core stays free. `left` are the runs that
    are not performed yet, by default all.
    """
    runs = plan.runs if left is None else left
    cores = len(os.sched_getaffinity(0))
    workers = min(guests or guests_side_by_side(plan.sweep.clock, cores), cores) if plan.sweep.rig == "virtual" else 1
    rig_s = sum(_session_s(run) for run in runs)
    if plan.sweep.clock == "real":
        return Estimate(len(runs), rig_s, (rig_s + RUN_WALL_S * len(runs)) / workers, workers)
    certificates = _certificates_left(plan, runs)
    shares = len(runs) / max(1, len(plan.runs))
    batches = sum(bool(batch.runs) for batch in plan.batches)  # those of other runs than selected ones are empty
    guests_s = _boot_s(plan.sweep.clock) * (shares * batches + certificates)
    work_s = guests_s + CERTIFICATE_WALL_S * certificates + _computing_s(runs)
    return Estimate(len(runs), rig_s, work_s / workers, workers)


def times_by_rig(runs: Sequence[Run]) -> tuple[RigTime, ...]:
    """How long runs take on each kind of rig."""
    real_s = sum(_session_s(run) for run in runs) + RUN_WALL_S * len(runs)
    return (
        RigTime("virtual rig, clock exact, on one core", _computing_s(runs)),
        RigTime("local rig or lab, clock real, one run at a time", real_s),
    )


def disk_bytes(run: Run, role: str, host_captures: bool) -> int:
    """The disk space that a run needs on a host of a lab rig at most, in bytes.

    A sender that sends for a duration sends at the channel's rate, or at its card's if that is unlimited. Its data come
    from no file, so that sender and receiver then need space for their captures only.
    """
    most_bytes = run.permutation.most_bytes
    if run.permutation.duration_ns is None:
        return FILES_ON_A_HOST * most_bytes
    return (PORTS if role == "emulator" else int(host_captures)) * most_bytes


def batch_wall_s(batch: Batch, clock: Clock) -> float:
    """The approximate wall time of a batch, with the boot of its guest."""
    transfers_s = sum(_session_s(run) for run in batch.runs) if clock == "real" else 0.0
    return _boot_s(clock) + CERTIFICATE_WALL_S * len(batch.certify) + _computing_s(batch.runs) + transfers_s


def _certificates_left(plan: Plan, left: Sequence[Run]) -> int:
    """How many channels are certified: those of the runs that are left, but not of others, which have been."""
    names = {run.run_id for run in left}
    others = {run.channel_key for run in plan.runs if run.run_id not in names}
    to_certify = {key for batch in plan.certifications for key in batch.certify}
    return len(({run.channel_key for run in left} - others) & to_certify)


def _boot_s(clock: Clock) -> float:
    return 0.0 if clock == "exact" else GUEST_BOOT_WALL_S


def _computing_s(runs: Sequence[Run]) -> float:
    megabytes = sum(run.permutation.most_bytes for run in runs) / 1e6
    return RUN_WALL_S * len(runs) + WALL_S_PER_MEGABYTE * megabytes


def _session_s(run: Run) -> float:
    return SESSION_RTTS * run.rtt_s + run.file_time_s + run.duration_s


def duration_text(seconds: float) -> str:
    """A duration in s, min, or h and min."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h {minutes % 60} min"
