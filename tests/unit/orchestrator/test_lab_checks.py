"""What `owlt rig verify` concludes from the output of ethtool, of Ansible and from clocks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from owlt.orchestrator.checks.doctor import Requirement
from owlt.orchestrator.checks.lab_verification import (
    OFFLOADS,
    Addressed,
    Card,
    check_address,
    check_bridge,
    check_cable,
    check_clock,
    check_settings,
    check_sysctl,
    parse_address,
    parse_card,
    read_differences,
)
from owlt.orchestrator.hosts.host_clock import Offset
from owlt.orchestrator.profiles.inventory import lab_rig
from owlt.orchestrator.rigs.lab.interfaces import set_up
from owlt.orchestrator.rigs.lab.playbooks import PLAYBOOKS
from tests.unit.orchestrator.test_inventory import EMULATOR, EXAMPLE, rack1, with_host

ETHTOOL = """Settings for enp3s0:
\tSupported ports: [ TP ]
\tSpeed: 1000Mb/s
\tDuplex: Full
\tLink detected: yes
MTU: 1500
Features for enp3s0:
rx-checksumming: on
tx-checksumming: off
tcp-segmentation-offload: off
\ttx-tcp-segmentation: off
generic-segmentation-offload: off [requested on]
generic-receive-offload: on
large-receive-offload: off [fixed]
"""
CARD = Card("sender", "enp3s0", 1000, "full", 1500, ())
PORT = Card("emulator", "enp3s0f0", 1000, "full", 1500, ())
ANSIBLE = """PLAY [Provision the rig] *******

TASK [host : Install packages] ******
fatal: [rack1-sender]: FAILED! => {"msg": "No package ethtool"}

TASK [host : Keep systemd-networkd from the test path] ***
changed: [rack1-receiver] => (item=Name)
changed: [rack1-receiver] => (item=MACAddress)

RUNNING HANDLER [host : Apply the sysctls] ***
changed: [rack1-receiver]

