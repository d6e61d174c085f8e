"""A load for tests: programs that compute all the time, a few on each processor, bounded in time."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

_BUSY = "import sys, time\nend = time.monotonic() + float(sys.argv[1])\nwhile time.monotonic() < end:\n    pass"


@contextmanager
def load(lasts_s: float, on_each: int = 1) -> Iterator[None]:
    """Keep every processor that this process may use busy, until the block is left; no longer than `lasts_s`."""
    with ExitStack() as undo:
        for cpu in sorted(os.sched_getaffinity(0)) * on_each:
            command = ["taskset", "-c", str(cpu), sys.executable, "-c", _BUSY, str(lasts_s)]
            busy = subprocess.Popen(command, stdin=subprocess.DEVNULL)
            undo.callback(busy.wait)
            undo.callback(busy.kill)
        yield
