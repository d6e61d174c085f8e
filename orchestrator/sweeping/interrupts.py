"""Ctrl-C, SIGTERM and SIGHUP while a sweep is performed."""

from __future__ import annotations

import signal
import threading
import time
import types
from typing import Any, Self

from owlt.orchestrator.workers.events import Entry, Observe, SweepInterrupted


class Interrupts:
    """A context in which the first signal raises KeyboardInterrupt; later ones are only observed and counted.

    SIGHUP (a closed terminal) counts once, because the shell repeats it. It is ignored from then on, also after this
    context, so that the report is made. Under nohup it is ignored from the start.
    """

    def __init__(self, observe: Observe) -> None:
        self.count = 0
        self._observe = observe
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            numbers = [signal.SIGINT, signal.SIGTERM]
            numbers += [signal.SIGHUP] if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN else []
            self._before = {number: signal.signal(number, self._take) for number in numbers}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, handler)

    def _take(self, number: int, _frame: types.FrameType | None) -> None:
        if number == signal.SIGHUP:
            signal.signal(signal.SIGHUP, signal.SIG_IGN)
            if self.count:
                return
        self.count += 1
        self._observe(Entry(time.time(), None, SweepInterrupted(times=self.count)))
        if self.count == 1:
            raise KeyboardInterrupt
