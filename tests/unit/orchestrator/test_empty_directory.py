"""The results of the last trial are removed, unless they are in use."""

from __future__ import annotations

from pathlib import Path

import pytest

from owlt.orchestrator.commands.fault_tests import empty_directory
from owlt.results.lock import ResultsInUse, locked


def test_the_results_of_the_last_trial_are_removed(tmp_path: Path) -> None:
    (tmp_path / "proof" / "0").mkdir(parents=True)
    (tmp_path / "proof" / "0" / "plan.json").touch()

    assert not empty_directory(tmp_path, "proof").exists()


@pytest.mark.parametrize("part", ["", "1"])
def test_results_that_another_process_writes_are_kept(tmp_path: Path, part: str) -> None:
    (tmp_path / "proof" / "1").mkdir(parents=True)
    with locked(tmp_path / "proof" / part), pytest.raises(ResultsInUse):
        empty_directory(tmp_path, "proof")
    assert (tmp_path / "proof" / "1").exists()
