"""Work shared among the processor's cores, if there is enough of it."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from owlt.captures.pool import processes

Share = Callable[[Callable[[Any], Any], Iterable[Any]], Iterable[Any]]
"""`map`, or its equivalent over processes: functions, arguments and results are pickled."""
WORTH_A_PROCESS = 8
"""With fewer tasks, starting processes takes longer than it saves."""


@contextmanager
def shared(tasks: int) -> Iterator[Share]:
    """A function like `map` for this number of tasks, closed at the end of the block."""
    cores = min(len(os.sched_getaffinity(0)), tasks // WORTH_A_PROCESS)
    if cores < 2:
        yield map
        return
    with processes(cores) as pool:
        yield pool.map


@contextmanager
def settled() -> Iterator[None]:
    """Within it, Python does not search for garbage among the records of a report, which stay until its end."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
