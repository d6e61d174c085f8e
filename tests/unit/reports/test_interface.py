"""`import owlt`, as programs and the notebook use it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import owlt
from owlt.orchestrator.errors import OwltError
from owlt.reports.results.load import load_results
from owlt.reports.results.rows import run_rows
from tests.import_graph import PROJECT


@pytest.fixture(scope="module")
def runs(demo: Path) -> owlt.Table:
    return owlt.load(demo)


def test_a_table_has_the_rows_of_the_report(runs: owlt.Table, demo: Path) -> None:
    assert list(runs) == run_rows(load_results(demo))
    assert len(runs) == len(runs.rows)
    assert repr(runs).startswith(f"<{len(runs)} runs of cfdp, ")


def test_columns_have_a_value_for_each_row(runs: owlt.Table) -> None:
    assert runs.columns("run_id") == {"run_id": [row["run_id"] for row in runs]}
    assert list(runs.columns()) == list(runs.rows[0])


def test_rows_are_selected_as_those_of_a_figure(runs: owlt.Table) -> None:
    chosen = runs.select(implementation=["cfdp", "norm"], packet_error_rate=0.0)

    assert {(row["implementation"], row["packet_error_rate"]) for row in chosen} == {("cfdp", 0.0), ("norm", 0.0)}
    assert chosen.order == runs.order


def test_a_name_or_value_that_is_not_there_is_refused(runs: owlt.Table) -> None:
    with pytest.raises(ValueError, match="implementation=ion"):
        runs.select(implementation="ion")
    with pytest.raises(ValueError, match="colour"):
        runs.select(colour="red")
    with pytest.raises(ValueError, match="kind: got 'pie', expected one of box"):
        runs.draw("goodput", x="delay", kind="pie")


def test_several_directories_are_one_table(runs: owlt.Table, demo: Path) -> None:
    assert len(owlt.load(demo, demo)) == 2 * len(runs)


def test_a_directory_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(OwltError, match="results directory"):
        owlt.load(tmp_path / "none")


def test_a_figure_is_drawn_and_saved(runs: owlt.Table, tmp_path: Path) -> None:
    figure = runs.draw("goodput", x="packet_error_rate", kind="line", facets="delay", width_mm=120)
    owlt.save(figure, tmp_path / "figure.svg")

    assert figure.get_size_inches()[0] == pytest.approx(120 / 25.4)
    assert (tmp_path / "figure.svg").read_text().startswith("<?xml")


def test_a_sweep_is_performed_by_the_command_and_loaded(demo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commands: list[list[str]] = []

    def perform(command: list[str], check: bool) -> subprocess.CompletedProcess[str]:
        commands.append(command)
        return subprocess.CompletedProcess(command, 3 if "--guests" in command else 1)

    monkeypatch.setattr(subprocess, "run", perform)

    assert len(owlt.run("demo", demo, "--guests", "2")) == len(owlt.load(demo))
    assert commands == [[sys.executable, "-m", "owlt", "run", "demo", "--results", str(demo), "--guests", "2"]]
    with pytest.raises(OwltError, match="owlt run demo ended with status 1"):
        owlt.run("demo", demo)


def test_the_cells_of_the_notebook_work_and_each_has_its_output(demo: Path) -> None:
    notebook = json.loads((PROJECT / "docs" / "examples" / "analysis.ipynb").read_text())
    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    names: dict[str, Any] = {}

    for cell in code:
        exec("".join(cell["source"]).replace("results/demo", str(demo)), names)

    assert len(code) > 3
    assert all(cell["outputs"] for cell in code)
    assert {"cfdp", "norm"} <= set(names["runs"].columns("implementation")["implementation"])


def test_the_example_in_the_documents_works(demo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = (PROJECT / "docs" / "analysis.md").read_text().partition("\n## In Python\n")[2]
    monkeypatch.chdir(tmp_path)

    exec(text.split("```")[1].removeprefix("python\n").replace("results/demo", str(demo)).replace("ltp", "norm"), {})

    assert (tmp_path / "goodput.pdf").stat().st_size > 1000
