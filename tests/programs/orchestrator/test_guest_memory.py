"""Where a guest's memory is kept: a /dev/shm of its own, in huge pages."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from orchestrator.rigs.guest import MEMORY_DIRECTORY, in_huge_pages
from tests.conftest import require


@pytest.fixture(autouse=True)
def as_root() -> None:
    require(os.geteuid() == 0, "root: mount namespaces")


def printed(command: list[str]) -> str:
    return subprocess.run(in_huge_pages(command), capture_output=True, text=True, check=True).stdout


def mounted_here() -> str:
    return Path("/proc/self/mounts").read_text()


def test_the_memory_of_a_guest_is_in_huge_pages() -> None:
    shown = printed(["findmnt", "-no", "SOURCE,FSTYPE,OPTIONS", MEMORY_DIRECTORY]).splitlines()[-1]

    assert shown.split()[:2] == ["owlt-guests", "tmpfs"]
    assert "huge=always" in shown


def test_the_machine_keeps_its_own_file_system_there() -> None:
    before = mounted_here()

    printed(["touch", f"{MEMORY_DIRECTORY}/owlt-test-of-guest-memory"])

    assert mounted_here() == before
    assert not Path(MEMORY_DIRECTORY, "owlt-test-of-guest-memory").exists()


def test_arguments_and_exit_status_are_those_of_the_command() -> None:
    assert printed(["printf", "%s,", "one", "and two", "$3"]) == "one,and two,$3,"
    assert subprocess.run(in_huge_pages(["sh", "-c", "exit 7"]), check=False).returncode == 7
