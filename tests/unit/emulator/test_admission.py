"""The rule of a link's entrance, in netem's arithmetic."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from owlt.emulator.kernel.gate import Admission


@given(st.integers(1, 9014), st.integers(1, 10**11), st.integers(0, 100))
def test_a_frame_takes_its_bytes_and_overhead_at_the_rate_cut_off_to_a_nanosecond(
    frame_bytes: int, rate: int, overhead: int
) -> None:
    taken_ns = Admission(None, None, rate, overhead).serialization_ns(frame_bytes)

    assert 0 <= (frame_bytes + overhead) * 10**9 - taken_ns * rate < rate


def test_a_link_without_a_rate_takes_no_time() -> None:
    assert Admission(None, 1, 0).serialization_ns(9014) == 0


def test_the_longest_frame_has_an_ethernet_header_above_the_mtu() -> None:
    assert Admission(1500, None, 0).longest_frame_bytes == 1514


def test_without_an_mtu_a_frame_may_have_any_length() -> None:
    assert Admission(None, None, 0).longest_frame_bytes is None


def test_a_negative_number_is_refused() -> None:
    with pytest.raises(ValueError, match="admission: queue_ns: expected 0 or more, got -1"):
        Admission(None, -1, 1)
