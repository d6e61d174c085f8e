"""Where two captures first differ."""

from __future__ import annotations

from pathlib import Path

import pytest
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether
from scapy.packet import Raw

from owlt.captures.frames.columns import first_difference
from tests.unit.captures.making import Timed, later, timed, write_pcap

FRAMES = [bytes(Ether() / IP() / UDP() / Raw(bytes([number]) * 200)) for number in range(5)]
TIMED: list[Timed] = timed(FRAMES)


def test_equal_captures_do_not_differ(tmp_path: Path) -> None:
    assert first_difference(write_pcap(tmp_path / "a", TIMED), write_pcap(tmp_path / "b", TIMED)) == ""


def test_a_capture_that_keeps_only_headers_is_compared_as_far_as_it_goes(tmp_path: Path) -> None:
    cut = write_pcap(tmp_path / "cut", TIMED, snaplen=96)

    assert first_difference(write_pcap(tmp_path / "a", TIMED), cut) == ""


@pytest.mark.parametrize(
    ("others", "difference"),
    [
        (TIMED[:4], "5 frames and 4"),
        ([*TIMED[:2], (TIMED[2][0], FRAMES[1]), *TIMED[3:]], "frame 3: other octets"),
        ([*TIMED[:3], *later(TIMED[3:], 7)], "frame 4: times"),
        ([TIMED[0], (TIMED[1][0], FRAMES[1] + b"x"), *TIMED[2:]], "frame 2: lengths 242 and 243 bytes"),
    ],
)
def test_the_first_difference_is_named(tmp_path: Path, others: list[Timed], difference: str) -> None:
    found = first_difference(write_pcap(tmp_path / "a", TIMED), write_pcap(tmp_path / "b", others))

    assert found.startswith(difference)
