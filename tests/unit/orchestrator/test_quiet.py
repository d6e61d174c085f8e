"""Waiting for a quiet machine: until it is, and no longer than patience lasts."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

from owlt.orchestrator.rigs.processor_time import WINDOW_S, Patience, stalled_in_all_s


class Clock:
    """Time that passes when somebody sleeps."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds


def waiting(patience_s: float, stalled_s: Callable[[], float | None], clock: Clock | None = None) -> Patience:
    """Patience on a clock of the test's."""
    clock = clock or Clock()
    return Patience(patience_s, stalled_s, clock.sleep, lambda: clock.now_s)


def stalling(*shares: float) -> Iterator[float]:
    """What the kernel counts in windows in which threads waited for these shares of the time."""
    total_s = 0.0
    for share in shares:
        yield total_s
        total_s += share * WINDOW_S
        yield total_s


def test_a_quiet_machine_is_not_waited_for() -> None:
    patience = waiting(1.0, stalling(0).__next__)

    assert patience.wait_for_quiet(lambda: False)
    assert not patience.is_used_up


def test_a_busy_machine_is_waited_for_until_it_is_quiet() -> None:
    counted = stalling(0.9, 0.5, 0.0)

    assert waiting(10.0, counted.__next__).wait_for_quiet(lambda: False)
    assert list(counted) == []


def test_patience_ends_and_stays_at_its_end() -> None:
    clock = Clock()
    patience = waiting(3 * WINDOW_S, itertools.count().__next__, clock)

    assert not patience.wait_for_quiet(lambda: False)
    assert patience.is_used_up
    assert not patience.wait_for_quiet(lambda: False)
    assert clock.now_s == 3 * WINDOW_S


def test_what_is_over_is_not_waited_for() -> None:
    assert not waiting(1000.0, itertools.count().__next__).wait_for_quiet(lambda: True)


def test_a_machine_that_does_not_count_stalls_is_taken_to_be_quiet() -> None:
    assert waiting(1000.0, lambda: None).wait_for_quiet(lambda: False)


def test_stalls_are_read_as_the_kernel_writes_them(tmp_path: Path) -> None:
    pressure = tmp_path / "cpu"
    pressure.write_text("some avg10=2.11 avg60=2.63 avg300=12.83 total=110793212\nfull avg10=0.00 total=7\n")

    assert stalled_in_all_s(pressure) == 110.793212
    pressure.unlink()
    assert stalled_in_all_s(pressure) is None
