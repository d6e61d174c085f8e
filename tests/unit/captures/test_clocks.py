"""Clocks of two captures, held against clocks that were made."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from owlt.captures.frames.columns import read_columns
from owlt.captures.matches.bottleneck import Link
from owlt.captures.matches.clocks import ClockRelation, relate, relate_clocks
from owlt.captures.matches.matching import match_captures
from tests.unit.captures.making import RECEIVER, SENDER, SESSION, START_NS, later, timed, udp_frame, write_pcap

DELAY_NS = 40_000_000
JITTER_NS = 1_000_000
SECOND_NS = 10**9
RATE_BPS = 1e7
Times = NDArray[np.int64]
NONE = np.empty(0, np.int64)


def sent_and_arrived(seed: int, count: int, delay_ns: int, jitter_ns: int = JITTER_NS) -> tuple[Times, Times]:
    """True times of packets over a minute; queues add to their delay what is exponential."""
    chance = np.random.default_rng(seed)
    sent = START_NS + np.sort(chance.integers(0, 60 * SECOND_NS, count))
    return sent, sent + delay_ns + chance.exponential(jitter_ns, count).astype(np.int64)


def shown(true_times: Times, offset_ns: int, drift_ppm: float) -> Times:
    """What a clock shows that is right but for its offset when the packets begin, and its drift."""
    gained: Times = np.rint((true_times - START_NS) * (drift_ppm / 1e6)).astype(np.int64)
    return true_times + offset_ns + gained


def related(offset_ns: int, drift_ppm: float, seed: int = 1, back_ns: int = DELAY_NS, **more: Any) -> ClockRelation:
    """What is found of the receiver's clock from 3,000 packets forward and 300 back."""
    sent, arrived = sent_and_arrived(seed, 3_000, DELAY_NS)
    returned, came_back = sent_and_arrived(seed + 1, 300, back_ns)
    clock = (offset_ns, drift_ppm)
    found = relate(sent, shown(arrived, *clock), shown(returned, *clock), came_back, **more)
    assert found is not None
    return found


def offset_at_start(found: ClockRelation) -> float:
    assert found.offset_ns is not None
    return found.offset_ns


@settings(max_examples=25, deadline=None)
@given(
    offset_ns=st.integers(-(10**15), 10**15),
    drift_ppm=st.floats(-300, 300),
    seed=st.integers(0, 10_000),
)
def test_offset_and_drift_are_found_within_the_jitter(offset_ns: int, drift_ppm: float, seed: int) -> None:
    """The least of n exponential delays of mean J is J/n on average; a tenth of J is never reached by both sides."""
    found = related(offset_ns, drift_ppm, seed)
    assert found.drift_ppm is not None
    assert abs(found.drift_ppm - drift_ppm) < JITTER_NS / 10 / (60 * SECOND_NS) * 1e6
    began_ns = (found.at_ns - offset_ns - START_NS) * drift_ppm / 1e6
    assert abs(offset_at_start(found) - offset_ns - began_ns) < JITTER_NS / 10


def test_the_truth_is_within_the_uncertainty_that_is_given() -> None:
    found = related(offset_ns=5_000_000, drift_ppm=-37)
    assert found.drift_ppm is not None and found.drift_uncertainty_ppm is not None
    assert abs(found.drift_ppm + 37) < found.drift_uncertainty_ppm < 5


def test_a_clock_that_is_right_has_no_offset_and_no_drift() -> None:
    found = related(offset_ns=0, drift_ppm=0)
    assert abs(offset_at_start(found)) < JITTER_NS / 10
    assert found.drift_ppm == pytest.approx(0, abs=0.01)


def test_without_the_true_delays_ways_of_different_length_shift_the_offset_by_half_the_difference() -> None:
    found = related(offset_ns=0, drift_ppm=0, back_ns=DELAY_NS + 20_000_000)
    assert offset_at_start(found) == pytest.approx(-10_000_000, abs=JITTER_NS / 10)
    assert found.offset_uncertainty_ns == pytest.approx(DELAY_NS + 10_000_000, abs=JITTER_NS / 10)


