"""Copies of packets whose damage tshark confirms are found."""

from __future__ import annotations

from pathlib import Path
from random import Random

from owlt.captures.frames.session import summary_filter
from tests.unit.captures.making import SESSION, flip, timed, tshark_rows, udp_frame, write_pcap
from tests.unit.captures.test_capture_matching import (
    OWD_NS,
    assert_accounted,
    cancelling_bits,
    hit_in_the_seventh,
    matched,
)

CHECKED = ("-o", "udp.check_checksum:TRUE")


def test_a_copy_is_found_whichever_bit_of_its_frame_was_hit(tmp_path: Path) -> None:
    frames = [udp_frame(n.to_bytes(4, "big") * 3) for n in range(8 * 54)]
    hit = [(time + OWD_NS, flip(frame, bit)) for bit, (time, frame) in enumerate(timed(frames))]
    delivery = matched(tmp_path, timed(frames), hit)
    assert_accounted(delivery)
    assert sorted(delivery.flipped_bit) == list(range(8 * 54))
    passed = tshark_rows(tmp_path / "receiver.pcap", summary_filter(SESSION, "sender"))
    assert delivery.far.tolist() == passed
    assert sorted(delivery.outside) == sorted(set(delivery.delivered.tolist()) - set(passed))
    assert len(delivery.outside) > 8 * 8  # the addresses alone


def test_a_copy_whose_flips_leave_its_checksums_right_is_found(tmp_path: Path) -> None:
    chance = Random(2)
    frames = [udp_frame(chance.randbytes(400)) for _ in range(20)]
    bits = cancelling_bits(frames[7])
    sent, delivered = hit_in_the_seventh(frames, bits)
    assert tshark_rows(write_pcap(tmp_path / "hit.pcap", delivered), "udp.checksum.status == 0", *CHECKED) == []
    delivery = matched(tmp_path, sent, delivered)
    assert_accounted(delivery)
    assert delivery.flipped_bit.max() == min(bits)
