"""Performs a sweep on a lab rig of namespaces in a guest on the clock real, whose kernel has netem, as a user does:
`owlt run --rig`.

It is one guest, because several on one machine disturb each other: the programs of three hosts share its processor.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from owlt.orchestrator.kernel.kernel import find_kernel
from tests.system.conftest import Guest

SCRIPT = Path(__file__).parent / "in_guest.py"
LIMIT_S = 24 * 3600


def perform_on_lab_rig(sweep: Path, results: Path, options: Sequence[str]) -> int:
    """Perform the runs of a sweep that are missing; return the exit status of `owlt run`, 0 if it cannot be started."""
    kernel = find_kernel()
    if kernel is None or os.geteuid() != 0:
        print(f"{sweep.name}: not performed: it needs root and the guests' kernel (owlt kernel build)", file=sys.stderr)
        return 0
    results.mkdir(parents=True, exist_ok=True)
    done = Guest(results, kernel).run(SCRIPT, str(LIMIT_S), str(sweep), *options, clock="real", timeout_s=LIMIT_S)
    print(done.stdout, done.stderr, flush=True)
    return done.returncode
