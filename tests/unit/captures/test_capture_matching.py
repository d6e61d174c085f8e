"""What became of each packet: captures behind channels of which it is known what they did."""

from __future__ import annotations

import re
from functools import reduce
from pathlib import Path
from random import Random

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether
from scapy.packet import Raw

from owlt.captures.frames.columns import read_columns
from owlt.captures.matches.delivery import INTACT, Delivery
from owlt.captures.matches.matching import match_captures
from tests.unit.captures.making import (
    DATA,
    RECEIVER,
    SENDER,
    SESSION,
    Timed,
    corrupting_channel,
    ethernet,
    flip,
    later,
    sctp_frame,
    tcp_frame,
    timed,
    udp_frame,
    write_pcap,
)

OWD_NS = 25_000_000
ARPS = [(time, bytes(Ether(type=0x0806) / Raw(bytes(46)))) for time, _ in timed([b""] * 3, step_ns=7_777_777)]


def matched(folder: Path, sent: list[Timed], delivered: list[Timed]) -> Delivery:
    """The packets of the sender, found in the capture of what it sent and of what was delivered."""
    sender_pcap = write_pcap(folder / "sender.pcap", sorted(sent + ARPS))
    receiver_pcap = write_pcap(folder / "receiver.pcap", sorted(delivered + later(ARPS, OWD_NS)))
    return match_captures(read_columns(sender_pcap), read_columns(receiver_pcap), SESSION).forward


def numbered(count: int) -> list[Timed]:
    return timed([udp_frame(n.to_bytes(4, "big") * 20) for n in range(count)])


def assert_accounted(delivery: Delivery) -> None:
    """Every packet sent is delivered or lost, every packet delivered was sent."""
    assert set(delivery.near) == set(delivery.sent) | set(delivery.lost)
    assert len(delivery.unexplained) == 0
    assert len(delivery.far) == len(delivery.delivered) - len(delivery.outside)


def test_behind_a_clean_channel_every_packet_is_found_intact_with_its_delay(tmp_path: Path) -> None:
    delivery = matched(tmp_path, numbered(100), later(numbered(100), OWD_NS))
    assert_accounted(delivery)
    assert len(delivery.sent) == 100
    assert (delivery.flipped_bit == INTACT).all()
    assert (delivery.delay_ns == OWD_NS).all()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=25)
@given(
    seed=st.integers(0, 2**32),
    loss=st.sampled_from([0, 0.01, 0.3]),
    corruption=st.sampled_from([0, 0.01, 0.3, 1]),
    protocol=st.sampled_from(["udp", "tcp", "sctp"]),
    payload_bytes=st.sampled_from([4, 30, 1000]),
)
def test_every_lost_and_every_damaged_packet_is_named(
    tmp_path: Path, seed: int, loss: float, corruption: float, protocol: str, payload_bytes: int
) -> None:
    chance = Random(seed)
    payloads = [n.to_bytes(4, "big") + chance.randbytes(payload_bytes - 4) for n in range(150)]
    of_protocol = {
        "udp": lambda payload, _: udp_frame(payload),
        "tcp": lambda payload, n: tcp_frame(payload, sequence=n * payload_bytes),
        "sctp": lambda payload, n: sctp_frame(payload, number=n),
    }
    frames = [of_protocol[protocol](payload, n) for n, payload in enumerate(payloads)]
    sent = sorted(timed(frames) + ARPS)
    delivered, lost, flipped = corrupting_channel(timed(frames), seed, loss, corruption)
    delivery = matched(tmp_path, timed(frames), delivered)
    assert_accounted(delivery)
    row_of = [sent.index(packet) for packet in timed(frames)]
    assert delivery.lost.tolist() == [row_of[n] for n in sorted(lost)]
    hit = delivery.flipped_bit != INTACT
    found = dict(zip(delivery.sent[hit].tolist(), delivery.flipped_bit[hit].tolist(), strict=True))
    assert found == {row_of[n]: bit for n, bit in flipped.items()}
    assert (delivery.delay_ns == OWD_NS).all()


def test_of_packets_equal_in_every_byte_the_lost_one_is_named(tmp_path: Path) -> None:
    frames = [udp_frame(b"first")] + [udp_frame(b"keep-alive")] * 50
    sent = timed(frames)
    delivery = matched(tmp_path, sent, later(sent[:20] + sent[21:], OWD_NS))
    assert_accounted(delivery)
    assert delivery.lost.tolist() == [sorted(sent + ARPS).index(sent[20])]
    assert (delivery.delay_ns == OWD_NS).all()


