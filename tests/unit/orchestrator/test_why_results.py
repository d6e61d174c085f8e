from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from owlt.captures.accounting.derived_files import keep
from owlt.captures.inspection.critical_path import KINDS
from owlt.captures.inspection.time_account import TIME, Spent, TimeAccount
from owlt.orchestrator.commands.cli import app
from owlt.orchestrator.errors import OwltError
from owlt.reports.results.load import load_results
from tests.unit.reports.conftest import few, write_results


def why(results: Path, *words: str) -> str:
    return CliRunner().invoke(app, ["why", str(results), *words], catch_exceptions=False).output


def with_accounts(results: Path) -> Path:
    """The results with an account beside each run: NORM waits for half of the time."""
    for run in load_results(results).runs:
        waiting_ns = 10**9 if run.record.implementation == "norm" else 0
        parts = {"new data": 800_000_000, "waiting": waiting_ns, "propagation": 200_000_000}
        spent = [
            Spent(phase="transfer", kind=kind, host="sender", total_ns=parts[kind]) for kind in KINDS if kind in parts
        ]
        session_ns = sum(parts.values())
        made = TimeAccount(session_ns=session_ns, delivered_ns=None, least_ns=None, spent=spent, causes=[])
        keep(run.directory / TIME, made)
    return results


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return with_accounts(write_results(tmp_path_factory.mktemp("why") / "results", few()))


def test_the_means_of_each_cell_are_printed(results: Path) -> None:
    lines = [line.split() for line in why(results).splitlines()]

    assert ["norm", "0", "3", "2.000", "0.800", "(40", "%)", "0.200", "(10", "%)", "1.000", "(50", "%)"] in lines


def test_the_largest_share_is_a_sentence(results: Path) -> None:
    assert "norm spends 50 % of its session time on unexplained idle time of the sender at PER 0." in why(results)


def test_as_json_the_times_of_a_cell_sum_to_its_sessions(results: Path) -> None:
    cells: list[dict[str, Any]] = json.loads(why(results, "--json"))["cells"]
    of_cells = [each for cell in cells for each in cell["implementations"]]

    assert len(of_cells) == 4
    assert all(sum(each["spent_ns"].values()) == each["session_ns"] > 0 for each in of_cells)


def test_results_without_captures_are_refused_with_the_reason(tmp_path: Path) -> None:
    results = write_results(tmp_path / "results", few())

    with pytest.raises(OwltError, match=r"no run has a time account: [^:]+ and 11 more: cannot be analysed"):
        why(results)


def test_the_report_draws_the_time_once_it_is_known(results: Path) -> None:
    done = CliRunner().invoke(app, ["report", str(results)], catch_exceptions=False)
    page = (results / "report" / "index.html").read_text()

    assert done.exit_code == 0
    assert "Where the time went" in page
    assert "NORM spends 50 % of its session time on unexplained idle time of the sender at PER 0." in page
    assert (results / "report" / "figures" / "time-use.svg").exists()


def test_the_report_of_results_without_time_accounts_names_the_command(tmp_path: Path) -> None:
    results = write_results(tmp_path / "results", few())
    CliRunner().invoke(app, ["report", str(results)], catch_exceptions=False)
    page = (results / "report" / "index.html").read_text()

    assert "<code>owlt why RESULTS</code> computes them" in page
    assert 'id="time"' not in page
