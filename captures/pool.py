"""Processes that share work, and end when the process that started them does, however it ends."""

from __future__ import annotations

import multiprocessing
import os
import threading
from concurrent.futures import ProcessPoolExecutor
from multiprocessing.connection import wait
from typing import Literal

Priority = Literal["normal", "low", "lowest"]
"""Beside a busy process, low has a tenth of the processor's time, and lowest a seventieth (sched(7))."""

NICENESS: dict[Priority, int] = {"normal": 0, "low": 10, "lowest": 19}


def processes(count: int, priority: Priority = "normal") -> ProcessPoolExecutor:
    """A pool of processes; arguments and results are pickled."""
    return ProcessPoolExecutor(count, multiprocessing.get_context("spawn"), initializer=_begin, initargs=(priority,))


def _begin(priority: Priority) -> None:
    """A pool's processes hold both ends of its queues, so they would wait for work for ever."""
    os.nice(NICENESS[priority])
    parent = multiprocessing.parent_process()
    assert parent is not None
    threading.Thread(target=_end_after, args=(parent.sentinel,), daemon=True).start()


def _end_after(sentinel: int) -> None:
    wait([sentinel])
    os._exit(1)
