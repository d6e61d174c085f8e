"""Waiting for a quiet machine: until it is, and no longer than patience lasts."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from orchestrator.rigs import quiet
from orchestrator.rigs.quiet import Patience, stalled_in_all_s

WINDOW_S = 0.02


@pytest.fixture(autouse=True)
def _short_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quiet, "WINDOW_S", WINDOW_S)


def stalling(*shares: float) -> Iterator[float]:
    """What the kernel counts in windows in which threads waited for these shares of the time."""
    total_s = 0.0
    for share in shares:
        yield total_s
        total_s += share * WINDOW_S
        yield total_s


def test_a_quiet_machine_is_not_waited_for() -> None:
    patience = Patience(1.0, stalling(0).__next__)

    assert patience.wait_for_quiet(lambda: False)
    assert not patience.is_used_up


def test_a_busy_machine_is_waited_for_until_it_is_quiet() -> None:
    counted = stalling(0.9, 0.5, 0.0)

    assert Patience(10.0, counted.__next__).wait_for_quiet(lambda: False)
    assert list(counted) == []


def test_patience_ends_and_stays_at_its_end() -> None:
    patience = Patience(3 * WINDOW_S, itertools.count().__next__)

    assert not patience.wait_for_quiet(lambda: False)
    assert patience.is_used_up
    begin_s = time.monotonic()
    assert not patience.wait_for_quiet(lambda: False)
    assert time.monotonic() - begin_s < WINDOW_S


def test_what_is_over_is_not_waited_for() -> None:
    assert not Patience(1000.0, itertools.count().__next__).wait_for_quiet(lambda: True)


def test_a_machine_that_does_not_count_stalls_is_taken_to_be_quiet() -> None:
    assert Patience(1000.0, lambda: None).wait_for_quiet(lambda: False)


def test_stalls_are_read_as_the_kernel_writes_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pressure = tmp_path / "cpu"
    pressure.write_text("some avg10=2.11 avg60=2.63 avg300=12.83 total=110793212\nfull avg10=0.00 total=7\n")
    monkeypatch.setattr(quiet, "PRESSURE", pressure)

    assert stalled_in_all_s() == 110.793212
    pressure.unlink()
    assert stalled_in_all_s() is None
