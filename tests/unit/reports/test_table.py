"""The table of runs, held against the files of the runs and against other readers of CSV and Parquet."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from owlt.captures.accounting.ledger import Ledger
from owlt.captures.accounting.measures import DelaySummary
from owlt.captures.accounting.summary import CaptureSummary
from owlt.reports.results.columns import COLUMNS, DIRECTIONS, NAMES, NOT_RUN, TABLE_VERSION
from owlt.reports.results.load import load_results
from owlt.reports.results.rows import (
    COLUMNS_NAME,
    CSV_NAME,
    FILES,
    PARQUET_NAME,
    VERSION_KEY,
    Row,
    run_rows,
    write_table,
)
from tests.import_graph import PROJECT
from tests.unit.reports.conftest import FAILED, FAILURE, SUSPECT, SUSPICION, change_record, few, named, write_results


@pytest.fixture(scope="module")
def rows(demo: Path) -> list[Row]:
    return run_rows(load_results(demo))


@pytest.fixture(scope="module")
def written(rows: list[Row], tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("table")
    write_table(rows, directory)
    return directory


def only(rows: list[Row], run_id: str) -> Row:
    (row,) = [row for row in rows if row["run_id"] == run_id]
    return row


def asked_of_parquet(directory: Path, query: str) -> list[tuple[Any, ...]]:
    import duckdb  # here, because it complains at the end if it is loaded before the collector is frozen

    with duckdb.connect() as database:
        return database.execute(query.replace("RUNS", f"'{directory / PARQUET_NAME}'")).fetchall()


def test_every_column_has_one_name_and_a_meaning() -> None:
    assert len(set(NAMES)) == len(COLUMNS)
    assert [column.name for column in COLUMNS if not column.meaning] == []


def test_a_column_whose_name_has_a_unit_states_it() -> None:
    units = {"_ns": "ns", "_bps": "bit/s", "_bytes": "bytes", "_percent": "%"}

    for column in COLUMNS:
        for ending, unit in units.items():
            if column.name.endswith(ending):
                assert column.unit == unit, column.name


def test_every_number_of_a_summary_is_a_column() -> None:
    kinds = (int, float, int | None, float | None)
    numbers = {name for name, field in CaptureSummary.model_fields.items() if field.annotation in kinds}
    both_ways = {f"{way}_{name}" for way in DIRECTIONS for name in Ledger.model_fields}
    both_ways |= {f"{way}_owd_{name}" for way in DIRECTIONS for name in DelaySummary.model_fields if name != "matched"}

    assert (numbers - {"schema_version"} | both_ways) - set(NAMES) == set()


def test_there_is_a_row_for_each_run_with_a_value_for_each_column(rows: list[Row], demo: Path) -> None:
    assert {row["run_id"] for row in rows} == {path.name for path in (demo / "runs").iterdir()}
    assert {tuple(row) for row in rows} == {NAMES}


def test_a_failed_run_has_a_row_with_its_reason_and_without_a_goodput(rows: list[Row]) -> None:
    row = only(rows, FAILED)

    assert (row["outcome"], row["reason"], row["goodput_bps"]) == ("failed", FAILURE, None)


def test_a_suspect_run_has_a_row_with_its_numbers_and_the_reason(rows: list[Row]) -> None:
    row = only(rows, SUSPECT)

    assert row["suspect"] == SUSPICION
    assert row["goodput_bps"] > 0


def test_a_planned_run_without_a_record_has_a_row(tmp_path: Path) -> None:
    results = load_results(write_results(tmp_path, few(), skip=lambda run: run.repetition == 2))
    rows = run_rows(results)
    missing = [row for row in rows if row["outcome"] == NOT_RUN]

    assert len(rows) == 12
    assert {row["repetition"] for row in missing} == {2}
    assert {row["forward_rate_bps"] for row in missing} == {10e6}
    assert [row["repetition"] for row in rows[:3]] == [1, 2, 3]


def test_both_directions_of_an_asymmetric_channel_are_in_their_own_columns(tmp_path: Path) -> None:
    rows = run_rows(load_results(write_results(tmp_path, named())))
    (row,) = [row for row in rows if (row["channel_name"], row["implementation"]) == ("deep-space", "cfdp")]

    assert (row["forward_rate_bps"], row["reverse_rate_bps"]) == (2e6, 8e3)
    assert (row["forward_delay_ns"], row["rtt_ns"]) == (600 * 10**9, 1200 * 10**9)
    assert (row["forward_bit_error_rate"], row["forward_error_effect"]) == (1e-6, "drop")


def test_parameters_and_advertised_values_are_those_of_the_record(tmp_path: Path) -> None:
    directory = write_results(tmp_path, few())
    advertised = {"rate_bps": 5e6, "one_way_delay_s": 0.05, "rtt_s": 0.1}
    change_record(directory, FAILED, parameters={"segment_bytes": 1000}, advertised=advertised)
    row = only(run_rows(load_results(directory)), FAILED)

    assert json.loads(row["parameters"]) == {"segment_bytes": 1000}
    assert (row["advertised_rate_bps"], row["advertised_one_way_delay_s"]) == (5e6, 0.05)


def test_parquet_and_csv_have_the_same_rows(rows: list[Row], written: Path) -> None:
    with (written / CSV_NAME).open(newline="") as file:
        texts = list(csv.DictReader(file))
    stored = asked_of_parquet(written, "SELECT * FROM RUNS")

    assert [row["run_id"] for row in texts] == [row["run_id"] for row in rows]
    assert stored == [tuple(None if value == "" else value for value in row.values()) for row in rows]


def test_parquet_has_the_columns_their_types_and_the_version(written: Path) -> None:
    described = asked_of_parquet(written, "DESCRIBE SELECT * FROM RUNS")
    types = {name: kind for name, kind, *_ in described}
    metadata = asked_of_parquet(written, "SELECT key, value FROM parquet_kv_metadata(RUNS)")

    assert tuple(types) == NAMES
    assert (types["goodput_bps"], types["delay_ns"], types["suspect"]) == ("DOUBLE", "BIGINT", "VARCHAR")
    assert (VERSION_KEY.encode(), str(TABLE_VERSION).encode()) in metadata


def test_the_columns_are_described_beside_the_table(written: Path) -> None:
    with (written / COLUMNS_NAME).open(newline="") as file:
        described = {row["name"]: row for row in csv.DictReader(file)}

    assert tuple(described) == NAMES
    assert described["goodput_bps"]["unit"] == "bit/s"


def test_the_same_rows_are_the_same_bytes(rows: list[Row], written: Path, tmp_path: Path) -> None:
    write_table(rows, tmp_path)

    assert [(tmp_path / name).read_bytes() for name in FILES] == [(written / name).read_bytes() for name in FILES]


def test_text_with_quotes_commas_and_lines_survives_parquet(rows: list[Row], tmp_path: Path) -> None:
    text = 'it said "no, never",\nthen ended; α'
    write_table([{**rows[0], "reason": text}], tmp_path)

    assert asked_of_parquet(tmp_path, "SELECT reason FROM RUNS") == [(text,)]


def test_the_example_of_duckdb_in_the_documents_works(written: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = (PROJECT / "docs" / "analysis.md").read_text()
    (example,) = [part for part in text.split("```") if "import duckdb" in part]
    code = example.removeprefix("python\n").replace("results/demo/report", str(written))

    exec(code, {})

    assert "saratoga" not in (printed := capsys.readouterr().out)
    assert "norm" in printed
