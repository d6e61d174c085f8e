"""What compiles third-party implementations and kernels as root cannot change the machine's devices.

The tests run where /dev is not the machine's either, so that a failure does no harm.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from owlt.orchestrator.hosts.mount_namespace import with_own_devices
from tests.conftest import require
from tests.system.sweeps import PROJECT

SPOILS = [
    "chmod 444 /dev/null",
    "rm -f /dev/null",
    "mv /etc/hostname /dev/null",
    "install -m 444 /etc/hostname /dev/null",
    "ln -sf /etc/hostname /dev/null",
    "mknod /dev/null2 c 1 3 && mv /dev/null2 /dev/null",
]
FAKE_DEV = """mount -t tmpfs owlt-test /dev && mknod -m 666 /dev/null c 1 3 && "$@"; stat -c '%F %a' /dev/null"""


def in_fake_dev(command: list[str]) -> list[str]:
    """The output of a command where /dev is a file system of its own, and then what /dev/null is."""
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", FAKE_DEV, "sh", *command],
        capture_output=True,
        text=True,
        check=False,
        cwd=PROJECT,
    )
    return done.stdout.splitlines()


@pytest.fixture(autouse=True)
def _root() -> None:
    made = subprocess.run(["unshare", "--mount", "true"], check=False, capture_output=True)
    require(made.returncode == 0, "mount namespaces (root)")


@pytest.mark.parametrize("line", SPOILS[:2])
def test_without_devices_of_its_own_a_command_of_root_changes_them(line: str) -> None:
    assert in_fake_dev(["sh", "-c", line]) != ["character special file 666"]


@pytest.mark.parametrize("line", SPOILS)
def test_a_command_with_devices_of_its_own_changes_none(line: str) -> None:
    assert in_fake_dev(with_own_devices(["sh", "-c", line])) == ["character special file 666"]


def test_its_output_its_status_and_the_device_itself_are_as_without() -> None:
    script = 'echo "$1" && echo gone >/dev/null && exit 7'
    shown = in_fake_dev(["sh", "-c", '"$@"; echo "$?"', "sh", *with_own_devices(["sh", "-c", script, "sh", "a b"])])

    assert shown == ["a b", "7", "character special file 666"]


INSTALLS = """
import sys
from owlt.orchestrator.profiles.third_party import Installable
from owlt.orchestrator.profiles.installing import install
recipe = {"kind": "script", "script": sys.argv[1], "version": "1"}
entry = {"name": "spoils", "title": "spoils", "licence": "MIT", "required": False, "programs": ["spoiled"],
         "recipe": recipe, "version_command": ["true"]}
[installation] = install([Installable.model_validate(entry)], lambda line: None, lambda line: None)
print(installation.installed)
"""


def test_a_recipe_that_changes_devices_changes_none_of_the_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = tmp_path / "recipe"
    lines = [f"{line} 2>/dev/stderr" for line in SPOILS]
    recipe.write_text("#!/bin/sh\nmkdir $1/bin; printf '#!/bin/sh\\n' >$1/bin/spoiled; chmod 755 $1/bin/spoiled\n")
    with recipe.open("a") as script:
        script.write("\n".join([*lines, "exit 0", ""]))
    recipe.chmod(0o755)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))

    assert in_fake_dev([sys.executable, "-c", INSTALLS, str(recipe)]) == ["True", "character special file 666"]
