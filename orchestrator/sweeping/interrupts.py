"""Ctrl-C and SIGTERM while a sweep is performed."""

from __future__ import annotations

import signal
import threading
import time
import types
from typing import Any, Self

from orchestrator.workers.events import Entry, Observe, SweepInterrupted


class Interrupts:
    """A context in which the first signal raises KeyboardInterrupt; later ones are only observed and counted."""

    def __init__(self, observe: Observe) -> None:
        self.count = 0
        self._observe = observe
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            self._before = {number: signal.signal(number, self._take) for number in (signal.SIGINT, signal.SIGTERM)}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _take(self, _number: int, _frame: types.FrameType | None) -> None:
        self.count += 1
        self._observe(Entry(time.time(), None, SweepInterrupted(times=self.count)))
        if self.count == 1:
            raise KeyboardInterrupt
