"""The database of a reproduction: tables of runs and packets, and the verdicts by the queries of its claims."""

from __future__ import annotations

import csv
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event, Thread
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from owlt.captures.accounting.measures import direction_counters
from owlt.captures.files.blocks import NotACapture
from owlt.captures.frames.columns import Columns, read_columns
from owlt.captures.frames.session import HOSTS, Session, sent_by
from owlt.captures.pool import processes
from owlt.captures.protocols.quic_handshake import QuicHandshake, load_or_count
from owlt.captures.protocols.tshark import NoDissection
from owlt.inputs.mistake import Mistake, Place
from owlt.reports.reproduction.claim_verdicts import Count, Judged, Value, judge_cases
from owlt.reports.reproduction.claims import Claim, Reproduction, TableOf
from owlt.reports.results.load import Results, Run
from owlt.reports.results.rows import PARQUET_NAME, write_table
from owlt.results.files import SAMPLES_NAME as SAMPLES
from owlt.results.files import ReportError
from owlt.results.plain_files import read_plain, require_plain

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

Point = tuple[str, float, float, str]
"""A series, x, y, and the facet of the panel: "" if it has none."""
CAPTURES = {"packets": "sender.pcap", "packets_at_receiver": "receiver.pcap"}
"""The capture of each table of packets."""
ALL_RUNS = "all_runs"
"""The table of every planned run."""
_FRAMES = "from_sender BOOLEAN, at_s DOUBLE, bytes BIGINT, frame BIGINT"
TABLES = {
    **dict.fromkeys(CAPTURES, _FRAMES),
    "tcp_samples": "at_s DOUBLE, cwnd_segments BIGINT, ssthresh_segments BIGINT, total_retrans BIGINT",
    "quic_handshakes": "from_sender BOOLEAN, packets BIGINT, bytes BIGINT, needed BIGINT, useless BIGINT, "
    "useless_bytes BIGINT, answers BIGINT, unreadable BIGINT, first_byte_s DOUBLE",
}
"""The other tables, and their columns after `sweep` and `run_id`."""
SAMPLE_COLUMNS = ("time_ns", "cwnd_segments", "ssthresh_segments", "total_retrans")
MOST_SAMPLES_BYTES = 512_000_000
MOST_OUTPUT_BYTES = 16_000_000
"""The most bytes of a program's output in which secrets of its connection are looked for."""
MISSING = -1
"""Represents an empty cell: counts are never negative."""
NO_ACCESS = ("enable_external_access = false", "python_enable_replacements = false", "lock_configuration = true")
"""Settings for queries: no access to files, extensions and Python variables, and no way to change these settings."""
_OF_FILES: dict[str, str | bool | int | float | list[str]] = {"threads": 1, "memory_limit": "2GB", "temp_directory": ""}
"""The settings of a database of tables that somebody else may have written: a bound for them, and no files."""
MOST_ROWS = 20_000_000
"""The most rows of a table that is read from an archive."""
MOST_FETCHED_ROWS = 1_000_000
"""The most rows of the result of a query."""
MOST_QUERIES_S = 3600.0
"""The time that all queries of an archive together may take."""
_AGAIN_S = 0.01
"""The interval at which queries are interrupted after that: an interrupt ends only the query that is running."""
NO_RUNS = "no completed run has this value"
SHARE = ("successes", "trials")
"""The columns of a claim that is a share of runs."""


class BadQuery(Exception):
    """A query that the database refuses. The text names the claim or figure."""


