"""Whether this machine has processor time to spare: by the kernel's own count of stalls, /proc/pressure/cpu.

Its `total` is for how long, in µs, some thread waited for a processor (Documentation/accounting/psi.rst). A kernel that
does not count it (CONFIG_PSI; `psi=1` where it is off) is taken to be quiet: nobody can tell.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path

PRESSURE = Path("/proc/pressure/cpu")
QUIET_SHARE = 0.05
"""Of the time some thread may wait for a processor on a machine that is quiet."""
WINDOW_S = 1.0
PATIENCE_S = 120.0
"""So long in all a start of a sweep waits for a quiet machine, unless OWLT_PATIENCE_S says otherwise."""


class Patience:
    """Waits for the machine to be quiet, again and again, but no longer in all than it was given time for."""

    def __init__(self, patience_s: float = PATIENCE_S, stalled_s: Callable[[], float | None] | None = None) -> None:
        self._left_s = patience_s
        self._stalled_s = stalled_s or stalled_in_all_s

    @property
    def is_used_up(self) -> bool:
        """Whether it will wait no more."""
        return self._left_s <= 0

    def wait_for_quiet(self, is_over: Callable[[], bool]) -> bool:
        """Return once the machine was quiet for a while: True; or when patience is used up, or `is_over`: False."""
        while not (self.is_used_up or is_over()):
            begin_s, before_s = time.monotonic(), self._stalled_s()
            time.sleep(WINDOW_S)
            passed_s, after_s = time.monotonic() - begin_s, self._stalled_s()
            if before_s is None or after_s is None or after_s - before_s < QUIET_SHARE * passed_s:
                return True
            self._left_s -= passed_s
        return False


def stalled_in_all_s() -> float | None:
    """For how long some thread has waited for a processor since this machine was started; None: not counted."""
    try:
        counted = re.search(r"^some .*\btotal=(\d+)", PRESSURE.read_text(), re.MULTILINE)
    except OSError:
        return None
    return int(counted[1]) / 1e6 if counted else None
