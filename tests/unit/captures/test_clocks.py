"""Clocks of two captures, held against clocks that were made."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from captures.clocks import ClockRelation, relate, relate_clocks
from captures.columns import read_columns
from captures.matching import match_captures
from tests.unit.captures.making import RECEIVER, SENDER, SESSION, START_NS, later, timed, udp_frame, write_pcap

DELAY_NS = 40_000_000
JITTER_NS = 1_000_000
SECOND_NS = 10**9
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
    found = relate_clocks(at_sender, at_receiver, *match_captures(at_sender, at_receiver, SESSION))
    assert found is not None
    assert found.offset_ns == -3_000_000_000
    assert found.drift_ppm == pytest.approx(0, abs=1e-6)
