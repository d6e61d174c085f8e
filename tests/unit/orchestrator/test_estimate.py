"""The line about a plan's duration."""

from __future__ import annotations

import pytest

from orchestrator.planning.estimate import Estimate


@pytest.mark.parametrize(("runs", "text"), [(1, "1 run, about"), (2, "2 runs, about")])
def test_one_run_is_not_called_runs(runs: int, text: str) -> None:
    assert Estimate(runs, rig_s=2, wall_s=4, side_by_side=1).text.startswith(text)
