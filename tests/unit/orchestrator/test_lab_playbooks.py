"""What Ansible gets of an inventory: logins, keys and jump hosts are those of each host."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from owlt.orchestrator.profiles.inventory import LabRig
from owlt.orchestrator.rigs.lab.playbooks import (
    Administrator,
    check_options,
    clock_variables,
    host_variables,
    known_hosts_lines,
    provisioned_hosts,
    run_playbook,
)
from tests.unit.orchestrator.test_inventory import EMULATOR, RECEIVER, SENDER, rack1, with_host

JUMP_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIEXAMPLEexampleEXAMPLEexampleEXAMPLEexample8"


@pytest.fixture
def rig(tmp_path: Path) -> LabRig:
    """A rig whose emulator belongs to another group: another login, another key, behind a jump host."""

    def change(group: dict[str, Any]) -> None:
        group["vars"] = {"ansible_ssh_private_key_file": "owlt_key"}
        group["hosts"][EMULATOR] |= {"ansible_user": "ada", "ansible_ssh_private_key_file": "ada_key"}
        group["hosts"][EMULATOR] |= {"owlt_jump": "ada@gateway:2222", "owlt_jump_host_key": JUMP_KEY}

    for name in ("owlt_key", "ada_key"):
        (tmp_path / f"{name}.pub").write_text(f"ssh-ed25519 {name}\n")
    return rack1(tmp_path, change)


def variables(rig: LabRig, key: Path | None = None) -> dict[str, dict[str, str]]:
    document = host_variables(rig, Administrator("root", key), Path("/tmp/known_hosts"))
    return dict(document["all"]["children"]["rack1"]["hosts"])


def test_each_host_gets_its_own_login_and_public_key(rig: LabRig) -> None:
    found = {name: (each["owlt_login"], each["owlt_public_key"]) for name, each in variables(rig).items()}

    assert found[EMULATOR] == ("ada", "ssh-ed25519 ada_key")
    assert found[SENDER] == found[RECEIVER] == ("owlt", "ssh-ed25519 owlt_key")


def test_a_jump_host_is_used_for_its_host_only(rig: LabRig) -> None:
    found = {name: each["ansible_ssh_common_args"] for name, each in variables(rig).items()}

    assert "-p 2222 -W %h:%p ada@gateway" in found[EMULATOR]
    assert "ProxyCommand" not in found[SENDER] + found[RECEIVER]


def test_the_key_of_a_jump_host_is_pinned(rig: LabRig) -> None:
    assert f"[gateway]:2222 {JUMP_KEY}" in known_hosts_lines(rig).splitlines()


def test_the_administrator_logs_in_with_the_key_of_each_host_if_none_is_given(rig: LabRig, tmp_path: Path) -> None:
    found = {name: each["ansible_ssh_private_key_file"] for name, each in variables(rig).items()}

    keys = {SENDER: "owlt_key", EMULATOR: "ada_key", RECEIVER: "owlt_key"}
    assert found == {name: str(tmp_path / key) for name, key in keys.items()}


def test_the_administrators_key_is_used_for_all_hosts(rig: LabRig) -> None:
    found = variables(rig, Path("/root/admin_key")).values()

    assert {each["ansible_ssh_private_key_file"] for each in found} == {"/root/admin_key"}


def test_a_host_that_is_not_to_be_provisioned_is_left_to_its_owner(tmp_path: Path) -> None:
    other = rack1(tmp_path, with_host(EMULATOR, owlt_provision=False))

    assert [host.name for host in provisioned_hosts(other)] == [SENDER, RECEIVER]


def test_nothing_is_run_for_a_rig_without_a_host_to_provision(tmp_path: Path) -> None:
    def change(group: dict[str, Any]) -> None:
        group["vars"] = {"owlt_provision": False}

    # there is no such playbook: a run of it would fail
    assert run_playbook("none", tmp_path, rack1(tmp_path, change), Administrator("root", None)) == 0


@pytest.mark.parametrize(
    ("variables", "source"),
    [
        ({}, "192.0.2.12"),
        ({"owlt_clock": "none"}, ""),
        ({"owlt_clock": "ptp", "owlt_ptp_interface": "eno1"}, ""),
        ({"owlt_provision": False}, ""),
    ],
)
def test_the_other_hosts_follow_the_emulator_if_chrony_is_configured_there(
    variables: dict[str, object], source: str, tmp_path: Path
) -> None:
    found = clock_variables(rack1(tmp_path, with_host(EMULATOR, **variables)))

    assert found == {"owlt_time_source": source, "owlt_time_clients": ["192.0.2.11", "192.0.2.13"]}


@pytest.mark.parametrize(
    ("check", "diff", "options"),
    [(True, False, ["--check"]), (True, True, ["--check", "--diff"]), (False, True, []), (False, False, [])],
)
def test_the_lines_of_changed_files_are_shown_only_if_they_are_wanted(
    check: bool, diff: bool, options: list[str]
) -> None:
    assert check_options(check, diff) == options
