"""Whose lease and which sessions keep `owlt rig provision` and `remove` from changing a lab rig."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import typer

from emulator.faults import EmulatorUnreachable
from emulator.service.client import EmulatorClient
from emulator.service.memory_emulator import MemoryEmulator, MemoryTransport
from orchestrator.commands.rigs.in_use import require_no_session, require_not_leased
from orchestrator.commands.rigs.installing import provision
from orchestrator.errors import OwltError
from orchestrator.hosts.host import HostError
from orchestrator.profiles.inventory import LabHostEntry, LabRig
from orchestrator.rigs.lab.emulator import LabEmulator
from orchestrator.rigs.lab.reconnecting import OtherHostKey
from tests.unit.orchestrator.test_inventory import EMULATOR, RECEIVER, changed, rack1, with_host


@pytest.fixture
def rig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LabRig:
    """A rig with the token of its emulator."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    (tmp_path / "token").write_text("a" * 64)
    (tmp_path / "token").chmod(0o600)
    return rack1(tmp_path, with_host(EMULATOR, owlt_service_token_file="token"))


@pytest.fixture
def transport() -> MemoryTransport:
    return MemoryTransport(MemoryEmulator())


def require(rig: LabRig, transport: MemoryTransport) -> None:
    require_not_leased(rig, "removed", lambda the_rig: LabEmulator(the_rig.emulator, transport))


def test_a_rig_that_somebody_else_has_leased_is_not_changed(rig: LabRig, transport: MemoryTransport) -> None:
    other = EmulatorClient("http://memory", transport=transport)
    other.lease("bob@vm: owlt, sweep night", 356)

    refused = r"rack1 cannot be removed: it is leased to bob@vm: owlt, sweep night for 35\d s"
    with pytest.raises(OwltError, match=refused):
        require(rig, transport)


def test_a_sweep_of_the_same_user_without_a_reservation_keeps_its_lease_too(
    rig: LabRig, transport: MemoryTransport
) -> None:
    LabEmulator(rig.emulator, transport).lease("owlt, sweep night", 60)

    with pytest.raises(OwltError, match="sweep night"):
        require(rig, transport)


def test_a_rig_that_nobody_has_leased_is_changed(rig: LabRig, transport: MemoryTransport) -> None:
    require(rig, transport)


def test_the_users_own_reservation_does_not_keep_them_from_it_and_stays(
    rig: LabRig, transport: MemoryTransport
) -> None:
    LabEmulator(rig.emulator, transport).reserve(3600)
    require(rig, transport)

    assert LabEmulator(rig.emulator, transport).lease_status()["seconds_left"] > 3500


class Unreachable(LabEmulator):
    """A client whose service is dead."""

    def lease_status(self) -> dict[str, object]:
        raise EmulatorUnreachable("http://memory does not answer")


def test_a_service_that_does_not_answer_has_no_lease(rig: LabRig, transport: MemoryTransport) -> None:
    require_not_leased(rig, "removed", lambda the_rig: Unreachable(the_rig.emulator, transport))


def test_a_rig_without_a_token_has_no_service_yet(rig: LabRig, transport: MemoryTransport) -> None:
    rig.emulator.token_file.unlink()
    require(rig, transport)


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
        raise OtherHostKey(f"{entry.name} shows another host key than owlt_host_key in the inventory")

    with pytest.raises(OwltError, match="another host key than owlt_host_key"):
        require_no_session(list(rig.hosts), seconds_left, only_keys=True)


@pytest.mark.parametrize("check", [False, True])
def test_the_end_of_provisioning_names_the_next_command(
    check: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def nothing_to_provision(group: dict[str, Any]) -> None:
        group["vars"] = {"owlt_provision": False}

    inventory = f"{changed(tmp_path, nothing_to_provision)}:rack1"
    with pytest.raises(typer.Exit):
        provision(inventory, check=check)

    assert (f"next: owlt doctor --rig {inventory}" in capsys.readouterr().out) is not check
