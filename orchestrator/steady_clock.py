"""Durations that do not depend on the machine's clock, which may be set at any time, by NTP or by hand."""

from __future__ import annotations

import time

SHORTEST_STEP_NS = 1_000_000
"""NTP slews both clocks, and steps only one."""
UNINTERRUPTED_NS, ATTEMPTS = 100_000, 20
"""Both clocks are read again if that took longer, because the processor did something else in between."""


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
    """By how much the machine's clock is ahead of the monotonic one, from the shortest of the attempts to read both."""
    shortest_ns = offset_ns = None
    for _ in range(ATTEMPTS):
        before_ns, now_ns, after_ns = time.monotonic_ns(), time.time_ns(), time.monotonic_ns()
        if shortest_ns is None or after_ns - before_ns < shortest_ns:
            shortest_ns, offset_ns = after_ns - before_ns, now_ns - before_ns
        if shortest_ns <= UNINTERRUPTED_NS:
            break
    return offset_ns or 0
