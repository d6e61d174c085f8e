"""Which ports a check advises to name, from the packets that a profile does not name."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from owlt.agents.contract.side import Side
from owlt.captures.frames.decoding import Kind
from owlt.orchestrator.checks.findings import EPHEMERAL, EPHEMERAL_SYSCTL, Pairs, advise, ephemeral_ports, stray_pairs
from owlt.orchestrator.profiles.catalogue import find_implementation
from tests.unit.captures.making import SESSION, timed, udp_frame, write_pcap


def told(*runs: dict[tuple[int, int], int]) -> str:
    """The advice for UDP packets by their ports, run by run."""
    advice = advise("udp", [Counter(run) for run in runs], EPHEMERAL)
    assert advice is not None
    return advice.text


def test_a_port_that_every_run_has_is_to_be_added() -> None:
    assert told({(5001, 40_000): 90}, {(5001, 51_234): 80}) == "add 5001 to session.udp_ports"


def test_of_two_ports_that_every_packet_has_one_is_enough() -> None:
    assert told({(5000, 5001): 90}, {(5000, 5001): 80}) == "add 5000 to session.udp_ports"


def test_several_ports_are_all_named() -> None:
    assert told({(5000, 40_000): 9, (6000, 40_001): 5}, {(5000, 40_002): 9, (6000, 40_003): 5}) == (
        "add 5000 and 6000 to session.udp_ports"
    )


def test_ports_that_the_kernel_chose_are_not_to_be_added() -> None:
    text = told({(38_000, 51_000): 90}, {(38_000, 51_000): 80})

    assert text.startswith("the kernel chooses them, from 32768 to 60999")
    assert 'write session: {ports: any}, or udp_ports: ["32768-60999"]' in text
    assert "38000" not in text


def test_ports_that_the_program_draws_itself_are_a_range_or_any() -> None:
    text = told({(6_012, 6_700): 90}, {(6_100, 6_877): 80})

    assert text.startswith("they are not the same in every run, here from 6012 to 6877")
    assert 'write session: {ports: any}, or udp_ports: ["6012-6877"]' in text


def test_a_fixed_port_beside_those_that_the_kernel_chose_is_named_too() -> None:
    text = told({(69, 40_000): 1, (40_000, 51_000): 90}, {(69, 40_001): 3, (40_001, 52_000): 80})

    assert text.endswith('write session: {ports: any}, or udp_ports: [69, "32768-60999"]')


def test_a_port_that_a_flipped_bit_made_is_none_to_name() -> None:
    assert told({(5001, 40_000): 90}, {(5001, 40_000): 90, (4999, 40_000): 1}) == "add 5001 to session.udp_ports"


def test_one_stray_frame_alone_gives_no_advice() -> None:
    assert advise("udp", [Counter({(4999, 5223): 1})], EPHEMERAL) is None


def test_frames_of_the_session_are_no_strays(tmp_path: Path) -> None:
    frames = [udp_frame(b"own"), *[udp_frame(b"stray", port=6000)] * 2]
    write_pcap(tmp_path / "sender.pcap", timed(frames))

    assert stray_pairs(tmp_path / "sender.pcap", SESSION, Kind.UDP) == Pairs({(6000, 40_000): 2})


@pytest.mark.parametrize(
    ("sysctls", "bounds"), [({}, EPHEMERAL), ({EPHEMERAL_SYSCTL: "20000 20999"}, (20_000, 20_999))]
)
def test_a_profile_that_moves_the_kernels_ports_is_heeded(sysctls: dict[str, str], bounds: tuple[int, int]) -> None:
    build = find_implementation("cfdp")
    sender = Side.model_validate(build.sender.model_dump() | {"sysctls": sysctls})

    assert ephemeral_ports(build.model_copy(update={"sender": sender})) == bounds
