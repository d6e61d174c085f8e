"""The bound on the rate of requests, on a clock of the test's own."""

from __future__ import annotations

import pytest

from owlt.emulator.service.server import TokenBucket


def test_a_burst_passes_and_the_next_has_to_wait() -> None:
    bucket = TokenBucket(200, 400, clock=lambda: 0.0)

    assert [bucket.wait_s() for _ in range(400)] == [0.0] * 400
    assert bucket.wait_s() == pytest.approx(1 / 200)


def test_the_long_run_has_the_rate() -> None:
    now_s = 0.0
    bucket = TokenBucket(200, 400, clock=lambda: now_s)
    passed = 0
    for step in range(100_000):
        now_s = step / 10_000
        passed += bucket.wait_s() == 0.0

    assert passed == pytest.approx(400 + 10 * 200, abs=1)


def test_who_has_to_wait_passes_then() -> None:
    now_s = 0.0
    bucket = TokenBucket(3, 1, clock=lambda: now_s)
    bucket.wait_s()
    now_s = bucket.wait_s()

    assert bucket.wait_s() == 0.0
