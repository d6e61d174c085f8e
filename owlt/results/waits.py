"""The waits of a run's programs that ended because a timer expired: waits.json beside the record."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class TimedWait:
    """A wait of a program that a timer ended. `begin_ns` is of the captures' clock; `kind` is how it waited, such as
    "epoll_wait"."""

    host: Literal["sender", "receiver"]
    process: str
    kind: str
    begin_ns: int
    length_ns: int

    @property
    def end_ns(self) -> int:
        """When the timer expired."""
        return self.begin_ns + self.length_ns
