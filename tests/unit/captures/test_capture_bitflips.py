"""Recognising a frame as the copy of another with one bit flipped."""

from __future__ import annotations

import random
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from owlt.captures.matches.damaged_copies import Flip, find_few_bits_away, find_one_bit_away, flipped_bit
from tests.unit.captures.making import flip, udp_frame


def find_damaged(packets: list[bytes], sent: list[int], copies: list[bytes], wanted: list[int]) -> list[Flip]:
    """Those one bit away, then those few bits away from what is left; without a delay."""
    found = find_one_bit_away(packets, sent, copies, wanted, [0] * len(copies))
    numbers = [n for n in range(len(packets)) if n not in {packet for packet, _, _ in found}]
    left = [n for n in range(len(copies)) if n not in {copy for _, copy, _ in found}]
    more = find_few_bits_away(
        [packets[n] for n in numbers],
        [sent[n] for n in numbers],
        [copies[n] for n in left],
        [wanted[n] for n in left],
        [0] * len(left),
    )
    return found + [(numbers[packet], left[copy], bit) for packet, copy, bit in more]


frames = st.binary(min_size=1, max_size=200)


@given(frames, st.data())
def test_the_flipped_bit_is_found_wherever_it_is(frame: bytes, data: st.DataObject) -> None:
    bit = data.draw(st.integers(0, 8 * len(frame) - 1))
    assert flipped_bit(frame, flip(frame, bit)) == bit


def test_equal_frames_have_no_flipped_bit() -> None:
    assert flipped_bit(b"same", b"same") is None


def test_two_flipped_bits_are_not_one() -> None:
    assert flipped_bit(b"frame", flip(flip(b"frame", 3), 30)) is None


def test_frames_of_different_lengths_are_no_copies() -> None:
    assert flipped_bit(b"\x00frame", b"frame") is None


def test_every_copy_is_found_with_its_packet_and_its_bit() -> None:
    chance = Random(5)
    packets = [udp_frame(number.to_bytes(4, "big") + bytes(60)) for number in range(200)]
    bits = [chance.randrange(8 * len(packet)) for packet in packets]
    copies = [flip(packet, bit) for packet, bit in zip(packets, bits, strict=True)]
    times = list(range(200))
    assert find_damaged(packets, times, copies, times) == [(n, n, bits[n]) for n in range(200)]


def test_of_equal_packets_the_one_sent_nearest_to_the_wanted_time_is_taken() -> None:
    packet = udp_frame(b"keep-alive")
    assert find_damaged([packet] * 3, [0, 100, 200], [flip(packet, 9)], [110]) == [(1, 0, 9)]


def test_no_packet_is_taken_twice() -> None:
    packet = udp_frame(b"keep-alive")
    found = find_damaged([packet] * 2, [0, 100], [flip(packet, 9), flip(packet, 300)], [90, 100])
    assert found == [(1, 0, 9), (0, 1, 300)]


def test_of_fragments_with_the_same_data_the_one_a_bit_away_is_taken() -> None:
    """They differ in the IP header alone: behind a damaged header, all have the same bytes."""
    fragments = [
        udp_frame(bytes(1400))[:18] + number.to_bytes(2, "big") + udp_frame(bytes(1400))[20:] for number in range(100)
    ]
    times = list(range(100))

    assert find_one_bit_away(fragments, times, [flip(fragments[70], 50)], [40], [0]) == [(70, 0, 50)]


def test_a_frame_that_is_no_copy_of_any_packet_is_left_out() -> None:
    assert find_damaged([udp_frame(b"data")], [0], [udp_frame(b"atad")], [0]) == []


def test_a_copy_with_several_bits_hit_is_found_with_its_first() -> None:
    packets = [udp_frame(random.Random(number).randbytes(200)) for number in range(50)]
    times = [1000 * number for number in range(50)]
    copies = [flip(flip(flip(packet, 77), 900), 1300) for packet in packets]

    assert sorted(find_damaged(packets, times, copies, times)) == [(n, n, 77) for n in range(50)]


def test_a_copy_of_packets_alike_with_several_bits_hit_is_of_the_one_sent_nearest() -> None:
    packet = udp_frame(bytes(200))

    assert find_damaged([packet] * 3, [0, 100, 200], [flip(flip(packet, 9), 99)], [110]) == [(1, 0, 9)]


def test_a_frame_with_other_contents_is_no_copy() -> None:
    one, other = (udp_frame(random.Random(seed).randbytes(200)) for seed in (1, 2))

    assert find_damaged([one], [0], [other], [0]) == []


def test_a_copy_with_one_bit_hit_is_found_before_one_that_is_as_near_with_several() -> None:
    packet, like_it = udp_frame(bytes(200)), udp_frame(bytes(199) + b"\1")

    found = find_damaged([packet, like_it], [0, 10], [flip(flip(packet, 5), 6), flip(like_it, 7)], [0, 10])
    assert sorted(found) == [(0, 0, 5), (1, 1, 7)]
