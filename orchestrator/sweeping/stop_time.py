"""When a start of a sweep has to be over: the last moment at which another batch may begin.

Batches are in the order of the plan, repetition by repetition. So the runs that are left to a later start are those of
the last repetitions, and every cell has the same number of runs, or one less.
"""

from __future__ import annotations

import re
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta

from owlt.inputs.mistake import Invalid, Mistake, got
from owlt.orchestrator.planning.clock import Clock
from owlt.orchestrator.planning.estimate import batch_wall_s, duration_text
from owlt.orchestrator.planning.plan import Batch
from owlt.orchestrator.steady_clock import steady_s

LONGEST = timedelta(days=366)
LATEST_BATCHES = 50
"""Only so many decide: the first one of a start also boots what the others share, and other work comes and goes."""


@dataclass(frozen=True)
class StopTime:
    """A moment by a clock: that of the machine (`time.time`), or one that is never set (`steady_s`)."""

    at_s: float
    now_s: Callable[[], float]


class Deadline:
    """Compares the time that a batch is expected to take with the time that is left. Any thread may call it.

    What a batch takes is estimated from its runs, and corrected by what the latest batches took.
    """

    def __init__(self, clock: Clock, stop: StopTime | None = None, elapsed_s: Callable[[], float] = steady_s) -> None:
        """Without a `stop`, it never comes. `elapsed_s` measures what batches take."""
        self._clock = clock
        self._stop = stop
        self._elapsed_s = elapsed_s
        self._latest: deque[tuple[float, float]] = deque(maxlen=LATEST_BATCHES)
        """The time that each of the latest batches took, and the one that was estimated."""
        self._lock = threading.Lock()
        self.is_over = False
        """Whether a batch was left to a later start."""
        self.left = ""
        """The first such batch, in words: its runs and the time that they are expected to take."""

    def allows(self, batch: Batch) -> bool:
        """Whether a batch is expected to end in time; once one is not, no other is either."""
        if self._stop is None:
            return True
        with self._lock:
            expected_s = self._slowness() * batch_wall_s(batch, self._clock)
            if not self.is_over and self._stop.now_s() + expected_s > self._stop.at_s:
                self.is_over = True
                count = len(batch.runs)
                runs = f"{count} run{'s' if count > 1 else ''}" if count else "certificates"
                self.left = f"the next {runs} would take about {duration_text(expected_s)}"
            return not self.is_over

    @contextmanager
    def timed(self, batch: Batch) -> Iterator[None]:
        """Learn from the time that a batch takes."""
        began_s = self._elapsed_s()
        yield
        with self._lock:
            self._latest.append((self._elapsed_s() - began_s, batch_wall_s(batch, self._clock)))

    def _slowness(self) -> float:
        """How many times longer than estimated the latest batches took; less than 1 on a fast machine."""
        took_s, estimated_s = map(sum, zip(*self._latest, strict=True)) if self._latest else (1.0, 1.0)
        return took_s / estimated_s


def parse_until(text: str, now: datetime) -> datetime:
    """The moment that a user means: "07:00" is the next time that a clock shows it; or a date and a time.

    Raises Invalid for anything else, and for a moment that is over or more than a year away.
    """
    expected = "a time such as 07:00, or a date and a time such as 2030-01-31 07:00"
    of_day = re.fullmatch(r"(\d{1,2}):(\d{2})", text.strip())
    try:
        if of_day:
            until = now.replace(hour=int(of_day[1]), minute=int(of_day[2]), second=0, microsecond=0)
            return until if until > now else until + timedelta(days=1)
        until = datetime.fromisoformat(text.strip())
    except ValueError:
        raise Invalid(Mistake(got(text), expected)) from None
    until = until.replace(tzinfo=now.tzinfo) if until.tzinfo is None else until
    if not now < until < now + LONGEST:
        raise Invalid(Mistake(got(text), f"a time after {now:%Y-%m-%d %H:%M}, within a year"))
    return until
