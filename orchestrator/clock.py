"""The three clocks a run can be timed by. A record carries its clock; figures never mix two of them.

exact: computing costs no time and idle time is skipped; everything that is not bound by the CPU.
skip: computing takes the time it takes in the guest, idle time is skipped; for builds that misbehave on exact.
real: the wall clock; CPU-bound work, and the check of the other two.
"""

from agents.contract import Clock

__all__ = ["Clock"]
