"""The clock of a side that SIGUSR1 suspends until SIGUSR2: the time between does not count."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator

import pytest

from owlt.agents.endpoint.event_loop import SuspendableClock

HOUR_S = 3600.0


@pytest.fixture(autouse=True)
def signals_as_before() -> Iterator[None]:
    handler, mask = signal.getsignal(signal.SIGUSR1), signal.pthread_sigmask(signal.SIG_BLOCK, ())
    yield
    signal.signal(signal.SIGUSR1, handler)
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def test_the_time_of_each_suspension_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = 100.0

    def wait(signals: set[signal.Signals]) -> signal.Signals:
        nonlocal now_s
        assert signal.SIGUSR2 in signals
        now_s += HOUR_S
        return signal.SIGUSR2

    monkeypatch.setattr(time, "monotonic", lambda: now_s)
    monkeypatch.setattr(signal, "sigwait", wait)
    clock = SuspendableClock(can_suspend=True)
    times_s = [clock()]
    for _ in range(2):
        signal.raise_signal(signal.SIGUSR1)
        now_s += 1
        times_s.append(clock())

    assert times_s == [100, 101, 102]
    assert now_s == 102 + 2 * HOUR_S


def test_a_command_to_resume_ends_a_suspension() -> None:
    clock = SuspendableClock(can_suspend=True)
    signal.raise_signal(signal.SIGUSR2)  # blocked: it waits until the side is suspended
    signal.raise_signal(signal.SIGUSR1)

    assert signal.SIGUSR2 not in signal.sigpending()
    assert clock() <= time.monotonic()


def test_a_second_command_to_suspend_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    coming = [signal.SIGUSR1, signal.SIGUSR1, signal.SIGUSR2]
    monkeypatch.setattr(signal, "sigwait", lambda signals: coming.pop(0))
    SuspendableClock(can_suspend=True)
    signal.raise_signal(signal.SIGUSR1)

    assert coming == []


def test_a_request_to_cancel_ends_a_suspension() -> None:
    came = []
    before = signal.signal(signal.SIGHUP, lambda *_: came.append("cancel"))
    SuspendableClock(can_suspend=True)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGHUP})
    signal.raise_signal(signal.SIGHUP)  # blocked: it waits until the side is suspended
    signal.raise_signal(signal.SIGUSR1)
    signal.signal(signal.SIGHUP, before)

    assert came == ["cancel"]
