"""From a link to what the kernel is given, and back."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulator.channel import LARGEST_SEED, LONGEST_DELAY_NS, SMALLEST_ERROR_RATE, LinkSpec
from emulator.netem import Netem
from emulator.stages import MOST_PACKETS, Stages, differences, link_of, stages_of

LINK = LinkSpec(delay_ns=1_250_000_000, rate_bps=10e6, packet_error_rate=0.01, queue_packets=100, seed=3)


def test_an_unimpaired_link_has_no_stages() -> None:
    assert stages_of(LinkSpec(queue_packets=5, seed=5)) == Stages()


def test_a_rate_alone_needs_a_bottleneck_only() -> None:
    assert stages_of(LinkSpec(rate_bps=10e6)) == Stages(Netem(limit_packets=1000, rate_bytes_per_s=1_250_000))


@pytest.mark.parametrize("link", [LinkSpec(delay_ns=1), LinkSpec(packet_error_rate=0.1)])
def test_a_delay_or_errors_alone_need_a_pipe_only(link: LinkSpec) -> None:
    stages = stages_of(link)

    assert stages.bottleneck is None
    assert stages.pipe is not None


def test_the_rate_is_in_the_bottleneck_and_the_rest_in_the_pipe() -> None:
    stages = stages_of(LINK)

    assert stages.bottleneck == Netem(limit_packets=100, rate_bytes_per_s=1_250_000)
    assert stages.pipe is not None
    assert (stages.pipe.delay_ns, stages.pipe.corrupt_threshold, stages.pipe.seed) == (1_250_000_000, 42_949_672, 3)
    assert stages.pipe.rate_bytes_per_s == 0


def test_a_pipe_holds_all_that_its_rate_and_delay_put_into_it() -> None:
    pipe = stages_of(LINK).pipe

    assert pipe is not None
    assert pipe.limit_packets >= 10e6 * 1.25 / 8 / 42 + 100, "the smallest frame of UDP over veth has 42 bytes"


def test_a_pipe_without_a_rate_holds_what_a_gigabit_puts_into_it() -> None:
    pipe = stages_of(LinkSpec(delay_ns=1_000_000_000)).pipe

    assert pipe is not None
    assert pipe.limit_packets >= 1e9 / 8 / 42


def test_the_longest_pipe_still_has_a_limit_that_fits_the_kernel() -> None:
    pipe = stages_of(LinkSpec(delay_ns=24 * 3600 * 10**9, queue_packets=2**31 - 1)).pipe

    assert pipe is not None
    assert pipe.limit_packets == MOST_PACKETS


@given(
    st.builds(
        LinkSpec,
        delay_ns=st.integers(0, LONGEST_DELAY_NS),
        rate_bps=st.none() | st.floats(8, 1e12),
        packet_error_rate=st.just(0.0) | st.floats(SMALLEST_ERROR_RATE, 1),
        queue_packets=st.integers(1, 2**31 - 1),
        seed=st.none() | st.integers(0, LARGEST_SEED),
    )
)
def test_a_link_comes_back_as_exactly_as_the_kernel_counts(link: LinkSpec) -> None:
    back = link_of(stages_of(link), link)

    assert (back.delay_ns, back.queue_packets, back.seed) == (link.delay_ns, link.queue_packets, link.seed)
    assert back.packet_error_rate == pytest.approx(link.packet_error_rate, abs=2**-33)
    assert (back.rate_bps is None) == (link.rate_bps is None)
    assert back.rate_bps is None or link.rate_bps is None or abs(back.rate_bps - link.rate_bps) <= 4


def test_a_seed_of_the_kernels_own_is_not_told() -> None:
    asked = LinkSpec(packet_error_rate=0.1)
    found = stages_of(asked)
    assert found.pipe is not None

    assert link_of(Stages(pipe=replace(found.pipe, seed=12345)), asked).seed is None


def test_stages_read_back_as_given_do_not_differ() -> None:
    assert differences(stages_of(LINK), stages_of(LINK)) == []


def test_a_missing_stage_is_a_difference() -> None:
    assert differences(stages_of(LINK), Stages(pipe=stages_of(LINK).pipe))[0].startswith("bottleneck got none, wanted ")


def test_a_stage_too_many_is_a_difference() -> None:
    assert differences(Stages(), stages_of(LINK)) != []


def test_a_difference_names_stage_setting_got_and_wanted() -> None:
    found = stages_of(LINK.model_copy(update={"delay_ns": 7}))
    wanted = stages_of(LINK)

    assert "pipe delay_ns: got 7, wanted 1250000000" in differences(wanted, found)
