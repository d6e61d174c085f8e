"""Whose lease `owlt rig provision`, `update` and `remove` take, and what is left of it at their end."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from owlt.emulator.faults import LeaseHeld
from owlt.emulator.service.client import EmulatorClient
from owlt.orchestrator.errors import OwltError
from owlt.orchestrator.profiles.inventory import LabRig
from owlt.orchestrator.rigs.lab.emulator import LabEmulator, read_reservation
from owlt.orchestrator.rigs.lab.exclusive_change import Change, leased
from tests.memory.emulator import MemoryEmulator, MemoryTransport
from tests.unit.orchestrator.test_inventory import EMULATOR, rack1, with_host

UPDATING = Change("owlt rig update", "updated", needs_service=True)
PROVISIONING = Change("owlt rig provision", "provisioned")
REMOVING = Change("owlt rig remove", "removed", removes_service=True)
DEADLINE_S = 20.0
ALL = pytest.mark.parametrize("change", [PROVISIONING, UPDATING, REMOVING], ids=lambda change: change.action)


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
    change: Change, rig: LabRig, transport: MemoryTransport, client_of: ClientOf
) -> None:
    with leased(rig, change, client_of), pytest.raises(LeaseHeld, match=f"{change.purpose} holds it"):
        other(transport).lease("bob@vm: owlt, sweep night", 60)


@ALL
def test_a_rig_that_somebody_else_has_leased_is_refused_before_anything_changes(
    change: Change, rig: LabRig, transport: MemoryTransport, client_of: ClientOf
) -> None:
    other(transport).lease("bob@vm: owlt, sweep night", 356)

    refused = rf"rack1 cannot be {change.action}: it is leased to bob@vm: owlt, sweep night for 35\d s"
    with pytest.raises(OwltError, match=refused), leased(rig, change, client_of):
        pytest.fail("it was changed")


def test_a_sweep_of_the_same_user_without_a_reservation_keeps_its_lease_too(rig: LabRig, client_of: ClientOf) -> None:
    client_of(rig).lease("owlt, sweep night", 60)

    with pytest.raises(OwltError, match="sweep night"), leased(rig, REMOVING, client_of):
        pytest.fail("it was changed")


@pytest.mark.parametrize("change", [PROVISIONING, UPDATING], ids=lambda change: change.action)
def test_the_lease_is_released_at_the_end(
    change: Change, rig: LabRig, transport: MemoryTransport, client_of: ClientOf
) -> None:
    with leased(rig, change, client_of):
        pass

    other(transport).lease("bob@vm: owlt, sweep night", 60)


@ALL
def test_it_is_released_also_if_the_playbook_fails(
    change: Change, rig: LabRig, transport: MemoryTransport, client_of: ClientOf
) -> None:
    with pytest.raises(SystemExit), leased(rig, change, client_of):
        raise SystemExit(4)

    other(transport).lease("bob@vm: owlt, sweep night", 60)


def test_the_users_own_reservation_stays(rig: LabRig, client_of: ClientOf) -> None:
    client_of(rig).reserve(3600)
    with leased(rig, PROVISIONING, client_of):
        pass

    assert 3500 < client_of(rig).lease_status()["seconds_left"] <= 3600


def test_the_users_own_reservation_outlives_a_restart_of_the_service(
    rig: LabRig, transport: MemoryTransport, client_of: ClientOf
) -> None:
    client_of(rig).reserve(3600)
    with leased(rig, UPDATING, client_of):
        restart(transport)
        assert not client_of(rig).lease_status()["held"]

    assert 3500 < client_of(rig).lease_status()["seconds_left"] <= 3600


def test_a_restart_of_the_service_without_a_reservation_leaves_no_lease(
    rig: LabRig, transport: MemoryTransport, client_of: ClientOf
) -> None:
    with leased(rig, UPDATING, client_of):
        restart(transport)

    assert not client_of(rig).lease_status()["held"]


def test_the_reservation_of_a_rig_that_is_removed_is_forgotten(rig: LabRig, client_of: ClientOf) -> None:
    client_of(rig).reserve(3600)
    with leased(rig, REMOVING, client_of):
        pass

    assert read_reservation(rig.emulator.service) is None


@pytest.mark.parametrize("change", [PROVISIONING, REMOVING], ids=lambda change: change.action)
def test_a_service_that_does_not_answer_has_no_lease(
    change: Change, rig: LabRig, transport: MemoryTransport, client_of: ClientOf
) -> None:
    transport.lost = ConnectionRefusedError("nobody listens")
    with leased(rig, change, client_of):
        pass


def test_an_update_needs_a_service_that_answers(rig: LabRig, transport: MemoryTransport, client_of: ClientOf) -> None:
    transport.lost = ConnectionRefusedError("nobody listens")
    with pytest.raises(OwltError, match=r"rack1 cannot be updated: .*nobody listens"), leased(rig, UPDATING, client_of):
        pytest.fail("it was changed")


@pytest.mark.parametrize("change", [PROVISIONING, REMOVING], ids=lambda change: change.action)
def test_a_rig_without_a_token_here_has_no_service_yet(change: Change, rig: LabRig, client_of: ClientOf) -> None:
    rig.emulator.token_file.unlink()
    with leased(rig, change, client_of):
        pass


def test_a_token_that_the_service_does_not_accept_is_no_obstacle_to_provisioning_which_replaces_it(rig: LabRig) -> None:
    transport = MemoryTransport(MemoryEmulator(), token="b" * 64)
    with leased(rig, PROVISIONING, lambda the_rig: LabEmulator(the_rig.emulator, transport)):
        pass


def test_with_such_a_token_the_lease_of_somebody_else_counts_too(rig: LabRig) -> None:
    transport = MemoryTransport(MemoryEmulator(), token="b" * 64)
    EmulatorClient("http://memory", token="b" * 64, transport=transport).lease("bob@vm: owlt, sweep night", 60)

    refused = pytest.raises(OwltError, match="leased to bob@vm")
    with refused, leased(rig, PROVISIONING, lambda the_rig: LabEmulator(the_rig.emulator, transport)):
        pytest.fail("it was changed")


def test_the_lease_is_short_so_that_a_command_that_is_killed_does_not_block_the_rig(
    rig: LabRig, client_of: ClientOf
) -> None:
    with leased(rig, PROVISIONING, client_of):
        assert client_of(rig).lease_status()["seconds_left"] <= rig.emulator.lease_s


def test_the_lease_is_renewed_and_taken_again_after_a_restart_of_the_service(
    rig: LabRig, transport: MemoryTransport, client_of: ClientOf
) -> None:
    short = rig.model_copy(update={"emulator": rig.emulator.model_copy(update={"lease_s": 0.3})})
    with leased(short, UPDATING, client_of):
        restart(transport)
        end_s = time.monotonic() + DEADLINE_S
        while not client_of(rig).lease_status()["held"] and time.monotonic() < end_s:
            time.sleep(0.01)
        assert client_of(rig).lease_status()["holder"].endswith("owlt rig update")

    assert not client_of(rig).lease_status()["held"]


def test_a_reservation_that_the_service_no_longer_knows_becomes_the_users_lease_again(
    rig: LabRig, transport: MemoryTransport, client_of: ClientOf
) -> None:
    client_of(rig).reserve(3600)
    restart(transport)
    with leased(rig, PROVISIONING, client_of):
        pass

    assert 3500 < client_of(rig).lease_status()["seconds_left"] <= 3600
    client_of(rig).reserve(1800)  # the lease is the one that the file names
    assert client_of(rig).lease_status()["seconds_left"] <= 1800


def test_a_rig_that_somebody_took_during_a_restart_is_named_with_its_holder(
    rig: LabRig, transport: MemoryTransport, client_of: ClientOf
) -> None:
    client_of(rig).reserve(3600)
    lost = "your lease ended when the service was restarted, and now it is leased to bob@vm"
    with pytest.raises(OwltError, match=lost), leased(rig, UPDATING, client_of):
        restart(transport)
        other(transport).lease("bob@vm: owlt, sweep night", 60)


@pytest.mark.parametrize("change", [PROVISIONING, REMOVING], ids=lambda change: change.action)
def test_an_emulator_that_the_playbooks_do_not_change_keeps_the_users_reservation(
    change: Change, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, transport: MemoryTransport, client_of: ClientOf
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    (tmp_path / "token").write_text("a" * 64)
    (tmp_path / "token").chmod(0o600)
    rig = rack1(tmp_path, with_host(EMULATOR, owlt_service_token_file="token", owlt_provision=False))
    client_of(rig).reserve(3600)
    with leased(rig, change, client_of):
        assert client_of(rig).lease_status()["held"]

    assert read_reservation(rig.emulator.service) is not None
    assert 3500 < client_of(rig).lease_status()["seconds_left"] <= 3600
