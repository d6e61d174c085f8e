"""The wheel, and owlt as it is where the wheel is unpacked: one package with everything that a user needs."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from owlt.installation import PARTS
from tests.import_graph import PROJECT


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    directory = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(directory)]
    subprocess.run(command, cwd=PROJECT, check=True, capture_output=True)
    (path,) = directory.glob("*.whl")
    return zipfile.ZipFile(path)


@pytest.fixture(scope="module")
def unpacked(wheel: zipfile.ZipFile, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with owlt as an installer puts it there, and with another package that is named `agents`."""
    directory = tmp_path_factory.mktemp("site-packages")
    wheel.extractall(directory)
    for entry in wheel.infolist():
        (directory / entry.filename).chmod(entry.external_attr >> 16 & 0o777)
    (directory / "agents").mkdir()
    (directory / "agents" / "__init__.py").write_text("WHOSE = 'another'\n")
    return directory


def printed(unpacked: Path, code: str) -> str:
    """What a program prints that imports owlt from the unpacked wheel, in an empty directory."""
    environment = os.environ | {"PYTHONPATH": str(unpacked), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-P", "-c", code]
    return subprocess.run(command, env=environment, cwd="/", capture_output=True, text=True, check=True).stdout.strip()


def test_the_wheel_has_one_package_without_tests_and_what_a_machine_makes(wheel: zipfile.ZipFile) -> None:
    names = wheel.namelist()

    assert {name.partition("/")[0].partition("-")[0] for name in names} == {"owlt"}
    assert [name for name in names if "/tests/" in name or name.endswith((".pyc", ".o", ".sha256"))] == []


def test_the_wheel_has_every_file_of_the_folders_that_are_its_parts(wheel: zipfile.ZipFile) -> None:
    command = ["git", "-c", f"safe.directory={PROJECT}", "ls-files", "--", *PARTS, "owlt"]
    listed = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=True).stdout.splitlines()
    files = [path for path in listed if (PROJECT / path).is_file() and not (PROJECT / path).is_symlink()]

    missing = {path if path.startswith("owlt/") else f"owlt/{path}" for path in files} - set(wheel.namelist())

    assert missing == set()


def test_programs_can_be_executed(unpacked: Path) -> None:
    for name in ("debian-packages", "profiles/third-party/build-norm-programs"):
        assert os.access(unpacked / "owlt" / name, os.X_OK)


def test_another_package_named_agents_is_no_collision(unpacked: Path) -> None:
    code = "import agents, owlt.agents as own; print(agents.WHOSE, own.__name__, own.__file__)"

    assert printed(unpacked, code) == f"another owlt.agents {unpacked}/owlt/agents/__init__.py"


def test_outside_a_clone_the_advice_is_a_command_that_exists_there(unpacked: Path) -> None:
    assert printed(unpacked, "from owlt.installation import setup_command; print(setup_command())") == "owlt setup"
    assert "owlt setup" in printed(
        unpacked, "from owlt.emulator.kernel.bpf.compile import _next_step; print(_next_step())"
    )


def test_the_hosts_of_a_lab_rig_get_the_source_of_the_installed_package(unpacked: Path, tmp_path: Path) -> None:
    for name in ("one", "two"):
        path = tmp_path / name
        printed(unpacked, f"from pathlib import Path; import owlt.installation as i; i.write_source(Path('{path}'))")
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()

    source = tmp_path / "source"
    source.mkdir()
    subprocess.run(["tar", "-xf", tmp_path / "one", "-C", source], check=True)

    beside = ("pyproject.toml", "requirements.lock", ".ci/installer.lock", "README.md", "LICENSE", "owlt/__init__.py")
    assert {path.name for path in (source / "owlt").iterdir() if path.is_symlink()} == set(PARTS)
    assert all((source / name).read_bytes() == (PROJECT / name).read_bytes() for name in beside)
    assert os.access(source / "playbooks/roles/owlt/files/make-venv", os.R_OK)
    assert printed(source, "import owlt.agents, owlt.installation as i; print(i.is_clone())") == "True"
