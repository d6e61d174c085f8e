"""What was seen of probes, as numbers; and what a link would be measured to be if it were as asked."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from owlt.emulator.certification import probe_statistics
from owlt.emulator.certification.bursts import BurstLoss
from owlt.emulator.certification.expectations import Expectations
from owlt.emulator.certification.probe_statistics import Count
from owlt.emulator.certification.probing import ProbeResult
from owlt.emulator.channel.link import Jitter
from owlt.emulator.channel.loss_models import FourState, GilbertElliott
from owlt.emulator.channel.spec import ChannelSpec, LinkSpec

LENGTH_BYTES = 1000


def seen(
    sent_ns: list[int],
    copies: list[tuple[int, int]],
    flips: list[tuple[int, int]] | None = None,
    length: int = LENGTH_BYTES,
) -> ProbeResult:
    """Probes sent at these times, copies (number, delivered_ns) in the order of their arrival, flips (copy, bit)."""
    flips = flips or []
    flipped = [sum(1 for copy, _ in flips if copy == number) for number in range(len(copies))]
    columns = (
        [length] * len(sent_ns),
        sent_ns,
        [number for number, _ in copies],
        [length] * len(copies),
        [at_ns for _, at_ns in copies],
        flipped,
        [copy for copy, _ in flips],
        [bit for _, bit in flips],
    )
    return ProbeResult(*(np.array(column, np.int64) for column in columns))


def delivered(*numbers: int, of: int) -> ProbeResult:
    """So many probes of which these were delivered, in this order."""
    return seen([0] * of, [(number, 10 * place) for place, number in enumerate(numbers)])


def test_a_delay_is_from_the_entrance_to_the_first_delivery() -> None:
    probes = seen([100, 200], [(1, 250), (0, 400), (0, 900)])

    assert probe_statistics.one_way_delays_ns(probes).tolist() == [50, 300]


def test_a_rate_is_what_came_between_the_deliveries() -> None:
    probes = seen([0] * 4, [(number, 1_000_000 + 800_000 * number) for number in range(4)])

    assert probe_statistics.rate_bps(probes, overhead_bytes=0) == pytest.approx(10e6)
    assert probe_statistics.rate_bps(probes, overhead_bytes=24) == pytest.approx(10.24e6)


def test_packets_lost_behind_the_bottleneck_took_their_time_in_it() -> None:
    probes = seen([0] * 6, [(0, 0), (1, 800_000), (5, 4_000_000)])

    assert probe_statistics.rate_bps(probes, overhead_bytes=0) == pytest.approx(10e6)


@pytest.mark.parametrize("copies", [[], [(0, 5)], [(0, 5), (0, 6)]])
def test_a_rate_takes_two_packets(copies: list[tuple[int, int]]) -> None:
    assert probe_statistics.rate_bps(seen([0, 0], copies), overhead_bytes=0) is None


def test_what_was_never_delivered_is_lost() -> None:
    assert probe_statistics.lost(delivered(0, 3, 3, of=5)) == Count(3, 5)
    assert probe_statistics.lost_packets(delivered(0, 3, 3, of=5)).tolist() == [1, 2, 4]


def test_copies_of_one_packet_are_damaged_once() -> None:
    probes = seen([0, 0], [(0, 1), (0, 2), (1, 3)], flips=[(0, 7), (1, 7)])

    assert probe_statistics.damaged(probes) == Count(1, 2)
    assert probe_statistics.flipped(probes) == Count(1, 2 * 8 * LENGTH_BYTES)


def test_flipped_bits_are_counted_along_all_that_was_sent() -> None:
    probes = seen([0, 0], [(1, 1), (0, 2)], flips=[(0, 5), (1, 9)])

    assert probe_statistics.hit_bits(probes).tolist() == [9, 8 * LENGTH_BYTES + 5]
    assert probe_statistics.hit_packets(probes).tolist() == [0, 1]


def test_packets_that_arrive_more_than_once_are_counted_once() -> None:
    assert probe_statistics.duplicated(delivered(0, 0, 0, 1, 2, 2, of=4)) == Count(2, 3)


@pytest.mark.parametrize(
    ("order", "late"), [((0, 1, 2, 3), 0), ((1, 0, 2, 3), 1), ((3, 0, 1, 2), 3), ((0, 2, 0, 1, 3), 1), ((), 0)]
)
def test_a_packet_is_out_of_order_if_a_later_one_came_before_it(order: tuple[int, ...], late: int) -> None:
    assert probe_statistics.reordered(delivered(*order, of=4)) == Count(late, len(set(order)))


def test_packets_that_nothing_was_sent_after_are_not_asked_for_their_order() -> None:
    assert probe_statistics.reordered(delivered(1, 0, 3, 2, of=4), among=2) == Count(1, 2)


def test_bursts_are_runs_of_losses_without_the_last_if_it_may_go_on() -> None:
    assert probe_statistics.loss_bursts(delivered(2, 3, 5, of=9)).tolist() == [2, 1]
    assert probe_statistics.loss_bursts(delivered(0, 1, of=2)).tolist() == []
    assert probe_statistics.loss_bursts(delivered(of=3)).tolist() == []


@given(st.lists(st.booleans(), min_size=1, max_size=60))
def test_bursts_and_the_end_are_all_that_was_lost(arrived: list[bool]) -> None:
    numbers = [number for number, there in enumerate(arrived) if there]
    at_the_end = len(arrived) - 1 - (numbers[-1] if numbers else -1)

    bursts = probe_statistics.loss_bursts(delivered(*numbers, of=len(arrived)))
    assert int(bursts.sum()) + at_the_end == len(arrived) - len(numbers)


def test_a_queue_held_what_came_through_but_for_those_that_left_meanwhile() -> None:
    at_once = seen([0] * 20, [(number, 100 * number) for number in range(9)])
    slowly = seen([25 * number for number in range(20)], [(number, 100 * number) for number in range(13)])

    assert probe_statistics.queue_by_count(at_once, 1, 100) == 9
    assert probe_statistics.queue_by_count(slowly, 1, 100) == 9


def test_a_queue_is_as_deep_as_the_longest_wait_where_packets_are_lost() -> None:
    probes = seen([0] * 20, [(number, 1000 + 100 * number) for number in (0, 1, 2, 4, 5, 8)])

    assert probe_statistics.queue_by_wait(probes, 1, 100) == pytest.approx(9)


def test_a_queue_that_was_filled_slowly_is_not_measured_by_waits() -> None:
    probes = seen([10 * number for number in range(20)], [(number, 1000 + 100 * number) for number in range(9)])

    assert probe_statistics.queue_by_wait(probes, 1, 100) is None


def expected(**link: object) -> Expectations:
    return Expectations(LinkSpec(**link), rtt_ns=50_000_000)  # type: ignore[arg-type]


def test_a_frame_takes_the_delay_and_its_serialization() -> None:
    assert expected(delay_ns=1000, rate_bps=10e6, overhead_bytes=24).delay_ns(1476) == 1000 + 1_200_000
    assert expected(delay_ns=1000).delay_ns(1476) == 1000


@pytest.mark.parametrize(
    ("queue", "packets"),
    [
        ({"queue_packets": 7}, 7),
        ({"queue_bytes": 5100}, 5),
        ({"queue_ns": 4_000_000}, 5),
        ({"queue_bdp": 0.5}, 31),
        ({"queue_bytes": 10}, 1),
    ],
)
def test_a_queue_holds_as_many_whole_packets_as_fit(queue: dict[str, float], packets: int) -> None:
    assert expected(rate_bps=10e6, **queue).queue_packets(1000) == packets


def test_nothing_queues_without_a_rate() -> None:
    assert expected().queue_packets(1000) == float("inf")


def test_a_longer_frame_is_hit_more_often_by_bit_errors() -> None:
    assert expected(bit_error_rate=1e-6).damage_probability(1500) == pytest.approx(1 - (1 - 1e-6) ** 12_000)
    assert expected(bit_error_rate=1e-6).loss_probability(1500) == 0


def test_a_hit_that_drops_is_a_loss() -> None:
    link = expected(packet_error_rate=0.1, error_effect="drop")

    assert link.loss_probability(1500) == pytest.approx(0.1)
    assert link.damage_probability(1500) == 0


def test_jitter_never_makes_a_packet_early_before_it_was_sent() -> None:
    link = expected(delay_ns=1000, jitter=Jitter(amount_ns=10_000, distribution="uniform"))

    assert link.offset_ns(0) == -1000
    assert link.offset_ns(1) == pytest.approx(10_000, rel=1e-3)


def test_losses_one_by_one_say_as_much_as_there_are_packets() -> None:
    alone = BurstLoss.of(GilbertElliott(mean_rate=0.1, burst_packets=1 / 0.9))

    assert alone.packets_each == pytest.approx(1)


def test_the_four_state_chain_with_two_states_is_the_two_state_chain() -> None:
    two = BurstLoss.of(GilbertElliott(mean_rate=0.1, burst_packets=5))
    four = BurstLoss.of(FourState(p13=0.2 / 9, p31=0.2))

    assert (four.mean_rate, four.packets_each) == pytest.approx((two.mean_rate, two.packets_each))


def test_what_is_expected_of_a_channel_is_of_its_direction() -> None:
    channel = ChannelSpec(forward=LinkSpec(delay_ns=1), reverse=LinkSpec(delay_ns=2))

    assert Expectations.of(channel, "reverse").delay_ns(64) == 2
    assert Expectations.of(channel, "reverse").rtt_ns == 3