def test_with_the_true_delays_ways_of_different_length_do_not_matter() -> None:
    back_ns = DELAY_NS + 20_000_000
    found = related(offset_ns=7_000, drift_ppm=0, back_ns=back_ns, least_delays_ns=(DELAY_NS, back_ns))
    assert offset_at_start(found) == pytest.approx(7_000, abs=JITTER_NS / 10)
    assert found.offset_uncertainty_ns is not None and found.offset_uncertainty_ns < JITTER_NS


def test_the_least_round_trip_is_that_of_both_ways() -> None:
    assert related(10**12, 100).least_round_trip_ns == pytest.approx(2 * DELAY_NS, abs=JITTER_NS / 5)


def test_packets_one_way_tell_the_drift_and_no_offset() -> None:
    sent, arrived = sent_and_arrived(3, 3_000, DELAY_NS)
    found = relate(sent, shown(arrived, 10**9, 50), NONE, NONE)
    assert found is not None
    assert found.drift_ppm == pytest.approx(50, abs=0.2)
    assert found.offset_ns is None and found.offset_uncertainty_ns is None and found.least_round_trip_ns is None


def test_packets_one_way_tell_the_offset_where_their_least_delay_is_known() -> None:
    sent, arrived = sent_and_arrived(3, 3_000, DELAY_NS)
    found = relate(sent, shown(arrived, 10**9, 50), NONE, NONE, least_delays_ns=(DELAY_NS, DELAY_NS))
    assert found is not None
    assert offset_at_start(found) == pytest.approx(10**9 + 50 * DELAY_NS / 1e6, abs=JITTER_NS / 10)


def test_one_packet_each_way_tells_the_offset_and_no_drift() -> None:
    at = np.array([START_NS])
    found = relate(at, at + DELAY_NS + 500, at + SECOND_NS + 500, at + SECOND_NS + DELAY_NS)
    assert found is not None
    assert found.offset_ns == 500
    assert found.drift_ppm is None and found.drift_uncertainty_ppm is None


def test_no_packets_tell_nothing() -> None:
    assert relate(NONE, NONE, NONE, NONE) is None


def test_corrected_times_are_those_of_the_senders_clock() -> None:
    _, arrived = sent_and_arrived(1, 3_000, DELAY_NS)
    corrected = related(-(10**13), 120).to_sender_clock(shown(arrived, -(10**13), 120))
    assert np.abs(corrected - arrived).max() < JITTER_NS / 10


def test_a_clock_that_was_stepped_meanwhile_shows_in_the_residual() -> None:
    """The control: no line fits, so what is found must not look right."""
    sent, arrived = sent_and_arrived(1, 3_000, DELAY_NS)
    stepped = arrived + np.where(arrived > START_NS + 30 * SECOND_NS, 50_000_000, 0)
    returned, came_back = sent_and_arrived(2, 300, DELAY_NS)
    found = relate(sent, stepped, returned, came_back)
    assert found is not None
    assert found.residual_max_ns > 10_000_000 > 10 * related(0, 0).residual_p50_ns


def test_clocks_are_related_by_the_matched_packets_of_two_captures(tmp_path: Path) -> None:
    there = timed([udp_frame(n.to_bytes(4, "big")) for n in range(50)])
    back = timed([udp_frame(n.to_bytes(4, "big"), source=RECEIVER, destination=SENDER) for n in range(50)])
    at_sender = read_columns(write_pcap(tmp_path / "s.pcap", sorted(there + later(back, DELAY_NS))))
    behind = later(sorted(later(there, DELAY_NS) + back), -3_000_000_000)
    at_receiver = read_columns(write_pcap(tmp_path / "r.pcap", behind))
    found = relate_clocks(match_captures(at_sender, at_receiver, SESSION))
    assert found is not None
    assert found.offset_ns == -3_000_000_000
    assert found.drift_ppm == pytest.approx(0, abs=1e-6)


