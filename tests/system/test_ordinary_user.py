"""The virtual rig needs no root: the same sweep by an ordinary user gives the same records and packets."""

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
from tests.commands import owlt_program
from tests.system.sweeps import PROJECT, differences, sweep_file

NOBODY = 65534
AS_NOBODY = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
GRID = {"packet_error_rate": [0, 0.05], "keep_captures": "full"}


@pytest.fixture
def home() -> Iterator[Path]:
    """A directory of nobody's own."""
    with tempfile.TemporaryDirectory(prefix="owlt-nobody-") as name:
        os.chown(name, NOBODY, NOBODY)
        yield Path(name)


def test_an_ordinary_user_gets_the_same_records_and_packets(tmp_path: Path, home: Path, guest_kernel: Kernel) -> None:
    program = str(Path(sys.executable).parent / "owlt")
    if (
        os.geteuid() != 0
        or subprocess.run([*AS_NOBODY, program, "--help"], capture_output=True, check=False).returncode
    ):
        pytest.skip("missing capability: root, and a clone that an ordinary user may read")
    entry = home / "owlt" / "kernels" / "copy"
    entry.mkdir(parents=True)
    os.chown(home / "owlt", NOBODY, NOBODY)
    shutil.copy(guest_kernel.path, entry / "linux")
    (entry / "kernel.json").write_text(guest_kernel.model_copy(update={"path": entry / "linux"}).model_dump_json())
    sweep_file(home, **GRID)
    command = [*AS_NOBODY, program, "run", str(home / "sweep.yaml"), "--results", str(home / "results"), "--no-report"]

    done = subprocess.run(
        command,
        cwd=PROJECT,
        env={"PATH": os.defpath, "HOME": str(home), "XDG_CACHE_HOME": str(home)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    words = ("run", home / "sweep.yaml", "--results", tmp_path / "results", "--no-report")
    by_root = owlt_program(*words, env={"XDG_CACHE_HOME": str(home)})
    assert by_root.returncode == 0, by_root.stderr
    note = "implementations run as root"
    assert (note in by_root.stderr, note in done.stderr) == (True, False)
    runs = sorted((tmp_path / "results" / "runs").iterdir())
    assert len(runs) == 2
    for run in runs:
        assert differences(run, home / run.relative_to(tmp_path)) == [], run.name
