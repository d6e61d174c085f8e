"""Coded frames: their error rate, their hits in a stream of packets, and what a certificate expects of them."""

from __future__ import annotations

from math import ceil, comb

import numpy
import pytest

from owlt.emulator.certification.expectations import Expectations
from owlt.emulator.certification.intervals import share_interval
from owlt.emulator.channel.link import LinkSpec
from owlt.emulator.channel.spec import ChannelSpec
from owlt.emulator.faults import InvalidChannel
from owlt.emulator.kernel.bpf_stages import ErrorProcess
from owlt.emulator.kernel.link_to_stages import link_of, stages_of
from owlt.emulator.models.links import (
    FRAME_OVERHEAD_BYTES,
    CodedFrame,
    CommandFrame,
    bit_error_rate_of,
    command_error_rate,
    frame_error_rate,
    interpolated_error_rate,
)
from tests.error_model import ErrorModel

FRAME = CodedFrame("rs-223", 5, 6)
CODED = {"forward": {"coding": {"frame_bytes": 1115, "frame_error_rate": 0.02}}}


def link(**changes: object) -> LinkSpec:
    return ChannelSpec.from_wire({"forward": CODED["forward"] | changes}).forward


def hits(lengths: list[int], rate: float, block_bytes: int, seed: int = 1) -> list[bool]:
    model = ErrorModel(ErrorProcess("block", "drop", rate=rate, seed=seed, block_bytes=block_bytes))
    return [bool(model.errors_of(length)) for length in lengths]


def test_a_frame_of_five_codewords_has_the_bytes_of_the_standard() -> None:
    """223 x 5 bytes less a header of 6, in 255 x 5 bytes and a marker of 4."""
    assert (FRAME.data_bytes, FRAME.coded_bytes) == (1109, 1279)


def test_headers_of_frames_are_those_of_the_standards() -> None:
    """The control: another header makes other bytes of packets."""
    assert FRAME_OVERHEAD_BYTES == {"tm": 6, "aos": 6, "tc": 5}
    assert CodedFrame("rs-223", 5, 5).data_bytes == FRAME.data_bytes + 1


@pytest.mark.parametrize(
    ("data_bytes", "codeblocks", "coded_bytes"),
    [(1019, 147, 1186), (1017, 146, 1178), (9, 2, 26), (10, 3, 34)],
)
def test_a_command_frame_fills_codeblocks_of_seven_bytes(data_bytes: int, codeblocks: int, coded_bytes: int) -> None:
    """With a header of 5 bytes, and 10 bytes of start and tail sequence."""
    frame = CommandFrame("bch-sec", data_bytes, 5)

    assert (frame.codeblocks, frame.coded_bytes) == (codeblocks, coded_bytes)


def test_a_command_frame_without_correction_is_lost_with_one_bit() -> None:
    """63 bits of each codeblock count, the filler bit does not; 16 bits of the start sequence."""
    assert command_error_rate(CommandFrame("bch-ted", 9, 5), 1e-3) == pytest.approx(1 - (1 - 1e-3) ** (2 * 63 + 16))


def test_a_command_frame_with_correction_is_lost_with_two_bits_of_a_codeblock() -> None:
    ber = 1e-3
    start, block = ((1 - ber) ** n + n * ber * (1 - ber) ** (n - 1) for n in (16, 63))

    assert command_error_rate(CommandFrame("bch-sec", 9, 5), ber) == pytest.approx(1 - start * block**2)


def test_the_error_rates_of_command_frames_are_those_of_simulated_bits() -> None:
    """An independent count: bits are drawn, and wrong ones counted in each codeblock."""
    count, ber = 20_000, 2e-3
    frame = CommandFrame("bch-sec", 65, 5)
    generator = numpy.random.default_rng(1)
    blocks = generator.binomial(63, ber, (count, 10))
    starts = generator.binomial(16, ber, count)
    low, high = share_interval(int(((blocks > 1).any(axis=1) | (starts > 1)).sum()), count, 1e-6)

    assert low <= command_error_rate(frame, ber) <= high
    assert not low <= command_error_rate(CommandFrame("bch-ted", 65, 5), ber) <= high


@pytest.mark.parametrize(("code", "correctable"), [("rs-223", 16), ("rs-239", 8)])
def test_a_codeword_is_lost_with_more_wrong_symbols_than_the_code_corrects(code: str, correctable: int) -> None:
    wrong = 1 - (1 - 5e-3) ** 8
    intact = sum(comb(255, n) * wrong**n * (1 - wrong) ** (255 - n) for n in range(correctable + 1))

    assert frame_error_rate(CodedFrame(code, 1, 0), 5e-3) == pytest.approx(1 - intact)


