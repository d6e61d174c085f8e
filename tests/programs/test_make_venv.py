"""The virtual environment of owlt on a host of a rig: one without pip is made anew."""

from __future__ import annotations

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


@pytest.fixture
def without_pip(tmp_path: Path) -> Path:
    """What is left if ensurepip fails: a Python without pip; and a third-party implementation beside it."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path], check=True)
    (tmp_path / "third-party").mkdir()
    return tmp_path


def test_an_environment_without_pip_is_made_anew_and_other_files_stay(without_pip: Path) -> None:
    before = has_pip(without_pip)
    make(without_pip)

    assert not before
    assert has_pip(without_pip)
    assert (without_pip / "third-party").is_dir()


def test_an_environment_of_a_python_that_is_no_longer_there_is_made_anew(without_pip: Path) -> None:
    make(without_pip)
    for link in (without_pip / "bin").glob("python*"):
        link.unlink()
    (without_pip / "bin" / "python").symlink_to("/usr/bin/python2.0")
    make(without_pip)

    assert has_pip(without_pip)


def test_an_environment_with_pip_stays(without_pip: Path) -> None:
    make(without_pip)
    (without_pip / "bin" / "installed").touch()
    make(without_pip)

    assert (without_pip / "bin" / "installed").exists()
