"""Whether this machine has processor time to spare: by the kernel's own count of stalls, /proc/pressure/cpu.

Its `total` is for how long, in µs, some thread waited for a processor (Documentation/accounting/psi.rst). If the
kernel does not count it (CONFIG_PSI; `psi=1` on its command line), the machine is assumed to be quiet.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path

PRESSURE = Path("/proc/pressure/cpu")
QUIET_SHARE = 0.05
"""The share of time in which some thread may wait for a processor on a quiet machine."""
WINDOW_S = 1.0
PATIENCE_S = 120.0
"""The total time for which a start of a sweep waits for a quiet machine, unless OWLT_PATIENCE_S is set."""


class Patience:
    """Waits for the machine to be quiet, as often as needed, but in total no longer than `patience_s`.

    `stalled_s` counts like `stalled_in_all_s`; `sleep` and `now_s` are the clock.
    """

    def __init__(
        self,
        patience_s: float = PATIENCE_S,
        stalled_s: Callable[[], float | None] | None = None,
        sleep: Callable[[float], None] = time.sleep,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._left_s = patience_s
        self._stalled_s = stalled_s or stalled_in_all_s
        self._now_s = now_s
        self._sleep = sleep

    @property
    def is_used_up(self) -> bool:
        """Whether its time is used up."""
        return self._left_s <= 0

    def wait_for_quiet(self, is_over: Callable[[], bool], stalled_s: Callable[[], float | None] | None = None) -> bool:
        """Return True once the machine was quiet for WINDOW_S; False if the time is used up or `is_over`.

        `stalled_s` counts on another machine.
        """
        stalled_s = stalled_s or self._stalled_s
        while not (self.is_used_up or is_over()):
            begin_s, before_s = self._now_s(), stalled_s()
            self._sleep(WINDOW_S)
            passed_s, after_s = self._now_s() - begin_s, stalled_s()
            if before_s is None or after_s is None or after_s - before_s < QUIET_SHARE * passed_s:
                return True
            self._left_s -= passed_s
        return False


def stalled_in_all_s(pressure: Path = PRESSURE) -> float | None:
    """The time in which some thread waited for a processor since this machine started; None if it is not counted."""
    try:
        counted = re.search(r"^some .*\btotal=(\d+)", pressure.read_text(), re.MULTILINE)
    except OSError:
        return None
    return int(counted[1]) / 1e6 if counted else None
