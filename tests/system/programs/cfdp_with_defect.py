"""The CFDP endpoint of owlt with a defect that is planted in this process: cfdp_with_defect.py DEFECT ARGUMENTS..."""

import sys

from owlt.agents.cfdp import receiving, sending
from owlt.agents.cfdp.__main__ import main


def nothing(*_: object) -> None:
    """What a defect does instead."""


def without_repeated_eof(self: sending.Sending, now_s: float) -> None:
    """The sender waits for the receiver, and does not repeat its EOF."""
    self.wakes_at_s = self._quiet_since_s + self._settings.silence_limit_s
    if now_s >= self.wakes_at_s:
        raise sending.Failed("the receiver was silent")


def without_repeated_nak(self: receiving.Receiving, timer: object, interval_s: float, limit_s: float, _: float) -> None:
    """The receiver waits for what it has requested once, and for an acknowledgement of its first Finished."""
    self.wakes_at_s = limit_s


DEFECTS = {
    "none": lambda: None,
    "metadata-not-requested": lambda: setattr(receiving.Receiving, "_ask_for_metadata", nothing),
    "eof-not-repeated": lambda: setattr(sending.Sending, "_wait", without_repeated_eof),
    "nak-not-repeated": lambda: setattr(receiving.Receiving, "_serve", without_repeated_nak),
}
DEFECTS[sys.argv[1]]()
sys.exit(main(sys.argv[2:]))
