"""What `owlt-before` records of a host before it is provisioned, and restores; programs of the host are stand-ins."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parents[3] / "playbooks" / "roles" / "host" / "files" / "owlt-before"
SYSCTLS = "net.core.rmem_max,net.core.wmem_max"
STAND_INS = {
    # is-active, is-enabled and show read the file of a unit, start and stop, enable and disable write it
    "systemctl": """case $* in
  show*) for last; do :; done; [ -e "$STATE/$last" ] && echo loaded || echo not-found ;;
  is-active*) cat "$STATE/$2" ;;
  is-enabled*) cat "$STATE/$2.boot" ;;
  start*) echo active >"$STATE/$2" ;;
  stop*) echo inactive >"$STATE/$2" ;;
  enable*) echo enabled >"$STATE/$3.boot"; echo linked >"$STATE/links" ;;
  disable*) echo disabled >"$STATE/$3.boot" ;;
esac""",
    "sysctl": """case $1 in
  -n) cat "$STATE/$2" ;;
  -q) echo "${3#*=}" >"$STATE/${3%%=*}" ;;
esac""",
    "ip": """case $* in
  "-oneline link show") echo "2: port0@if3: <BROADCAST> mtu 1500 link/ether 0c:42:a1:00:00:07 brd ff:ff" ;;
  "link show dev port0") ;;
  "-oneline link show dev port0 up") [ "$(cat "$STATE/link")" = down ] || echo "2: port0: <UP>" ;;
  "link set dev port0 down") echo down >"$STATE/link" ;;
  *) exit 1 ;;
esac""",
    "ethtool": """case $1 in
  -k) cat "$STATE/features" ;;
  -K) sed -i "s/^\\(\\t*$3\\): .*/\\1: $4/" "$STATE/features" ;;
esac""",
}
FEATURES = """Features for port0:
tx-checksumming: on
\ttx-checksum-ipv4: on
large-receive-offload: off [fixed]
rx-gro: off
"""


class Machine:
    """A host with one port, two kernel settings, and irqbalance, which runs and is started at each boot."""

    def __init__(self, directory: Path) -> None:
        self._root, self._state, self._programs = (directory / name for name in ("root", "state", "bin"))
        for place in (self._root / "etc" / "systemd" / "system", self._state, self._programs):
            place.mkdir(parents=True)
        for name, lines in STAND_INS.items():
            (self._programs / name).write_text(f"#!/bin/sh\n{lines}\n")
            (self._programs / name).chmod(0o755)
        self.set(**{"irqbalance.service": "active", "irqbalance.service.boot": "enabled", "link": "down"})
        self.set(**{"net.core.rmem_max": "212992", "net.core.wmem_max": "212992"})
        (self._state / "features").write_text(FEATURES)

    def set(self, **values: str) -> None:
        for name, value in values.items():
            (self._state / name).write_text(f"{value}\n")

    def state(self) -> dict[str, str]:
        return {path.name: path.read_text() for path in self._state.iterdir()}

    def path(self, name: str) -> Path:
        return self._root / name

    def before(self, verb: str, *interfaces: str) -> list[str]:
        """The lines that the program prints."""
        path = f"{self._programs}:{os.environ['PATH']}"
        environment = os.environ | {"ROOT": str(self._root), "STATE": str(self._state), "PATH": path}
        command = [str(PROGRAM), verb, SYSCTLS, *interfaces]
        return subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout.splitlines()

    def add(self, *names: str) -> None:
        """Files, with their directories."""
        for name in names:
            self.path(name).parent.mkdir(parents=True, exist_ok=True)
            self.path(name).touch()

    def opt(self) -> frozenset[str]:
        """The files in /opt."""
        files = (path for path in self.path("opt").rglob("*") if path.is_file())
        return frozenset(str(path.relative_to(self._root)) for path in files)

    def busy(self, name: str) -> None:
        """A path that cannot be deleted, such as a mount point."""
        lines = f"""for last; do :; done
