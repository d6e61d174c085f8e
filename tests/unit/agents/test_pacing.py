"""A pacer's schedule, and the bytes that it counts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from owlt.agents.endpoint.event_loop import CATCH_UP_S, Pacer, frame_bytes


@pytest.mark.parametrize(
    ("payload_bytes", "expected"),
    [(0, 42), (1000, 1042), (1472, 1514), (1473, 1473 + 8 + 2 * 34), (8192, 8192 + 8 + 6 * 34)],
)
def test_a_frame_counts_its_headers_and_those_of_its_fragments(payload_bytes: int, expected: int) -> None:
    assert frame_bytes(payload_bytes) == expected


def test_packets_leave_back_to_back_at_the_rate() -> None:
    pacer = Pacer(10e6)
    now_s = 100.0
    for _ in range(1000):
        pacer.spend(958, now_s)  # 1000-byte frames: 0.8 ms each
        now_s = pacer.opens_at_s

    assert now_s == pytest.approx(100.0 + 1000 * 0.0008)


def test_no_rate_is_no_waiting() -> None:
    pacer = Pacer(0)
    pacer.spend(1000, 100.0)

    assert pacer.opens_at_s <= 100.0


def test_a_late_sender_keeps_the_mean_rate() -> None:
    pacer = Pacer(10e6)
    now_s = 100.0
    for _ in range(1000):
        pacer.spend(958, now_s)
        now_s = max(now_s, pacer.opens_at_s) + 50e-6  # what a timer is late by

    assert pacer.opens_at_s == pytest.approx(100.0 + 1000 * 0.0008)


def test_idle_time_is_not_made_up_for() -> None:
    pacer = Pacer(10e6)
    pacer.spend(958, 100.0)
    pacer.rest()
    pacer.spend(958, 200.0)

    assert pacer.opens_at_s == pytest.approx(200.0008)


@given(st.lists(st.floats(0, 0.1), min_size=2, max_size=200))
def test_however_late_it_is_a_window_never_holds_more_than_the_rate_and_the_catch_up(late_s: list[float]) -> None:
    pacer, now_s, sent_at_s = Pacer(10e6), 0.0, []
    for lateness_s in late_s:
        now_s = max(now_s, pacer.opens_at_s) + lateness_s
        pacer.spend(958, now_s)
        sent_at_s.append(now_s)

    for first in range(len(sent_at_s)):
        span_s = sent_at_s[-1] - sent_at_s[first]
        assert (len(sent_at_s) - first) * 0.0008 <= span_s + CATCH_UP_S + 0.0008 + 1e-9