@contextmanager
def database(results: Sequence[Results], reproduction: Reproduction) -> Iterator[DuckDBPyConnection]:
    """A database with `all_runs` (every planned run of all results), `runs` (those of the repetition that is judged),
    `good` (completed ones of these without doubts), `controls` (the same of the control sweeps, which `runs` and `good`
    do not have), `packets`, `packets_at_receiver`, `tcp_samples`,
    `quic_handshakes`, `accepted` (the bounds of each claim: `id`, `least`, `most`), and the views. Raises BadQuery, and
    ReportError if a capture or the samples that these need cannot be read.

    `packets` has the frames at the sender's port of the runs that `packets_of` selects: `sweep`, `run_id`,
    `from_sender`, `at_s` from the session's first frame there, `bytes`, and `frame`, its number in the capture.
    `packets_at_receiver` has those at the receiver's port. `tcp_samples` has what the sender's kernel reported of its
    connections in these runs: `sweep`, `run_id`, `at_s` as above, `cwnd_segments`, `ssthresh_segments` and
    `total_retrans`. Runs without TCP have none. `quic_handshakes` has two rows for each run that `handshakes_of`
    selects, delivered or not: `sweep`, `run_id`, `from_sender`, and the values of `QuicHandshake`.
    """
    import duckdb

    with duckdb.connect(config={"threads": 1}) as connection, TemporaryDirectory() as directory:
        write_table([row for each in results for row in each.rows], Path(directory))
        _load(connection, ALL_RUNS, Path(directory) / PARQUET_NAME)
        _create_tables(connection, reproduction.controls)
        _refuse_access(connection)
        try:
            for each in results:
                _add_packets(connection, each, reproduction.packets_of)
                _add_handshakes(connection, each, reproduction.handshakes_of)
            _create_views(connection, reproduction)
        except duckdb.Error as problem:
            raise BadQuery(f"packets_of or views: {problem}") from problem
        yield connection


@contextmanager
def database_of_files(
    directory: Path, reproduction: Reproduction, most_s: float = MOST_QUERIES_S
) -> Iterator[DuckDBPyConnection]:
    """The same database from a directory with a Parquet file for ALL_RUNS and for each of TABLES, whose queries are
    interrupted after `most_s`. Raises BadQuery."""
    import duckdb

    with duckdb.connect(config=_OF_FILES) as connection, _bounded_time(connection, most_s):
        try:
            for name in (ALL_RUNS, *TABLES):
                _require_few_rows(connection, directory / f"{name}.parquet")
            _load(connection, ALL_RUNS, directory / f"{ALL_RUNS}.parquet")
            _create_tables(connection, reproduction.controls)
            for name in TABLES:
                connection.execute(f"INSERT INTO {name} FROM read_parquet('{directory / name}.parquet')")
            _refuse_access(connection)
            _create_views(connection, reproduction)
        except duckdb.Error as problem:
            raise BadQuery(f"tables or views: {problem}") from problem
        yield connection


@contextmanager
def _bounded_time(connection: DuckDBPyConnection, most_s: float) -> Iterator[None]:
    """Interrupt the queries of a connection after this time."""
    over = Event()

    def interrupt() -> None:
        if not over.wait(most_s):
            connection.interrupt()
        while not over.wait(_AGAIN_S):
            connection.interrupt()

    interrupting = Thread(target=interrupt, daemon=True)
    interrupting.start()
    try:
        yield
    finally:
        over.set()
        interrupting.join()


_SMALL_PARQUET = "FORMAT parquet, PARQUET_VERSION v2, COMPRESSION zstd, COMPRESSION_LEVEL 19"


def write_files(
    connection: DuckDBPyConnection, directory: Path, kept: Mapping[str, str] = MappingProxyType({})
) -> None:
    """Write the files from which `database_of_files` makes a database, through another one: this one has no access to
    files. Of a table in `kept`, only the rows that meet the SQL condition. Raises BadQuery for a condition that is
    wrong."""
    import duckdb

    with duckdb.connect(config={"threads": 1}) as writing:
        for name in (ALL_RUNS, *TABLES):
            described = connection.execute(f"DESCRIBE {name}").fetchall()
            cast = ", ".join(f'CAST("{column}" AS {kind}) AS "{column}"' for column, kind, *_ in described)
            path = directory / f"{name}.parquet"
            rows = f"FROM {name} WHERE {kept.get(name, 'true')}"
            rows += "" if name == ALL_RUNS else " ORDER BY ALL"  # ordered rows are half as large
            try:
                writing.register("columns", connection.execute(rows).fetchnumpy())
            except duckdb.Error as problem:
                raise BadQuery(f"archived, {name}: {problem}") from problem
            writing.execute(f"COPY (SELECT {cast} FROM columns) TO '{path}' ({_SMALL_PARQUET})")
            writing.unregister("columns")


