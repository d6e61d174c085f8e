"""What follows from the choices of a Saratoga transfer."""

from __future__ import annotations

import pytest

from owlt.agents.endpoint.exit import Unsupported
from owlt.agents.saratoga.settings import LARGEST_HEADER_BYTES, Settings


def test_a_timer_covers_the_light_the_channel_and_the_margin() -> None:
    settings = Settings(rate_bps=9600, rtt_s=2.5, segment_bytes=1000, timer_margin_s=0.1)

    packet_s = 8 * (1000 + LARGEST_HEADER_BYTES + 42) / 9600
    assert settings.timer_s == pytest.approx(2.5 + 2 * packet_s + 0.1)


@pytest.mark.parametrize(
    ("size", "bits"), [(0, 16), (2**16 - 1, 16), (2**16, 32), (2**32 - 1, 32), (2**32, 64), (2**62, 64)]
)
def test_offsets_are_the_shortest_that_reach_the_end(size: int, bits: int) -> None:
    assert Settings(rate_bps=0, rtt_s=0).descriptor_bits_for(size) == bits


def test_offsets_that_do_not_reach_the_end_are_not_supported() -> None:
    with pytest.raises(Unsupported, match="a file of 65536 bytes; offsets of 16 bits reach 65535"):
        Settings(rate_bps=0, rtt_s=0, descriptor_bits=16).descriptor_bits_for(65536)


def test_version_0_ends_below_4_gib() -> None:
    with pytest.raises(Unsupported, match="offsets of 32 bits reach 4294967295"):
        Settings(rate_bps=0, rtt_s=0, version=0, transfer="get").descriptor_bits_for(2**32)


@pytest.mark.parametrize(
    ("choice", "said"),
    [
        ({"transfer": "put"}, "a put; version 0 has none"),
        ({"checksum": "md5"}, "a checksum; version 0 has none"),
        ({"timestamps": "on"}, "timestamps; version 0 has none"),
        ({"descriptor_bits": 64}, "offsets of 64 bits; version 0 has none"),
    ],
)
def test_what_came_after_version_0_is_not_supported_with_it(choice: dict[str, object], said: str) -> None:
    with pytest.raises(Unsupported, match=said):
        Settings(**{"rate_bps": 0, "rtt_s": 0, "version": 0, "transfer": "get", **choice})  # type: ignore[arg-type]


@pytest.mark.parametrize("size", [0, 65508])
def test_a_segment_that_no_datagram_holds_is_not_supported(size: int) -> None:
    with pytest.raises(Unsupported, match=f"segments of {size} bytes; a UDP datagram holds 1 to"):
        Settings(rate_bps=0, rtt_s=0, segment_bytes=size)


def test_a_status_is_no_longer_than_data() -> None:
    settings = Settings(rate_bps=0, rtt_s=0, segment_bytes=1000)

    longest = 4 + 4 + 16 + 2 * 4 + settings.holes_per_status(32) * 2 * 4
    assert longest <= LARGEST_HEADER_BYTES + 1000


def test_a_chosen_limit_of_silence_is_kept() -> None:
    assert Settings(rate_bps=0, rtt_s=0, idle_limit_s=7).silence_limit_s == 7
