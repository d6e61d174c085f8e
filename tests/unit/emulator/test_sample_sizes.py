"""How many probes a certificate sends: enough for the specified shares, and no more than there is time for."""

from __future__ import annotations

from typing import Any

from owlt.emulator.certification.expectations import Expectations
from owlt.emulator.certification.intervals import trials_for_share, wrong_share
from owlt.emulator.certification.sample_sizes import MOST_PACKETS, Means, SampleSizes
from owlt.emulator.channel.spec import LinkSpec

ALPHA = 0.001
LONGEST_BYTES = 1514
SHORTEST_BYTES = 64


def sizes(budget_s: float = 600.0, packets: int | None = None, **link: Any) -> SampleSizes:
    means = Means(LONGEST_BYTES, budget_s, packets, ALPHA)
    return SampleSizes(Expectations(LinkSpec(**link), rtt_ns=0), means, tolerance_ns=1000)


def test_the_shortest_frames_are_enough_to_show_a_wrong_packet_error_rate() -> None:
    rate = 0.001

    sample = sizes(packet_error_rate=rate).for_shares(LONGEST_BYTES, LONGEST_BYTES)[SHORTEST_BYTES]

    assert sample.packets == trials_for_share(rate, wrong_share(rate), ALPHA, MOST_PACKETS)
    assert sample.shows_damage


def test_a_sample_is_cut_to_what_the_channel_sends_in_the_time_there_is() -> None:
    rate_bps, budget_s = 1e6, 1.0

    sample = sizes(budget_s, rate_bps=rate_bps).for_shares(LONGEST_BYTES, LONGEST_BYTES)

    assert sum(length * 8 * size.packets for length, size in sample.items()) <= rate_bps * budget_s * 1.25
    assert sample[SHORTEST_BYTES].packets < sizes().for_shares(LONGEST_BYTES, LONGEST_BYTES)[SHORTEST_BYTES].packets


def test_a_number_of_packets_that_was_asked_for_is_sent_of_every_length() -> None:
    sample = sizes(packets=500, bit_error_rate=1e-6).for_shares(LONGEST_BYTES, LONGEST_BYTES)

    assert {size.packets for size in sample.values()} == {500}


def test_packets_that_shall_not_queue_are_sent_more_slowly_than_the_rate() -> None:
    rate_bps = 1e6

    assert LONGEST_BYTES * 8 / (sizes(rate_bps=rate_bps).gap_ns(LONGEST_BYTES) / 1e9) < rate_bps
