"""What follows from the choices of a QUIC transfer."""

import pytest

from owlt.agents.endpoint.exit import Unsupported
from owlt.agents.quic.connection import identity
from owlt.agents.quic.settings import Settings


def test_the_first_round_trip_covers_the_light_the_channel_and_the_margin() -> None:
    settings = Settings(rate_bps=9600, rtt_s=2.5, datagram_bytes=1200, timer_margin_s=0.1)

    assert settings.first_rtt_s == pytest.approx(2.5 + 4 * 8 * (1200 + 42) / 9600 + 0.1)


def test_windows_are_larger_than_what_is_on_its_way() -> None:
    assert Settings(rate_bps=10e6, rtt_s=1200).window_bytes == 4 * 1_500_000_000


def test_a_window_has_a_floor() -> None:
    assert Settings(rate_bps=0, rtt_s=0).window_bytes == 16 << 20


def test_a_chosen_window_is_kept() -> None:
    assert Settings(rate_bps=10e6, rtt_s=1200, flow_window_bytes=100_000).window_bytes == 100_000


def test_a_chosen_limit_of_silence_is_kept() -> None:
    assert Settings(rate_bps=0, rtt_s=1200, idle_limit_s=7).idle_timeout_s == 7


@pytest.mark.parametrize("datagram_bytes", [1000, 1199, 1473])
def test_a_datagram_that_quic_does_not_take_is_not_supported(datagram_bytes: int) -> None:
    with pytest.raises(Unsupported, match=f"datagrams of {datagram_bytes} bytes; over IPv4 QUIC takes 1200 to 1472"):
        Settings(rate_bps=0, rtt_s=0, datagram_bytes=datagram_bytes)


def test_a_datagram_that_only_ipv4_carries_whole_is_not_supported_over_ipv6() -> None:
    assert Settings(rate_bps=0, rtt_s=0, datagram_bytes=1453).datagram_bytes == 1453
    assert Settings(rate_bps=0, rtt_s=0, datagram_bytes=1452, over_ipv6=True).datagram_bytes == 1452

    with pytest.raises(Unsupported, match="datagrams of 1453 bytes; over IPv6 QUIC takes 1200 to 1452"):
        Settings(rate_bps=0, rtt_s=0, datagram_bytes=1453, over_ipv6=True)


def test_a_seed_makes_one_certificate_and_another_seed_another() -> None:
    first, again, other = (identity(seed)[0] for seed in (1, 1, 2))

    assert first == again != other