PLAY RECAP *****
rack1-emulator             : ok=20   changed=0    unreachable=0    failed=0
rack1-receiver             : ok=12   changed=1    unreachable=0    failed=0
rack1-sender               : ok=3    changed=0    unreachable=0    failed=1
"""


def test_a_card_is_read_from_ethtool() -> None:
    card = parse_card("sender", "enp3s0", ETHTOOL)

    assert card == Card("sender", "enp3s0", 1000, "full", 1500, ("generic-receive-offload",))


def test_a_card_whose_driver_reports_no_rate_has_none() -> None:
    card = parse_card("sender", "eth0", "\tSpeed: Unknown!\n\tDuplex: Unknown! (255)\nMTU: 1500\n")

    assert card.speed_mbps is None


@pytest.mark.parametrize(
    ("card", "missing"),
    [
        (CARD, []),
        (Card("sender", "enp3s0", None, "", 1500, ()), []),
        (Card("sender", "enp3s0", 100, "full", 1500, ()), ["rate and duplex"]),
        (Card("sender", "enp3s0", 10_000, "full", 1500, ()), ["rate and duplex"]),
        (Card("sender", "enp3s0", 1000, "half", 1500, ()), ["rate and duplex"]),
        (Card("sender", "enp3s0", 1000, "full", 9000, ()), ["MTU"]),
        (Card("sender", "enp3s0", 1000, "full", 1500, ("generic-receive-offload",)), ["offloads"]),
    ],
)
def test_what_is_wrong_with_a_cable_is_named(card: Card, missing: list[str]) -> None:
    names = [each.name.partition(": ")[2] for each in check_cable(card, PORT) if not each.found]

    assert names == missing


def test_the_fix_for_an_offload_is_a_command() -> None:
    card = Card("sender", "enp3s0", 1000, "full", 1500, ("generic-receive-offload",))
    (offloads,) = [each for each in check_cable(card, PORT) if not each.found]

    assert offloads.fix.startswith("at the sender: ethtool -K enp3s0 gro off;")


@pytest.mark.parametrize(("ahead_ms", "found"), [(9, True), (-9, True), (13, False), (-13, False)])
def test_a_clock_is_wrong_beyond_the_limit_and_the_error_of_the_measurement(ahead_ms: int, found: bool) -> None:
    clock = check_clock("sender", Offset(ahead_ms * 1_000_000, 1_000_000), Offset(0, 1_000_000))

    assert clock.found == found


def test_each_task_that_would_change_a_host_is_listed_once() -> None:
    found = [(each.host, each.task, bool(each.problem)) for each in read_differences(ANSIBLE)]

    assert found == [
        ("rack1-sender", "Install packages", True),
        ("rack1-receiver", "Keep systemd-networkd from the test path", False),
    ]


def settings(output: str) -> dict[str, Requirement]:
    return {each.name: each for each in check_settings(lab_rig(f"{EXAMPLE}:rack1")[1], output)}


def test_a_host_that_the_playbook_would_not_change_is_as_provisioned() -> None:
    found = settings(ANSIBLE)

    assert [name for name, each in found.items() if each.found] == ["rack1-emulator: settings"]
    assert "No package ethtool" in found["rack1-sender: settings"].detail


def test_a_host_that_is_not_provisioned_is_not_compared(tmp_path: Path) -> None:
    rig = rack1(tmp_path, with_host(EMULATOR, owlt_provision=False))
    found = {each.name: each for each in check_settings(rig, "")}

    assert found["rack1-emulator: settings"].detail == "not compared: owlt_provision is false"
    assert [name for name, each in found.items() if each.found] == ["rack1-emulator: settings"]


def test_a_host_that_ansible_did_not_reach_is_not_as_provisioned() -> None:
    found = settings("ERROR! the playbook could not be found\n")

    assert not any(each.found for each in found.values())
    assert "could not be found" in found["rack1-sender: settings"].detail


SENDER_MAC, RECEIVER_MAC = "02:4f:57:4c:54:11", "02:4f:57:4c:54:12"
RECEIVER = Addressed("enp3s0", RECEIVER_MAC, ("10.77.0.2/24",), {"10.77.0.1": SENDER_MAC})


def test_addresses_and_permanent_neighbours_are_read_from_ip() -> None:
    address = {"ifname": "enp3s0", "address": SENDER_MAC, "addr_info": [{"local": "10.77.0.1", "prefixlen": 24}]}
    neighbours = [
        {"dst": "10.77.0.2", "lladdr": RECEIVER_MAC, "state": ["PERMANENT"]},
        {"dst": "10.77.0.9", "lladdr": RECEIVER_MAC, "state": ["REACHABLE"]},
    ]

    assert parse_address([{}, address], neighbours) == Addressed(
        "enp3s0", SENDER_MAC, ("10.77.0.1/24",), {"10.77.0.2": RECEIVER_MAC}
    )


@pytest.mark.parametrize(
    ("addresses", "neighbours", "found"),
    [
        (("10.77.0.1/24",), {"10.77.0.2": RECEIVER_MAC}, True),
        (("10.77.0.1/16",), {"10.77.0.2": RECEIVER_MAC}, False),
        (("10.77.0.1/24", "fe80::1/64"), {"10.77.0.2": RECEIVER_MAC}, False),
        (("10.77.0.1/24",), {}, False),
        (("10.77.0.1/24",), {"10.77.0.2": SENDER_MAC}, False),
    ],
)
def test_an_end_of_the_test_path_has_its_address_and_its_peer_as_the_static_neighbour(
    addresses: tuple[str, ...], neighbours: dict[str, str], found: bool
) -> None:
    own = Addressed("enp3s0", SENDER_MAC, addresses, neighbours)

    assert check_address("sender", own, "10.77.0.1/24", RECEIVER).found == found


@pytest.mark.parametrize(
    ("masters", "settings", "learns", "found"),
    [
        (("owlt-channel", "owlt-channel"), {"stp_state": 0, "mcast_snooping": 0}, False, True),
        (("owlt-channel", "owlt-channel"), {"stp_state": 1, "mcast_snooping": 0}, False, False),
        (("owlt-channel", "owlt-channel"), {"stp_state": 0, "mcast_snooping": 1}, False, False),
        (("owlt-channel", "owlt-channel"), {"stp_state": 0, "mcast_snooping": 0}, True, False),
        (("owlt-channel", "br0"), {"stp_state": 0, "mcast_snooping": 0}, False, False),
        (("owlt-channel", "owlt-channel"), {}, False, False),
    ],
)
def test_the_emulators_bridge_has_both_ports_and_neither_spanning_tree_nor_snooping_nor_learning(
    masters: tuple[str, str], settings: dict[str, int], learns: bool, found: bool
) -> None:
    ports: list[dict[str, Any]] = [
        {
            "ifname": f"port{number}",
            "master": name,
            "linkinfo": {"info_slave_data": {"learning": learns and number == 1}},
        }
        for number, name in enumerate(masters)
    ]
    bridge = [{"ifname": "owlt-channel", "linkinfo": {"info_kind": "bridge", "info_data": settings}}]

    assert check_bridge(ports, bridge).found == found


@pytest.mark.parametrize(
    ("shown", "found"),
    [
        ("net.core.rmem_max = 16777216\nnet.core.wmem_max = 16777216\nnet.core.netdev_max_backlog = 100000\n", True),
        ("net.core.rmem_max = 16777216\nnet.core.wmem_max = 16777216\n", True),
        ("net.core.rmem_max = 16777216\nnet.core.wmem_max = 212992\n", False),
        ("", False),
    ],
)
def test_the_settings_of_the_running_kernel_are_compared_with_those_that_are_provisioned(
    shown: str, found: bool
) -> None:
    assert check_sysctl("rack1-sender", "sender", shown).found == found


def test_the_fix_for_a_setting_of_the_kernel_is_a_command() -> None:
    fix = check_sysctl("rack1-sender", "sender", "net.core.rmem_max = 16777216\nnet.core.wmem_max = 1\n").fix

    assert fix.startswith("at the sender: sysctl -w net.core.wmem_max=16777216;")


def test_every_offload_that_is_checked_is_turned_off_in_a_session_and_by_the_bridge() -> None:
    bridge = (PLAYBOOKS / "roles" / "emulator" / "files" / "owlt-bridge").read_text()
    session = set_up("enp3s0", "10.77.0.1/24", "10.77.0.2", RECEIVER_MAC)

    for lines in (bridge, session):
        (loop,) = [line for line in lines.splitlines() if "for offload in" in line]
        assert set(OFFLOADS.values()) <= set(loop.partition(" in ")[2].partition(";")[0].split())
