"""Runs over IPv6: an axis of a sweep, the addresses in commands, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from owlt.agents.contract.limits import Limits
from owlt.agents.contract.placeholders import RunValues
from owlt.agents.endpoint.event_loop import frame_bytes
from owlt.agents.endpoint.udp import Address
from owlt.orchestrator.errors import OwltError
from owlt.orchestrator.planning.estimate import infeasible
from owlt.orchestrator.planning.plan import Plan
from owlt.orchestrator.profiles.catalogue import resolve

SWEEP = """name: x
seed: 7
implementations: [cfdp, norm]
file_size: 1 kB
"""
LINK = "rate: 10 Mbit/s\ndelay: 25 ms\npacket_error_rate: 0\n"
VALUES = RunValues(
    python="",
    third_party="",
    file="/f",
    received_file="/r",
    file_size_bytes=1,
    rate_bps=None,
    reverse_rate_bps=None,
    one_way_delay_s=0,
    rtt_s=0,
    channel_rate_bps=None,
    channel_one_way_delay_s=0,
    mtu_bytes=1500,
    packet_error_rate=0,
    bit_error_rate=0,
    reverse_bit_error_rate=0,
    sender_address="10.77.0.1",
    receiver_address="10.77.0.2",
    sender_interface="",
    receiver_interface="",
    run_dir="",
    seed=1,
)


def planned(directory: Path, text: str) -> Plan:
    path = directory / "sweep.yaml"
    path.write_text(text)
    return resolve(path)


def test_both_versions_are_permutations_of_their_own(tmp_path: Path) -> None:
    plan = planned(tmp_path, SWEEP + LINK + "ip: [4, 6]\n")

    slugs = sorted(run.permutation.slug for run in plan.runs if run.permutation.implementation == "cfdp")
    assert slugs == ["cfdp_1kB_10Mbps_25ms_per0", "cfdp_1kB_ipv6_10Mbps_25ms_per0"]


def test_a_sweep_without_the_key_is_over_ipv4_as_before(tmp_path: Path) -> None:
    written, left_out = (planned(tmp_path, SWEEP + LINK + line) for line in ("ip: 4\n", ""))

    assert [run.seed for run in written.runs] == [run.seed for run in left_out.runs]
    assert {run.permutation.ip for run in left_out.runs} == {4}


def test_a_run_is_unsupported_if_the_profile_does_not_name_ipv6(tmp_path: Path) -> None:
    plan = planned(tmp_path, SWEEP + LINK + "ip: 6\n")

    reasons = {
        run.permutation.implementation: infeasible(run, plan.implementations[run.permutation.implementation])
        for run in plan.runs
    }
    assert reasons == {"cfdp": None, "norm": "IPv6; the profile's ip_versions are IPv4"}


def test_a_profile_can_be_for_ipv6_alone() -> None:
    assert Limits(ip_versions=(6,)).exceeded(1, None, 0, ip=4) == "IPv4; the profile's ip_versions are IPv6"
    assert Limits(ip_versions=(6,)).exceeded(1, None, 0, ip=6) is None


def test_a_link_with_an_mtu_below_1280_bytes_is_refused(tmp_path: Path) -> None:
    for mtu in (1279, 1280):
        (tmp_path / f"mtu-{mtu}.yaml").write_text(f"forward: {{delay: 1 ms, mtu: {mtu} B}}\nreverse: {{delay: 1 ms}}\n")
    sweep = SWEEP + "ip: 6\nchannel: {path}\n"

    with pytest.raises(OwltError, match=r"ip: IPv6 over the channel of cfdp\S+, whose MTU is 1279 B"):
        planned(tmp_path, sweep.format(path=tmp_path / "mtu-1279.yaml"))
    assert planned(tmp_path, sweep.format(path=tmp_path / "mtu-1280.yaml")).runs


def test_the_versions_that_there_are_are_named(tmp_path: Path) -> None:
    with pytest.raises(OwltError, match=r"ip: got 5, expected one of 4, 6"):
        planned(tmp_path, SWEEP + LINK + "ip: 5\n")


@pytest.mark.parametrize("value", [5, "six", True, [4, 4]])
def test_other_versions_are_refused(tmp_path: Path, value: object) -> None:
    with pytest.raises(OwltError, match="ip"):
        planned(tmp_path, SWEEP + LINK + f"ip: {value}\n")


def test_an_address_before_a_port_has_brackets_only_if_it_is_of_ipv6() -> None:
    over_ipv6 = replace(VALUES, sender_address="fd4f::1", receiver_address="fd4f::2").as_text()

    assert [VALUES.as_text()[name] for name in ("sender_host", "ip_version")] == ["10.77.0.1", "4"]
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
