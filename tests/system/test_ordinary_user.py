"""The virtual rig needs no root: the same sweep by an ordinary user gives the same records and captures."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from orchestrator.kernel import Kernel
from tests.system.sweeps import PROJECT, perform, records, sweep_file

NOBODY = 65534
AS_NOBODY = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
GRID = {"packet_error_rate": [0, 0.05], "keep_captures": "whole"}


@pytest.fixture
def home() -> Iterator[Path]:
    """A directory of nobody's own."""
    with tempfile.TemporaryDirectory(prefix="owlt-nobody-") as name:
        os.chown(name, NOBODY, NOBODY)
        yield Path(name)


def test_an_ordinary_user_gets_the_same_to_the_bit(tmp_path: Path, home: Path, guest_kernel: Kernel) -> None:
    owlt = str(Path(sys.executable).parent / "owlt")
    if os.geteuid() != 0 or subprocess.run([*AS_NOBODY, owlt, "--help"], capture_output=True, check=False).returncode:
        pytest.skip("missing capability: root, and a clone that an ordinary user may read")
    entry = home / "owlt" / "kernels" / "copy"
    entry.mkdir(parents=True)
    shutil.copy(guest_kernel.path, entry / "linux")
    (entry / "kernel.json").write_text(guest_kernel.model_copy(update={"path": entry / "linux"}).model_dump_json())
    sweep_file(home, **GRID)
    command = [*AS_NOBODY, owlt, "run", str(home / "sweep.yaml"), "--results", str(home / "results"), "--no-report"]

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
    perform(tmp_path, tmp_path / "results", **GRID)
    assert records(home / "results") == records(tmp_path / "results")
    for capture in (tmp_path / "results").glob("runs/*/*.pcap"):
        assert capture.read_bytes() == (home / capture.relative_to(tmp_path)).read_bytes(), capture
