"""`owlt worker`: this machine offers its cores to a Dask scheduler, until it is interrupted."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Callable
from dataclasses import dataclass

import dask
from distributed import Security, Worker
from distributed.core import rpc

from owlt.orchestrator.errors import OwltError
from owlt.orchestrator.own_directories import process_directory
from owlt.orchestrator.sweep.cluster_security import address_to_bind, require_loopback_only
from owlt.orchestrator.sweep.cluster_service import Service, ServicePlugin

PATIENCE_S = 10.0
"""The time after which it prints that it waits for the scheduler."""
AGAIN_S = 5.0
"""After a scheduler was lost or did not answer."""
ASKS_S = 1.0
"""Time between two attempts to connect to a scheduler."""
MORE_THREADS = 2
"""Beside two for each slot: to compare, to extend the lease, to end."""


@dataclass(frozen=True)
class _Connection:
    """How the scheduler is reached; without authentication it must listen on loopback only, unless that is accepted."""

    scheduler: str
    security: Security
    accepts_plain: bool


async def serve(
    scheduler: str,
    security: Security,
    service: Service,
    slots: int,
    port: int,
    note: Callable[[str], None],
    accepts_plain: bool = False,
) -> None:
    """Serve until SIGINT, SIGTERM or SIGHUP; connect again if the scheduler was lost.

    Raises OwltError for a scheduler without authentication to which others can connect, unless `accepts_plain`.
    """
    connection = _Connection(scheduler, security, accepts_plain)
    loop = asyncio.get_running_loop()
    stopped = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:  # as SIGHUP is under nohup
            loop.add_signal_handler(number, stopped.set)
    try:
        while not stopped.is_set():
            await _serve_once(connection, service, slots, port, stopped, note)
            if not stopped.is_set():
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(stopped.wait(), AGAIN_S)
    finally:
        await asyncio.to_thread(service.shut_down)


async def _serve_once(
    connection: _Connection,
    service: Service,
    slots: int,
    port: int,
    stopped: asyncio.Event,
    note: Callable[[str], None],
) -> None:
    """Serve until the connection ends or the user ends it."""
    scheduler = connection.scheduler
    require_loopback_only(scheduler, connection.accepts_plain)
    with process_directory("worker") as directory, dask.config.set({"distributed.worker.http.routes": []}):
        worker = Worker(
            scheduler,
            name=service.name,
            nthreads=2 * slots + MORE_THREADS,
            security=connection.security,
            host=address_to_bind(scheduler),
            port=port,
            dashboard_address="127.0.0.1:0",  # Dask opens it in any case
            memory_limit=0,
            local_directory=str(directory),
            plugins=(ServicePlugin(service),),
        )
        end = asyncio.create_task(stopped.wait())
        start = asyncio.create_task(_started(worker, connection))
        done, _ = await asyncio.wait([end, start], timeout=PATIENCE_S, return_when=asyncio.FIRST_COMPLETED)
        if not done:
            note(f"waits for {scheduler}: there is no scheduler, or it has other certificates")
            await asyncio.wait([end, start], return_when=asyncio.FIRST_COMPLETED)
        if start.done() and not start.exception():
            note(f"offers {slots} slots to {scheduler}")
            finished = asyncio.create_task(worker.finished())
            await asyncio.wait([end, finished], return_when=asyncio.FIRST_COMPLETED)
            if not stopped.is_set():
                note(f"lost the scheduler {scheduler}; connects again")
        elif start.done() and not isinstance(reason := start.exception(), OwltError):
            note(f"cannot connect to {scheduler}: {(reason and reason.__cause__) or reason}; tries again")
        for task in (start, end):
            task.cancel()
        with contextlib.suppress(Exception):
            await worker.close(nanny=False)
        if start.done() and not start.cancelled() and isinstance(reason := start.exception(), OwltError):
            raise reason


async def _started(worker: Worker, connection: _Connection) -> None:
    """Connect to the scheduler as soon as it runs. Raises OwltError if it is not safe to use."""
    while True:
        try:
            async with rpc(
                connection.scheduler, connection_args=connection.security.get_connection_args("worker")
            ) as asked:
                services = (await asked.identity(n_workers=0))["services"]
            break
        except OSError:  # such as a scheduler that is not running yet, or has other certificates
            await asyncio.sleep(ASKS_S)
    require_loopback_only(connection.scheduler, connection.accepts_plain, services)
    await worker
