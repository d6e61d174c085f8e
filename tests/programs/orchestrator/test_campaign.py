"""owlt run as a process, beside another and without its programs."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

from owlt.results.lock import locked
from tests.commands import owlt_program
from tests.unit.orchestrator.small_sweep import small_plan


def sweep_file(directory: Path, **changes: object) -> Path:
    path = directory / "sweep.yaml"
    path.write_text(json.dumps(small_plan().sweep.model_dump(mode="json", exclude_none=True) | changes))
    return path


def owlt(*arguments: object, path: str = os.environ["PATH"]) -> subprocess.CompletedProcess[str]:
    return owlt_program(*arguments, env={"PATH": path})


def test_a_second_run_on_a_directory_in_use_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    results = tmp_path / "results"
    with locked(results):
        before = {path.name: path.read_text() for path in results.iterdir()}

        ended = owlt("run", sweep_file(tmp_path), "--results", results)

        assert {path.name: path.read_text() for path in results.iterdir()} == before
    assert ended.returncode == 2
    assert f"in use by another 'owlt run' (process {os.getpid()} on {os.uname().nodename}" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_a_sweep_is_refused_where_a_program_that_it_needs_is_missing(tmp_path: Path) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("tshark", "python3"):
        if found := shutil.which(name):
            (programs / name).symlink_to(found)

    ended = owlt("plan", sweep_file(tmp_path), "--results", tmp_path / "results", path=str(programs))

    assert ended.returncode == 2
    assert "the sweep needs tcpdump for captures" in ended.stderr
    assert "apt-get install tcpdump" in ended.stderr
    assert "6 runs, about" in ended.stdout
