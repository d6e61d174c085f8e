"""How signals end a command, its exit status after an interrupt, and output whose reader has gone."""

from __future__ import annotations

import errno
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, TextIO, cast

ENDING = (signal.SIGTERM, signal.SIGHUP)
INTERRUPTED_STATUS = 128 + signal.SIGINT
"""The exit status after Ctrl-C, as a shell has it."""


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """A context in which SIGTERM and SIGHUP act as Ctrl-C does, so that nothing is left behind."""
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


@contextmanager
def outlasting_readers() -> Iterator[None]:
    """A context in which output is discarded without an error once its reader has gone, such as a closed terminal."""
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = (cast(TextIO, _Outlasting(stream)) for stream in before)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before


class _Outlasting:
    """A stream that goes to /dev/null once its reader has gone."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        with self._after_reader():
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        with self._after_reader():
            self._stream.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    @contextmanager
    def _after_reader(self) -> Iterator[None]:
        try:
            yield
        except OSError as problem:
            if problem.errno not in (errno.EPIPE, errno.EIO):
                raise
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self._stream.fileno())  # what the stream has yet to write goes there
            os.close(nowhere)
