"""From a link to what the kernel is given, and back."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from owlt.emulator.channel.link import Jitter, LinkSpec, Pattern, Reordering
from owlt.emulator.channel.loss_models import FourState, GilbertElliott
from owlt.emulator.channel.text import LARGEST_SEED, LONGEST_DELAY_NS, SMALLEST_ERROR_RATE
from owlt.emulator.kernel.bpf_stages import ErrorProcess
from owlt.emulator.kernel.gate import Admission
from owlt.emulator.kernel.link_to_stages import MOST_PACKETS, Stages, differences, link_of, retaining_netems, stages_of
from owlt.emulator.kernel.netem import ALWAYS, NO_RATE_BYTES_PER_S, FourStateThresholds, GilbertElliottThresholds, Netem

LINK = LinkSpec(delay_ns=1_250_000_000, rate_bps=10e6, packet_error_rate=0.01, queue_packets=100, seed=3)


def test_an_unimpaired_link_has_no_stages() -> None:
    assert stages_of(LinkSpec(queue_packets=5, seed=5)) == Stages()


def test_a_rate_alone_needs_a_bottleneck_only() -> None:
    assert stages_of(LinkSpec(rate_bps=10e6)) == Stages(
        bottleneck=Netem(limit_packets=1000, rate_bytes_per_s=1_250_000)
    )


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


def test_a_pipe_that_keeps_order_has_a_rate_that_limits_nothing() -> None:
    """With a rate, netem sends no packet before the one before it."""
    ordered, free = (stages_of(LINK.model_copy(update={"keeps_order": keeps})).pipe for keeps in (True, False))

    assert ordered is not None and free is not None
    assert (ordered.rate_bytes_per_s, free.rate_bytes_per_s) == (NO_RATE_BYTES_PER_S, 0)
    assert 65_535 * 10**9 // NO_RATE_BYTES_PER_S == 0, "the longest packet takes less than a nanosecond"


def test_a_pipe_never_drops_for_want_of_room() -> None:
    """Lowering a delay would otherwise leave no place for what comes while the old is in flight."""
    for link in (LINK, LinkSpec(delay_ns=1), LinkSpec(delay_ns=24 * 3600 * 10**9)):
        pipe = stages_of(link).pipe
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


def test_a_seed_of_the_kernels_own_is_not_given() -> None:
    asked = LinkSpec(packet_error_rate=0.1)
    found = stages_of(asked)
    assert found.pipe is not None

    assert link_of(Stages(pipe=replace(found.pipe, seed=12345)), asked).seed is None


def test_stages_read_back_as_given_do_not_differ() -> None:
    assert differences(stages_of(LINK), stages_of(LINK)) == []


def test_a_missing_stage_is_a_difference() -> None:
    difference = differences(stages_of(LINK), Stages(pipe=stages_of(LINK).pipe))[0]

    assert difference.startswith("bottleneck expected ")
    assert difference.endswith(", got none")


def test_a_stage_too_many_is_a_difference() -> None:
    assert differences(Stages(), stages_of(LINK)) != []


def test_a_difference_names_the_stage_the_setting_and_both_values() -> None:
    found = stages_of(LINK.model_copy(update={"delay_ns": 7}))
    wanted = stages_of(LINK)

    assert "pipe delay_ns: expected 1250000000, got 7" in differences(wanted, found)


def test_a_queue_in_packets_is_the_bottlenecks_own() -> None:
    stages = stages_of(LinkSpec(rate_bps=1e6, queue_packets=7))

    assert stages.gate is None
    assert stages.bottleneck is not None and stages.bottleneck.limit_packets == 7


@pytest.mark.parametrize(
    ("queue", "queue_ns"),
    [({"queue_bytes": 125_000}, 10**9), ({"queue_ns": 5_000}, 5_000), ({"queue_bdp": 2.5}, 500_000_000)],
)
def test_a_queue_in_another_unit_is_the_gates_as_the_time_it_takes_to_send(
    queue: dict[str, float], queue_ns: int
) -> None:
    stages = stages_of(LinkSpec(rate_bps=1e6, **queue), rtt_ns=200_000_000)  # type: ignore[arg-type]

    assert stages.gate == Admission(mtu_bytes=None, queue_ns=queue_ns, rate_bytes_per_s=125_000, overhead_bytes=0)
    assert stages.bottleneck is not None and stages.bottleneck.limit_packets == MOST_PACKETS


def test_an_mtu_is_the_gates_and_needs_no_bottleneck() -> None:
    assert stages_of(LinkSpec(mtu_bytes=1500)) == Stages(gate=Admission(1500, None, 0, 0))


def test_a_bit_error_rate_is_a_process_of_bits_with_the_links_seed() -> None:
    link = LinkSpec(bit_error_rate=1e-6, error_effect="drop", seed=9)

    assert stages_of(link) == Stages(errors=ErrorProcess("bit", "drop", rate=1e-6, seed=9))


def test_bit_errors_of_a_link_without_a_seed_take_the_one_drawn() -> None:
    errors = stages_of(LinkSpec(bit_error_rate=1e-6), drawn_seed=77).errors

    assert errors is not None and errors.seed == 77


@pytest.mark.parametrize(("unit", "field"), [("packet", "packets"), ("bit", "bits")])
def test_a_pattern_is_a_process_with_positions(unit: str, field: str) -> None:
    errors = stages_of(LinkSpec(pattern=Pattern(**{field: (3, 8)}))).errors

    assert errors is not None
    assert (errors.unit, errors.positions) == (unit, (3, 8))


def test_packets_that_are_to_be_dropped_are_lost_rather_than_corrupted() -> None:
    pipe = stages_of(LinkSpec(packet_error_rate=0.01, error_effect="drop")).pipe

    assert pipe is not None
    assert (pipe.corrupt_threshold, pipe.loss_threshold) == (0, 42_949_672)


def test_gilbert_elliotts_mean_loss_and_burst_become_two_transitions() -> None:
    pipe = stages_of(LinkSpec(loss=GilbertElliott(mean_rate=0.2, burst_packets=4))).pipe

    assert pipe is not None
    assert pipe.loss_model == GilbertElliottThresholds(to_bad=2**28, to_good=2**30)


def test_four_states_are_netems_own() -> None:
    pipe = stages_of(LinkSpec(loss=FourState(p13=0.5, p31=0.25, p32=0.125, p23=0.75, p14=0.5))).pipe

    assert pipe is not None
    assert pipe.loss_model == FourStateThresholds(p13=2**31, p31=2**30, p32=2**29, p14=2**31, p23=3 * 2**30)


def test_an_outage_that_drops_lets_nothing_into_the_pipe() -> None:
    pipe = stages_of(LINK.model_copy(update={"up": False})).pipe

    assert pipe is not None
    assert (pipe.loss_threshold, pipe.delay_ns) == (ALWAYS, LINK.delay_ns)


def test_an_outage_that_drops_makes_no_duplicates() -> None:
    """netem would keep one of two copies of which it loses one."""
    pipe = stages_of(LinkSpec(duplication_rate=0.5, up=False)).pipe

    assert pipe is not None
    assert pipe.duplicate_threshold == 0


def test_an_outage_that_holds_needs_a_bottleneck_even_without_a_rate() -> None:
    stages = stages_of(LinkSpec(up=False, while_down="hold", queue_packets=5))

    assert stages.bottleneck == Netem(limit_packets=5, rate_bytes_per_s=NO_RATE_BYTES_PER_S)


def test_jitter_is_a_spread_and_a_table() -> None:
    pipe = stages_of(LinkSpec(jitter=Jitter(amount_ns=5_000, distribution="table", table=(1.0, -1.0)))).pipe

    assert pipe is not None
    assert (pipe.jitter_ns, pipe.delay_table) == (5_000, (-8192, 8192))


def test_reordering_is_a_table_that_holds_a_share_back() -> None:
    link = LinkSpec(reordering=Reordering(rate=0.25, by_ns=7), keeps_order=False)
    pipe = stages_of(link).pipe

    assert pipe is not None
    assert (pipe.jitter_ns, pipe.delay_table) == (7, (0, 0, 0, 8192))


NEUTRAL = Netem(limit_packets=MOST_PACKETS, rate_bytes_per_s=NO_RATE_BYTES_PER_S)


def test_a_stage_that_is_no_longer_wanted_stays_and_does_nothing() -> None:
    assert retaining_netems(Stages(), stages_of(LINK), keeps_order=True) == Stages(bottleneck=NEUTRAL, pipe=NEUTRAL)


def test_a_pipe_that_does_nothing_lets_overtake_where_the_link_does() -> None:
    pipe = retaining_netems(Stages(), stages_of(LINK), keeps_order=False).pipe

    assert pipe == replace(NEUTRAL, rate_bytes_per_s=0)


def test_a_program_that_is_no_longer_wanted_does_not_stay() -> None:
    present = stages_of(LinkSpec(bit_error_rate=1e-6, mtu_bytes=1500))

    assert retaining_netems(Stages(), present, keeps_order=True) == Stages()


def test_a_neutral_bottleneck_is_no_rate() -> None:
    assert link_of(Stages(bottleneck=NEUTRAL, pipe=NEUTRAL), LinkSpec()) == LinkSpec()


def test_what_the_kernel_cannot_show_is_repeated_as_asked() -> None:
    link = LinkSpec(delay_ns=5, jitter=Jitter(amount_ns=7), rate_bps=1e6, queue_bdp=2.0, bit_error_rate=1e-6)

    assert link_of(stages_of(link, rtt_ns=10), link) == link


def test_what_is_no_longer_in_the_kernel_is_no_longer_described() -> None:
    link = LinkSpec(
        delay_ns=5,
        jitter=Jitter(amount_ns=7),
        rate_bps=1e6,
        queue_bytes=9_000,
        mtu_bytes=1400,
        bit_error_rate=1e-6,
        loss=GilbertElliott(mean_rate=0.1, burst_packets=4),
        duplication_rate=0.1,
    )

    assert link_of(Stages(), link).unimpaired


def test_losses_that_somebody_else_has_set_are_described() -> None:
    found = stages_of(LinkSpec(loss=GilbertElliott(mean_rate=0.2, burst_packets=4)))
    loss = link_of(found, LinkSpec()).loss

    assert isinstance(loss, GilbertElliott)
    assert (loss.mean_rate, loss.burst_packets) == (pytest.approx(0.2), pytest.approx(4))
