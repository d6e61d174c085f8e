"""What runs need, computed from the plan alone: time, the memory of their guests, and disk space on lab hosts.

`infeasible` finds the points of the grid at which an implementation can never succeed: nothing is launched there.

The costs were measured on one machine. What is recorded already, and what this machine has, belongs to
`sweep.forecast`.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, log2

from owlt.agents.contract.implementation import Clock, Implementation
from owlt.inputs.axes import base_name
from owlt.inputs.quantities import format_size
from owlt.orchestrator.planning.plan import Batch, Plan, Run
from owlt.results.record import FASTEST_BPS

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


def guests_side_by_side(clock: Clock, cores: int) -> int:
    """The number of guests with one core each: on `real` one core is kept for observing and analysing their runs."""
    return max(1, cores - 1) if clock == "real" else cores


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


def infeasible(run: Run, implementation: Implementation) -> str | None:
    """Why a run cannot complete; None if it can.

    The transfer time is that at the line rate, without any header. A channel that changes over time is not examined for
    it, because it may be faster than its lowest rate.
    """
    point = run.permutation
    if point.duration_ns is not None and implementation.duration is None:
        return f"sends files only: the profile of {base_name(implementation.name)} has no 'duration'"
    beyond = implementation.limits.exceeded(point.file_size_bytes, point.rate_bps, point.delay_ns / 1e9)
    if beyond is not None:
        return beyond
    limit_s = run.deadline_s(implementation)
    if limit_s < run.rtt_s:
        return f"the time limit of {limit_s:g} s is below the round trip of {run.rtt_s:g} s"
    if not run.channel_changes_s and limit_s < run.file_time_s:
        sent = f"{format_size(point.file_size_bytes or 0)} take {run.file_time_s:g} s at the line rate"
        return f"the time limit is {limit_s:g} s, and {sent}"
    return None


PROGRAMS_MB = 512
SMALLEST_GUEST_MB = 768
SENT_PER_BYTE = 4
"""Bytes sent for each byte of the file, at most: the file and as many repairs, all duplicated by the channel."""
SMALL_PACKETS_BYTES = 10_000_000
"""Bytes of packets that do not depend on the file's size, such as reports and keep-alives."""


def guest_memory_mb(runs: list[Run]) -> int:
    """The memory of a guest: each size is twice the one below, so that few templates serve all runs.

    A guest takes from the machine only what it uses.
    """
    steps = max(0, ceil(log2(needed_memory_mb(runs) / SMALLEST_GUEST_MB)))
    return SMALLEST_GUEST_MB << steps


def beyond_memory(run: Run, machine_bytes: int) -> str | None:
    """Why a machine with so much memory cannot hold the guest of a run; None if it can."""
    needed_bytes = needed_memory_mb([run]) * 1_000_000
    if needed_bytes <= machine_bytes:
        return None
    return f"the guest needs {needed_bytes / 1e9:.1f} GB of memory, the machine has {machine_bytes / 1e9:.1f} GB"


def machine_memory_bytes() -> int:
    """All memory of this machine."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def needed_memory_mb(runs: list[Run]) -> int:
    """The memory that runs need in a guest: for its programs, the files and captures in tmpfs, and packets in flight.

    A run for a duration has captures and no files. An skb's true size is two to three times its packet's. Certifying
    sends little at a time.
    """
    in_flight = max(map(_in_flight, runs), default=0.0)
    files = max((_in_tmpfs(run) for run in runs), default=0)
    return PROGRAMS_MB + ceil((3 * 2 * in_flight + files) / 1e6)


def _in_flight(run: Run) -> float:
    """The most bytes in flight in one direction: at most what the channel holds, and at most what is sent."""
    held = (run.permutation.rate_bps or FASTEST_BPS) / 8 * run.rtt_s / 2
    return min(held, SENT_PER_BYTE * run.permutation.most_bytes + SMALL_PACKETS_BYTES)


def _in_tmpfs(run: Run) -> int:
    """The bytes of the files and captures of a run."""
    return (8 if run.permutation.duration_ns is None else 3) * run.permutation.most_bytes
