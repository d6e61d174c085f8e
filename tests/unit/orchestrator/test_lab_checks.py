"""What `owlt rig verify` concludes from the output of ethtool, of Ansible and from clocks."""

from __future__ import annotations

import pytest

from orchestrator.checks.doctor import Requirement
from orchestrator.checks.lab_path import Card, check_cable, check_clock, parse_card
from orchestrator.checks.lab_settings import check_settings, read_differences
from orchestrator.profiles.inventory import lab_rig
from orchestrator.rigs.lab.clocks import Offset
from tests.unit.orchestrator.test_inventory import EXAMPLE

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


def test_a_host_that_ansible_did_not_reach_is_not_as_provisioned() -> None:
    found = settings("ERROR! the playbook could not be found\n")

    assert not any(each.found for each in found.values())
    assert "could not be found" in found["rack1-sender: settings"].detail
