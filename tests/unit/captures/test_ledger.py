"""The ledger: histories of which it is known what became of each packet, and what the emulator counted."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from random import Random

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scapy.layers.l2 import ARP

from owlt.captures.accounting.ledger import Account, Ledger, account
from owlt.captures.accounting.measures import CapturedFrames, DirectionCounters, direction_counters
from owlt.captures.accounting.suspicion import suspect_counts
from owlt.captures.frames.columns import Columns, read_columns
from owlt.captures.matches.matching import match_captures
from tests.unit.captures.making import (
    RECEIVER,
    SESSION,
    START_NS,
    Timed,
    ethernet,
    flip,
    later,
    timed,
    udp_frame,
    write_pcap,
)

OWD_NS = 25_000_000
STEP_NS = 1_000_000
NOTHING = DirectionCounters(0, 0, 0, 0, 0, 0, 0, 0, 0)


def columns(folder: Path, sent: list[Timed], delivered: list[Timed], snaplen: int = 262_144) -> tuple[Columns, Columns]:
    """Both captures; at the end a packet comes back from the receiver, so that its side is known."""
    back = [(START_NS + 70 * STEP_NS, udp_frame(b"back", source=RECEIVER, destination="10.77.0.1"))]
    near = write_pcap(folder / "sender.pcap", sorted(sent + later(back, OWD_NS)), snaplen=snaplen)
    far = write_pcap(folder / "receiver.pcap", sorted(delivered + back), snaplen=snaplen)
    return read_columns(near, snaplen), read_columns(far, snaplen)


def accounted(
    folder: Path, sent: list[Timed], delivered: list[Timed], counters: DirectionCounters | None = None
) -> Account:
    forward, _ = match_captures(*columns(folder, sent, delivered), SESSION).ways
    return account(forward, counters)


def assert_closed(ledger: Ledger) -> None:
    there = ledger.delivered + ledger.corrupted
    missing = ledger.lost + ledger.queue + ledger.mtu + ledger.in_flight + ledger.undetermined + ledger.unrecognised
    assert ledger.sent == there + missing + ledger.unexplained_missing


def numbered(count: int, payload_bytes: int = 40) -> list[Timed]:
    return timed([udp_frame(n.to_bytes(4, "big") * (payload_bytes // 4)) for n in range(count)], STEP_NS)


def arps(*times_ns: int) -> list[Timed]:
    frame = bytes(ethernet() / ARP(pdst="10.77.0.9"))
    return [(START_NS + time_ns, frame) for time_ns in times_ns]


FATES = ("arrives", "lost", "damaged", "doubled", "late")


@dataclass(frozen=True)
class History:
    """What a channel did, and the numbers that its emulator would have."""

    delivered: list[Timed]
    counters: DirectionCounters
    lost: list[int]
    reordered: int
    extent: int


def history(sent: list[Timed], fates: list[str], seed: int, late_ns: int = 2 * STEP_NS + STEP_NS // 3) -> History:
    chance = Random(seed)
    arrivals: list[tuple[int, int, bytes]] = []
    for number, ((time_ns, frame), fate) in enumerate(zip(sent, fates, strict=True)):
        if fate == "lost":
            continue
        arrival_ns = time_ns + OWD_NS + (late_ns if fate == "late" else 0)
        arrivals.append((arrival_ns, number, flip(frame, chance.randrange(8 * 14)) if fate == "damaged" else frame))
        if fate == "doubled":
            arrivals.append((arrival_ns + 10, number, frame))
    arrivals.sort()
    order = list(dict.fromkeys(number for _, number, _ in arrivals))
    extents = [
        place - next(before for before in range(place) if order[before] > number)
        for place, number in enumerate(order)
        if any(other > number for other in order[:place])
    ]
    return History(
        delivered=[(time_ns, frame) for time_ns, _, frame in arrivals],
        counters=replace(
            NOTHING,
            entered=len(sent),
            losses=fates.count("lost"),
            losses_behind_errors=fates.count("lost"),
            duplicates=fates.count("doubled"),
            corrupted_by_netem=fates.count("damaged"),
        ),
        lost=[number for number, fate in enumerate(fates) if fate == "lost"],
        reordered=len(extents),
        extent=max(extents, default=0),
    )


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=40)
@given(fates=st.lists(st.sampled_from(FATES), min_size=1, max_size=40), seed=st.integers(0, 2**32))
def test_a_history_of_packets_that_differ_is_reported_exactly(tmp_path: Path, fates: list[str], seed: int) -> None:
    sent = numbered(len(fates))
    truth = history(sent, fates, seed)
    found = accounted(tmp_path, sent, truth.delivered, truth.counters)
    ledger = found.ledger
    assert_closed(ledger)
    assert found.reasons == ()
    assert (ledger.lost, ledger.corrupted, ledger.duplicated) == tuple(map(fates.count, ("lost", "damaged", "doubled")))
    assert (ledger.reordered, ledger.reordering_extent) == (truth.reordered, truth.extent)
    assert ledger.unexplained == ledger.undetermined == 0
    assert found.missing["lost"].tolist() == truth.lost


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=40)
@given(
    fates=st.lists(st.sampled_from(("arrives", "lost", "damaged", "doubled")), min_size=1, max_size=40),
    kinds=st.lists(st.integers(0, 2), min_size=40, max_size=40),
    seed=st.integers(0, 2**32),
)
def test_a_history_of_packets_that_are_alike_is_reported_in_numbers(
    tmp_path: Path, fates: list[str], kinds: list[int], seed: int
) -> None:
    """Alike in every byte, as retransmissions with an IP identification of 0; one packet in front shows the delay."""
    payloads = [b"first", *(bytes([kind]) * 60 for kind in kinds[: len(fates)])]
    sent = timed([udp_frame(payload) for payload in payloads], STEP_NS)
    truth = history(sent, ["arrives", *fates], seed)
    found = accounted(tmp_path, sent, truth.delivered, truth.counters)
    ledger = found.ledger
    assert_closed(ledger)
    assert found.reasons == ()
    assert (ledger.lost, ledger.corrupted, ledger.duplicated) == tuple(map(fates.count, ("lost", "damaged", "doubled")))
    assert (ledger.unexplained, ledger.reordered) == (0, 0)


def test_a_packet_that_the_far_capture_missed_is_unexplained(tmp_path: Path) -> None:
    sent = numbered(30)
    found = accounted(tmp_path, sent, later(sent[:12] + sent[13:], OWD_NS), replace(NOTHING, entered=30))
    assert found.ledger.unexplained_missing == 1
    assert_closed(found.ledger)
    assert "missed 1" in found.reasons[0]


def test_a_packet_that_the_near_capture_missed_is_unexplained(tmp_path: Path) -> None:
    sent = numbered(30)
    found = accounted(tmp_path, sent[:12] + sent[13:], later(sent, OWD_NS), replace(NOTHING, entered=30))
    assert found.ledger.unexplained_arrived == 1
    assert "are not in the capture at its port" in found.reasons[0]
    assert "missed 1" in found.reasons[1]


def test_a_lost_packet_that_the_near_capture_missed_too_is_reported_by_the_counters(tmp_path: Path) -> None:
    sent = numbered(30)
    without_it = sent[:12] + sent[13:]
    counters = replace(NOTHING, entered=30, losses=1, losses_behind_errors=1)
    found = accounted(tmp_path, without_it, later(without_it, OWD_NS), counters)
    assert found.ledger.unexplained == 0
    assert len(found.reasons) == 1 and "received 30" in found.reasons[0]


def test_the_same_without_counters_is_a_loss(tmp_path: Path) -> None:
    sent = numbered(30)
    found = accounted(tmp_path, sent, later(sent[:12] + sent[13:], OWD_NS))
    assert (found.ledger.lost, found.ledger.unexplained, found.reasons) == (1, 0, ())


def test_frames_that_were_too_long_are_named(tmp_path: Path) -> None:
    sent = sorted([*numbered(10), (START_NS + 7, udp_frame(bytes(1400))), (START_NS + 9, udp_frame(bytes(1300)))])
    counters = replace(NOTHING, entered=12, mtu_drops=2, queue_drops=1)
    arrived = [packet for packet in sent if len(packet[1]) < 1000][1:]
    found = accounted(tmp_path, sent, later(arrived, OWD_NS), counters)
    assert (found.ledger.mtu, found.ledger.queue) == (2, 1)
    assert found.missing["mtu"].tolist() == [1, 2]
    assert found.missing["queue"].tolist() == [0]
    assert found.reasons == ()


def test_what_waits_at_the_end_is_in_flight(tmp_path: Path) -> None:
    sent = numbered(20)
    counters = replace(NOTHING, entered=20, waiting=3, losses=1, losses_behind_errors=1)
    found = accounted(tmp_path, sent, later(sent[:5] + sent[6:17], OWD_NS), counters)
    assert (found.ledger.in_flight, found.ledger.lost) == (3, 1)
    assert (START_NS + 5 * STEP_NS) in columns(tmp_path, sent, [])[0].time_ns[found.missing["lost"]]


def test_what_came_when_the_counters_had_been_read_is_in_flight(tmp_path: Path) -> None:
    sent = numbered(20)
    found = accounted(tmp_path, sent, later(sent[:17], OWD_NS), replace(NOTHING, entered=17))
    assert (found.ledger.in_flight, found.ledger.unexplained, found.reasons) == (3, 0, ())


def test_without_counters_what_could_not_arrive_before_the_captures_end_is_in_flight(tmp_path: Path) -> None:
    sent = numbered(60)
    found = accounted(tmp_path, sent, later(sent[:10] + sent[11:50], OWD_NS))
    assert (found.ledger.in_flight, found.ledger.lost) == (10, 1)


def test_two_causes_are_reported_in_numbers(tmp_path: Path) -> None:
    sent = numbered(20)
    counters = replace(NOTHING, entered=20, queue_drops=2, losses=1, losses_behind_errors=1)
    found = accounted(tmp_path, sent, later(sent[3:], OWD_NS), counters)
    assert (found.ledger.queue, found.ledger.lost, found.ledger.undetermined) == (2, 1, 0)
    assert found.missing["undetermined"].tolist() == [0, 1, 2]


def test_two_causes_of_which_the_background_has_a_share_are_not_distinguished(tmp_path: Path) -> None:
    sent = numbered(20)
    counters = replace(NOTHING, entered=21, queue_drops=2, losses=1, losses_behind_errors=1)
    found = accounted(tmp_path, sorted(sent + arps(500)), later(sent[2:], OWD_NS), counters)
    assert (found.ledger.undetermined, found.ledger.unexplained, found.reasons) == (2, 0, ())
    assert_closed(found.ledger)


def test_a_lost_frame_of_the_background_closes_the_count(tmp_path: Path) -> None:
    sent = numbered(20)
    counters = replace(NOTHING, entered=22, losses=2, losses_behind_errors=2)
    found = accounted(tmp_path, sorted(sent + arps(5, 500_500)), later(arps(5) + sent[1:], OWD_NS), counters)
    assert (found.ledger.lost, found.ledger.unexplained, found.reasons) == (1, 0, ())


def test_a_frame_of_the_background_that_the_far_capture_missed_is_reported(tmp_path: Path) -> None:
    sent = numbered(20)
    found = accounted(tmp_path, sorted(sent + arps(5)), later(sent, OWD_NS), replace(NOTHING, entered=21))
    assert found.ledger.unexplained == 0
    assert "did not arrive" in found.reasons[0]


def test_a_frame_of_the_background_that_the_near_capture_missed_is_reported(tmp_path: Path) -> None:
    sent = numbered(20)
    found = accounted(tmp_path, sent, sorted(later(sent + arps(500), OWD_NS)))
    assert "1 background frames from the sender's side" in found.reasons[0]


def test_a_frame_that_was_under_way_when_the_near_capture_began_is_no_fault(tmp_path: Path) -> None:
    sent = numbered(20)
    assert accounted(tmp_path, sent, sorted(later(sent + arps(-500), OWD_NS))).reasons == ()


def test_a_damaged_frame_of_the_background_is_counted_with_the_emulators(tmp_path: Path) -> None:
    sent = numbered(20)
    hit = [(time, flip(frame, 200)) for time, frame in later(arps(5), OWD_NS)]
    counters = replace(NOTHING, entered=21, corrupted_by_netem=1)
    found = accounted(tmp_path, sorted(sent + arps(5)), sorted(later(sent, OWD_NS) + hit), counters)
    assert (found.ledger.corrupted, found.reasons) == (0, ())


@pytest.mark.parametrize(("undirected", "reasons"), [(1, 0), (0, 1)])
def test_a_damaged_frame_that_may_be_one_of_unknown_direction_is_no_fault(undirected: int, reasons: int) -> None:
    """Four of five ICMP frames are paired; which way the fifth went is not known, and it is the damaged one."""
    none = np.empty(0, np.int64)
    captured = CapturedFrames(
        entered=5 - undirected,
        session_missing=none,
        background_missing=none,
        duplicated=0,
        corrupted=0,
        unseen=0,
        undirected=undirected,
    )
    counters = replace(NOTHING, entered=5, corrupted_by_netem=1)

    assert len(list(suspect_counts(captured, counters, "receiver"))) == reasons


def test_more_damaged_frames_than_the_emulator_damaged_are_reported(tmp_path: Path) -> None:
    sent = numbered(20)
    delivered = [(sent[0][0] + OWD_NS, flip(sent[0][1], 400)), *later(sent[1:], OWD_NS)]
    found = accounted(tmp_path, sent, delivered, replace(NOTHING, entered=20))
    assert "damaged" in found.reasons[0]


def test_fewer_damaged_frames_than_the_emulator_damaged_are_reported(tmp_path: Path) -> None:
    sent = numbered(20)
    counters = replace(NOTHING, entered=20, corrupted_by_netem=1)
    assert "damaged" in accounted(tmp_path, sent, later(sent, OWD_NS), counters).reasons[0]


@pytest.mark.parametrize(
    ("arrived", "lost", "is_suspect"), [(5, 0, False), (4, 0, True), (4, 1, False), (6, 1, True), (0, 0, True)]
)
def test_marks_that_arrived_are_those_of_the_emulator_but_for_lost_packets(
    arrived: int, lost: int, is_suspect: bool
) -> None:
    none, gone = np.empty(0, np.int64), np.arange(lost)
    captured = CapturedFrames(20, gone, none, duplicated=0, corrupted=0, unseen=0, undirected=0, marked=arrived)
    counters = replace(NOTHING, entered=20, losses=lost, losses_behind_errors=lost, marked=5)

    assert [("with the mark CE" in reason) for reason in suspect_counts(captured, counters, "sender")] == (
        [True] if is_suspect else []
    )


def test_marks_of_a_queue_elsewhere_are_no_fault_if_the_emulator_marks_nothing() -> None:
    none = np.empty(0, np.int64)
    captured = CapturedFrames(20, none, none, duplicated=0, corrupted=0, unseen=0, undirected=0, marked=7)

    assert list(suspect_counts(captured, replace(NOTHING, entered=20), "sender")) == []


def test_the_emulators_marks_are_counted() -> None:
    assert direction_counters({"gate": {"packets": 9, "marked_packets": 4}}).marked == 4
    assert direction_counters({"gate": {"packets": 9}}).marked is None


def test_in_captures_cut_to_headers_damage_out_of_sight_is_counted_by_the_emulator(tmp_path: Path) -> None:
    sent = numbered(20, payload_bytes=400)
    delivered = [(sent[0][0] + OWD_NS, flip(sent[0][1], 8 * 300)), *later(sent[1:], OWD_NS)]
    forward, _ = match_captures(*columns(tmp_path, sent, delivered, snaplen=96), SESSION).ways
    found = account(forward, replace(NOTHING, entered=20, corrupted_by_netem=1))
    assert (found.ledger.delivered, found.ledger.corrupted, found.ledger.corrupted_unseen) == (19, 1, 1)
    assert found.reasons == ()


def test_a_copy_that_the_filter_misses_is_counted_as_such(tmp_path: Path) -> None:
    sent = numbered(20)
    delivered = [(sent[0][0] + OWD_NS, flip(sent[0][1], 8 * 33 + 3)), *later(sent[1:], OWD_NS)]
    counters = replace(NOTHING, entered=20, corrupted_by_netem=1)
    ledger = accounted(tmp_path, sent, delivered, counters).ledger
    assert (ledger.delivered, ledger.corrupted, ledger.corrupted_outside) == (19, 1, 1)


def test_a_further_copy_that_nobody_made_is_reported(tmp_path: Path) -> None:
    sent = numbered(20)
    delivered = sorted(later(sent, OWD_NS) + later(sent[:1], OWD_NS + 5))
    found = accounted(tmp_path, sent, delivered, replace(NOTHING, entered=20))
    assert found.ledger.duplicated == 1
    assert "1 duplicates of frames from the sender arrived" in found.reasons[0]


def test_a_loss_that_only_undid_a_duplication_is_no_missing_packet(tmp_path: Path) -> None:
    """netem may draw both for one packet, and counts both."""
    sent = numbered(20)
    counters = replace(NOTHING, entered=20, losses=2, losses_behind_errors=2, duplicates=1)
    found = accounted(tmp_path, sent, later(sent[1:], OWD_NS), counters)
    assert (found.ledger.lost, found.ledger.unexplained, found.reasons) == (1, 0, ())


def test_the_extent_of_a_reordered_packet_is_how_far_back_the_first_later_one_came(tmp_path: Path) -> None:
    """The example of RFC 4737, section 4.2: packet 4 comes behind 5, 6, 7, so its extent is 3."""
    sent = numbered(10)
    order = [0, 1, 2, 3, 5, 6, 7, 4, 8, 9]
    delivered = [(START_NS + OWD_NS + place * STEP_NS, sent[number][1]) for place, number in enumerate(order)]
    ledger = accounted(tmp_path, sent, delivered).ledger
    assert (ledger.reordered, ledger.reordering_extent) == (1, 3)


def test_counters_of_all_stages_are_one_sum() -> None:
    stages = {
        "gate": {"packets": 100, "dropped_queue_packets": 3, "dropped_mtu_packets": 2},
        "bottleneck": {"packets": 90, "dropped_packets": 4, "waiting_packets": 1},
        "errors": {"packets": 90, "hit_packets": 7, "dropped_packets": 5},
        "pipe": {
            "packets": 80,
            "dropped_packets": 5,
            "waiting_packets": 2,
            "lost_packets": 6,
            "duplicated_packets": 3,
            "corrupted_packets": 8,
        },
    }
    assert direction_counters(stages) == DirectionCounters(100, 7, 2, 11, 6, 3, 3, 8, 2)


def test_a_direction_without_stages_drops_nothing() -> None:
    assert direction_counters({}) == replace(NOTHING, entered=None)


def test_a_kernel_that_counts_neither_duplicates_nor_damage_is_not_held_against_them() -> None:
    pipe = {"packets": 10, "dropped_packets": 2, "waiting_packets": 0}
    assert direction_counters({"pipe": pipe}) == DirectionCounters(12, 0, 0, 2, 2, 0, None, None, 0)


@pytest.mark.parametrize("bits", [(300, 301), (8 * 30, 8 * 31 + 1), (9, 500, 501, 640, 700)])
def test_a_frame_with_several_bits_hit_is_one_corrupted_packet(tmp_path: Path, bits: tuple[int, ...]) -> None:
    chance = np.random.default_rng(5)
    sent = timed([udp_frame(chance.bytes(60)) for _ in range(20)], STEP_NS)
    copy = sent[7][1]
    for bit in bits:
        copy = flip(copy, bit)
    delivered = [*later(sent[:7], OWD_NS), (sent[7][0] + OWD_NS, copy), *later(sent[8:], OWD_NS)]
    counters = replace(NOTHING, entered=20, hit_by_errors=1)
    found = accounted(tmp_path, sent, delivered, counters)
    assert (found.ledger.delivered, found.ledger.corrupted, found.reasons) == (19, 1, ())


def beyond_recognition(frame: bytes, seed: int, first_bit: int = 0) -> bytes:
    """With a sixteenth of its bits flipped, none before the first."""
    for bit in Random(seed).sample(range(first_bit, 8 * len(frame)), 8 * len(frame) // 16):
        frame = flip(frame, bit)
    return frame


def random_packets(count: int) -> list[Timed]:
    chance = Random(11)
    return timed([udp_frame(chance.randbytes(300)) for _ in range(count)], STEP_NS)


def hit_in(sent: list[Timed], number: int) -> list[Timed]:
    """What arrives of the packets, where this one is damaged beyond recognition, wherever its bits are."""
    arrived = later(sent, OWD_NS)
    arrived[number] = (arrived[number][0], beyond_recognition(arrived[number][1], number))
    return arrived


def test_copies_beyond_recognition_are_neither_lost_nor_unexplained_where_the_emulator_lost_none(
    tmp_path: Path,
) -> None:
    sent = random_packets(20)
    arrived = hit_in(sent, 4)
    arrived[9] = (arrived[9][0], beyond_recognition(arrived[9][1], 9, first_bit=8 * 42))
    found = accounted(tmp_path, sent, arrived, replace(NOTHING, entered=20, hit_by_errors=2))
    ledger = found.ledger
    assert_closed(ledger)
    assert (ledger.delivered, ledger.corrupted, ledger.unrecognised) == (18, 0, 2)
    assert (ledger.lost, ledger.unexplained, found.reasons) == (0, 0, ())
    assert found.missing["unrecognised"].tolist() == [4, 9]
    assert "2 packets from the sender" in found.caveats[0] and "2 frames" in found.caveats[0]


def test_beside_losses_copies_beyond_recognition_are_known_in_numbers(tmp_path: Path) -> None:
    sent = random_packets(20)
    counters = replace(NOTHING, entered=20, hit_by_errors=1, losses=1, losses_behind_errors=1)
    arrived = hit_in(sent, 4)
    found = accounted(tmp_path, sent, arrived[:12] + arrived[13:], counters)
    assert_closed(found.ledger)
    assert (found.ledger.lost, found.ledger.unrecognised, found.ledger.unexplained) == (1, 1, 0)
    assert found.missing["undetermined"].tolist() == [4, 12]


def test_without_counters_copies_beyond_recognition_are_lost_and_unexplained(tmp_path: Path) -> None:
    sent = random_packets(20)
    arrived = later(sent, OWD_NS)
    arrived[4] = (arrived[4][0], beyond_recognition(arrived[4][1], 4, first_bit=8 * 42))
    ledger = accounted(tmp_path, sent, arrived).ledger
    assert (ledger.lost, ledger.unexplained_arrived, ledger.unrecognised) == (1, 1, 0)


def test_packets_that_the_captures_missed_are_not_taken_for_damaged_beyond_recognition(tmp_path: Path) -> None:
    """The control: one missing at each port, on a channel that damages, of which all damaged copies were found."""
    sent = random_packets(20)
    arrived = later(sent, OWD_NS)
    arrived[4] = (arrived[4][0], flip(arrived[4][1], 700))
    counters = replace(NOTHING, entered=20, hit_by_errors=1)
    found = accounted(tmp_path, sent[:8] + sent[9:], arrived[:12] + arrived[13:], counters)
    assert (found.ledger.unexplained_missing, found.ledger.unexplained_arrived) == (1, 1)
    assert found.ledger.unrecognised == 0
    assert len(found.reasons) == 3 and found.caveats == ()


def test_an_arrival_of_a_length_that_no_missing_packet_has_is_no_copy_beyond_recognition(tmp_path: Path) -> None:
    sent = random_packets(20)
    other = (sent[4][0] + OWD_NS, udp_frame(bytes(77)))
    arrived = later(sent, OWD_NS)
    found = accounted(
        tmp_path, sent, [*arrived[:4], other, *arrived[5:]], replace(NOTHING, entered=20, hit_by_errors=1)
    )
    assert (found.ledger.unexplained_missing, found.ledger.unexplained_arrived) == (1, 1)
    assert found.ledger.unrecognised == 0
