"""What `owlt-tune` sets on a host, in a directory with files like those of the kernel; PTP and chrony."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from jinja2 import Environment, FileSystemLoader

ROLE = Path(__file__).parents[3] / "playbooks" / "roles" / "host"
PROGRAM = ROLE / "files" / "owlt-tune"
MAC = "0c:42:a1:00:00:07"
POLICY = "sys/devices/system/cpu/cpufreq/policy0"
AS_IT_SHOULD_BE, DIFFERS = 0, 1


class Machine:
    """Four processors, a virtual interface, and a card close to processors 2 and 3 with three interrupts."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.write(f"{POLICY}/scaling_governor", "powersave")
        self.write(f"{POLICY}/scaling_available_governors", "performance powersave")
        self.write("sys/devices/system/cpu/online", "0-3")
        self.write("sys/class/net/enp3s0/address", MAC)
        self.write("sys/class/net/enp3s0/device/local_cpulist", "2-3")
        self.write("sys/class/net/veth0/address", "02:00:00:00:00:01")
        self.write("run/other", "")
        for number in (98, 99, 100):
            self.write(f"sys/class/net/enp3s0/device/msi_irqs/{number}", "msix")
            self.write(f"proc/irq/{number}/smp_affinity_list", "0-3")

    def write(self, path: str, text: str) -> None:
        (self._directory / path).parent.mkdir(parents=True, exist_ok=True)
        (self._directory / path).write_text(f"{text}\n")

    def remove(self, path: str) -> None:
        (self._directory / path).unlink()

    @property
    def governor(self) -> str:
        return (self._directory / POLICY / "scaling_governor").read_text().strip()

    @property
    def affinities(self) -> list[str]:
        """Of the interrupts 98, 99 and 100."""
        places = (self._directory / f"proc/irq/{number}/smp_affinity_list" for number in (98, 99, 100))
        return [place.read_text().strip() for place in places]

    def tune(self, *words: str) -> subprocess.CompletedProcess[str]:
        environment = os.environ | {"ROOT": str(self._directory)}
        return subprocess.run([PROGRAM, *words], env=environment, capture_output=True, text=True, check=False)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_the_governor_is_set_and_interrupts_are_spread_over_the_processors_close_to_the_card(machine: Machine) -> None:
    machine.tune("apply", "performance", "card", "enp3s0")

    assert machine.governor == "performance"
    assert machine.affinities == ["2", "3", "2"]


@pytest.mark.parametrize("interface", ["enp3s0", MAC])
def test_interrupts_are_spread_over_the_given_processors_in_their_order(machine: Machine, interface: str) -> None:
    machine.tune("apply", "performance", "3,0-1", interface)

    assert machine.affinities == ["3", "0", "1"]


def test_a_check_changes_nothing_and_names_what_differs(machine: Machine) -> None:
    done = machine.tune("check", "performance", "card", "enp3s0")

    assert done.returncode == DIFFERS
    assert f"/{POLICY}/scaling_governor: powersave, expected performance" in done.stdout.splitlines()
    assert "/proc/irq/99/smp_affinity_list: 0-3, expected 3" in done.stdout.splitlines()
    assert (machine.governor, machine.affinities) == ("powersave", ["0-3"] * 3)


def test_after_it_was_applied_nothing_differs_until_something_is_changed(machine: Machine) -> None:
    machine.tune("apply", "performance", "card", "enp3s0")
    same = machine.tune("check", "performance", "card", "enp3s0")
    machine.write("proc/irq/100/smp_affinity_list", "0")
    other = machine.tune("check", "performance", "card", "enp3s0")

    assert (same.returncode, same.stdout) == (AS_IT_SHOULD_BE, "")
    assert (other.returncode, other.stdout) == (DIFFERS, "/proc/irq/100/smp_affinity_list: 0, expected 2\n")


def test_what_was_there_before_is_restored_however_often_it_was_applied(machine: Machine) -> None:
    machine.write("proc/irq/98/smp_affinity_list", "1")
    machine.tune("apply", "performance", "card", "enp3s0")
    machine.tune("apply", "performance", "0", "enp3s0")
    machine.tune("restore", "performance", "0", "enp3s0")

    assert (machine.governor, machine.affinities) == ("powersave", ["1", "0-3", "0-3"])


