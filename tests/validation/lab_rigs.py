"""Performs a sweep on lab rigs of namespaces, each in a guest of its own on the clock real, whose kernel has netem.

Each guest performs one shard, with a user's commands: `owlt run --rig --shard`, then `owlt merge`.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from orchestrator.kernel.build import find_kernel
from tests.system.conftest import Guest
from tests.system.sweeps import RECORDED, owlt

SCRIPT = Path(__file__).parent / "in_guest.py"
RIGS = 4
"""At a time. Their guests wait most of the time."""
LIMIT_S = 24 * 3600


def perform_on_lab_rigs(sweep: Path, results: Path, options: Sequence[str]) -> int:
    """Perform the runs of a sweep that are missing; return the exit status of the first `owlt run` that failed, or 0.

    The shards' results are in directories beside `results`, with the number of the shard.
    """
    kernel = find_kernel()
    if kernel is None or os.geteuid() != 0:
        print(f"{sweep.name}: not performed: it needs root and the guests' kernel (owlt kernel build)", file=sys.stderr)
        return 0
    cpus = sorted(os.sched_getaffinity(0))
    directories = [results.with_name(f"{results.name}-{number}") for number in range(1, RIGS + 1)]

    def perform_shard(number: int) -> subprocess.CompletedProcess[str]:
        directory = directories[number - 1]
        directory.mkdir(parents=True, exist_ok=True)
        guest = Guest(directory, kernel, cpus[number % len(cpus)])
        words = [str(LIMIT_S), str(sweep), "--shard", f"{number}/{RIGS}", *options]
        return guest.run(SCRIPT, *words, clock="real", timeout_s=LIMIT_S)

    with ThreadPoolExecutor(RIGS) as at_once:
        performed = list(at_once.map(perform_shard, range(1, RIGS + 1)))
    for done in performed:
        print(done.stdout.strip() or done.stderr, flush=True)
    for done in performed:
        if done.returncode not in RECORDED:
            return done.returncode
    shards = [directory / "results" for directory in directories]
    merged = owlt("merge", results, *shards, "--no-report", "--accept-differences", timeout_s=LIMIT_S)
    print(merged.stdout, merged.stderr)
    return merged.returncode
