"""What cannot be done is told with the next step and exit status 2, and nothing is changed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.commands import owlt
from tests.system.sweeps import sweep_file


def test_a_bad_sweep_file_names_the_key(tmp_path: Path) -> None:
    done = owlt("run", sweep_file(tmp_path, delays="25 ms"), "--results", tmp_path / "results")

    assert done.returncode == 2
    assert "delays: is not a known key; did you mean delay?" in done.stderr
    assert not (tmp_path / "results").exists()


def test_a_misspelt_implementation_is_corrected(tmp_path: Path) -> None:
    done = owlt("run", sweep_file(tmp_path, implementations="cfpd"), "--results", tmp_path / "results")

    assert done.returncode == 2
    assert "'cfpd' is not a known implementation; did you mean cfdp?" in done.stderr
    assert not (tmp_path / "results").exists()


def test_without_a_kernel_the_command_that_builds_one_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "empty"))

    done = owlt("run", sweep_file(tmp_path), "--results", tmp_path / "results")

    assert done.returncode == 2
    assert "owlt kernel build" in done.stderr
    assert not (tmp_path / "results").exists()


def test_the_local_rig_has_the_real_clock_only(tmp_path: Path) -> None:
    done = owlt("run", sweep_file(tmp_path, rig="local"), "--results", tmp_path / "results")

    assert done.returncode == 2
    assert "clock: real" in done.stderr


def test_a_directory_of_another_sweep_is_left_alone(tmp_path: Path) -> None:
    results = tmp_path / "results"
    results.mkdir()
    (results / "plan.json").write_text("{}")

    done = owlt("run", sweep_file(tmp_path), "--results", results)

    assert done.returncode == 2
    assert "another sweep" in done.stderr
    assert [path.name for path in results.iterdir()] == ["plan.json"]


def test_a_report_of_no_results_is_refused(tmp_path: Path) -> None:
    done = owlt("report", tmp_path)

    assert done.returncode == 2
    assert "is not a results directory" in done.stderr
