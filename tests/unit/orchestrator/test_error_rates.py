"""A link's errors as a bit error rate: held against how often a frame of the size is hit."""

from __future__ import annotations

import pytest

from owlt.emulator.channel.link import LinkSpec
from owlt.emulator.channel.loss_models import FourState, GilbertElliott
from owlt.orchestrator.planning.run_channel import equivalent_bit_error_rate

FRAME_BYTES = 1514


def hit(bit_error_rate: float, frame_bytes: int = FRAME_BYTES) -> float:
    """How often a frame is hit at a bit error rate."""
    return 1 - (1 - bit_error_rate) ** (8 * frame_bytes)


@pytest.mark.parametrize("bit_error_rate", [0, 1e-9, 1e-6, 1e-4])
def test_a_link_with_bit_errors_alone_has_its_own_rate(bit_error_rate: float) -> None:
    assert equivalent_bit_error_rate(LinkSpec(bit_error_rate=bit_error_rate), FRAME_BYTES) == bit_error_rate


@pytest.mark.parametrize("frame_bytes", [100, FRAME_BYTES])
@pytest.mark.parametrize("packet_error_rate", [1e-6, 0.01, 0.1, 0.999])
def test_a_packet_error_rate_is_the_bit_error_rate_that_hits_a_frame_as_often(
    packet_error_rate: float, frame_bytes: int
) -> None:
    rate = equivalent_bit_error_rate(LinkSpec(packet_error_rate=packet_error_rate), frame_bytes)

    assert hit(rate, frame_bytes) == pytest.approx(packet_error_rate, rel=1e-6)


def test_losses_in_bursts_count_with_their_mean_rate() -> None:
    link = LinkSpec(loss=GilbertElliott(mean_rate=0.05, burst_packets=4))

    assert hit(equivalent_bit_error_rate(link, FRAME_BYTES)) == pytest.approx(0.05)


def test_losses_of_four_states_count_with_their_mean_rate() -> None:
    """Alone lost is one packet in 1 + p14: p14 / (1 + p14) of them with no bursts to speak of."""
    link = LinkSpec(loss=FourState(p13=1e-9, p31=1, p14=0.25))

    assert hit(equivalent_bit_error_rate(link, FRAME_BYTES)) == pytest.approx(0.2, rel=1e-6)


def test_bit_errors_and_losses_in_bursts_count_together() -> None:
    link = LinkSpec(bit_error_rate=1e-5, loss=GilbertElliott(mean_rate=0.05, burst_packets=4))

    both = 1 - (1 - 0.05) * (1 - hit(1e-5))
    assert hit(equivalent_bit_error_rate(link, FRAME_BYTES)) == pytest.approx(both)


def test_where_no_frame_arrives_every_bit_is_hit() -> None:
    assert equivalent_bit_error_rate(LinkSpec(packet_error_rate=1), FRAME_BYTES) == 1
