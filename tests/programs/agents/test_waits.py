"""What processes wait for a processor, counted by the kernel this runs on."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from owlt.orchestrator.rigs.processor_time import ProcessorWaits, Waited, is_counted
from tests.conftest import require

LASTS_S = 20
LOOKED_S = 0.5
BUSY = f"timeout --foreground {LASTS_S} sh -c 'while :; do :; done'"
ASLEEP = f"sleep {LASTS_S}"


@contextmanager
def parent_of(count: int, work: str) -> Iterator[int]:
    """A process with so many children that work on one processor, until it is left or their time is over."""
    cpu = min(os.sched_getaffinity(0))
    script = f"{f'{work} & ' * count} wait"
    parent = subprocess.Popen(["taskset", "-c", str(cpu), "sh", "-c", script], start_new_session=True)
    try:
        yield parent.pid
    finally:
        os.killpg(parent.pid, signal.SIGKILL)
        parent.wait()


def waited_while(pid: int) -> tuple[Waited | None, int]:
    """What is waited in a while in which it looks all the time, and how long that is."""
    waits = ProcessorWaits(pid)
    time.sleep(0.2)
    first_ns = time.time_ns()
    time.sleep(LOOKED_S)
    last_ns = time.time_ns()
    time.sleep(0.05)
    waits.close()
    return waits.between(first_ns, last_ns), last_ns - first_ns


@pytest.fixture(autouse=True)
def _counted() -> None:
    require(is_counted(os.getpid()), "a kernel that counts what processes wait (CONFIG_SCHED_INFO, PROC_CHILDREN)")


def test_two_that_share_a_processor_wait_as_long_as_one_of_them_runs() -> None:
    with parent_of(2, BUSY) as pid:
        waited, lasted_ns = waited_while(pid)

    assert waited is not None
    assert waited.waited_ns > 0.8 * lasted_ns


def test_those_that_sleep_wait_for_nothing() -> None:
    with parent_of(2, ASLEEP) as pid:
        waited, lasted_ns = waited_while(pid)

    assert waited is not None
    assert waited.waited_ns < 0.05 * lasted_ns


def test_of_a_time_before_it_looked_nothing_is_known() -> None:
    before_ns = time.time_ns()
    waits = ProcessorWaits(os.getpid())
    time.sleep(0.05)
    waits.close()

    assert waits.between(before_ns, time.time_ns()) is None
    assert waits.between(before_ns - 10, before_ns) is None


def test_since_a_time_is_up_to_the_latest_look() -> None:
    with parent_of(2, BUSY) as pid:
        waits = ProcessorWaits(pid)
        time.sleep(0.2)
        first_ns = time.time_ns()
        time.sleep(LOOKED_S)
        waits.close()

    waited = waits.since(first_ns)

    assert waited is not None
    assert waited.waited_ns > 0.8 * (LOOKED_S - 0.1) * 1e9


def test_what_was_forgotten_is_not_known() -> None:
    waits = ProcessorWaits(os.getpid())
    time.sleep(0.1)
    first_ns = time.time_ns()
    time.sleep(0.1)
    waits.close()
    last_ns = first_ns + 10**7
    known = waits.between(first_ns, last_ns)

    waits.forget(first_ns + 5 * 10**6)

    assert known is not None
    assert waits.between(first_ns, last_ns) is None


def test_a_process_that_is_gone_has_no_counters() -> None:
    gone = subprocess.Popen(["true"])
    gone.wait()

    assert not is_counted(gone.pid)
