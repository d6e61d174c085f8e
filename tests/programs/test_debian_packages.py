"""The program that installs Debian packages, beside substitutes for apt-get and dpkg-query."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from owlt.installation import DEBIAN_PACKAGES

APT = """#!/bin/bash
case "$*" in
    *-s*) cat "$0.simulated" 2>/dev/null || echo "Inst tshark (4.0.17 Debian:12 [amd64])"; exit 0 ;;
    *APT::Status-Fd=1*) ;;
esac
echo "$*" >>"$0.calls"
echo "dlstatus:1:20.0000:Retrieving file 1 of 1"
echo "Reading package lists..."
case "$*" in *" install "*) [ ! -e "$0.fails" ] || { echo "E: Unable to fetch some archives"; exit 100; } ;; esac
"""
DPKG = """#!/bin/bash
for name in "${@:4}"; do [ "$name" = tshark ] || printf 'ii :%s ' "$name"; done
"""


@dataclass(frozen=True)
class Machine:
    """A machine on which only tshark is missing; `programs` has its apt-get, and what that was called with."""

    programs: Path
    cache: Path

    def run(self, *options: str) -> subprocess.CompletedProcess[str]:
        environment = os.environ | {
            "PATH": f"{self.programs}:{os.environ['PATH']}",
            "XDG_CACHE_HOME": str(self.cache),
            "SUDO": "env",
        }
        return subprocess.run(
            ["bash", DEBIAN_PACKAGES, *options], env=environment, capture_output=True, text=True, check=False
        )

    @property
    def calls(self) -> list[str]:
        path = self.programs / "apt-get.calls"
        return path.read_text().splitlines() if path.exists() else []

    @property
    def log(self) -> str:
        return (self.cache / "owlt" / "debian-packages.log").read_text()

    def simulates(self, text: str) -> None:
        (self.programs / "apt-get.simulated").write_text(text)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    programs = tmp_path / "programs"
    programs.mkdir()
    for name, text in (("apt-get", APT), ("dpkg-query", DPKG)):
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)
    return Machine(programs, tmp_path / "cache")


def test_missing_packages_are_listed_and_nothing_is_installed(machine: Machine) -> None:
    assert machine.run("--missing").stdout == "tshark\n"
    assert machine.calls == []


def test_what_apt_prints_is_in_the_log_and_the_terminal_has_one_line(machine: Machine) -> None:
    done = machine.run()

    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr.splitlines() == [
        f"owlt: installing 1 Debian packages (log: {machine.cache}/owlt/debian-packages.log): tshark"
    ]
    assert [call.split()[-1] for call in machine.calls] == ["update", "tshark"]
    assert "Reading package lists..." in machine.log
    assert "dlstatus" not in machine.log


def test_upgrades_of_installed_packages_are_announced(machine: Machine) -> None:
    machine.simulates("Inst libc6 [2.36-8] (2.36-9 Debian:12 [amd64])\nInst tshark (4.0.17 Debian:12 [amd64])\n")

    assert "newer versions of packages that are installed: libc6 2.36-8 -> 2.36-9\n" in machine.run().stderr


def test_an_installation_that_would_remove_packages_is_left_to_the_user(machine: Machine) -> None:
    machine.simulates("Remv nullmailer [1:2.2]\nInst tshark (4.0.17 Debian:12 [amd64])\n")
    done = machine.run()

    assert done.returncode == 2
    assert "would remove installed packages: nullmailer; next: as root, run: apt-get install" in done.stderr
    assert [call.split()[-1] for call in machine.calls] == ["update"]


def test_a_failure_has_apts_reason_and_the_next_step(machine: Machine) -> None:
    (machine.programs / "apt-get.fails").touch()
    done = machine.run()

    assert done.returncode == 2
    assert done.stderr.splitlines()[-2] == "E: Unable to fetch some archives"
    assert "installing packages failed; next: see " in done.stderr


def test_packages_for_tests_are_installed_for_tests_alone(machine: Machine) -> None:
    (machine.programs / "dpkg-query").write_text("#!/bin/sh\nexit 1\n")  # nothing is installed
    needed, of_clone, with_tests = (
        set(machine.run(*options, "--missing").stdout.split()) for options in ((), ("--clone",), ("--tests",))
    )
    of_tests = {"sudo", "rsync", "librpc-xml-perl", "systemd"}

    assert not of_tests & of_clone
    assert of_tests <= with_tests
    assert needed < of_clone < with_tests
