"""A sweep that is extended twice: recorded runs are not touched, and the result is that of the sweep done at once."""

from __future__ import annotations

import json
from pathlib import Path

from owlt.reports.results.load import load_results
from owlt.reports.results.rows import run_rows
from tests.system.sweeps import owlt, perform, sweep_file

SHORT = {"file_size": "10 kB", "packet_error_rate": 0.05, "certify": False, "keep_captures": "full", "repetitions": 3}
LONGER = SHORT | {"repetitions": 5}
COMPLETE = LONGER | {"implementations": ["cfdp", "ltp"]}
OF_ORDER = {"order"}
"""Columns of the table of runs that say when, among the others, a run was performed."""


def files_in(results: Path) -> dict[Path, bytes]:
    """The files of all recorded runs."""
    return {path.relative_to(results): path.read_bytes() for path in results.glob("runs/*/*")}


def captures_in(results: Path) -> dict[Path, bytes]:
    return {path: content for path, content in files_in(results).items() if path.suffix == ".pcap"}


def table_of(results: Path) -> list[dict[str, object]]:
    """The rows of runs.csv by name, without the columns about the order."""
    rows = sorted(run_rows(load_results(results)), key=lambda row: str(row["run_id"]))
    return [{name: value for name, value in row.items() if name not in OF_ORDER} for row in rows]


def test_an_extended_sweep_keeps_its_runs_and_ends_as_the_complete_sweep(tmp_path: Path, guest_kernel: object) -> None:
    extended, at_once = tmp_path / "extended", tmp_path / "at-once"
    kept: dict[Path, bytes] = {}
    for changes in (SHORT, LONGER, COMPLETE):
        assert perform(tmp_path, extended, **changes).returncode == 0
        assert kept.items() <= files_in(extended).items()
        kept = files_in(extended)
    assert perform(tmp_path, at_once, **COMPLETE).returncode == 0

    assert captures_in(extended) == captures_in(at_once)
    assert len(captures_in(extended)) == 2 * 10
    assert table_of(extended) == table_of(at_once)
    history = json.loads((extended / "plan.json").read_text())["history"]
    assert [each["added"] for each in history] == [3, 2, 5]


def test_fewer_repetitions_than_are_recorded_are_refused_and_change_nothing(
    tmp_path: Path, guest_kernel: object
) -> None:
    results = tmp_path / "results"
    longer = SHORT | {"repetitions": 2}
    assert perform(tmp_path, results, **longer).returncode == 0
    before = (results / "plan.json").read_bytes()

    refused = owlt("run", sweep_file(tmp_path, **(SHORT | {"repetitions": 1})), "--results", results)

    assert refused.returncode == 2
    assert "repetitions: 2 there, 1 here: 1 recorded run (" in refused.stderr
    assert (results / "plan.json").read_bytes() == before

    stopped = owlt("extend", results, "--by", 1, "--for", "1 ns", "--no-report")

    assert stopped.returncode == 1
    assert (
        "stopped at the time of --until or --for: every cell has 2 of 3 repetitions" in stopped.stderr + stopped.stdout
    )
