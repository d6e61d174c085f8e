"""A worker on another machine, as `owlt run` sees it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

from owlt.orchestrator.sweep import cluster_service
from owlt.orchestrator.sweep.cluster import Member, RemoteWorker
from tests.unit.orchestrator.small_sweep import small_plan

MEMBER = Member("lab2", "tls://lab2:1", range(2))


class PoolOfOneCall:
    """A machine that has a job only after somebody ended it."""

    user = "alice"

    def __init__(self) -> None:
        self.worker: RemoteWorker | None = None
        self.done: list[str] = []
        self._stopped = threading.Event()

    def call(self, member: Member, function: Callable[..., object], *arguments: object) -> list[object]:
        if function is cluster_service.start_job and self.worker is not None:
            self.worker.end()
            assert self._stopped.wait(60)
        self.done.append(function.__name__)
        if function is cluster_service.stop_job:
            self._stopped.set()
        return []


def test_a_job_that_was_ended_before_the_machine_had_it_is_stopped(tmp_path: Path) -> None:
    pool = PoolOfOneCall()
    batch = small_plan().batches[0]
    pool.worker = RemoteWorker(pool, MEMBER, batch, tmp_path, 0, "{}")  # type: ignore[arg-type]

    assert list(pool.worker.lines(lambda: 60.0)) == []

    assert pool.done == ["stop_job", "start_job", "stop_job"]
