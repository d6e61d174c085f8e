"""A machine whose process ends while the scheduler fetches what a job has reported: python -m ... SCHEDULER NAME."""

from __future__ import annotations

import asyncio
import os
import sys

from distributed import Worker

from owlt.orchestrator.rigs.provenance import Provenance, own_files
from owlt.orchestrator.sweep import cluster_service
from owlt.orchestrator.sweep.cluster_service import Service
from tests.unit.orchestrator.small_sweep import small_plan, small_workers


class Vanishing:
    """A value that ends the process which sends it."""

    def __reduce__(self) -> str:
        os._exit(1)


async def serve(scheduler: str, name: str) -> None:
    """Take a sweep as `owlt worker` does, and vanish with the first reports."""
    cluster_service.reports = lambda user, job: Vanishing()  # type: ignore[assignment,return-value]
    machine = small_workers(small_plan("exact"))
    machine.provenance = Provenance(groups={"kernel": {"guest": "1"}, "owlt": own_files()})
    plugins = (cluster_service.ServicePlugin(Service(name, machine, [0], note=lambda text: None)),)
    async with Worker(scheduler, name=name, nthreads=4, memory_limit=0, plugins=plugins, host="127.0.0.1") as worker:
        await worker.finished()


if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1], sys.argv[2]))