def test_a_frame_is_lost_if_one_of_its_codewords_is() -> None:
    one = frame_error_rate(CodedFrame("rs-223", 1, 0), 6e-3)

    assert frame_error_rate(CodedFrame("rs-223", 5, 0), 6e-3) == pytest.approx(1 - (1 - one) ** 5)


def test_the_error_rate_of_bpsk_without_a_code_is_that_of_textbooks() -> None:
    """7.9e-4 at 7 dB, of which the code's rate takes 0.58 dB."""
    assert bit_error_rate_of(7 + 0.5823, "rs-223") == pytest.approx(7.73e-4, rel=0.01)


def test_a_table_is_interpolated_in_the_logarithm() -> None:
    rows = [(1.0, 1e-1), (2.0, 1e-3)]

    assert interpolated_error_rate(rows, 1.5) == pytest.approx(1e-2)
    assert interpolated_error_rate(rows, 2.5) is None


def test_a_lost_frame_hits_every_packet_in_it() -> None:
    """Packets of 100 bytes in frames of 1000: each lost frame is ten packets in a row, from a multiple of ten on."""
    lost = numpy.array(hits([100] * 5000, 0.05, 1000)).reshape(-1, 10)

    assert (lost.all(axis=1) | ~lost.any(axis=1)).all()
    assert 0 < lost.any(axis=1).sum() < len(lost)


def test_a_packet_is_hit_by_each_of_its_frames() -> None:
    """A packet of 3000 bytes has three frames of 1000: 1 - 0.9^3."""
    count = 5000
    low, high = share_interval(sum(hits([3000] * count, 0.1, 1000)), count, 1e-6)

    assert low <= 1 - 0.9**3 <= high


@pytest.mark.parametrize("length", [64, 512, 1514, 9014])
def test_a_certificate_expects_the_share_that_the_frames_hit(length: int) -> None:
    """Among packets that share no frame; the packets begin at all places of a frame."""
    expected = Expectations.of(ChannelSpec.from_wire(CODED), "forward")
    apart = expected.apart(length)
    lost = hits([length] * (20_000 if length < 9000 else 5000), 0.02, 1115)[::apart]
    low, high = share_interval(sum(lost), len(lost), 1e-6)

    assert low <= expected.loss_probability(length) <= high


def test_packets_that_far_apart_share_no_frame() -> None:
    expected = Expectations.of(ChannelSpec.from_wire(CODED), "forward")

    assert (expected.apart(64) - 1) * 64 >= 1115


def test_the_shortest_burst_is_that_of_one_frame() -> None:
    expected = Expectations.of(ChannelSpec.from_wire(CODED), "forward")
    lost = [0, *map(int, hits([64] * 20_000, 0.02, 1115)), 0]
    edges = numpy.flatnonzero(numpy.diff(lost))

    assert min(numpy.diff(edges)[::2][1:-1]) == expected.shortest_burst_packets == ceil(1115 / 64)


def test_nothing_else_is_drawn_or_damaged() -> None:
    expected = Expectations.of(ChannelSpec.from_wire(CODED), "forward")

    assert (expected.damage_probability(1514), expected.duplicate_probability) == (0, 0)


def test_the_kernel_gets_the_frames_as_blocks_of_its_stream() -> None:
    stages = stages_of(link(seed=7))

    assert stages.errors == ErrorProcess("block", "drop", rate=0.02, seed=7, block_bytes=1115)
    assert link_of(stages, link(seed=7)) == link(seed=7)


@pytest.mark.parametrize(
    "other",
    [
        {"bit_error_rate": 1e-6},
        {"packet_error_rate": 0.1},
        {"pattern": {"packets": [1]}},
        {"loss": {"model": "gilbert_elliott", "mean_rate": 0.01, "burst_packets": 5}},
    ],
)
def test_coded_frames_are_the_only_errors_of_a_link(other: dict[str, object]) -> None:
    with pytest.raises(InvalidChannel, match="coding"):
        link(**other)


def test_a_frame_that_is_too_short_is_refused() -> None:
    with pytest.raises(InvalidChannel, match=r"forward\.coding\.frame_bytes: got 8, expected at least 32"):
        link(coding={"frame_bytes": 8, "frame_error_rate": 0.1})


@pytest.mark.parametrize(
    "changes",
    [
        {"block_bytes": 0},
        {"block_bytes": -1},
        {"effect": "flip"},
        {"rate": 0.0, "positions": (1,)},
        {"unit": "bit"},
    ],
)
def test_what_is_no_process_of_blocks_is_refused(changes: dict[str, object]) -> None:
    process = {"unit": "block", "effect": "drop", "rate": 0.1, "block_bytes": 100} | changes
    with pytest.raises(ValueError, match="block"):
        ErrorProcess(**process)  # type: ignore[arg-type]