Traffic = tuple[Times, Times, Times, Times]
"""When packets leave the sender and their sizes, when they leave the receiver and their sizes."""


def traffic(kind: str, seconds: int) -> Traffic:
    """As the protocols send it, over so many seconds."""
    match kind:
        case "LTP":  # the block in large frames at once, then reports and what they ask for
            there = [*np.linspace(0, 0.3, 1000), 0.35, 0.5, 0.7, 0.8, 1]
            there_bytes, back_bytes = [1042] * 1000 + [60] * 5, [70, 90, 60, 64, 60, 60]
            back = [0.31, 0.4, 0.55, 0.75, 0.9, 0.99]
        case "CFDP":
            there = [*np.linspace(0, 0.5, 1000), 0.7, 0.72, 0.9, 1]
            there_bytes, back_bytes = [100] + [1042] * 999 + [1042, 1042, 60, 60], [90, 120, 70, 64, 60]
            back = [0.2, 0.55, 0.6, 0.8, 0.95]
        case "NORM":
            there, back = [*np.linspace(0, 1, 1000)], [*np.linspace(0.05, 1, 8)]
            there_bytes, back_bytes = [1060, 1060, 1060, 80] * 250, [70, 300, 90, 71, 150, 200, 80, 70]
        case _:  # TCP: a window at a time, faster than the channel
            there = [0.0] + [part / 12 + 0.02 * n / 83 for part in range(12) for n in range(83)]
            there_bytes, back_bytes = [74] + [1066] * 996, [74] + [66] * 699
            back = [*np.linspace(0, 1, 700)]
    departures = ((np.array(part) * seconds * SECOND_NS).astype(np.int64) + START_NS for part in (there, back))
    sizes = (np.array(part, np.int64) for part in (there_bytes, back_bytes))
    (out, home), (out_bytes, home_bytes) = departures, sizes
    return out, out_bytes, home, home_bytes


def through(chance: np.random.Generator, sent: Times, sizes: Times, jitter_ns: int) -> tuple[Times, Times, Times]:
    """Departures, arrivals and sizes of what comes out of a channel of 10 Mbit/s that loses a tenth."""
    taken = 8e9 * sizes / RATE_BPS
    before = np.cumsum(taken) - taken
    left = np.maximum.accumulate(sent - START_NS - before) + before + taken
    arrived = START_NS + np.rint(left + DELAY_NS + jitter_ns * chance.exponential(1, len(sent))).astype(np.int64)
    kept = chance.random(len(sent)) > 0.1
    return sent[kept], arrived[kept], sizes[kept]


def related_traffic(
    kind: str, seconds: int, jitter_ns: int, offset_ns: int, drift_ppm: float, seed: int, is_rate_known: bool = False
) -> ClockRelation:
    chance = np.random.default_rng(seed)
    out, out_bytes, home, home_bytes = traffic(kind, seconds)
    departed, arrived, there_bytes = through(chance, out, out_bytes, jitter_ns)
    returned, came_back, back_bytes = through(chance, home, home_bytes, jitter_ns)
    clock, known = (offset_ns, drift_ppm), None
    if is_rate_known:
        link, known = Link(DELAY_NS, RATE_BPS), (DELAY_NS, DELAY_NS)
        arrived = arrived - link.serialization_ns(there_bytes)
        came_back = came_back - link.serialization_ns(back_bytes)
    sizes = None if is_rate_known else (there_bytes, back_bytes)
    found = relate(departed, shown(arrived, *clock), shown(returned, *clock), came_back, known, sizes)
    assert found is not None
    return found


