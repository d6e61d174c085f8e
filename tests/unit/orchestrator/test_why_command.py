from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from owlt.orchestrator.checks.costs import Counterfactual
from owlt.orchestrator.checks.counterfactuals import Change, Times
from owlt.orchestrator.commands.cli import app
from owlt.orchestrator.commands.why import _cost_text
from owlt.orchestrator.errors import OwltError
from owlt.results.record import Outcome
from tests.unit.captures.making import GOLDEN
from tests.unit.orchestrator.analysing import run_of_owlt


def test_a_directory_that_is_no_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(OwltError, match="is not the directory of a run"):
        CliRunner().invoke(app, ["why", str(tmp_path)], catch_exceptions=False)


def test_a_run_without_packets_is_refused(tmp_path: Path) -> None:
    run = run_of_owlt(tmp_path / "run", Outcome.FAILED, "no file came")
    for name in ("sender.pcap", "receiver.pcap"):
        shutil.copy(GOLDEN / "no-packets.pcap", run / name)

    with pytest.raises(OwltError, match="no packets"):
        CliRunner().invoke(app, ["why", str(run)], catch_exceptions=False)


def test_the_saving_of_an_earlier_start_is_shown_with_the_times_from_the_launch() -> None:
    """The control is a change of the session itself."""
    base = Times(2.0, 5.0, 3.0)
    earlier, shorter = (
        Counterfactual((Change("timer", "T"),), times, base.ended_s - times.ended_s, None, 0, Path("run"))
        for times in (Times(1.0, 4.0, 3.0), Times(1.0, 4.0, 2.0))
    )

    assert _cost_text(earlier, base).startswith("T: 4.000 s instead of 5.000 s from the launch, 1.000 s")
    assert _cost_text(shorter, base).startswith("T: 2.000 s instead of 3.000 s, 1.000 s")


def test_an_indirect_effect_is_said_to_be_one() -> None:
    base = Times(2.0, 3.0, 3.0)
    direct = Counterfactual((Change("timer", "T"),), Times(1.0, 2.0, 2.0), 1.0, 1.0, 0, Path("run"))

    assert _cost_text(direct, base).endswith("1.000 s saved")
    assert "saved; partly indirect: " in _cost_text(replace(direct, is_indirect=True), base)
