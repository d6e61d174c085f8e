"""Durations that do not depend on the machine's clock, which may be set at any time, by NTP or by hand."""

from __future__ import annotations

import time

SHORTEST_STEP_NS = 1_000_000
"""Reading both clocks may be interrupted in between; NTP slews both, and steps only one."""


def steady_s() -> float:
    """Seconds since the machine was booted, also those in which it slept. The same for all of its processes."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class SteadyTime:
    """The time in s since 1970 as the machine's clock would show it if it was not set after the start of this object.

    So the difference of two times is the time between them.
    """

    def __init__(self) -> None:
        self._begin_s = time.time() - steady_s()

    def __call__(self) -> float:
        """The time now."""
        return self._begin_s + steady_s()


class ClockStep:
    """Whether the machine's clock, which gives captures their times, is set from the start of this object on."""

    def __init__(self) -> None:
        self._begin_ns = _offset_ns()

    def doubts(self) -> list[str]:
        """A sentence if the clock was set meanwhile, or the machine slept."""
        return step_doubts(_offset_ns() - self._begin_ns)


def step_doubts(step_ns: int) -> list[str]:
    """A sentence about a step of this length, unless it is too short."""
    if abs(step_ns) < SHORTEST_STEP_NS:
        return []
    return [f"the clock was set by {step_ns / 1e9:+.3f} s during the run, so times in its captures are wrong"]


def _offset_ns() -> int:
    return time.time_ns() - time.monotonic_ns()
