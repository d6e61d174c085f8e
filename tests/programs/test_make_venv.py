"""The virtual environment of owlt on a host of a rig: one without pip is made anew."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parents[2] / "playbooks" / "roles" / "owlt" / "files" / "make-venv"
BASE = Path(sys.executable).resolve()
"""The Python that this environment was made with."""


def make(directory: Path) -> None:
    subprocess.run(["sh", PROGRAM, BASE, directory], check=True, capture_output=True)


def has_pip(directory: Path) -> bool:
    done = subprocess.run([directory / "bin" / "python", "-m", "pip", "--version"], capture_output=True, check=False)
    return done.returncode == 0


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment that the program made of one without pip, as ensurepip leaves it if it fails; with other files."""
    directory = tmp_path_factory.mktemp("made")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", directory], check=True)
    (directory / "third-party").mkdir()
    assert not has_pip(directory)
    make(directory)
    return directory


@pytest.fixture
def copied(made: Path, tmp_path: Path) -> Path:
    """A copy of it, whose Python works with its own files."""
    return Path(shutil.copytree(made, tmp_path / "copied", symlinks=True))


def test_an_environment_without_pip_is_made_anew_and_other_files_stay(made: Path) -> None:
    assert has_pip(made)
    assert (made / "third-party").is_dir()


def test_an_environment_of_a_python_that_is_no_longer_there_is_made_anew(copied: Path) -> None:
    for link in (copied / "bin").glob("python*"):
        link.unlink()
    (copied / "bin" / "python").symlink_to("/usr/bin/python2.0")
    make(copied)

    assert has_pip(copied)


def test_an_environment_with_pip_stays(copied: Path) -> None:
    (copied / "bin" / "installed").touch()
    make(copied)

    assert (copied / "bin" / "installed").exists()
