"""Addresses of IPv6 in commands and in our endpoints, and the length of frames over IPv6."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from owlt.agents.blast.sides import Patience
from owlt.agents.bundle.settings import Settings as BundleSettings
from owlt.agents.cfdp.settings import Settings as CfdpSettings
from owlt.agents.contract.placeholders import RunValues
from owlt.agents.endpoint.event_loop import frame_bytes
from owlt.agents.endpoint.udp import Address
from owlt.agents.ltp.settings import Settings as LtpSettings
from owlt.agents.quic.settings import Settings as QuicSettings
from owlt.agents.saratoga.settings import Settings as SaratogaSettings


def test_an_address_before_a_port_has_brackets_only_if_it_is_of_ipv6(run_values: RunValues) -> None:
    over_ipv6 = replace(run_values, sender_address="fd4f::1", receiver_address="fd4f::2").as_text()

    assert [run_values.as_text()[name] for name in ("sender_host", "ip_version")] == ["10.77.0.1", "4"]
    assert [over_ipv6[name] for name in ("sender_host", "receiver_host")] == ["[fd4f::1]", "[fd4f::2]"]
    assert [over_ipv6[name] for name in ("sender_address", "ip_version")] == ["fd4f::1", "6"]


def test_endpoints_read_an_address_of_ipv6_in_brackets() -> None:
    address = Address.parse("[fd4f::1]:2501")

    assert (address.host, address.port, address.is_ipv6, str(address)) == ("fd4f::1", 2501, True, "[fd4f::1]:2501")


@pytest.mark.parametrize("text", ["fd4f::1:2501", "[fd4f::1]", "[10.77.0.1]:2501", "[]:2501", "[fd4f::1]:0"])
def test_endpoints_refuse_an_address_that_is_written_otherwise(text: str) -> None:
    with pytest.raises(ValueError, match="expected ADDRESS:PORT"):
        Address.parse(text)


def test_a_frame_over_ipv6_is_20_bytes_longer() -> None:
    assert frame_bytes(1000, over_ipv6=True) == 14 + 40 + 8 + 1000
    assert frame_bytes(1000) == 14 + 20 + 8 + 1000


def test_the_longest_datagram_over_ipv6_without_fragments_has_1452_bytes() -> None:
    assert frame_bytes(1452, over_ipv6=True) == 14 + 1500


def test_fragments_over_ipv6_have_a_header_of_8_bytes_and_multiples_of_8_bytes_each() -> None:
    """RFC 8200, section 4.5: of 1461 bytes, the first fragment carries 1448."""
    assert frame_bytes(1453, over_ipv6=True) == 1461 + 2 * (14 + 40 + 8)
    assert frame_bytes(2 * 1448 - 8, over_ipv6=True) == 2 * 1448 + 2 * (14 + 40 + 8)
    assert frame_bytes(2 * 1448 - 7, over_ipv6=True) == 2 * 1448 + 1 + 3 * (14 + 40 + 8)


def _blast_s(over_ipv6: bool) -> float:
    patience = Patience.of(rate_bps=8000, one_way_delay_s=1, segment_bytes=1000, idle_limit_s=None, over_ipv6=over_ipv6)
    return patience.after_end_s


@pytest.mark.parametrize(
    ("frames", "timer_s"),
    [
        (2, lambda over_ipv6: LtpSettings(rate_bps=8000, rtt_s=1, over_ipv6=over_ipv6).interval_s),
        (2, lambda over_ipv6: CfdpSettings(rate_bps=8000, rtt_s=1, over_ipv6=over_ipv6).ack_interval_s),
        (2, lambda over_ipv6: SaratogaSettings(rate_bps=8000, rtt_s=1, over_ipv6=over_ipv6).timer_s),
        (4, lambda over_ipv6: QuicSettings(rate_bps=8000, rtt_s=1, over_ipv6=over_ipv6).first_rtt_s),
        (10, _blast_s),
        (5, lambda over_ipv6: BundleSettings(rate_bps=8000, rtt_s=1, over_ipv6=over_ipv6).bundle_s),
    ],
    ids=["ltp", "cfdp", "saratoga", "quic", "blast", "bundle"],
)
def test_a_timer_over_ipv6_allows_for_20_bytes_more_in_each_frame(
    frames: int, timer_s: Callable[[bool], float]
) -> None:
    """At 8000 bit/s a byte takes 1 ms."""
    assert timer_s(True) - timer_s(False) == pytest.approx(0.020 * frames)
