"""The progress of a sweep in lines of text with their time, one each half minute, where there is no terminal."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from typing import TextIO

from owlt.orchestrator.hosts.printable import printable_lines
from owlt.orchestrator.planning.estimate import duration_text
from owlt.orchestrator.results.record import Outcome
from owlt.orchestrator.status.activity import Activities
from owlt.orchestrator.status.pace import runs_per_s, time_left_s
from owlt.orchestrator.status.text import activity_text, duration, stamp
from owlt.orchestrator.steady_clock import SteadyTime
from owlt.orchestrator.workers.events import Entry, RepetitionsDue, RunPublished

LINE_EVERY_S = 30.0


class ProgressLog:
    """Takes in the events of a start of a sweep, and writes a line each half minute while it is open as a context."""

    def __init__(
        self,
        out: TextIO,
        total: int,
        recorded: int,
        now_s: Callable[[], float] | None = None,
        every_s: float = LINE_EVERY_S,
        channels: Mapping[str, str] | None = None,
    ) -> None:
        """`channels` are in words, by key."""
        self._out = out
        self._total = total
        self._recorded = recorded
        self._now_s = now_s or SteadyTime()
        self._every_s = every_s
        self._channels = channels or {}
        self._started_s = self._now_s()
        self._outcomes: Counter[str] = Counter()
        self._activities = Activities()
        self._lock = threading.RLock()  # a signal's event may come while the same thread writes
        self._over = threading.Event()
        self._ticker = threading.Thread(target=self._tick, daemon=True)

    def open(self) -> None:
        """Write a line, and one each half minute from now on."""
        self.write()
        self._ticker.start()

    def close(self) -> None:
        """Write the last line."""
        self._over.set()
        self._ticker.join()
        self.write()

    def take(self, entry: Entry) -> None:
        """Take in an event."""
        with self._lock:
            self._activities.take(entry)
            if isinstance(entry.event, RunPublished):
                self._recorded += 1
                self._outcomes[str(entry.event.outcome)] += 1
            elif isinstance(entry.event, RepetitionsDue):
                self._total = entry.event.runs

    def write(self) -> None:
        """Write a line: how far the sweep is, the failures of this start, the remaining time, what each worker does."""
        with self._lock:
            print(f"{stamp(time.time())} owlt: {printable_lines(self.line())}", file=self._out, flush=True)

    def line(self) -> str:
        """The line without its time."""
        now_s = self._now_s()
        parts = [f"{self._recorded} of {self._total} runs recorded"]
        parts += [
            f"{number} {outcome.replace('_', ' ')}"
            for outcome, number in self._outcomes.items()
            if outcome != Outcome.COMPLETED
        ]
        published_s = self._activities.published_s
        if pace := runs_per_s(self._started_s, published_s, now_s):
            parts.append(f"{60 * pace:.1f} per minute")
        left_s = time_left_s(self._total - self._recorded, self._started_s, published_s, now_s)
        parts += [f"about {duration_text(left_s)} left"] if left_s else []
        now = [
            f"{activity_text(each, self._channels)} for {duration(now_s - each.since_s)}"
            for each in self._activities.by_batch.values()
        ]
        return "; ".join([", ".join(parts), *now])

    def _tick(self) -> None:
        while not self._over.wait(self._every_s):
            self.write()