SOME_KINDS = st.lists(st.integers(0, 2), min_size=1, max_size=40)
NO_ROUTERS = (18, 19, 23, *range(26, 34))
"""The bytes of Ethernet and IPv4 that no router changes: identification, protocol and addresses."""
IN_ORDER = ("arrives", "arrives", "lost", "damaged")


def equal_packets(kinds: list[int], first: list[bytes]) -> list[Timed]:
    """A packet a millisecond, all of a kind equal in every byte, behind the `first` ones."""
    return timed([*first, *(udp_frame(Random(kind).randbytes(60)) for kind in kinds)])


def damaged(frame: bytes, chance: Random) -> bytes:
    """With one to three bits flipped: none where a router writes, too, and none at the same place of two words, where
    they may cancel in a checksum."""
    bits = chance.sample([8 * byte + bit for byte in (*NO_ROUTERS, *range(34, len(frame))) for bit in range(8)], 3)
    bits = bits[: chance.randint(1, 3)]
    for bit in {bit % 16: bit for bit in bits}.values():
        frame = flip(frame, bit)
    return frame


def pairs_of(delivery: Delivery, folder: Path) -> list[tuple[int, int]]:
    """When each packet was sent and when its copy arrived, in the order of arrival."""
    near, far = (read_columns(folder / f"{side}.pcap").time_ns for side in ("sender", "receiver"))
    return list(zip(near[delivery.sent].tolist(), far[delivery.delivered].tolist(), strict=True))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=60)
@given(
    kinds=SOME_KINDS,
    fates=st.lists(st.sampled_from(IN_ORDER), min_size=40, max_size=40),
    is_delay_shown=st.booleans(),
    seed=st.integers(0, 99),
)
def test_of_equal_packets_intact_and_damaged_copies_in_order_are_each_found(
    tmp_path: Path, kinds: list[int], fates: list[str], is_delay_shown: bool, seed: int
) -> None:
    """With losses, if a packet without an equal shows the delay; without losses, the order alone tells."""
    chance = Random(seed)
    if is_delay_shown:
        sent, fates = equal_packets(kinds, [udp_frame(b"first")]), ["arrives", *fates]
    else:
        sent, fates = equal_packets(kinds, []), [fate.replace("lost", "damaged") for fate in fates]
    history = list(zip(sent, fates, strict=False))
    arrived = [(time, damaged(frame, chance) if fate == "damaged" else frame) for (time, frame), fate in history]
    came = [packet for packet, (_, fate) in zip(arrived, history, strict=True) if fate != "lost"]
    delivery = matched(tmp_path, sent, later(came, OWD_NS))
    assert_accounted(delivery)
    assert pairs_of(delivery, tmp_path) == [(time, time + OWD_NS) for time, _ in came]
    assert np.count_nonzero(delivery.flipped_bit != INTACT) == [fate for _, fate in history].count("damaged")


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=60)
@given(
    kinds=SOME_KINDS,
    fates=st.lists(st.sampled_from((*IN_ORDER, "doubled", "late")), min_size=40, max_size=40),
    longest_ms=st.sampled_from([0, 1, 7, 60]),
    seed=st.integers(0, 99),
)
def test_no_copy_of_equal_packets_is_taken_for_one_of_a_packet_sent_later(
    tmp_path: Path, kinds: list[int], fates: list[str], longest_ms: int, seed: int
) -> None:
    """Whatever the channel does, and although no packet without an equal shows its delay."""
    chance = Random(seed)
    sent = equal_packets(kinds, [])
    came: list[Timed] = []
    for (time, frame), fate in zip(sent, fates, strict=False):
        delays = [chance.randint(0, longest_ms * 1_000_000) for _ in range({"lost": 0, "doubled": 2}.get(fate, 1))]
        came += [(time + delay + (3_000_000 if fate == "late" else 0), frame) for delay in delays]
        if fate == "damaged":
            came[-1] = (came[-1][0], damaged(frame, chance))
    delivery = matched(tmp_path, sent, sorted(came))
    assert (delivery.delay_ns >= 0).all()
    assert len(delivery.delivered) == len(came)


