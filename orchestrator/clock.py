"""The three clocks a run can be timed by. A record carries its clock; figures never mix two of them.

exact: computing costs no time and idle time is skipped; everything that is not bound by the CPU.
skip: computing takes the time it takes in the guest, idle time is skipped; for builds that misbehave on exact.
real: the wall clock; CPU-bound work, and the check of the other two.
"""

from agents.contract import Clock

__all__ = ["Clock", "guests_side_by_side"]


def guests_side_by_side(clock: Clock, cores: int) -> int:
    """How many guests have a core each: on `real` one core is left for what watches and analyses their runs."""
    return max(1, cores - 1) if clock == "real" else cores
