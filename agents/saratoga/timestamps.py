"""Timestamps of DATA, which a STATUS gives back: 16 octets whose first says how to read the other 15.

Ours are of type 0, which only their author reads: nanoseconds of the sender's own clock.
"""

import math

from owlt.agents.saratoga.packets import TIMESTAMP_BYTES

_LOCAL = bytes([0])


def timestamp(now_s: float) -> bytes:
    """The time of a clock that does not run below zero."""
    return _LOCAL + (math.ceil(1e9 * now_s) + 1).to_bytes(TIMESTAMP_BYTES - 1)  # read back, it is not before now


def made_at_s(stamp: bytes) -> float:
    """When a timestamp of ours was made. What else came back gives a number that means nothing."""
    return int.from_bytes(stamp[1:]) / 1e9
