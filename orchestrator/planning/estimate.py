"""What runs need, computed from the plan alone: time, disk space on lab hosts, and the memory of a guest.

`infeasible` finds the points of the grid at which an implementation can never succeed: nothing is launched there.

The costs were measured on one machine without other work; a `Pace` corrects them with the durations of runs. What is
recorded already, and what this machine has, belongs to `sweep.forecast`.
"""

from __future__ import annotations

import os
from bisect import bisect_left
from collections import defaultdict, deque
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from math import ceil, log2
from typing import NamedTuple

from owlt.agents.contract.implementation import Clock, Implementation
from owlt.inputs.axes import base_name
from owlt.inputs.quantities import format_size
from owlt.orchestrator.planning.plan import Batch, Plan, Run
from owlt.results.permutation import FASTEST_BPS

GUEST_BOOT_WALL_S = 1.5
"""On a clock on which guests are booted; on the exact clock they are copied, which RUN_WALL_S includes."""
CERTIFICATE_WALL_S = 1.6
CERTIFICATE_REAL_WALL_S = 20.0
"""On the clock real: four channels of 25 ms and 600 ms took 16 s to 29 s."""
RUN_WALL_S = 0.4
WALL_S_PER_MEGABYTE = 0.13
"""With the analysis, of a core that does nothing else: a short run on the exact clock took 0.5 s from its start, and
0.25 s if it shared its start; the 5,760 runs of profiles/sweeps/grc-nack-2012.yaml, of which almost all do, 0.63 s
each, with certificates and report. The share that grows with the file is from runs of 10 kB, 1 MB and 10 MB."""

FILES_ON_A_HOST = 4
"""A host's files together, in sizes of the test file: two captures at the emulator, each with the packets' headers and
some retransmissions; the file itself and a capture at the other hosts."""
PORTS = 2
"""The emulator captures at both; each capture has what the sender sends."""

SESSION_RTTS = 3
"""A reliable transfer with losses takes about this many round trips in addition to the file itself."""


FIRST_GUEST_WALL_S = 3.0
"""On a virtual clock, a start of a sweep first prepares the guest that the others share."""
REPORT_WALL_S = 12.0
REPORT_WALL_S_PER_RUN = 0.02
"""Roughly: it depends on the number of figures. Reports of 48 and 192 runs took 25 s and 12 s."""

COSTS = (
    *(RUN_WALL_S, WALL_S_PER_MEGABYTE, SESSION_RTTS, GUEST_BOOT_WALL_S),
    *(CERTIFICATE_WALL_S, CERTIFICATE_REAL_WALL_S, REPORT_WALL_S, REPORT_WALL_S_PER_RUN),
)
"""What computed durations depend on; recorded durations are compared with those that the same costs give."""


class Took(NamedTuple):
    """How long a run, the certificate of a channel, or a report took, beside the time that it is computed to take."""

    clock: str
    implementation: str
    """"certificate" and "report" for these."""
    load: int
    """The size of the file, or the duration in ns; 0: none."""
    expected_s: float
    took_s: float
    permutation: str = ""
    """"": that of another sweep."""


CERTIFICATE, REPORT = "certificate", "report"


@dataclass(frozen=True)
class Slowness:
    """How many times longer than computed something takes: the mean, and the bounds of 80 % of what was recorded."""

    mean: float = 1.0
    low: float = 0.8
    high: float = 4.0
    """Without records: other work on a machine may slow it down so far."""
    recorded: int = 0


LEAST_RECORDED = 3
MOST_RECORDED = 50
"""Only so many of a kind count, the latest: other work on the machine may come and go."""


