"""What follows from the choices of a TCP transfer: buffers for what is in flight, and patience."""

import struct

import pytest

from owlt.agents.endpoint.exit import Unsupported
from owlt.agents.tcp.kernel import INFO_BYTES, Info
from owlt.agents.tcp.settings import LARGEST_BUFFER_BYTES, SMALLEST_BUFFER_BYTES, Settings


def settings(**changes: object) -> Settings:
    return Settings(**({"rate_bps": 10e6, "rtt_s": 2.5, "file_bytes": 10**9} | changes))  # type: ignore[arg-type]


def test_a_buffer_holds_twice_what_the_channel_holds_and_what_its_packets_take() -> None:
    in_flight_bytes = 2 * 10e6 * 2.5 / 8

    assert settings().buffer_bytes == in_flight_bytes * (1 + 1500 / 1000)


def test_small_segments_need_larger_buffers() -> None:
    assert (settings(segment_bytes=100).buffer_bytes or 0) > 4 * (settings().buffer_bytes or 0)


def test_a_buffer_is_no_larger_than_its_file_needs() -> None:
    assert settings(file_bytes=2_000_000).buffer_bytes == 5_000_000


def test_a_short_path_has_a_buffer_all_the_same() -> None:
    assert settings(rtt_s=0).buffer_bytes == SMALLEST_BUFFER_BYTES


def test_what_a_channel_of_22_light_minutes_holds_is_more_than_any_buffer() -> None:
    assert settings(rtt_s=2684, file_bytes=10**11).buffer_bytes == LARGEST_BUFFER_BYTES


def test_without_a_rate_the_file_decides() -> None:
    assert settings(rate_bps=0, file_bytes=2_000_000).buffer_bytes == 5_000_000


def test_the_kernel_can_be_left_its_buffers() -> None:
    assert settings(buffers="kernel").buffer_bytes is None


def test_buffers_can_be_given_in_bytes() -> None:
    assert settings(buffers="300000").buffer_bytes == 300_000


def test_a_peer_may_be_silent_for_ten_of_the_longest_timeouts() -> None:
    assert settings(rtt_s=0.05).silence_limit_s > 10 * 120


def test_segments_that_linux_does_not_have_are_unsupported() -> None:
    for segment_bytes in (87, 32_756):
        with pytest.raises(Unsupported, match=f"segments of {segment_bytes} bytes; Linux supports 88 to 32755"):
            settings(segment_bytes=segment_bytes)


def test_the_counters_are_read_where_linux_puts_them() -> None:
    """Offsets of struct tcp_info, from linux/tcp.h."""
    tcp_info = bytearray(INFO_BYTES)
    struct.pack_into("I", tcp_info, 100, 3)  # tcpi_total_retrans
    struct.pack_into("Q", tcp_info, 120, 5_000_000_000)  # tcpi_bytes_acked
    struct.pack_into("6I", tcp_info, 136, 10, 11, 0, 2_500_000, 13, 14)

    assert Info.read(bytes(tcp_info)) == Info(
        segments_out=10,
        segments_in=11,
        data_segments_out=14,
        data_segments_in=13,
        retransmitted=3,
        bytes_acked=5_000_000_000,
        min_rtt_s=2.5,
    )


def test_the_round_trip_has_no_value_if_linux_has_no_sample() -> None:
    tcp_info = bytearray(INFO_BYTES)
    struct.pack_into("I", tcp_info, 148, 2**32 - 1)  # tcpi_min_rtt

    assert Info.read(bytes(tcp_info)).min_rtt_s is None
