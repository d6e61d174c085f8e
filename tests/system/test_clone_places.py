"""Where a clone may lie: places that are empty in a guest, a path with a space, a home directory behind a link."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from owlt.orchestrator.kernel.kernel import Kernel
from tests.commands import OWLT
from tests.system.sweeps import PROJECT, records, sweep_file

NOT_COPIED = {".git", ".venv", "results"}
"""Of the directories at the top of the project."""
IN_A_GUEST = "tests/system/test_guest_kernel.py::test_a_part_that_no_guest_has_is_seen_to_be_missing"
"""A test that runs a script of the clone in a guest."""


@pytest.fixture(params=["/tmp/with a space", "/var/tmp/behind a link", "/run", "/dev/shm"])
def home(request: pytest.FixtureRequest, guest_kernel: Kernel) -> Iterator[Path]:
    """A home directory at a place, with a clone in `owlt` and the guests' kernel in `.cache`."""
    place = Path(request.param)
    with tempfile.TemporaryDirectory(prefix="owlt-clone-", dir=place if place.exists() else place.parent) as name:
        directory = Path(name) / place.name
        directory.mkdir()
        home = directory / "home"
        if "link" in place.name:
            (directory / "disk").mkdir()
            home.symlink_to("disk")
        for part in PROJECT.iterdir():
            if part.is_dir() and part.name not in NOT_COPIED:
                shutil.copytree(
                    part, home / "owlt" / part.name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__")
                )
        shutil.copy(PROJECT / "pyproject.toml", home / "owlt")
        kernel = home / ".cache" / "owlt" / "kernels" / "copy"
        kernel.mkdir(parents=True)
        shutil.copy(guest_kernel.path, kernel / "linux")
        (kernel / "kernel.json").write_text(
            guest_kernel.model_copy(update={"path": kernel / "linux"}).model_dump_json()
        )
        yield home


def test_a_clone_runs_sweeps_and_tests_wherever_it_lies(home: Path) -> None:
    clone = home / "owlt"
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "XDG"))}
    environment |= {"HOME": str(home), "PYTHONPATH": str(clone), "OWLT_PATIENCE_S": "0"}

    def succeed(*command: object) -> str:
        done = subprocess.run(
            [sys.executable, *map(str, command)],
            cwd=clone,
            env=environment,
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    sweep = sweep_file(home, certify=False)
    succeed(*OWLT[1:], "run", sweep, "--results", home / "results", "--no-report")
    tests = succeed("-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", IN_A_GUEST)

    assert [record["outcome"] for record in records(home / "results").values()] == ["completed"]
    assert "1 passed" in tests
