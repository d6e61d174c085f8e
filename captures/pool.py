"""Processes that share work, and end when the process that started them does, however it ends."""

from __future__ import annotations

import multiprocessing
import os
import threading
from concurrent.futures import ProcessPoolExecutor
from multiprocessing.connection import wait


def processes(count: int) -> ProcessPoolExecutor:
    """So many processes; what they are given is pickled."""
    return ProcessPoolExecutor(count, multiprocessing.get_context("spawn"), initializer=_end_with_parent)


def _end_with_parent() -> None:
    """A pool's processes hold both ends of its queues, so they would wait for work for ever."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    threading.Thread(target=_end_after, args=(parent.sentinel,), daemon=True).start()


def _end_after(sentinel: int) -> None:
    wait([sentinel])
    os._exit(1)
