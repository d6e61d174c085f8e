"""Inventories of lab rigs: what is read, what is refused and in which words."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from owlt.orchestrator.errors import OwltError
from owlt.orchestrator.profiles.inventory import LabRig, lab_rig, login_parts, read_inventory
from owlt.orchestrator.profiles.load import read_document
from owlt.orchestrator.profiles.schemas import inventory_schema

EXAMPLE = Path(__file__).parents[3] / "profiles" / "rigs" / "example.yaml"
DOCUMENT = read_document(EXAMPLE).value
SENDER, EMULATOR, RECEIVER = "rack1-sender", "rack1-emulator", "rack1-receiver"

Change = Callable[[dict[str, Any]], object]


def changed(directory: Path, change: Change) -> Path:
    """The example with a change of its first rig."""
    document = copy.deepcopy(DOCUMENT)
    change(document["all"]["children"]["rack1"])
    path = directory / "inventory.yaml"
    path.write_text(json.dumps(document, indent=1))
    return path


def rack1(directory: Path, change: Change) -> LabRig:
    return read_inventory(changed(directory, change))["rack1"]


def mistakes(directory: Path, change: Change) -> list[str]:
    with pytest.raises(OwltError) as refusal:
        read_inventory(changed(directory, change))
    return str(refusal.value).splitlines()


def with_host(host: str, **variables: object) -> Change:
    return lambda rig: rig["hosts"][host].update(variables)


def test_the_example_has_two_rigs() -> None:
    assert list(read_inventory(EXAMPLE)) == ["rack1", "rack2"]


def test_the_example_matches_the_schema() -> None:
    Draft202012Validator(inventory_schema()).validate(DOCUMENT)


def test_a_host_has_the_variables_of_its_rig_and_of_all(tmp_path: Path) -> None:
    rig = rack1(tmp_path, lambda group: group.update(vars={"ansible_port": 2222}))

    assert [(host.user, host.port) for host in rig.hosts] == [("owlt", 2222)] * 3


def test_a_variable_of_a_host_replaces_that_of_its_rig(tmp_path: Path) -> None:
    def change(group: dict[str, Any]) -> None:
        group["vars"] = {"ansible_port": 2222}
        group["hosts"][SENDER]["ansible_port"] = 2223

    rig = rack1(tmp_path, change)

    assert [host.port for host in rig.hosts] == [2223, 2222, 2222]


def test_a_relative_path_counts_from_the_inventory(tmp_path: Path) -> None:
    rig = rack1(tmp_path, with_host(EMULATOR, owlt_service_token_file="secrets/token"))

    assert rig.emulator.token_file == tmp_path / "secrets" / "token"


def test_the_variables_of_ansible_are_left_to_it(tmp_path: Path) -> None:
    assert rack1(tmp_path, with_host(SENDER, ansible_python_interpreter="/usr/bin/python3")).sender.name == SENDER


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (with_host(SENDER, owlt_role="sendr"), "owlt_role: got 'sendr', expected sender, emulator or receiver"),
        (with_host(SENDER, owlt_test_interfase="x"), "is not a known variable; did you mean owlt_test_interface?"),
        (with_host(SENDER, ansible_port="ssh"), "ansible_port: got 'ssh', expected a whole number"),
        (with_host(SENDER, owlt_host_key="SHA256:abc"), "expected a public host key, as in 'ssh-ed25519 AAAA...'"),
        (with_host(SENDER, owlt_test_interface="a long name of it"), "the name or the MAC address of an interface"),
        (with_host(SENDER, owlt_test_address="10.77.0.1"), "an IPv4 address with its prefix, such as 10.77.0.1/24"),
        (with_host(RECEIVER, owlt_test_address="10.78.0.2/24"), "expected two addresses of one network"),
        (with_host(RECEIVER, owlt_test_address="10.77.0.1/24"), "expected two addresses of one network"),
        (with_host(RECEIVER, owlt_python="/usr/bin/python3"), "owlt_python: differs from the sender's"),
        (with_host(SENDER, owlt_jump="gateway"), "owlt_jump: got 'gateway', expected USER@ADDRESS"),
        (with_host(SENDER, owlt_jump="ada@gateway"), "owlt_jump_host_key is missing"),
        (with_host(EMULATOR, owlt_service="http://192.0.2.1:8765"), "expected https://ADDRESS:PORT, without the token"),
        (with_host(EMULATOR, owlt_service="https://o:secret@192.0.2.1"), "expected https://ADDRESS:PORT"),
        (with_host(EMULATOR, owlt_receiver_port="enp3s0f0"), "owlt_receiver_port: is the sender's port as well"),
        (with_host(SENDER, owlt_clock="ntp"), "owlt_clock: got 'ntp', expected one of chrony, ptp, none"),
        (with_host(SENDER, owlt_clock="ptp"), "owlt_ptp_interface is missing, expected the interface with PTP"),
        (
            with_host(SENDER, owlt_clock="ptp", owlt_ptp_interface="enp3s0"),
            "owlt_ptp_interface: got 'enp3s0', expected an interface of the management network",
        ),
        (
            with_host(EMULATOR, owlt_clock="ptp", owlt_ptp_interface="enp3s0f1"),
            "owlt_ptp_interface: got 'enp3s0f1', expected an interface of the management network",
        ),
        (with_host(SENDER, owlt_irq_cpus="2 3"), "owlt_irq_cpus: got '2 3'"),
        (with_host(SENDER, owlt_lease_s=1), "owlt_lease_s: got 1"),
        (with_host(SENDER, owlt_governor="; reboot"), "owlt_governor: got '; reboot'"),
        (lambda rig: rig["hosts"][SENDER].pop("ansible_host"), "ansible_host: is missing; add it"),
        (lambda rig: rig["hosts"][SENDER].pop("owlt_role"), "owlt_role is missing, expected sender, emulator or"),
        (lambda rig: rig["hosts"].pop(SENDER), "got emulator, receiver, expected one sender, one emulator and one"),
        (lambda rig: rig.update(host={}), "host: is not a known key; did you mean hosts?"),
        (lambda rig: rig.pop("hosts"), "all.children.rack1: has no hosts"),
    ],
)
def test_a_mistake_is_described_at_its_line(tmp_path: Path, change: Change, expected: str) -> None:
    found = [each for each in mistakes(tmp_path, change) if expected in each]

    assert len(found) == 1, mistakes(tmp_path, change)
    assert re.match(rf"{re.escape(str(tmp_path))}/inventory.yaml:\d+: all\.", found[0])


def test_every_mistake_is_listed(tmp_path: Path) -> None:
    found = mistakes(tmp_path, with_host(SENDER, ansible_port="ssh", owlt_host_key="none", owlt_test_address="10"))

    assert len(found) == 3


def test_a_file_that_is_no_inventory_is_refused_with_an_example(tmp_path: Path) -> None:
    path = tmp_path / "inventory.yaml"
    path.write_text("hosts: [a, b]\n")

    with pytest.raises(OwltError, match=r"this is not an inventory of rigs, expected .*profiles/rigs/example.yaml"):
        read_inventory(path)


def test_a_rig_is_named_behind_the_inventory() -> None:
    path, rig = lab_rig(f"{EXAMPLE}:rack2")

    assert (path, rig.name) == (EXAMPLE, "rack2")


def test_one_of_several_rigs_has_to_be_named() -> None:
    with pytest.raises(OwltError, match=r"has 2 rigs, expected .*example.yaml:RIG; rigs: rack1, rack2"):
        lab_rig(str(EXAMPLE))


def test_an_unknown_rig_is_refused_with_the_nearest() -> None:
    with pytest.raises(OwltError, match="has no rig 'rack3'; did you mean rack"):
        lab_rig(f"{EXAMPLE}:rack3")


@pytest.mark.parametrize(
    ("login", "parts"),
    [
        ("ada@gateway.example.org", ("ada", "gateway.example.org", 22)),
        ("ada@192.0.2.1:2222", ("ada", "192.0.2.1", 2222)),
        ("ada@[2001:db8::1]:2222", ("ada", "2001:db8::1", 2222)),
    ],
)
def test_a_jump_host_has_a_user_an_address_and_a_port(login: str, parts: tuple[str, str, int]) -> None:
    assert login_parts(login) == parts