def _require_few_rows(connection: DuckDBPyConnection, path: Path) -> None:
    """Raise BadQuery for a file that declares more rows than a table may have: a few octets can hold any number."""
    declared = connection.execute(f"SELECT num_rows FROM parquet_file_metadata('{path}')").fetchone()
    if declared is None or declared[0] > MOST_ROWS:
        raise BadQuery(f"{path.name}: {declared[0] if declared else 0:,} rows; a table has at most {MOST_ROWS:,}")


def _load(connection: DuckDBPyConnection, name: str, path: Path) -> None:
    connection.execute(f"CREATE TABLE {name} AS FROM read_parquet('{path}')")


def _create_tables(connection: DuckDBPyConnection, controls: Sequence[str]) -> None:
    for name, columns in TABLES.items():
        connection.execute(f"CREATE TABLE {name} (sweep VARCHAR, run_id VARCHAR, {columns})")
    connection.execute("CREATE TABLE considered (repetition BIGINT)")
    connection.execute(
        f"CREATE VIEW judged_runs AS SELECT *, {_is_control(controls)} AS is_control FROM {ALL_RUNS} "
        "WHERE repetition IN (FROM considered) OR NOT EXISTS (FROM considered)"
    )
    connection.execute("CREATE VIEW runs AS SELECT * EXCLUDE is_control FROM judged_runs WHERE NOT is_control")
    completed = "outcome = 'completed' AND suspect IS NULL"
    connection.execute(f"CREATE VIEW good AS FROM runs WHERE {completed}")
    connection.execute(f"CREATE VIEW controls AS FROM judged_runs WHERE is_control AND {completed}")


def _is_control(controls: Sequence[str]) -> str:
    return f"regexp_matches(sweep, '-({'|'.join(controls)})$')" if controls else "false"


def _refuse_access(connection: DuckDBPyConnection) -> None:
    """Refuse access to files from now on: the queries come from a file that somebody else may have written."""
    for setting in NO_ACCESS:
        connection.execute(f"SET {setting}")


def _create_views(connection: DuckDBPyConnection, reproduction: Reproduction) -> None:
    connection.execute("CREATE TABLE accepted (id VARCHAR, least DOUBLE, most DOUBLE)")
    bounds = [(claim.id, *claim.bounds) for claim in reproduction.claims]
    connection.executemany("INSERT INTO accepted VALUES (?, ?, ?)", bounds)
    _compute_views(connection, reproduction.views)


def _compute_views(connection: DuckDBPyConnection, views: Mapping[str, str]) -> None:
    """Make a table of the present rows of each view: as views of each other, they would be computed again in each query
    that uses them, hundreds of times."""
    for name, query in views.items():
        connection.execute(f'CREATE OR REPLACE TABLE "{name}" AS {query}')


def judged(connection: DuckDBPyConnection, reproduction: Reproduction) -> list[Judged]:
    """Each claim with its verdict, from its values in each repetition of all sweeps. A claim without a value in a
    single repetition has that of all runs, without an interval. Raises BadQuery."""
    claims = reproduction.claims
    stated = [claim for claim in claims if not claim.undecidable]
    of_all = {claim.id: cases_of(connection, claim) for claim in stated}
    values: dict[str, dict[str, list[Value]]] = {claim.id: {} for claim in stated}
    for number in _repetitions(connection):
        with _considering(connection, number, reproduction.views):
            for claim in stated:
                for case, value in cases_of(connection, claim).items():
                    values[claim.id].setdefault(case, []).append(value)
    return [_judged(claim, of_all.get(claim.id, {}), values.get(claim.id, {})) for claim in claims]


def _judged(claim: Claim, of_all: dict[str, Value], by_repetition: dict[str, list[Value]]) -> Judged:
    if claim.undecidable:
        return Judged(claim, "undecidable", reason=claim.undecidable)
    if not of_all:
        return Judged(claim, "undecidable", reason=NO_RUNS)
    return judge_cases(claim, {case: by_repetition.get(case, [value]) for case, value in of_all.items()})


