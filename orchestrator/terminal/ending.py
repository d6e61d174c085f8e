"""How signals end a command, and the exit status after an interrupt."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

ENDING = (signal.SIGTERM, signal.SIGHUP)
INTERRUPTED_STATUS = 128 + signal.SIGINT
"""The exit status after Ctrl-C, as a shell has it."""


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """SIGTERM and SIGHUP end what is done in it as Ctrl-C does, so that nothing is left behind."""
    is_main = threading.current_thread() is threading.main_thread()
    numbers = [each for each in ENDING if is_main and signal.getsignal(each) is signal.SIG_DFL]
    for number in numbers:
        signal.signal(number, signal.default_int_handler)
    try:
        with suppress(KeyboardInterrupt):
            yield
    finally:
        for number in numbers:
            signal.signal(number, signal.SIG_DFL)
