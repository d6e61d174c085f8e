"""Processes that share work, and end when the process that started them does, however it ends.

Ctrl-C and a closed terminal signal all processes of the terminal; these complete their current work, and print nothing.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from functools import partial
from multiprocessing import resource_tracker
from multiprocessing.connection import wait
from multiprocessing.context import SpawnContext, SpawnProcess
from types import ModuleType
from typing import Any, Literal

Priority = Literal["normal", "low", "lowest"]
"""Beside a busy process, low has a tenth of the processor's time, and lowest a seventieth (sched(7))."""

NICENESS: dict[Priority, int] = {"normal": 0, "low": 10, "lowest": 19}


def processes(count: int, priority: Priority = "normal") -> ProcessPoolExecutor:
    """A pool of processes; arguments and results are pickled. Its functions are those of a module, not of a script."""
    return ProcessPoolExecutor(count, _Context(), initializer=_begin, initargs=(priority,))


Share = Callable[..., Iterable[Any]]
"""`map`, or its equivalent over processes: functions, arguments and results are pickled."""


@contextmanager
def shared(tasks: int, worth_a_process: int, chunk: int = 1) -> Iterator[Share]:
    """A function like `map` for this number of tasks, closed at the end of the block. With fewer tasks per process than
    `worth_a_process`, starting it takes longer than it saves; a process gets `chunk` tasks at a time."""
    cores = min(len(os.sched_getaffinity(0)), tasks // worth_a_process)
    if cores < 2:
        yield map
        return
    with processes(cores) as pool:
        yield partial(pool.map, chunksize=chunk)


_WITHOUT_MAIN = threading.Lock()
"""Held while the main module of this process is replaced."""


class _Process(SpawnProcess):
    """A process that SIGINT and SIGHUP do not reach, from its beginning on: it inherits the mask of signals.

    Unlike other spawned processes, it does not import the main module of this one: no pool calls a function of it, the
    command line takes 0.3 s to import, and a user's script would run again.
    """

    def start(self) -> None:
        resource_tracker.ensure_running()  # as it starts, it unblocks SIGINT here
        with _WITHOUT_MAIN:
            blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGHUP})
            main, sys.modules["__main__"] = sys.modules["__main__"], ModuleType("__main__")
            try:
                super().start()
            finally:
                sys.modules["__main__"] = main
                signal.pthread_sigmask(signal.SIG_SETMASK, blocked)


class _Context(SpawnContext):
    Process = _Process


def _begin(priority: Priority) -> None:
    """A pool's processes hold both ends of its queues, so they would wait for work without end."""
    os.nice(NICENESS[priority])
    parent = multiprocessing.parent_process()
    assert parent is not None
    threading.Thread(target=_end_after, args=(parent.sentinel,), daemon=True).start()


def _end_after(sentinel: int) -> None:
    wait([sentinel])
    os._exit(1)
