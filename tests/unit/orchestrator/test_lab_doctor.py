"""What the doctor of a lab rig concludes, and which of it stops a sweep. No host is asked."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import cast

import pytest

from owlt.emulator.service.access import API
from owlt.emulator.service.client import EmulatorClient
from owlt.orchestrator.checks.doctor import Requirement
from owlt.orchestrator.checks.lab_doctor import (
    BUFFER_SETTINGS,
    capability_requirements,
    conclusion,
    congestion_controls,
    emulator_capabilities,
    examine_test_interface,
    in_use,
    lease_requirement,
    other_session,
    service_requirement,
    socket_buffers,
)
from owlt.orchestrator.commands.output import Printer, print_requirements
from owlt.orchestrator.hosts.host import Completed, Host
from owlt.orchestrator.profiles.catalogue import find_implementation
from owlt.orchestrator.profiles.inventory import LabRig, lab_rig
from owlt.orchestrator.rigs.lab.interfaces import Interface
from tests.memory.emulator import MemoryEmulator, memory_client
from tests.unit.orchestrator.test_inventory import EXAMPLE

FILE = "".join(f"{name} = 16777216\n" for name in BUFFER_SETTINGS)
SMALL = [212992, 212992]


@pytest.fixture
def rig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LabRig:
    """A rig without a reservation of this user."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return lab_rig(f"{EXAMPLE}:rack1")[1]


@pytest.fixture
def emulator() -> EmulatorClient:
    return memory_client(MemoryEmulator(missing={"netem": "no module"}))


@pytest.mark.parametrize(("api", "is_met"), [(API - 1, False), (API, True), (API + 1, True)])
def test_an_older_service_stops_a_sweep(rig: LabRig, api: int, is_met: bool) -> None:
    requirement = service_requirement(rig.emulator, {"owlt": "0.1.0", "api": api, "kernel": "6.1"})

    assert (requirement.stops_sweeps, "owlt rig provision" in requirement.fix) == (not is_met, not is_met)


def interface(rig: LabRig, **changes: object) -> Interface:
    there = Interface(rig.sender.test_interface, "02:00:00:00:00:01", (), (), True, True, 1500, "")
    return dataclasses.replace(there, **changes)  # type: ignore[arg-type]


def test_while_somebody_else_has_the_lease_nothing_else_is_said(rig: LabRig, emulator: EmulatorClient) -> None:
    emulator.lease("ada@lab: owlt", 120)
    lease = lease_requirement(rig.emulator, emulator)
    missing = Requirement("rack1-sender: disk", False, "full", "the sender", "free some")

    (mistake,) = in_use([missing, other_session(rig.sender, 90), lease])

    assert mistake.problem.startswith("rack1-emulator: lease: ada@lab: owlt, for 1")


def test_while_a_session_is_open_nothing_else_is_said(rig: LabRig, emulator: EmulatorClient) -> None:
    missing = Requirement("rack1-sender: disk", False, "full", "the sender", "free some")

    (mistake,) = in_use([missing, other_session(rig.sender, 90), lease_requirement(rig.emulator, emulator)])

    assert mistake.problem == "rack1-sender: no other session: one is open, 90 s of its lease are left"


def test_an_idle_rig_is_not_in_use(rig: LabRig, emulator: EmulatorClient) -> None:
    missing = Requirement("rack1-sender: disk", False, "full", "the sender", "free some")

    assert in_use([missing, other_session(rig.sender, None), lease_requirement(rig.emulator, emulator)]) == []


def test_an_interface_that_a_session_has_is_not_called_a_mistake_of_the_inventory(rig: LabRig) -> None:
    other = interface(rig, name="mgmt0")

    (without_session,) = examine_test_interface(rig.sender, [other], in_session=False)

    assert without_session.fix == "correct owlt_test_interface"
    assert list(examine_test_interface(rig.sender, [other], in_session=True)) == []


