"""Two processes that keep each other awake beside one that waits, until the guest is idle or until a time: whether they
had ended when the wait ended, and how late it ended; and whether a wait ends beside a process that always computes.
Prints all as JSON."""

from __future__ import annotations

import json
import os
import signal
import time

from owlt.orchestrator.rigs.template import wait_for_idle

ROUNDS = 40_000
"""The scheduler lets a process that wakes run before others after some ms."""
WAIT_NS = 10_000
"""Much less than the 20 ms that the processes take, each of which reads the clock ROUNDS times."""


def exchange(here: int, there: int) -> int:
    """Start a process that answers ROUNDS times. A reading of the clock takes 256 ns of virtual time, the rest none."""
    if process := os.fork():
        return process
    for _ in range(ROUNDS):
        os.read(here, 1)
        time.monotonic_ns()
        os.write(there, b".")
    os._exit(0)


def after_waiting(until_idle: bool) -> tuple[bool, int]:
    """Whether both processes had ended when the wait ended, and how long after its time that was, in ns."""
    (first, to_first), (second, to_second) = os.pipe(), os.pipe()
    processes = [exchange(first, to_second), exchange(second, to_first)]
    earliest_ns = time.time_ns() + WAIT_NS
    os.write(to_first, b".")
    if until_idle:
        wait_for_idle(earliest_ns)
    else:
        time.sleep((earliest_ns - time.time_ns()) / 1e9)
    late_ns = time.time_ns() - earliest_ns
    ended = [os.waitpid(process, os.WNOHANG)[0] for process in processes]
    return ended == processes, late_ns


def ends_beside_a_busy_process() -> bool:
    """Whether a wait for an idle guest ends with an error while a process reads the clock all the time."""
    busy = os.fork()
    while not busy:
        time.monotonic_ns()
    try:
        wait_for_idle(time.time_ns() + WAIT_NS)
    except TimeoutError:
        return True
    finally:
        os.kill(busy, signal.SIGKILL)
        os.waitpid(busy, 0)
    return False


results = {"idle": after_waiting(True), "time": after_waiting(False), "busy": ends_beside_a_busy_process()}
print(json.dumps(results))