class Pace:
    """How much longer than computed runs take on this machine, learned from recorded ones.

    A run is compared with the most similar ones of which there are LEAST_RECORDED: of the same permutation; of the same
    implementation and file size; of the implementation; on the same clock.
    """

    def __init__(self, recorded: Iterable[Took] = (), crowding: float = 1.0) -> None:
        """`recorded` from the oldest to the latest; `crowding`: how much slower other work makes this machine now;
        this counts as long as nothing similar is recorded."""
        self.unknown = Slowness(mean=crowding, high=4 * crowding)
        self._times: dict[Hashable, deque[tuple[float, float]]] = defaultdict(lambda: deque(maxlen=MOST_RECORDED))
        """The ratio of the recorded to the computed time, and the computed time, which is its weight."""
        for each in recorded:
            for kind in _kinds(each.clock, each.implementation, each.load, each.permutation):
                self._times[kind].append((each.took_s / each.expected_s, each.expected_s))

    def of_run(self, run: Run, clock: str) -> Slowness:
        """The slowness of a run on a clock."""
        point = run.permutation
        return self._of(_kinds(clock, point.implementation, point.load, point.slug))

    def of(self, kind: str, clock: str) -> Slowness:
        """The slowness of certificates or reports."""
        return self._of(_kinds(clock, kind, 0, ""))

    def _of(self, kinds: Iterable[Hashable]) -> Slowness:
        for kind in kinds:
            if len(times := sorted(self._times.get(kind, ()))) >= LEAST_RECORDED:
                expected_s = sum(weight for _, weight in times)
                mean = sum(ratio * weight for ratio, weight in times) / expected_s
                ends = list(accumulate(weight for _, weight in times))
                low, high = (times[bisect_left(ends, share * expected_s)][0] for share in (0.1, 0.9))
                return Slowness(mean, min(low, mean), max(high, mean), len(times))
        return self.unknown


def _kinds(clock: str, implementation: str, load: int, permutation: str) -> list[Hashable]:
    """The kinds that something belongs to, the narrowest first. Certificates and reports are compared with their likes
    only."""
    kinds: list[Hashable] = [(clock, implementation, load, permutation)] if permutation else []
    kinds += [(clock, implementation, load), (clock, implementation)]
    return kinds if implementation in (CERTIFICATE, REPORT) else [*kinds, clock]


WITHOUT_RECORDS = Pace()


@dataclass
class _Sum:
    """A duration in seconds of wall time, with its range: that of all parts, as what slows one down slows down all."""

    mean: float = 0.0
    low: float = 0.0
    high: float = 0.0
    recorded: set[int] = field(default_factory=set)

    def add(self, computed_s: float, slowness: Slowness) -> None:
        """Add a part that is computed to take so long."""
        self.mean += computed_s * slowness.mean
        self.low += computed_s * slowness.low
        self.high += computed_s * slowness.high
        self.recorded.add(slowness.recorded)


@dataclass(frozen=True)
class Estimate:
    """Durations in seconds, on the rig's clock and on the wall clock."""

    runs: int
    rig_s: float
    wall_s: float
    side_by_side: int
    """Workers, each in a guest of its own on the virtual rig."""
    low_s: float = 0.0
    high_s: float = 0.0
    """80 % of the recorded durations are between those that these bounds of `wall_s` follow from."""
    is_learned: bool = True
    """Whether all runs are like some that this machine has recorded."""
    report_s: float = 0.0
    """The report afterwards; it is not part of `wall_s`."""

    @property
    def text(self) -> str:
        """One line for users."""
        runs = "1 run" if self.runs == 1 else f"{self.runs} runs"
        bounds = f"{duration_text(self.low_s)} to {duration_text(self.high_s)}"
        why = "" if self.is_learned else "; this machine has not recorded such runs yet"
        here = f"about {duration_text(self.wall_s)} on this machine ({bounds}{why}), {self.side_by_side} at a time"
        report = f"; the report: about {duration_text(self.report_s)} more" if self.report_s else ""
        return f"{runs}, about {duration_text(self.rig_s)} on the rig's clock, {here}{report}"


@dataclass(frozen=True)
class RigTime:
    """The duration of runs on one kind of rig, in seconds of wall time."""

    rig: str
    wall_s: float


def guests_side_by_side(clock: Clock, cores: int) -> int:
    """The number of guests with one core each: on `real` one core is kept for observing and analysing their runs."""
    return max(1, cores - 1) if clock == "real" else cores


def estimate(
    plan: Plan, guests: int | None = None, left: Sequence[Run] | None = None, pace: Pace = WITHOUT_RECORDS
) -> Estimate:
    """The duration of a plan: of its transfers on the real clock, of their computation on a virtual clock.

    `guests` run in parallel, by default one per core; on the real clock one core stays free. `left` are the runs that
    are not performed yet, by default all.
    """
    runs = plan.runs if left is None else left
    clock = plan.sweep.clock
    cores = len(os.sched_getaffinity(0))
    workers = min(guests or guests_side_by_side(clock, cores), cores) if plan.sweep.rig == "virtual" else 1
    total = _Sum()
    for run in runs:
        total.add(run_wall_s(run, clock) / workers, pace.of_run(run, clock))
    is_learned = 0 not in total.recorded
    if runs:
        shares = len(runs) / max(1, len(plan.runs))
        batches = sum(bool(batch.runs) for batch in plan.batches)  # those of other runs than selected ones are empty
        certify_s = certificate_wall_s(clock) * _certificates_left(plan, runs)
        total.add(certify_s / workers, pace.of(CERTIFICATE, clock))
        boots_s = 0.0 if is_learned else _boot_s(clock) * shares * batches / workers  # recorded runs have theirs
        total.add(boots_s + (0.0 if clock == "real" else FIRST_GUEST_WALL_S), pace.unknown)
    report_s = pace.of(REPORT, "").mean * report_wall_s(len(plan.runs))
    return Estimate(
        runs=len(runs),
        rig_s=sum(_session_s(run) for run in runs),
        wall_s=total.mean,
        side_by_side=workers,
        low_s=total.low,
        high_s=total.high,
        is_learned=is_learned,
        report_s=report_s,
    )