def test_a_copy_whose_bit_errors_cancel_is_found_once_the_copies_of_equal_packets_are_in_order(tmp_path: Path) -> None:
    delays_ms = (0.57, 0.33, 0.14, 0.58, 0.75, 0.56, 0.32, 0.83, 0.98, 0.53, 0.20, 0.16, 0.23)
    hits = {10: (780, 446, 169), 11: (664, 504, 110)}
    came: list[Timed] = []
    sent = equal_packets([0] * 10 + [1, 0, 0], [])
    for number, ((time, frame), delay_ms) in enumerate(zip(sent, delays_ms, strict=True)):
        came.append((time + int(delay_ms * 1e6), reduce(flip, hits.get(number, ()), frame)))
    delivery = matched(tmp_path, sent, came)
    assert pairs_of(delivery, tmp_path) == [(time, arrival) for (time, _), (arrival, _) in zip(sent, came, strict=True)]
    assert np.count_nonzero(delivery.flipped_bit != INTACT) == len(hits)


def test_of_equal_packets_paired_each_for_itself_some_would_come_before_they_were_sent() -> None:
    """The control: intact copies by themselves in their order, and damaged ones with what is left."""
    near, far = (read_columns(DATA / "equal-nacks" / f"{side}.pcap").time_ns for side in ("receiver", "sender"))
    sent, intact, hit = near[[121, 124]], far[[124]], far[[121]]
    assert intact[0] - sent[0] > 10 * 10**9
    assert hit[0] - sent[1] < 0


def test_an_equal_packet_of_which_the_first_copy_was_damaged_keeps_its_delay() -> None:
    session = SESSION.model_copy(update={"udp_ports": (12347,), "tcp_ports": ()})
    captures = [read_columns(DATA / "equal-nacks" / f"{side}.pcap") for side in ("sender", "receiver")]
    reverse = match_captures(*captures, session).reverse
    rows = [(106, 106), (109, 109), (121, 121), (124, 124), (128, 128), (130, 130), (132, 132)]
    assert list(zip(reverse.sent.tolist(), reverse.delivered.tolist(), strict=True)) == rows
    assert (reverse.flipped_bit != INTACT).tolist() == [True, False, True, False, True, True, False]
    assert {round(delay_ns / 1e9, 3) for delay_ns in reverse.delay_ns.tolist()} == {1.251}


def test_a_packet_that_waited_in_a_queue_keeps_its_own_delay(tmp_path: Path) -> None:
    sent = numbered(10)
    delivered = [(time + OWD_NS + 1_000_000 * n, frame) for n, (time, frame) in enumerate(sent)]
    delivery = matched(tmp_path, sent, delivered)
    assert sorted(delivery.delay_ns) == [OWD_NS + 1_000_000 * n for n in range(10)]


def test_packets_that_overtook_others_are_found(tmp_path: Path) -> None:
    sent = numbered(10)
    delivered = sorted((time + OWD_NS + (5_000_000 if n % 3 else 0), frame) for n, (time, frame) in enumerate(sent))
    delivery = matched(tmp_path, sent, delivered)
    assert_accounted(delivery)
    assert sorted(set(delivery.delay_ns)) == [OWD_NS, OWD_NS + 5_000_000]


def test_duplicates_are_pairs_of_the_same_packet_and_the_first_copy_counts(tmp_path: Path) -> None:
    sent = numbered(10)
    delivery = matched(tmp_path, sent, sorted(later(sent, OWD_NS) + later(sent[3:5], OWD_NS + 10)))
    assert_accounted(delivery)
    assert len(delivery.sent) == 12
    assert delivery.delay_ns[delivery.first_copies].tolist() == [OWD_NS] * 10


@pytest.mark.parametrize("bits", [(400,), (8 * 33 + 1,), (70, 400, 500)])
def test_a_damaged_copy_of_a_packet_that_came_intact_too_is_found(tmp_path: Path, bits: tuple[int, ...]) -> None:
    sent = numbered(10)
    copy = sent[4][1]
    for bit in bits:
        copy = flip(copy, bit)
    delivery = matched(tmp_path, sent, sorted([*later(sent, OWD_NS), (sent[4][0] + OWD_NS + 10, copy)]))
    assert_accounted(delivery)
    assert len(delivery.sent) == 11
    assert delivery.flipped_bit[delivery.flipped_bit != INTACT].tolist() == [min(bits)]