[ "$last" != "{self.path(name)}" ] || {{ echo "rm: cannot remove '$last': Device or resource busy" >&2; exit 1; }}
exec /bin/rm "$@"
"""
        (self._programs / "rm").write_text(f"#!/bin/sh\n{lines}")
        (self._programs / "rm").chmod(0o755)

    def is_no_longer_busy(self) -> None:
        (self._programs / "rm").unlink()

    def provision(self) -> None:
        """What the playbook changes."""
        self.set(**{"irqbalance.service": "inactive", "link": "up", "net.core.rmem_max": "16777216"})
        (self._state / "features").write_text(FEATURES.replace(": on", ": off"))
        (self.path("etc/linuxptp")).mkdir()
        (self.path("etc/sysctl.d")).mkdir()
        self.path("etc/sysctl.d/90-owlt.conf").touch()


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


@pytest.mark.parametrize("port", ["port0", "0c:42:a1:00:00:07"])
def test_what_provisioning_changed_is_restored(machine: Machine, port: str) -> None:
    found = machine.state()
    machine.before("services")
    machine.before("network", port)
    machine.provision()
    changed = machine.state()
    machine.path("etc/sysctl.d/90-owlt.conf").unlink()
    machine.before("restore")

    assert changed != found
    assert machine.state() == found
    assert not machine.path("etc/linuxptp").exists()


def test_a_directory_with_files_of_others_stays(machine: Machine) -> None:
    machine.before("services")
    machine.provision()
    machine.path("etc/linuxptp/ptp4l.conf").touch()
    machine.before("restore")

    assert machine.path("etc/linuxptp/ptp4l.conf").exists()


def test_a_daemon_that_was_not_running_and_not_enabled_is_neither_afterwards(machine: Machine) -> None:
    machine.set(**{"irqbalance.service": "inactive", "irqbalance.service.boot": "disabled"})
    found = machine.state()
    machine.before("services")
    machine.set(**{"irqbalance.service": "active", "irqbalance.service.boot": "enabled"})
    machine.before("restore")

    assert machine.state() == found


def test_what_was_recorded_first_counts(machine: Machine) -> None:
    found = machine.state()
    for _ in range(2):
        machine.before("services")
        machine.before("network", "port0")
        if machine.state() == found:
            machine.provision()
    machine.before("restore")

    assert machine.state() == found


def test_nothing_is_restored_on_a_host_that_was_provisioned_before_there_was_a_record(machine: Machine) -> None:
    machine.provision()
    provisioned = machine.state()
    machine.before("services")
    machine.before("network", "port0")
    machine.before("restore")

    assert machine.state() == provisioned


def test_a_daemon_that_is_as_it_was_is_not_enabled_again(machine: Machine) -> None:
    """systemctl(1) may add links then that the unit did not have."""
    machine.before("services")
    machine.before("restore")
    same = "links" in machine.state()
    machine.before("services")
    machine.set(**{"irqbalance.service.boot": "disabled"})
    machine.before("restore")

    assert not same
    assert "links" in machine.state()


NAMES = ("bin/python", "lib/module", "source/agents", "source.tar", "installed.tar")
INSTALLED = [f"opt/owlt/{name}" for name in NAMES]


def test_the_owlt_that_provisioning_installed_is_deleted(machine: Machine) -> None:
    machine.before("programs")
    machine.add(*INSTALLED, "etc/owlt/token")
    machine.before("delete")

    assert not machine.path("opt/owlt").exists()
    assert not machine.path("etc/owlt").exists()
    assert not machine.path("var/lib/owlt").exists()


def test_an_owlt_that_provisioning_did_not_install_stays(machine: Machine) -> None:
    machine.add("opt/owlt/bin/python", "opt/owlt/lib/module")
    machine.before("services")
    machine.before("delete")

    assert machine.opt() == {"opt/owlt/bin/python", "opt/owlt/lib/module"}


def test_of_a_directory_that_was_there_before_only_what_was_installed_is_deleted(machine: Machine) -> None:
    machine.add("opt/owlt/bin/python", "opt/owlt/mine")
    machine.before("programs")
    machine.add(*INSTALLED)
    lines = machine.before("delete")

    assert machine.opt() == {"opt/owlt/bin/python", "opt/owlt/mine"}
    assert "stays /opt/owlt: it was there before owlt was installed" in lines


def test_third_party_programs_stay_and_are_named(machine: Machine) -> None:
    machine.before("programs")
    machine.add(*INSTALLED, "opt/owlt/third-party/mine/sender")
    lines = machine.before("delete")

    assert machine.opt() == {"opt/owlt/third-party/mine/sender"}
    assert "stays /opt/owlt: owlt did not install what is in it: third-party" in lines


def test_of_the_directory_of_the_secrets_only_those_are_deleted_that_provisioning_made(machine: Machine) -> None:
    machine.before("programs")
    machine.add(
        "etc/owlt/token",
        "etc/owlt/ca-key.pem",
        "etc/owlt/new/key.pem",
        "etc/owlt/new.X1yZ90/ca-key.pem",
        "etc/owlt/certificate-of-the-site.pem",
    )
    lines = machine.before("delete")

    assert [path.name for path in machine.path("etc/owlt").iterdir()] == ["certificate-of-the-site.pem"]
    assert "stays /etc/owlt: owlt did not install what is in it: certificate-of-the-site.pem" in lines


def test_the_owlt_that_an_earlier_version_installed_is_deleted_without_third_party_programs(machine: Machine) -> None:
    machine.add(*INSTALLED, "opt/owlt/third-party/mine/sender")
    machine.before("delete")

    assert machine.opt() == {"opt/owlt/third-party/mine/sender"}


def test_an_update_of_what_an_earlier_version_installed_records_it_as_installed(machine: Machine) -> None:
    machine.add(*INSTALLED, "etc/sysctl.d/90-owlt.conf")
    machine.before("programs")
    machine.before("delete")

    assert not machine.path("opt/owlt").exists()


def test_what_cannot_be_deleted_is_named_and_deleted_by_the_next_removal(machine: Machine) -> None:
    machine.before("programs")
    machine.add(*INSTALLED, "etc/owlt/token")
    machine.busy("opt/owlt/lib")
    first = machine.before("delete")
    others_are_deleted = not machine.path("etc/owlt").exists() and not machine.path("opt/owlt/source").exists()
    machine.is_no_longer_busy()
    second = machine.before("delete")

    (left,) = [line for line in first if line.startswith("left /opt/owlt/lib: ")]
    assert left.endswith("Device or resource busy")
    assert others_are_deleted
    assert not [line for line in second if line.startswith("left ")]
    assert not machine.path("opt/owlt").exists()
    assert not machine.path("var/lib/owlt").exists()


def test_a_restored_state_does_not_lose_what_was_installed(machine: Machine) -> None:
    machine.before("services")
    machine.before("programs")
    machine.add(*INSTALLED)
    machine.before("restore")
    machine.before("delete")

    assert not machine.path("opt/owlt").exists()


def test_check_mode_prints_what_would_be_deleted_and_deletes_nothing(machine: Machine) -> None:
    machine.before("programs")
    machine.add(*INSTALLED, "etc/owlt/token")
    found = machine.opt()
    lines = machine.before("deletions")

    assert machine.opt() == found
    assert {"deleted /opt/owlt/source", "deleted /opt/owlt", "deleted /etc/owlt"} <= set(lines)
