"""Which sessions and host keys `owlt rig provision`, `update` and `remove` refuse."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from owlt.orchestrator.commands.rig import provision
from owlt.orchestrator.errors import OwltError
from owlt.orchestrator.hosts.host import HostError
from owlt.orchestrator.profiles.inventory import LabHostEntry, LabRig, read_inventory
from owlt.orchestrator.rigs.lab.exclusive_change import require_no_session
from owlt.orchestrator.rigs.lab.ssh_hosts import OtherHostKey
from tests.unit.orchestrator.test_inventory import RECEIVER, changed

NOBODY_THERE = {"ansible_host": "127.0.0.1", "ansible_port": 1}
"""An address at which a connection is refused at once."""


@pytest.fixture
def rig(tmp_path: Path) -> LabRig:
    return read_inventory(changed(tmp_path, lambda _group: None))["rack1"]


def test_an_open_session_is_refused_with_its_host(rig: LabRig) -> None:
    def seconds_left(entry: LabHostEntry) -> int | None:
        return 90 if entry.name == RECEIVER else None

    with pytest.raises(OwltError, match=f"{RECEIVER}: a session is open, 90 s of its lease are left"):
        require_no_session(list(rig.hosts), seconds_left)
    require_no_session(list(rig.hosts), seconds_left, only_keys=True)


def test_a_host_that_owlt_cannot_log_in_to_has_no_session(rig: LabRig) -> None:
    def seconds_left(entry: LabHostEntry) -> int | None:
        raise HostError(f"{entry.name} does not admit owlt")

    require_no_session(list(rig.hosts), seconds_left)


def test_a_host_with_another_host_key_is_refused_as_by_the_doctor(rig: LabRig) -> None:
    def seconds_left(entry: LabHostEntry) -> int | None:
        raise OtherHostKey(f"{entry.name} presented a host key other than owlt_host_key in the inventory")

    with pytest.raises(OwltError, match="host key other than owlt_host_key"):
        require_no_session(list(rig.hosts), seconds_left, only_keys=True)


@pytest.mark.parametrize("check", [False, True])
def test_the_end_of_provisioning_names_the_next_command(
    check: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def nothing_to_provision(group: dict[str, Any]) -> None:
        group["vars"] = {"owlt_provision": False}
        for host in group["hosts"].values():
            host |= NOBODY_THERE

    inventory = f"{changed(tmp_path, nothing_to_provision)}:rack1"
    provision(inventory, check=check)

    assert (f"next: owlt doctor --rig {inventory}" in capsys.readouterr().out) is not check
