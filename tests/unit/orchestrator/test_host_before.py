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

    def before(self, verb: str, *interfaces: str) -> None:
        path = f"{self._programs}:{os.environ['PATH']}"
        environment = os.environ | {"ROOT": str(self._root), "STATE": str(self._state), "PATH": path}
        subprocess.run([PROGRAM, verb, SYSCTLS, *interfaces], env=environment, check=True)

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
