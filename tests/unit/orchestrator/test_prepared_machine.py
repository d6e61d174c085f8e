"""The machine of several plans: the processes that analyse runs serve all of them."""

from __future__ import annotations

import os
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool

import pytest

from owlt.orchestrator.sweep.machine import KeptExecutor, PreparedMachine
from tests.unit.orchestrator.small_sweep import small_plan


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


def test_few_runs_on_the_exact_clock_are_analysed_by_a_thread() -> None:
    with PreparedMachine() as machine, machine.analysis_executor(small_plan("exact")) as executor:
        assert isinstance(executor, ThreadPoolExecutor)


@pytest.mark.parametrize(
    ("clock", "changes"),
    [
        ("exact", {"repetitions": 20}),
        ("exact", {"file_size": "100 MB"}),
        ("exact", {"implementations": ["tcp"]}),
        ("skip", {}),
    ],
    ids=["many runs", "long files", "tshark", "another clock"],
)
def test_what_takes_longer_is_analysed_by_the_same_processes(clock: str, changes: dict[str, object]) -> None:
    plan = small_plan(clock, **changes)
    with PreparedMachine() as machine:
        executor = machine.analysis_executor(plan)

        assert isinstance(executor, KeptExecutor)
        assert machine.analysis_executor(plan) is executor


def test_processes_that_run_analyse_few_runs_too() -> None:
    with PreparedMachine() as machine:
        executor = machine.analysis_executor(small_plan("exact", repetitions=20))

        assert machine.analysis_executor(small_plan("exact")) is executor
