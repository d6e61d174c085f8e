"""The validation page in Markdown: the author's text, with the statements, tables and numbers in its places."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from owlt.reports.reproduction.page import markdown_table, write_rows
from owlt.reports.results.load import Results, load_results
from owlt.reports.results.rows import Row, run_rows
from tests.validation.clocks import SETTINGS, ClockCell, cell_table, clock_cells, clock_statements, summaries
from tests.validation.equivalence import Statement, Verdict
from tests.validation.figures import Agreement, draw_agreement, draw_clocks
from tests.validation.rates import RateCell, custody_cells, custody_statements, rate_table, tcp_cells, tcp_statements
from tests.validation.rounds import RoundsCell, rounds_cells, rounds_statements, rounds_table

NAME = "validation"
CLOCK_SWEEP = "clocks-"
"""The beginning of the names of the sweeps that are one sweep on several clocks and rigs."""
VERDICTS: tuple[Verdict, ...] = ("passed", "failed", "undecidable")
Table = tuple[list[str], list[tuple[object, ...]]]


def make_page(template: Path, directories: Sequence[Path], target: Path) -> list[Statement]:
    """Judge the results of the sweeps, and write validation.md, figures and tables into `target`.

    A sweep without results decides nothing. Raises ReportError, OSError.
    """
    results = [load_results(directory) for directory in directories]
    rows = [row for each in results for row in run_rows(each)]
    clocks, planned = _clock_cells(results)
    rounds = rounds_cells(row for row in rows if not _is_of_clocks(row))
    tcp, custody = (make(row for row in rows if not _is_of_clocks(row)) for make in (tcp_cells, custody_cells))
    statements = [
        *(each for setting in SETTINGS for each in clock_statements(in_setting(clocks, setting), setting, planned)),
        *rounds_statements(rounds),
        *tcp_statements(tcp),
        *custody_statements(custody),
    ]
    target.mkdir(parents=True, exist_ok=True)
    _write_tables(statements, clocks, rounds, tcp, custody, target)
    _draw(clocks, rounds, tcp, custody, target)
    tables = {
        "statements": _statement_table(statements),
        "counts": counts_text(statements),
        "runs": _runs_table(results),
        "clocks": markdown_table(
            ["setting", "implementation", "cells", "pairs", "disturbed", "median of cells", "range of cells"],
            [summary.row() for summary in summaries(clocks)],
        ),
        "packets": markdown_table(
            ["setting", "implementation", "cells", "pairs", "disturbed", "median of cells", "range of cells"],
            [summary.row() for summary in summaries(clocks, "str_sent")],
        ),
        "tcp": markdown_table(*rate_table(tcp)),
        "custody": markdown_table(*rate_table(custody)),
    }
    text = template.read_text()
    for name, table in tables.items():
        text = text.replace(f"{{{name}}}", table)
    (target / f"{NAME}.md").write_text(text)
    return statements


def in_setting(cells: Sequence[ClockCell], setting: str) -> list[ClockCell]:
    """The cells of one setting."""
    return [cell for cell in cells if cell.setting == setting]


def counts_text(statements: Sequence[Statement]) -> str:
    """How many statements have which verdict."""
    counts = Counter(statement.verdict for statement in statements)
    return ", ".join(f"{counts[verdict]} {verdict}" for verdict in VERDICTS)


def _is_of_clocks(row: Row) -> bool:
    return bool(row["sweep"].startswith(CLOCK_SWEEP))


def _clock_cells(results: Sequence[Results]) -> tuple[list[ClockCell], int]:
    """The cells of all settings beside REFERENCE, and how many cells the sweep has."""
    of_clocks = [each for each in results if each.sweep.name.startswith(CLOCK_SWEEP)]
    rows = [row for each in of_clocks for row in run_rows(each)]
    planned = max((len(each.planned) for each in of_clocks), default=0)
    return [cell for setting in SETTINGS for cell in clock_cells(rows, setting)], planned


def _statement_table(statements: Sequence[Statement]) -> str:
    lines = ["| Statement | Verdict | Numbers |", "| --- | --- | --- |"]
    lines += [f"| {each.states} | **{each.verdict}** | {each.numbers} |" for each in statements]
    return "\n".join(lines)


def _runs_table(results: Sequence[Results]) -> str:
    headings = ["sweep", "planned", "performed", "completed", "suspect"]
    return markdown_table(
        headings,
        [
            (
                each.sweep.name,
                sum(each.planned.values()),
                len(each.runs),
                sum(run.completed for run in each.runs),
                sum(bool(run.suspect) for run in each.runs),
            )
            for each in results
        ],
    )


def _write_tables(
    statements: Sequence[Statement],
    clocks: Sequence[ClockCell],
    rounds: Sequence[RoundsCell],
    tcp: Sequence[RateCell],
    custody: Sequence[RateCell],
    target: Path,
) -> None:
    of_statements = [(each.id, each.verdict, each.states, each.numbers) for each in statements]
    tables: dict[str, Table] = {
        "statements": (["id", "verdict", "statement", "numbers"], list(of_statements)),
        "clocks": cell_table(clocks),
        "rounds": rounds_table(rounds),
        "tcp": rate_table(tcp),
        "custody": rate_table(custody),
    }
    for name, (headings, rows) in tables.items():
        write_rows(headings, rows, target / f"{NAME}-{name}.csv")


def _draw(
    clocks: Sequence[ClockCell],
    rounds: Sequence[RoundsCell],
    tcp: Sequence[RateCell],
    custody: Sequence[RateCell],
    target: Path,
) -> None:
    """The figures of the parts that have results."""
    of_sessions = [cell for cell in clocks if cell.measure == "session_s"]
    if of_sessions:
        draw_clocks(of_sessions, target / f"{NAME}-clocks.svg")
    if rounds:
        theories = {"E[M]": "expected", "with control packets": "with_control"}
        panels = [
            Agreement(
                name,
                "rounds",
                {
                    theory: [(getattr(cell, field), cell.mean) for cell in rounds if cell.implementation == name]
                    for theory, field in theories.items()
                },
            )
            for name in dict.fromkeys(cell.implementation for cell in rounds)
        ]
        draw_agreement(panels, target / f"{NAME}-rounds.svg")
    rates = [(tcp, "TCP, Reno, against Padhye"), (custody, "last custody signal, beyond a round trip")]
    shown = [Agreement(title, cells[0].unit, _by_name(cells)) for cells, title in rates if cells]
    if shown:
        draw_agreement(shown, target / f"{NAME}-rates.svg")


def _by_name(cells: Sequence[RateCell]) -> dict[str, list[tuple[float, float]]]:
    series: dict[str, list[tuple[float, float]]] = {}
    for cell in cells:
        points = zip(cell.expected, cell.measured, strict=True)
        series.setdefault(cell.name, []).extend(points)
    return series