def _repetitions(connection: DuckDBPyConnection) -> list[int]:
    query = "SELECT DISTINCT repetition FROM all_runs WHERE outcome != 'not_run' ORDER BY 1"
    return [number for (number,) in connection.execute(query).fetchall()]


@contextmanager
def _considering(connection: DuckDBPyConnection, repetition: int, views: Mapping[str, str]) -> Iterator[None]:
    """Have `runs` and all that follows from it consist of one repetition. Raises BadQuery."""
    import duckdb

    try:
        connection.execute("INSERT INTO considered VALUES (?)", [repetition])
        _compute_views(connection, views)
        yield
        connection.execute("DELETE FROM considered")
        _compute_views(connection, views)
    except duckdb.Error as problem:
        raise BadQuery(f"views, repetition {repetition}: {problem}") from problem


def cases_of(connection: DuckDBPyConnection, claim: Claim) -> dict[str, Value]:
    """The value of each case of a claim that has one, by what names the case. Raises BadQuery."""
    headings, rows = _rows(connection, f"claim {claim.id}", claim.ours)
    is_share = tuple(headings[-2:]) == SHARE
    width = len(SHARE) if is_share else 1
    cases: dict[str, Value] = {}
    for row in rows:
        values = row[-width:]
        if None not in values and not (is_share and not values[-1]):
            case = ", ".join(f"{name} {_text(value)}" for name, value in zip(headings, row[:-width], strict=False))
            cases[case] = Count(*map(int, values)) if is_share else float(values[0])
    return cases


def _text(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float | Decimal) else str(value)


def points(connection: DuckDBPyConnection, query: str) -> list[Point]:
    """The rows of a panel's query: series, x, y and facet; "" if it has no fourth column. Raises BadQuery."""
    return [
        (str(series), float(x), float(y), str(facet[0]) if facet else "")
        for series, x, y, *facet in _rows(connection, "a figure", query)[1]
        if x is not None and y is not None
    ]


def table(connection: DuckDBPyConnection, query: TableOf) -> tuple[list[str], list[tuple[Any, ...]]]:
    """The headings and the rows of a table. Raises BadQuery."""
    headings, rows = _rows(connection, f"table {query.name}", query.rows)
    return headings, [tuple(float(value) if isinstance(value, Decimal) else value for value in row) for row in rows]


def _rows(connection: DuckDBPyConnection, name: str, query: str) -> tuple[list[str], list[tuple[Any, ...]]]:
    import duckdb

    try:
        found = connection.execute(query)
        rows = found.fetchmany(MOST_FETCHED_ROWS + 1)
        if len(rows) > MOST_FETCHED_ROWS:
            raise BadQuery(f"{name}: more than {MOST_FETCHED_ROWS:,} rows")
        return [column[0] for column in found.description or ()], rows
    except duckdb.InterruptException as problem:
        raise BadQuery(f"{name}: interrupted, because the queries of an archive have a time limit") from problem
    except duckdb.Error as problem:
        raise BadQuery(f"{name}: {problem}") from problem


def _add_packets(connection: DuckDBPyConnection, results: Results, condition: str) -> None:
    if not condition:
        return
    for run in _selected(connection, results, "good", condition):
        begin_ns = {
            name: _add_packets_of(connection, name, results.sweep.name, run, file) for name, file in CAPTURES.items()
        }
        _add_tcp_samples_of(connection, results.sweep.name, run, begin_ns["packets"])


def _selected(connection: DuckDBPyConnection, results: Results, source: str, condition: str) -> list[Run]:
    query = f"SELECT run_id FROM {source} WHERE sweep = ? AND ({condition})"
    selected = {row[0] for row in connection.execute(query, [results.sweep.name]).fetchall()}
    return [run for run in results.runs if run.record.run_id in selected]