@pytest.mark.parametrize("is_rate_known", [False, True])
@pytest.mark.parametrize("seconds", [1, 10, 400, 2000])
@pytest.mark.parametrize("kind", ["LTP", "CFDP", "NORM", "TCP"])
def test_the_truth_lies_inside_what_is_stated_for_every_traffic(kind: str, seconds: int, is_rate_known: bool) -> None:
    for number, drift_ppm in enumerate((0, 20, -20, 200, -200)):
        for jitter_ns in (0, 100_000):
            offset_ns = (0, 3, -3)[number % 3] * SECOND_NS
            found = related_traffic(kind, seconds, jitter_ns, offset_ns, drift_ppm, number, is_rate_known)
            assert found.offset_ns is not None and found.offset_uncertainty_ns is not None
            true_ns = offset_ns + (found.at_ns - offset_ns - START_NS) * drift_ppm / (1e6 + drift_ppm)
            assert abs(found.offset_ns - true_ns) <= found.offset_uncertainty_ns
            if found.drift_ppm is None:
                assert seconds == 1  # the queue grows all the while
                continue
            assert found.drift_uncertainty_ppm is not None
            assert abs(found.drift_ppm - drift_ppm) <= found.drift_uncertainty_ppm
            assert found.drift_uncertainty_ppm < 5_000 / seconds


@pytest.mark.parametrize("is_rate_known", [False, True])
def test_large_packets_before_small_ones_are_no_drift(is_rate_known: bool) -> None:
    found = related_traffic("LTP", 10, 0, 3 * SECOND_NS, 20, 1, is_rate_known)
    assert found.drift_ppm == pytest.approx(20, abs=0.5)


def test_without_sizes_large_packets_before_small_ones_seem_to_be_one() -> None:
    """The control: what is told of the sizes is what makes the difference."""
    departed, sizes, returned, _ = traffic("LTP", 10)
    arrived = departed + DELAY_NS + (8e9 * sizes / RATE_BPS).astype(np.int64)
    blind = relate(departed, arrived, returned, returned + DELAY_NS)
    seeing = relate(departed, arrived, returned, returned + DELAY_NS, wire_bytes=(sizes, np.full(6, 60)))
    assert blind is not None and blind.drift_ppm is not None and blind.drift_ppm < -30
    assert seeing is not None and seeing.drift_ppm == pytest.approx(0, abs=0.5)


def test_where_time_and_size_cannot_be_distinguished_the_uncertainty_says_so() -> None:
    departed = START_NS + np.arange(1000) * 10_000_000
    sizes = np.linspace(1500, 60, 1000).astype(np.int64)
    arrived = departed + DELAY_NS + (8e9 * sizes / RATE_BPS).astype(np.int64)
    found = relate(departed, arrived, NONE, NONE, wire_bytes=(sizes, NONE))
    assert found is not None
    assert found.drift_ppm is None or (found.drift_uncertainty_ppm or np.inf) > 100


def test_what_gains_more_than_clocks_do_is_a_queue_and_no_drift() -> None:
    departed = START_NS + np.arange(1000) * 1_000_000
    found = relate(departed, departed + DELAY_NS + np.arange(1000) * 100_000, NONE, NONE)
    assert found is not None
    assert found.drift_ppm is None and found.drift_uncertainty_ppm is None


def test_two_packets_are_too_few_to_know_the_drift_from() -> None:
    departed = START_NS + np.array([0, SECOND_NS])
    found = relate(departed, departed + DELAY_NS, NONE, NONE)
    assert found is not None and found.drift_uncertainty_ppm is not None
    assert found.drift_uncertainty_ppm > 900


def test_delays_that_are_given_too_long_make_the_offset_less_certain() -> None:
    found = related(offset_ns=0, drift_ppm=0, least_delays_ns=(DELAY_NS, DELAY_NS + 20_000_000))
    assert abs(offset_at_start(found)) < (found.offset_uncertainty_ns or 0) < 15_000_000
