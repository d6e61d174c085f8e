"""Runs over IPv6: an axis of a sweep, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from owlt.agents.contract.limits import Limits
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