def _add_handshakes(connection: DuckDBPyConnection, results: Results, condition: str) -> None:
    """Add the handshakes of the runs that were captured. Several processes count them, because each run takes a tshark.

    Raises ReportError if a capture cannot be read.
    """
    if not condition:
        return
    runs = [run for run in _selected(connection, results, "runs", condition) if run.summary]
    dissectors = [results.profiles[run.record.implementation].dissector for run in runs]
    with processes(len(os.sched_getaffinity(0)), "low") as pool:
        for run, (handshake, problem) in zip(runs, pool.map(_handshake, runs, dissectors), strict=True):
            if handshake is None:
                raise _unreadable(run, run.directory, problem, "captures of a QUIC session")
            connection.executemany(
                "INSERT INTO quic_handshakes VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                [
                    (
                        results.sweep.name,
                        run.record.run_id,
                        host == "sender",
                        *(counts.packets, counts.bytes, counts.needed, counts.useless, counts.useless_bytes),
                        *(counts.answers, handshake.unreadable, handshake.first_byte_s),
                    )
                    for host, counts in (("sender", handshake.sender), ("receiver", handshake.receiver))
                ],
            )


def _handshake(run: Run, dissector: Sequence[str]) -> tuple[QuicHandshake | None, str]:
    """The handshake of a run, or what is wrong."""
    counters = {way: direction_counters(stages) for way, stages in run.record.emulator_statistics.items()}
    session = Session.model_validate(run.record.session)
    try:
        outputs = [read_plain(run.directory / f"{host}.out", MOST_OUTPUT_BYTES) for host in HOSTS]
        return load_or_count(run.directory, session, dissector, counters, outputs), ""
    except (NotACapture, NoDissection, OSError, ValueError) as problem:
        return None, str(problem)


def _add_packets_of(connection: DuckDBPyConnection, name: str, sweep: str, run: Run, file: str) -> int:
    """Returns the time of the session's first frame at that port, in ns since 1970."""
    columns = _frames(run, file)
    session = Session.model_validate(run.record.session)
    sending, receiving = sent_by(columns, session, "sender"), sent_by(columns, session, "receiver")
    first_ns = int(columns.time_ns[sending | receiving].min(initial=columns.time_ns.max(initial=0)))
    frames = {  # duckdb reads the arrays by this name
        "from_sender": sending[sending | receiving],
        "at_s": (columns.time_ns[sending | receiving] - first_ns) / 1e9,
        "bytes": columns.wire_bytes[sending | receiving].astype("int64"),
        "frame": (sending | receiving).nonzero()[0] + 1,
    }
    connection.register("frames", frames)
    connection.execute(f"INSERT INTO {name} SELECT ?, ?, * FROM frames", [sweep, run.record.run_id])
    connection.unregister("frames")
    return first_ns


def _add_tcp_samples_of(connection: DuckDBPyConnection, sweep: str, run: Run, first_ns: int) -> None:
    """Add the samples of a run, if it has any. Raises ReportError if they cannot be read."""
    path = run.directory / SAMPLES
    try:
        rows = list(csv.DictReader(read_plain(path, MOST_SAMPLES_BYTES).decode().splitlines()))
        columns = {name: np.array([int(row[name] or MISSING) for row in rows], np.int64) for name in SAMPLE_COLUMNS}
    except FileNotFoundError:
        return
    except (OSError, ArithmeticError, LookupError, TypeError, ValueError, csv.Error) as problem:
        raise _unreadable(run, path, "not a table of TCP samples", "the samples of a run") from problem
    times_s = (columns.pop("time_ns") - first_ns) / 1e9
    connection.register("samples", {"at_s": times_s, **columns})
    counts = ", ".join(f"nullif({name}, {MISSING})" for name in columns)
    connection.execute(f"INSERT INTO tcp_samples SELECT ?, ?, at_s, {counts} FROM samples", [sweep, run.record.run_id])
    connection.unregister("samples")


def _frames(run: Run, file: str) -> Columns:
    """A capture of a run. Raises ReportError."""
    path = run.directory / file
    try:
        require_plain(path)
        return read_columns(path)
    except (NotACapture, OSError) as problem:
        reason = problem.strerror if isinstance(problem, OSError) else problem
        raise _unreadable(run, path, str(reason), "the capture of a completed run") from problem


def _unreadable(run: Run, path: Path, reason: str, expected: str) -> ReportError:
    return ReportError(
        Mistake(
            f"cannot be read: {reason}",
            expected,
            f"perform it again: owlt retry {run.directory.parent.parent} --run {run.record.run_id}",
            Place(str(path)),
        )
    )