@pytest.mark.parametrize(
    ("is_up", "has_carrier", "expected"),
    [
        (True, True, "MTU 1500, link"),
        (True, False, "MTU 1500, no link"),
        (False, False, "MTU 1500, down: owlt raises it for a run"),
    ],
)
def test_an_interface_that_is_down_is_not_said_to_be_without_a_link(
    rig: LabRig, is_up: bool, has_carrier: bool, expected: str
) -> None:
    (found,) = examine_test_interface(rig.sender, [interface(rig, is_up=is_up, has_carrier=has_carrier)], False)

    assert found.found
    assert found.detail.endswith(expected)


def test_small_buffers_limit_a_sweep_and_do_not_stop_it(rig: LabRig) -> None:
    small = socket_buffers(rig.sender, SMALL, "")

    assert not small.found
    assert not small.stops_sweeps
    assert small.fix.startswith("write 'net.core.rmem_max = 16777216'")
    assert socket_buffers(rig.sender, [16_777_216] * 2, "").found


def test_what_provisioning_has_written_is_not_to_be_written_again(rig: LabRig) -> None:
    small = socket_buffers(rig.sender, SMALL, FILE)

    assert "/etc/sysctl.d/90-owlt.conf has 16777216" in small.detail
    assert "the kernel refuses them, as in a container" in small.fix
    assert "write" not in small.fix


def test_the_conclusion_says_what_is_not_possible(rig: LabRig, emulator: EmulatorClient) -> None:
    examined = [*capability_requirements(rig.emulator, emulator), other_session(rig.sender, None)]

    assert conclusion(examined) == (
        "1 of 3 missing: none of them stops 'owlt run'; but channels with a delay, a rate, or packet errors, losses or "
        "duplicates are not possible"
    )


def test_the_conclusion_names_what_stops_a_sweep(rig: LabRig) -> None:
    missing = Requirement("rack1-sender: disk", False, "full", "the sender", "free some")

    text = conclusion([missing, socket_buffers(rig.sender, SMALL, "")])

    assert text.startswith("2 of 2 missing: 'owlt run' does not start without rack1-sender: disk; but implementations")
    assert conclusion([other_session(rig.sender, None)]) == "0 of 1 missing"


def test_what_only_limits_a_sweep_has_a_word_of_its_own(rig: LabRig, capsys: pytest.CaptureFixture[str]) -> None:
    missing = Requirement("rack1-sender: disk", False, "full", "the sender", "free some")
    print_requirements(
        Printer(False), [missing, socket_buffers(rig.sender, SMALL, ""), other_session(rig.sender, None)]
    )

    words = [line.split()[0] for line in capsys.readouterr().out.splitlines() if not line.startswith(" ")]
    assert words == ["missing", "limited", "ok"]


def test_an_emulator_that_does_not_answer_has_no_capabilities(rig: LabRig, emulator: EmulatorClient) -> None:
    capabilities = emulator_capabilities(rig.emulator, lambda entry: emulator)

    assert capabilities is not None
    assert capabilities["netem"] == {"available": False, "reason": "no module"}
    assert emulator_capabilities(rig.emulator) is None  # there is no token


class Sender:
    """A host whose kernel has these congestion controls, or does not tell."""

    def __init__(self, output: bytes, exit_status: int) -> None:
        self.done = Completed(exit_status, output, b"")

    def run(self, command: Sequence[str]) -> Completed:
        return self.done


def test_a_congestion_control_that_the_senders_kernel_does_not_have_stops_a_sweep(rig: LabRig) -> None:
    tcp = {"tcp": find_implementation("tcp")}

    [missing] = congestion_controls(rig.sender, cast(Host, Sender(b"reno\nbbr\n", 0)), tcp)

    assert missing.stops_sweeps
    assert missing.detail == "tcp: congestion_control cubic is not in its kernel, expected one of bbr, reno"
    assert [*congestion_controls(rig.sender, cast(Host, Sender(b"reno cubic\n", 0)), tcp)] == []
    assert [*congestion_controls(rig.sender, cast(Host, Sender(b"", 1)), tcp)] == []
