"""The results directories of a dashboard: each has one index and one name."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

from owlt.orchestrator.dashboard.index import Directories, SweepIndex

THREADS = 2


def test_threads_that_ask_at_once_get_the_same_index_under_the_same_name(results: Path) -> None:
    """The first thread makes its index while the second one, if it may, makes another: it waits a moment for that."""
    both_make_one = threading.Barrier(THREADS)

    def new_index(path: Path) -> SweepIndex:
        with suppress(threading.BrokenBarrierError):
            both_make_one.wait(timeout=0.2)
        return SweepIndex(path)

    directories = Directories([results], new_index=new_index)
    with ThreadPoolExecutor(THREADS) as threads:
        first, second = threads.map(lambda _: directories.indexes(), range(THREADS))

    assert list(first) == list(second) == ["small"]
    assert first["small"] is second["small"]
