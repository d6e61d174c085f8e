"""The machine of several plans: the processes that analyse runs serve all of them."""

from __future__ import annotations

import os
from concurrent.futures import Executor, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool

import pytest

from owlt.orchestrator.sweep.machine import KeptExecutor


def test_processes_serve_on_after_the_end_of_a_plan() -> None:
    executor = KeptExecutor(lambda: ProcessPoolExecutor(1))

    first = executor.submit(os.getpid)
    executor.shutdown()
    second = executor.submit(os.getpid)

    assert first.done()
    assert first.result() == second.result()
    executor.end()


def test_processes_that_ended_unexpectedly_are_replaced() -> None:
    made: list[Executor] = []

    def make() -> Executor:
        made.append(ProcessPoolExecutor(1))
        return made[-1]

    executor = KeptExecutor(make)
    with pytest.raises(BrokenProcessPool):
        executor.submit(os._exit, 1).result()
    with pytest.raises(BrokenProcessPool):
        executor.submit(os.getpid)

    assert executor.submit(os.getpid).result() != os.getpid()
    assert len(made) == 2
    executor.end()
