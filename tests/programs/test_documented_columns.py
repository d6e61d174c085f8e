"""Every column of an analysis is in the glossary."""

from __future__ import annotations

import csv
import shutil
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from typer.testing import CliRunner

from owlt.orchestrator.commands.cli import app
from tests.conftest import require_command
from tests.import_graph import PROJECT
from tests.unit.test_documented_glossary import GLOSSARY, missing

DATA = PROJECT / "tests" / "unit" / "captures" / "data"

CAPTURES = ("netem-tcp-sender.pcap", "netem-tcp-receiver.pcap")


@cache
def analysis_columns() -> set[str]:
    """The columns of every table that `owlt analyse` writes of a transfer over TCP."""
    require_command("tshark")
    with TemporaryDirectory() as directory:
        copies = [shutil.copy(DATA / name, directory) for name in CAPTURES]
        arguments = ["analyse", *copies, "--out", f"{directory}/out", "--file-size", "10 kB", "--rate", "1 Mbit/s"]
        result = CliRunner().invoke(app, [*arguments, "--delay", "25 ms"])
        assert result.exit_code == 0, result.output
        tables = [path.read_text().splitlines() for path in Path(directory, "out").glob("*.csv")]
        return {column for table in tables for column in next(csv.reader(table))}


def test_every_column_of_an_analysis_is_defined() -> None:
    assert missing(analysis_columns(), GLOSSARY.read_text()) == []
