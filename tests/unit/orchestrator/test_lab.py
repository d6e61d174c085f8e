"""What a lab rig computes without its hosts: clocks, leases, the doctor's words, a sweep without an inventory."""

from __future__ import annotations

import os
import stat
import time
from pathlib import Path

import pytest

from owlt.emulator.faults import EmulatorUnreachable, LeaseHeld
from owlt.emulator.service.client import EmulatorClient
from owlt.orchestrator.checks.doctor import missing_for_plan
from owlt.orchestrator.checks.lab_doctor import examine_lab
from owlt.orchestrator.commands.performing import Performing, Selected, as_typed
from owlt.orchestrator.commands.rig import release
from owlt.orchestrator.errors import Missing, OwltError, ProfileError
from owlt.orchestrator.hosts.host import HostError
from owlt.orchestrator.hosts.host_clock import Offset
from owlt.orchestrator.profiles.catalogue import resolve
from owlt.orchestrator.profiles.inventory import LabHostEntry, LabRig, lab_rig
from owlt.orchestrator.rigs.lab.emulator import (
    LabEmulator,
    Reservation,
    forget_reservation,
    read_reservation,
    write_reservation,
)
from owlt.orchestrator.rigs.lab.ssh_hosts import ManagementHost
from tests.memory.emulator import MemoryEmulator, MemoryTransport
from tests.unit.orchestrator.test_inventory import EMULATOR, EXAMPLE, rack1, with_host

SERVICE = "https://192.0.2.12:8765"
DEMO = EXAMPLE.parents[1] / "sweeps" / "demo.yaml"


def test_clocks_agree_if_the_difference_may_be_the_error_of_the_measurement() -> None:
    assert Offset(5_000_000, 3_000_000).beyond(Offset(1_000_000, 2_000_000)) == 0


def test_a_difference_beyond_the_error_is_the_offset() -> None:
    assert Offset(-9_000_000, 3_000_000).beyond(Offset(1_000_000, 2_000_000)) == -10_000_000


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path


def test_a_reservation_is_found_again_until_it_is_over(cache: Path) -> None:
    write_reservation(Reservation(SERVICE, "secret", time.time() + 60))
    write_reservation(Reservation("https://other:1", "old", time.time() - 1))

    found = read_reservation(SERVICE)
    assert found is not None
    assert (found.lease, 50 < found.seconds_left <= 60) == ("secret", True)
    assert read_reservation("https://other:1") is None


def test_a_reservation_can_be_read_by_its_user_only(cache: Path) -> None:
    old = os.umask(0)
    try:
        write_reservation(Reservation(SERVICE, "secret", time.time() + 60))
    finally:
        os.umask(old)

    (path,) = [each for each in cache.rglob("*") if each.is_file()]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_reservation_can_be_forgotten(cache: Path) -> None:
    write_reservation(Reservation(SERVICE, "secret", time.time() + 60))
    forget_reservation(SERVICE)

    assert read_reservation(SERVICE) is None


def test_a_sweep_on_a_lab_rig_has_the_real_clock_whatever_its_file_says() -> None:
    sweep = resolve(DEMO, in_lab=True).sweep

    assert (sweep.rig, sweep.clock) == ("lab", "real")


def test_captures_at_the_hosts_are_requested_beside_the_rig() -> None:
    assert resolve(DEMO, in_lab=True, host_captures=True).sweep.host_captures
    assert not resolve(DEMO, in_lab=True).sweep.host_captures
    again = as_typed("demo", None, Performing(rig="rack.yaml").words, Selected(), host_captures=True)
    assert again == "owlt run demo --rig rack.yaml --host-captures"


def test_captures_at_the_hosts_are_refused_on_a_rig_of_one_machine(tmp_path: Path) -> None:
    sweep = tmp_path / "sweep.yaml"
    sweep.write_text(DEMO.read_text() + "host_captures: true\n")

    with pytest.raises(ProfileError, match="host_captures: got true, expected a lab rig"):
        resolve(sweep)
    assert resolve(sweep, in_lab=True).sweep.host_captures


def test_a_lab_sweep_without_an_inventory_is_reported_the_option() -> None:
    (mistake,) = missing_for_plan(resolve(DEMO, in_lab=True))

    assert "a lab rig needs an inventory" in str(mistake)
    assert "--rig INVENTORY" in mistake.fix


def test_the_command_that_resumes_a_sweep_names_its_rig() -> None:
    assert (
        as_typed("demo", None, Performing(rig="rack.yaml:one").words, Selected()) == "owlt run demo --rig rack.yaml:one"
    )


def test_hosts_that_cannot_be_reached_are_all_listed_with_the_reason() -> None:
    def connect(entry: LabHostEntry) -> ManagementHost:
        raise HostError(f"{entry.name} does not answer")

    requirements = examine_lab(lab_rig(f"{EXAMPLE}:rack1")[1], connect=connect)

    logins = [each for each in requirements if each.name.endswith(": login")]
    assert [each.detail for each in logins] == [
        f"rack1-{role} does not answer" for role in ("sender", "emulator", "receiver")
    ]
    assert not any(each.found for each in requirements)


