from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from owlt.orchestrator.commands.cli import app
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