def run_wall_s(run: Run, clock: str) -> float:
    """How long a run is computed to take, in wall time, without the boot of its guest."""
    return _session_s(run) + RUN_WALL_S if clock == "real" else _computing_s([run])


def certificate_wall_s(clock: str) -> float:
    """How long the certification of a channel is computed to take, in wall time, with the boot of its guest."""
    return _boot_s(clock) + (CERTIFICATE_REAL_WALL_S if clock == "real" else CERTIFICATE_WALL_S)


def report_wall_s(runs: int) -> float:
    """How long the report of so many runs is computed to take, in wall time."""
    return REPORT_WALL_S + REPORT_WALL_S_PER_RUN * runs


def times_by_rig(runs: Sequence[Run], pace: Pace = WITHOUT_RECORDS) -> tuple[RigTime, ...]:
    """How long runs take on each kind of rig."""
    exact_s, real_s = (
        sum(run_wall_s(run, clock) * pace.of_run(run, clock).mean for run in runs) for clock in ("exact", "real")
    )
    return (
        RigTime("virtual rig, clock exact, on one core", exact_s),
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


def batch_wall_s(batch: Batch, clock: Clock, pace: Pace = WITHOUT_RECORDS) -> float:
    """The approximate wall time of a batch, with the boot of its guest."""
    boot_s = _boot_s(clock) * pace.unknown.mean if batch.runs else 0.0
    certify_s = pace.of(CERTIFICATE, clock).mean * certificate_wall_s(clock) * len(batch.certify)
    return boot_s + certify_s + sum(pace.of_run(run, clock).mean * run_wall_s(run, clock) for run in batch.runs)


def _certificates_left(plan: Plan, left: Sequence[Run]) -> int:
    """How many channels are certified: those of the runs that are left, but not of others, which have been."""
    names = {run.run_id for run in left}
    others = {run.channel_key for run in plan.runs if run.run_id not in names}
    to_certify = {key for batch in plan.certifications for key in batch.certify}
    return len(({run.channel_key for run in left} - others) & to_certify)


def _boot_s(clock: str) -> float:
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
    beyond = implementation.limits.exceeded(point.file_size_bytes, point.rate_bps, point.delay_ns / 1e9, point.ip)
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
REPEATS_FROM = 0.05
"""The packet error rate from which a protocol may repeat the file many times."""
REPEATED = 100
"""Bytes of memory for each byte of the file. CFDP with lists of 20 gaps sends the file 27 times at a packet error rate
of 0.1 (profiles/reproductions/grc-nack-2012): both captures are 54 times as large; a tmpfs has half of the memory."""
MOST_REPEATED_MB = 6144
"""Not for larger files: they are not known to be repeated so often."""
SMALL_PACKETS_BYTES = 10_000_000
"""Bytes of packets that do not depend on the file's size, such as reports and keep-alives."""


def guest_memory_mb(runs: list[Run]) -> int:
    """The memory of a guest: each size is twice the one below, so that few templates serve all runs.

    A guest takes from the machine only what it uses, so a run may have more than it is likely to need.
    """
    wanted_mb = max(needed_memory_mb(runs), max(map(_repeated_mb, runs), default=0))
    steps = max(0, ceil(log2(wanted_mb / SMALLEST_GUEST_MB)))
    return SMALLEST_GUEST_MB << steps


def _repeated_mb(run: Run) -> int:
    """The memory with which a guest holds the captures of a protocol that repeats the file many times because of lost
    packets."""
    point = run.permutation
    if max(point.packet_error_rate, point.reverse_packet_error_rate or 0.0) < REPEATS_FROM:
        return 0
    return min(MOST_REPEATED_MB, PROGRAMS_MB + ceil(REPEATED * (point.file_size_bytes or 0) / 1e6))


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
