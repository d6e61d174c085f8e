"""The memory that runs need in a guest, the size of the guest that follows from it, and the memory of this machine."""

from __future__ import annotations

import os
from math import ceil, log2

from owlt.orchestrator.planning.plan import Run
from owlt.results.permutation import FASTEST_BPS

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