def test_a_frame_that_differs_in_few_bits_and_is_right_is_another_packet(tmp_path: Path) -> None:
    """One was lost, and of another that is like it the near capture has nothing."""
    sent = timed([udp_frame(bytes(800) + bytes([n])) for n in range(20)])
    delivery = matched(tmp_path, sent[:7] + sent[8:], later(sent[:8] + sent[9:], OWD_NS))
    assert len(delivery.unexplained) == 1
    assert len(delivery.lost) == 1


def cancelling_bits(frame: bytes) -> tuple[int, int, int]:
    """Three bits behind the UDP header whose flips leave the checksum right: two rise in one column of its 16-bit words
    and one falls in the column above."""
    bits = "".join(f"{byte:08b}" for byte in frame)
    behind = range(8 * 42, 8 * len(frame))
    rising = [bit for bit in behind if bit % 16 == 9 and bits[bit] == "0"]
    falling = [bit for bit in behind if bit % 16 == 8 and bits[bit] == "1"]
    return rising[0], rising[1], falling[0]


def hit_in_the_seventh(frames: list[bytes], bits: tuple[int, ...]) -> tuple[list[Timed], list[Timed]]:
    """The frames as sent, and as they arrive where the seventh has these bits flipped."""
    sent = timed(frames)
    hit = frames[7]
    for bit in bits:
        hit = flip(hit, bit)
    return sent, later([*sent[:7], (sent[7][0], hit), *sent[8:]], OWD_NS)


def test_where_packets_are_as_near_to_each_other_such_a_copy_is_left_unexplained(tmp_path: Path) -> None:
    """It may as well be of a packet that the near capture missed."""
    frames = [udp_frame(Random(1).randbytes(400) + bytes([n])) for n in range(20)]
    sent, delivered = hit_in_the_seventh(frames, cancelling_bits(frames[7]))
    delivery = matched(tmp_path, sent, delivered)
    assert (len(delivery.lost), len(delivery.unexplained)) == (1, 1)


