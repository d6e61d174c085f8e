"""The table of runs as files: `runs.csv`, the same as `runs.parquet`, and its columns in `runs-columns.csv`.

The same rows give the same bytes.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from owlt.reports.table.columns import COLUMNS, DUCKDB_TYPES, NAMES, TABLE_VERSION, Column
from owlt.reports.table.rows import Row

CSV_NAME, PARQUET_NAME = "runs.csv", "runs.parquet"


def columns_name(table: str) -> str:
    """The file that explains the columns of a table: "runs-columns.csv"."""
    return table.replace(".csv", "-columns.csv")


COLUMNS_NAME = columns_name(CSV_NAME)
FILES = (CSV_NAME, PARQUET_NAME, COLUMNS_NAME)
VERSION_KEY = "owlt_table_version"
"""The key of TABLE_VERSION in the metadata of the Parquet file."""
LONGEST_LINE_BYTES = 64_000_000
"""The longest line of the CSV file that DuckDB reads: a reason may have any length."""


def write_table(rows: Sequence[Row], directory: Path) -> None:
    """Write the three files into a directory. Raises OSError."""
    (directory / CSV_NAME).write_text(csv_text(NAMES, rows))
    write_columns(COLUMNS, directory / COLUMNS_NAME)
    _write_parquet(directory / CSV_NAME, directory / PARQUET_NAME)


def write_columns(columns: Sequence[Column], path: Path) -> None:
    """Write what the columns of a table mean. Raises OSError."""
    path.write_text(csv_text([field.name for field in fields(Column)], map(asdict, columns)))


def names_of(columns: Sequence[Column]) -> tuple[str, ...]:
    """The names of columns."""
    return tuple(column.name for column in columns)


def csv_text(columns: Sequence[str], rows: Iterable[dict[str, Any]]) -> str:
    """Rows as CSV; a cell is empty if a row has no such value."""
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def _write_parquet(source: Path, target: Path) -> None:
    """The CSV file as Parquet, every empty cell as null. Of one thread, so that row groups are always the same."""
    import duckdb  # here: it takes time to load, and only reports need it

    types = ", ".join(f"'{column.name}': '{DUCKDB_TYPES[column.kind]}'" for column in COLUMNS)
    with duckdb.connect(config={"threads": 1}) as database:
        database.execute(
            f"COPY (SELECT * FROM read_csv($source, header = true, auto_detect = false, delim = ',', quote = '\"', "
            f"escape = '\"', new_line = '\\n', max_line_size = {LONGEST_LINE_BYTES}, columns = {{{types}}})) "
            "TO $target "
            f"(FORMAT parquet, COMPRESSION zstd, KV_METADATA {{{VERSION_KEY}: '{TABLE_VERSION}'}})",
            {"source": str(source), "target": str(target)},
        )