def test_a_machine_without_cpufreq_is_skipped_in_words(machine: Machine) -> None:
    machine.remove(f"{POLICY}/scaling_governor")
    done = machine.tune("check", "performance", "card")

    assert (done.returncode, done.stdout) == (
        AS_IT_SHOULD_BE,
        "skipped: frequency governor: this machine has no cpufreq\n",
    )


def test_a_governor_that_the_processor_does_not_have_is_skipped_with_those_that_it_has(machine: Machine) -> None:
    machine.write(f"{POLICY}/scaling_available_governors", "schedutil ondemand")
    done = machine.tune("apply", "performance", "keep")

    assert done.stdout == "skipped: policy0: no governor performance; it has schedutil ondemand\n"
    assert machine.governor == "powersave"


@pytest.mark.parametrize(
    ("interface", "reason"),
    [("veth0", "it has no interrupts of its own"), ("enp9s0", "no such interface here; an open session has it")],
)
def test_an_interface_without_interrupts_is_skipped_in_words(machine: Machine, interface: str, reason: str) -> None:
    done = machine.tune("check", "keep", "card", interface)

    assert (done.returncode, done.stdout) == (AS_IT_SHOULD_BE, f"skipped: {interface}: {reason}\n")


def test_what_is_to_be_kept_is_left_as_it_is(machine: Machine) -> None:
    machine.tune("apply", "keep", "keep", "enp3s0")

    assert (machine.governor, machine.affinities) == ("powersave", ["0-3"] * 3)


def rendered(name: str, **variables: object) -> str:
    environment = Environment(loader=FileSystemLoader(ROLE / "templates"), keep_trailing_newline=True)
    return environment.get_template(name).render(**variables)


def test_the_emulator_is_preferred_as_grandmaster_to_the_hosts_and_a_clock_of_the_network_to_both() -> None:
    written = {
        role: rendered("ptp4l.conf.j2", owlt_role=role, owlt_ptp_interface="eno1", host_ptp_stamps="hardware")
        for role in ("sender", "emulator")
    }

    assert "priority1 200" in written["emulator"].splitlines()
    assert "priority1 255" in written["sender"].splitlines()
    assert [text.splitlines()[-1] for text in written.values()] == ["[eno1]"] * 2


def test_only_the_emulators_system_clock_may_be_the_source_of_its_card() -> None:
    commands = {role: rendered("owlt-phc2sys.service.j2", owlt_role=role) for role in ("emulator", "receiver")}

    assert "ExecStart=/usr/sbin/phc2sys -a -r -r -n 0" in commands["emulator"].splitlines()
    assert "ExecStart=/usr/sbin/phc2sys -a -r -n 0" in commands["receiver"].splitlines()


def chrony(role: str, source: str) -> list[str]:
    clients = ["192.0.2.11", "192.0.2.13"]
    return rendered("chrony.conf.j2", owlt_role=role, owlt_time_source=source, owlt_time_clients=clients).splitlines()


def test_the_emulator_serves_its_time_to_the_other_hosts_of_the_rig_and_to_no_others() -> None:
    lines = chrony("emulator", "192.0.2.12")

    assert "local stratum 10" in lines
    assert [line for line in lines if line.startswith("allow")] == ["allow 192.0.2.11", "allow 192.0.2.13"]
    assert not any(line.startswith("server") for line in lines)


@pytest.mark.parametrize(("source", "servers"), [("192.0.2.12", ["192.0.2.12"]), ("", [])])
def test_a_host_follows_the_emulator_unless_that_has_no_chrony(source: str, servers: list[str]) -> None:
    lines = chrony("sender", source)

    assert [line.split()[1] for line in lines if line.startswith("server ")] == servers
    assert not any(line.startswith(("allow", "local")) for line in lines)


@pytest.mark.parametrize("role", ["sender", "emulator"])
def test_a_clock_is_set_at_the_start_of_chrony_only(role: str) -> None:
    (steps,) = [line.split() for line in chrony(role, "192.0.2.12") if line.startswith("makestep")]

    assert int(steps[2]) == 3, "the first measurements; a negative number: always"
