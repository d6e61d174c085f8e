"""The disk space and the memory of a sweep, from sizes measured on results of the exact clock."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from owlt.orchestrator.planning.plan import Run
from owlt.orchestrator.workers.launching import needed_memory_mb

RUN_BYTES = 60_000
"""Record, summary, logs, and the first packets of a run, which are kept whole."""
CAPTURED_PER_BYTE = {"full": 2.3, "headers": 0.27, "none": 0.03}
"""Bytes of captures and of what is derived from them for each byte that is sent, by `keep_captures`: packets of 1000
bytes, in two captures."""


@dataclass(frozen=True)
class Resources:
    """Bytes that a sweep needs, and those that this machine has now."""

    disk_bytes: int
    """Of the runs that are left, after their analysis."""
    disk_free_bytes: int
    guest_bytes: int
    """Memory of the largest guest; 0 if the sweep needs no guests."""
    guests: int
    """As many as run side by side."""
    memory_free_bytes: int

    @property
    def is_disk_short(self) -> bool:
        """Whether the disk is too small."""
        return self.disk_bytes > self.disk_free_bytes

    @property
    def is_memory_short(self) -> bool:
        """Whether the guests do not fit into memory side by side."""
        return self.guest_bytes * self.guests > self.memory_free_bytes


def resources(left: Iterable[Run], keep_captures: str, guests: int, results: Path) -> Resources:
    """What runs need that are left; `guests` run side by side, 0 on a rig without guests."""
    runs = list(left)
    per_byte = CAPTURED_PER_BYTE[keep_captures]
    memory_mb = max((needed_memory_mb([run]) for run in runs), default=0) if guests else 0
    return Resources(
        disk_bytes=sum(RUN_BYTES + int(per_byte * run.permutation.most_bytes) for run in runs),
        disk_free_bytes=shutil.disk_usage(_existing(results)).free,
        guest_bytes=memory_mb * 1_000_000,
        guests=guests,
        memory_free_bytes=_available_bytes(),
    )


def _existing(path: Path) -> Path:
    """A path, or the nearest directory above it that exists."""
    return next(each for each in (path.absolute(), *path.absolute().parents) if each.exists())


def _available_bytes() -> int:
    """Memory that programs can have without swapping, by the kernel's own estimate."""
    [line] = [line for line in Path("/proc/meminfo").read_text().splitlines() if line.startswith("MemAvailable:")]
    return int(line.split()[1]) * 1024