def test_a_client_goes_on_with_a_lease_that_another_took() -> None:
    transport = MemoryTransport(MemoryEmulator())
    first, second = (EmulatorClient("http://memory", transport=transport) for _ in range(2))
    lease = first.lease("ada", 60)
    second.adopt(lease)
    second.renew(90)

    assert 60 < second.lease_status()["seconds_left"] <= 90


@pytest.fixture
def rig(cache: Path) -> LabRig:
    """A rig with the token of its emulator."""
    (cache / "token").write_text("a" * 64)
    (cache / "token").chmod(0o600)
    return rack1(cache, with_host(EMULATOR, owlt_service_token_file="token"))


def test_no_lease_lasts_longer_than_that_of_a_session_however_long_a_run_is(rig: LabRig) -> None:
    emulator = LabEmulator(rig.emulator, MemoryTransport(MemoryEmulator()), longest_s=120)
    emulator.lease("sweep", 7200)
    first_s = emulator.lease_status()["seconds_left"]
    emulator.renew(3600)

    assert 110 < first_s <= 120
    assert 110 < emulator.lease_status()["seconds_left"] <= 120


def test_a_reservation_that_the_service_has_lost_does_not_make_the_lease_of_a_sweep_last_longer(rig: LabRig) -> None:
    write_reservation(Reservation(rig.emulator.service, "lost", time.time() + 3600))
    transport = MemoryTransport(MemoryEmulator())
    keeper = LabEmulator(rig.emulator, transport, longest_s=120)
    keeper.adopt(LabEmulator(rig.emulator, transport, longest_s=120).lease("sweep", 120))
    keeper.renew(120)

    assert 110 < keeper.lease_status()["seconds_left"] <= 120


@pytest.fixture
def reserved(rig: LabRig) -> LabEmulator:
    """The emulator of a rig that this user has reserved for an hour."""
    transport = MemoryTransport(MemoryEmulator())
    LabEmulator(rig.emulator, transport).reserve(3600)
    return LabEmulator(rig.emulator, transport)


def test_a_client_by_hand_is_refused_without_the_reserved_lease_and_sends_it_when_adopted(
    reserved: LabEmulator,
) -> None:
    with pytest.raises(LeaseHeld):
        reserved.clear()
    reserved.adopt_reserved()
    reserved.clear()

    assert reserved.lease_status()["seconds_left"] > 3500


def test_a_client_by_hand_takes_no_lease(rig: LabRig) -> None:
    emulator = LabEmulator(rig.emulator, MemoryTransport(MemoryEmulator()))
    emulator.adopt_reserved()
    emulator.clear()

    assert not emulator.lease_status()["held"]


def test_a_sweep_does_not_shorten_a_reserved_lease(reserved: LabEmulator) -> None:
    reserved.lease("sweep", 60)
    reserved.renew(90)

    assert reserved.lease_status()["seconds_left"] > 3500


def test_a_sweep_may_be_longer_than_the_reserved_lease(reserved: LabEmulator) -> None:
    reserved.lease("sweep", 7200)

    assert reserved.lease_status()["seconds_left"] > 7100


def test_a_lease_that_is_reserved_for_longer_while_a_sweep_runs_stays_so(rig: LabRig) -> None:
    transport = MemoryTransport(MemoryEmulator())
    LabEmulator(rig.emulator, transport).reserve(60)
    sweep = LabEmulator(rig.emulator, transport, longest_s=120)
    sweep.lease("sweep", 120)

    LabEmulator(rig.emulator, transport).reserve(3600)
    sweep.renew(120)

    assert sweep.lease_status()["seconds_left"] > 3500


def test_a_user_may_shorten_the_reserved_lease(reserved: LabEmulator) -> None:
    reserved.reserve(60)

    assert reserved.lease_status()["seconds_left"] <= 60


class UnreachableEmulator(EmulatorClient):
    """A client whose emulator is switched off."""

    def release(self) -> None:
        raise EmulatorUnreachable("http://memory does not answer")


def test_a_release_without_the_emulator_is_refused_and_keeps_the_reservation(
    cache: Path,
) -> None:
    service = lab_rig(f"{EXAMPLE}:rack1")[1].emulator.service
    write_reservation(Reservation(service, "secret", time.time() + 60))
    client = UnreachableEmulator("http://memory", transport=MemoryTransport(MemoryEmulator()))

    with pytest.raises(OwltError, match="rack1 cannot be released: http://memory does not answer"):
        release(lab_rig(f"{EXAMPLE}:rack1")[1], lambda _rig: client)

    assert read_reservation(service) is not None


@pytest.mark.parametrize("text", [None, "no certificate"])
def test_a_certificate_that_cannot_be_read_is_named(text: str | None, cache: Path) -> None:
    files = {"owlt_service_token_file": "token", "owlt_service_ca": "ca.pem"}
    rig = rack1(cache, with_host(EMULATOR, **files))
    (cache / "token").write_text("a" * 64)
    (cache / "token").chmod(0o600)
    if text is not None:
        (cache / "ca.pem").write_text(text)

    with pytest.raises(Missing, match=f"owlt_service_ca: {cache / 'ca.pem'}: "):
        LabEmulator(rig.emulator)
