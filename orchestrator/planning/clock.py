"""The three clocks that can time a run. A record names its clock; a figure never mixes two of them.

exact: computation is free, idle time is skipped; for everything that is not CPU-bound.
skip: computation takes real time, idle time is skipped; for implementations that misbehave on exact.
real: wall clock; for CPU-bound work, and to check the other two.
"""

from owlt.agents.contract.implementation import Clock

__all__ = ["Clock", "guests_side_by_side"]


def guests_side_by_side(clock: Clock, cores: int) -> int:
    """The number of guests with one core each: on `real` one core is kept for observing and analysing their runs."""
    return max(1, cores - 1) if clock == "real" else cores