@pytest.mark.parametrize("payload_bytes", [26, 400, 1458])
def test_a_copy_is_recognised_up_to_one_bit_in_32_wherever_they_are(tmp_path: Path, payload_bytes: int) -> None:
    chance = Random(payload_bytes)
    frames = [udp_frame(chance.randbytes(payload_bytes)) for _ in range(60)]
    most = 8 * len(frames[0]) // 32
    copies = frames.copy()
    for number in range(len(frames)):
        for bit in chance.sample(range(8 * len(frames[0])), 1 + number * (most - 1) // (len(frames) - 1)):
            copies[number] = flip(copies[number], bit)
    delivery = matched(tmp_path, timed(frames), later(timed(copies), OWD_NS))
    assert_accounted(delivery)
    assert (delivery.delay_ns == OWD_NS).all()


def test_a_copy_with_more_than_one_bit_in_32_hit_is_not_recognised(tmp_path: Path) -> None:
    chance = Random(4)
    frames = [udp_frame(chance.randbytes(400)) for _ in range(20)]
    bits = chance.sample(range(8 * len(frames[0])), 8 * len(frames[0]) // 32 + 1)
    delivery = matched(tmp_path, *hit_in_the_seventh(frames, tuple(bits)))
    assert len(delivery.lost) == 1


def test_copies_of_which_the_delay_grows_are_found_however_many_bits_were_hit(tmp_path: Path) -> None:
    """All are damaged, so only those before tell the delay of the next: a queue that fills."""
    chance = Random(8)
    sent = timed([udp_frame(chance.randbytes(500)) for _ in range(400)])
    delivered = []
    for number, (time, frame) in enumerate(sent):
        copy = frame
        for bit in chance.sample(range(8 * len(frame)), 4 if number else 0):
            copy = flip(copy, bit)
        delivered.append((time + OWD_NS + number * 900_000, copy))
    delivery = matched(tmp_path, sent, delivered)
    assert_accounted(delivery)
    assert sorted(delivery.delay_ns) == [OWD_NS + n * 900_000 for n in range(400)]


@pytest.mark.parametrize("bits", [(300,), (100, 300), (8 * 30 + 1, 8 * 60, 700)])
def test_in_captures_cut_to_headers_damage_in_what_is_left_is_found(tmp_path: Path, bits: tuple[int, ...]) -> None:
    chance = Random(3)
    sent = timed([udp_frame(chance.randbytes(500)) for _ in range(20)])
    copy = sent[4][1]
    for bit in bits:
        copy = flip(copy, bit)
    delivered = [*later(sent[:4], OWD_NS), (sent[4][0] + OWD_NS, copy), *later(sent[5:], OWD_NS)]
    near = read_columns(write_pcap(tmp_path / "s.pcap", sent, snaplen=96), 96)
    far = read_columns(write_pcap(tmp_path / "r.pcap", delivered, snaplen=96), 96)
    delivery = match_captures(near, far, SESSION).forward
    assert_accounted(delivery)
    assert delivery.flipped_bit[4] == min(bits)


def test_fragments_are_matched_by_what_they_carry(tmp_path: Path) -> None:
    packet = IP(src=SENDER, dst=RECEIVER, id=77) / UDP(sport=40000, dport=5222) / Raw(Random(1).randbytes(4000))
    pieces = [bytes(ethernet() / piece) for piece in packet.fragment(1480)]
    sent = sorted(numbered(5) + timed(pieces, step_ns=10_000, start_ns=numbered(3)[2][0] + 1000))
    delivered = later([packet for packet in sent if packet[1] != pieces[1]], OWD_NS)
    damaged = [(time, flip(frame, 8 * 60) if frame == pieces[2] else frame) for time, frame in delivered]
    delivery = matched(tmp_path, sent, damaged)
    assert_accounted(delivery)
    assert (len(delivery.near), len(delivery.lost)) == (8, 1)
    assert delivery.flipped_bit.max() == 8 * 60


def test_frames_of_other_hosts_are_reported_by_the_times_which_way_they_went(tmp_path: Path) -> None:
    stranger = [
        (time, bytes(Ether(src="02:00:00:00:00:09") / Raw(bytes([n] * 46)))) for n, (time, _) in enumerate(ARPS)
    ]
    near = write_pcap(tmp_path / "s.pcap", sorted(numbered(20) + stranger[:2] + later(stranger[2:], OWD_NS)))
    far = write_pcap(tmp_path / "r.pcap", sorted(later(numbered(20) + stranger[:1], OWD_NS) + stranger[2:]))
    crossing = match_captures(read_columns(near), read_columns(far), SESSION)
    forward, reverse = crossing.forward, crossing.reverse
    assert forward.background is not None and reverse.background is not None
    assert (len(forward.background.sent), len(reverse.background.sent)) == (1, 1)
    assert (forward.undirected, reverse.undirected) == (1, 0)


def test_frames_of_a_host_whose_only_packet_lost_its_ethernet_address_are_intact(tmp_path: Path) -> None:
    only = (OWD_NS, udp_frame(b"request", source=RECEIVER, destination=SENDER))
    source_address_bit = 8 * 7 + 7
    mac = bytes(ethernet(RECEIVER))[6:12]
    report = (
        bytes.fromhex("01005e000016") + mac + bytes.fromhex("0800") + bytes(ethernet() / IP(proto=2))[14:] + bytes(40)
    )
    reports = [(0, report), (2 * OWD_NS, report[:-1] + b"\1")]
    sent = numbered(5)
    near = write_pcap(tmp_path / "receiver.pcap", sorted([only, *reports]) + later(sent, OWD_NS))
    arrived = [(only[0], flip(only[1], source_address_bit)), *reports]
    far = write_pcap(tmp_path / "sender.pcap", later(sorted(arrived), OWD_NS) + sent)
    reverse = match_captures(read_columns(far), read_columns(near), SESSION).reverse

    assert reverse.background is not None
    assert reverse.background.flipped_bit.tolist() == [INTACT, INTACT]
    assert reverse.flipped_bit.tolist() == [source_address_bit]


def test_a_packet_whose_headers_a_router_rewrote_is_found_and_not_damaged(tmp_path: Path) -> None:
    packet = IP(src=SENDER, dst=RECEIVER, id=9) / UDP(sport=40000, dport=5222) / Raw(b"data")
    routed = packet.copy()
    routed.ttl -= 1
    del routed.chksum
    sent = timed([bytes(ethernet(SENDER) / packet)])
    delivery = matched(tmp_path, sent, later(timed([bytes(ethernet(RECEIVER) / routed)]), OWD_NS))
    assert delivery.flipped_bit.tolist() == [INTACT]


def test_a_packet_removed_from_the_near_capture_is_unexplained(tmp_path: Path) -> None:
    sent = numbered(30)
    delivery = matched(tmp_path, sent[:12] + sent[13:], later(sent, OWD_NS))
    assert len(delivery.unexplained) == 1
    assert len(delivery.sent) == 29


def test_a_packet_removed_from_the_far_capture_is_lost(tmp_path: Path) -> None:
    sent = numbered(30)
    delivery = matched(tmp_path, sent, later(sent[:12] + sent[13:], OWD_NS))
    assert delivery.lost.tolist() == [sorted(sent + ARPS).index(sent[12])]


def test_a_frame_of_another_program_that_is_delivered_damaged_is_no_copy_of_the_session(tmp_path: Path) -> None:
    other = [(time + 500, udp_frame(b"other", port=99)) for time, _ in numbered(3)]
    hit = [(time + OWD_NS, flip(frame, 8 * 31 + 2)) for time, frame in other]
    delivery = matched(tmp_path, sorted(numbered(3) + other), sorted(later(numbered(3), OWD_NS) + hit))
    assert_accounted(delivery)
    assert len(delivery.outside) == 0


def test_empty_captures_match_to_nothing(tmp_path: Path) -> None:
    empty = read_columns(write_pcap(tmp_path / "x.pcap", []))
    crossing = match_captures(empty, empty, SESSION)
    forward, reverse = crossing.forward, crossing.reverse
    assert len(forward.sent) == len(reverse.sent) == len(forward.lost) == 0


def netem(name: str) -> dict[str, dict[str, int]]:
    """What `tc -s qdisc` said of the two netem qdiscs, by the port that they were on."""
    text = (DATA / f"netem-{name}.tc").read_text()
    pattern = r"netem \d+: dev (\S+) .*\n Sent \d+ bytes (\d+) pkt \(dropped (\d+)"
    return {port: {"sent": int(sent), "dropped": int(drop)} for port, sent, drop in re.findall(pattern, text)}


def golden(name: str) -> tuple[Delivery, Delivery]:
    sender_pcap, receiver_pcap = (DATA / f"netem-{name}-{side}.pcap" for side in ("sender", "receiver"))
    crossing = match_captures(read_columns(sender_pcap), read_columns(receiver_pcap), SESSION)
    return crossing.forward, crossing.reverse


@pytest.mark.parametrize("name", ["all", "half", "tcp"])
def test_behind_the_real_netem_as_many_packets_are_lost_as_netem_dropped(name: str) -> None:
    forward, reverse = golden(name)
    for delivery, port in ((forward, "to-receiver"), (reverse, "to-sender")):
        assert_accounted(delivery)
        assert len(delivery.lost) == netem(name)[port]["dropped"]
        assert delivery.delay_ns.min() >= OWD_NS


def test_behind_the_real_netem_with_corrupt_100_percent_every_copy_has_one_flipped_bit() -> None:
    forward, reverse = golden("all")
    for delivery in (forward, reverse):
        assert (delivery.flipped_bit != INTACT).all()
        assert len(delivery.outside) > 5
    assert len(forward.sent) == 200
    # Any bit of the 82-byte frame is as likely as any other: 656 values, mean 327.5, deviation 189.4.
    assert abs(np.mean(forward.flipped_bit) - 327.5) < 4 * 189.4 / np.sqrt(200)


def test_equal_resets_behind_a_full_queue_are_neither_duplicated_nor_lost_instead_of_those_that_it_dropped(
    tmp_path: Path,
) -> None:
    """20 packets fill a queue that gives one every 10 ms; of three equal segments, it drops the second one."""
    packets = [(time_ns, frame) for time_ns, frame in numbered(20)]
    start_ns, ms = packets[0][0], 1_000_000
    resets = [(start_ns + offset * ms, tcp_frame(b"")) for offset in (18, 100, 190)]
    sent = sorted(packets + [(time_ns + 1, frame) for time_ns, frame in resets])
    delivered: list[Timed] = []
    free_ns = 0
    for time_ns, frame in sent:
        if time_ns != resets[1][0] + 1:
            free_ns = max(free_ns, time_ns) + 10 * ms
            delivered.append((free_ns + OWD_NS, frame))

    delivery = matched(tmp_path, sent, delivered)
    times_ns = [time_ns for time_ns, _ in sorted(sent + ARPS)]

    assert_accounted(delivery)
    assert len(set(delivery.sent.tolist())) == len(delivery.sent) == len(sent) - 1
    assert {times_ns[row] for row in delivery.lost} < {time_ns + 1 for time_ns, _ in resets}
