"""Where a guest's memory is kept: a /dev/shm of its own, in huge pages."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from owlt.orchestrator.rigs.guest import MEMORY_DIRECTORY, in_huge_pages
from tests.conftest import require

MOUNTING = "mount -t tmpfs -o huge=always owlt-test /dev/shm"


@pytest.fixture
def mounting() -> None:
    can_mount = subprocess.run(["unshare", "--mount", "sh", "-c", MOUNTING], capture_output=True, check=False)
    require(can_mount.returncode == 0, "root that can mount a tmpfs of huge pages")


def printed(command: list[str]) -> str:
    return subprocess.run(in_huge_pages(command), capture_output=True, text=True, check=True).stdout


@pytest.mark.usefixtures("mounting")
def test_the_memory_of_a_guest_is_in_huge_pages() -> None:
    shown = printed(["findmnt", "-no", "SOURCE,FSTYPE,OPTIONS", MEMORY_DIRECTORY]).splitlines()[-1]

    assert shown.split()[:2] == ["owlt-guests", "tmpfs"]
    assert "huge=always" in shown


@pytest.mark.usefixtures("mounting")
def test_the_machine_keeps_its_own_file_system_there() -> None:
    printed(["touch", f"{MEMORY_DIRECTORY}/owlt-test-of-guest-memory"])

    assert "owlt-guests" not in Path("/proc/self/mounts").read_text()
    assert not Path(MEMORY_DIRECTORY, "owlt-test-of-guest-memory").exists()


@pytest.mark.usefixtures("mounting")
def test_without_the_capability_to_mount_a_guest_has_the_machines_file_system() -> None:
    shown = ["findmnt", "-no", "SOURCE", MEMORY_DIRECTORY]
    bounded = ["setpriv", "--bounding-set=-sys_admin", "--inh-caps=-all", *in_huge_pages(shown)]

    assert "owlt-guests" not in subprocess.run(bounded, capture_output=True, text=True, check=True).stdout


def test_arguments_and_exit_status_are_those_of_the_command() -> None:
    assert printed(["printf", "%s,", "one", "and two", "$3"]) == "one,and two,$3,"
    assert subprocess.run(in_huge_pages(["sh", "-c", "exit 7"]), check=False).returncode == 7
