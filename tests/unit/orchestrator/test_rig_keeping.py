"""Whose lease `owlt rig provision`, `update` and `remove` take, and what is left of it at their end."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from emulator.faults import LeaseHeld
from emulator.service.client import EmulatorClient
from emulator.service.memory_emulator import MemoryEmulator, MemoryTransport
from orchestrator.commands.rigs.keeping import Kept, kept
from orchestrator.errors import OwltError
from orchestrator.profiles.inventory import LabRig
from orchestrator.rigs.lab.emulator import LabEmulator
from orchestrator.rigs.lab.reservations import read_reservation
from tests.unit.orchestrator.test_inventory import EMULATOR, rack1, with_host

UPDATING = Kept("owlt rig update", "updated", needs_service=True)
PROVISIONING = Kept("owlt rig provision", "provisioned")
REMOVING = Kept("owlt rig remove", "removed", removes_service=True)
ALL = pytest.mark.parametrize("what", [PROVISIONING, UPDATING, REMOVING], ids=lambda what: what.action)


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


ClientOf = Callable[[LabRig], LabEmulator]


@pytest.fixture
def client_of(transport: MemoryTransport) -> ClientOf:
    return lambda the_rig: LabEmulator(the_rig.emulator, transport)


def other(transport: MemoryTransport) -> EmulatorClient:
    """Another engineer's client."""
    return EmulatorClient("http://memory", transport=transport)


def restart(transport: MemoryTransport) -> None:
    """Restart the service, which has its leases in memory."""
    transport._methods = MemoryTransport(MemoryEmulator())._methods


@ALL
def test_nobody_else_gets_the_lease_meanwhile(
    what: Kept, rig: LabRig, transport: MemoryTransport, client_of: ClientOf
) -> None:
    with kept(rig, what, client_of), pytest.raises(LeaseHeld, match=f"{what.purpose} holds it"):
        other(transport).lease("bob@vm: owlt, sweep night", 60)


@ALL
def test_a_rig_that_somebody_else_has_leased_is_refused_before_anything_changes(
    what: Kept, rig: LabRig, transport: MemoryTransport, client_of: ClientOf
) -> None:
    other(transport).lease("bob@vm: owlt, sweep night", 356)

    refused = rf"rack1 cannot be {what.action}: it is leased to bob@vm: owlt, sweep night for 35\d s"
    with pytest.raises(OwltError, match=refused), kept(rig, what, client_of):
        pytest.fail("it was changed")


def test_a_sweep_of_the_same_user_without_a_reservation_keeps_its_lease_too(rig: LabRig, client_of: ClientOf) -> None:
    client_of(rig).lease("owlt, sweep night", 60)

    with pytest.raises(OwltError, match="sweep night"), kept(rig, REMOVING, client_of):
        pytest.fail("it was changed")


@pytest.mark.parametrize("what", [PROVISIONING, UPDATING], ids=lambda what: what.action)
def test_the_lease_is_released_at_the_end(
    what: Kept, rig: LabRig, transport: MemoryTransport, client_of: ClientOf
) -> None:
    with kept(rig, what, client_of):
        pass

    other(transport).lease("bob@vm: owlt, sweep night", 60)


@ALL
def test_it_is_released_also_if_the_playbook_fails(
    what: Kept, rig: LabRig, transport: MemoryTransport, client_of: ClientOf
) -> None:
    with pytest.raises(SystemExit), kept(rig, what, client_of):
        raise SystemExit(4)

    other(transport).lease("bob@vm: owlt, sweep night", 60)


def test_the_users_own_reservation_stays(rig: LabRig, client_of: ClientOf) -> None:
    client_of(rig).reserve(3600)
    with kept(rig, PROVISIONING, client_of):
        pass

    assert 3500 < client_of(rig).lease_status()["seconds_left"] <= 3600


def test_the_users_own_reservation_outlives_a_restart_of_the_service(
    rig: LabRig, transport: MemoryTransport, client_of: ClientOf
) -> None:
    client_of(rig).reserve(3600)
    with kept(rig, UPDATING, client_of):
        restart(transport)
        assert not client_of(rig).lease_status()["held"]

    assert 3500 < client_of(rig).lease_status()["seconds_left"] <= 3600


def test_a_restart_of_the_service_without_a_reservation_leaves_no_lease(
    rig: LabRig, transport: MemoryTransport, client_of: ClientOf
) -> None:
    with kept(rig, UPDATING, client_of):
        restart(transport)

    assert not client_of(rig).lease_status()["held"]


def test_the_reservation_of_a_rig_that_is_removed_is_forgotten(rig: LabRig, client_of: ClientOf) -> None:
    client_of(rig).reserve(3600)
    with kept(rig, REMOVING, client_of):
        pass

    assert read_reservation(rig.emulator.service) is None


@pytest.mark.parametrize("what", [PROVISIONING, REMOVING], ids=lambda what: what.action)
def test_a_service_that_does_not_answer_has_no_lease(
    what: Kept, rig: LabRig, transport: MemoryTransport, client_of: ClientOf
) -> None:
    transport.lost = ConnectionRefusedError("nobody listens")
    with kept(rig, what, client_of):
        pass


def test_an_update_needs_a_service_that_answers(rig: LabRig, transport: MemoryTransport, client_of: ClientOf) -> None:
    transport.lost = ConnectionRefusedError("nobody listens")
    with pytest.raises(OwltError, match=r"rack1 cannot be updated: .*nobody listens"), kept(rig, UPDATING, client_of):
        pytest.fail("it was changed")


@pytest.mark.parametrize("what", [PROVISIONING, REMOVING], ids=lambda what: what.action)
def test_a_rig_without_a_token_here_has_no_service_yet(what: Kept, rig: LabRig, client_of: ClientOf) -> None:
    rig.emulator.token_file.unlink()
    with kept(rig, what, client_of):
        pass


def test_a_token_that_the_service_does_not_accept_is_no_obstacle_to_provisioning_which_replaces_it(rig: LabRig) -> None:
    transport = MemoryTransport(MemoryEmulator(), token="b" * 64)
    with kept(rig, PROVISIONING, lambda the_rig: LabEmulator(the_rig.emulator, transport)):
        pass


def test_with_such_a_token_the_lease_of_somebody_else_counts_too(rig: LabRig) -> None:
    transport = MemoryTransport(MemoryEmulator(), token="b" * 64)
    EmulatorClient("http://memory", token="b" * 64, transport=transport).lease("bob@vm: owlt, sweep night", 60)

    refused = pytest.raises(OwltError, match="leased to bob@vm")
    with refused, kept(rig, PROVISIONING, lambda the_rig: LabEmulator(the_rig.emulator, transport)):
        pytest.fail("it was changed")


def test_an_emulator_that_the_playbooks_do_not_change_is_not_leased(tmp_path: Path, transport: MemoryTransport) -> None:
    (tmp_path / "token").write_text("a" * 64)
    (tmp_path / "token").chmod(0o600)
    rig = rack1(tmp_path, with_host(EMULATOR, owlt_service_token_file="token", owlt_provision=False))
    with kept(rig, PROVISIONING, lambda the_rig: LabEmulator(the_rig.emulator, transport)):
        assert not other(transport).lease_status()["held"]
