"""The page of a reproduction in Markdown: the author's text, with the verdicts and the numbers in its places."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from owlt.reports.reproduction.claims import load_claims
from owlt.reports.reproduction.figures import draw
from owlt.reports.reproduction.judging import Judged, Verdict, database, judged, points, table
from owlt.reports.results.load import Results, load_results
from owlt.results.plain_files import make_directory, write_whole

TEMPLATE = "page.md"
QUICK = "-quick"
"""The end of the name of a sweep that is a part of the grid."""
PLACES = ("{claims}", "{counts}", "{runs}", "{form}")
VERDICTS: tuple[Verdict, ...] = ("confirmed", "not confirmed", "undecidable")


def make_page(directory: Path, results_directories: Sequence[Path], name: str) -> tuple[Path, list[Judged]]:
    """Judge the claims of a reproduction from the results of its sweeps, and write NAME.md, NAME-claims.csv, the
    figures and the tables into `reproduction/` of the first results. Returns the page and the verdicts.

    Raises ClaimsError, ReportError, BadQuery, OSError.
    """
    reproduction, results = load_claims(directory), [load_results(each) for each in results_directories]
    target = make_directory(results_directories[0] / "reproduction")
    tables: dict[str, str] = {}
    with database(results, reproduction) as connection:
        verdicts = judged(connection, reproduction.claims)
        for figure in reproduction.figures:
            of_panels = [points(connection, panel.points) for panel in figure.panels]
            draw(figure, of_panels, target / f"{name}-{figure.name}.svg", reproduction.series)
        for each in reproduction.tables:
            headings, rows = table(connection, each)
            write_rows(headings, rows, target / f"{name}-{each.name}.csv")
            tables[each.name] = markdown_table(headings, rows)
    write_claims(verdicts, target / f"{name}-claims.csv")
    page = target / f"{name}.md"
    write_whole(page, page_text((directory / TEMPLATE).read_text(), verdicts, results, tables))
    return page, verdicts


def page_text(template: str, verdicts: Sequence[Judged], results: Sequence[Results], tables: Mapping[str, str]) -> str:
    """The template with its PLACES filled in, and each {table NAME}."""
    texts = (_claims_table(verdicts), counts_text(verdicts), _runs_text(results), _form_text(results))
    for place, text in zip(PLACES, texts, strict=True):
        template = template.replace(place, text)
    for name, text in tables.items():
        template = template.replace(f"{{table {name}}}", text)
    return template


def markdown_table(headings: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """A table in Markdown; numbers have four significant digits, and columns of numbers are on the right."""
    if not rows:
        return "(No completed run.)"
    is_number = [all(isinstance(row[place], int | float | None) for row in rows) for place in range(len(headings))]
    lines = [headings, ["---:" if each else "---" for each in is_number]]
    lines += [[_cell_text(value) for value in row] for row in rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _cell_text(value: Any) -> str:
    if isinstance(value, float):
        return number_text(value, "")
    return "" if value is None else f"{value:,}" if isinstance(value, int) else str(value)


def counts_text(verdicts: Sequence[Judged]) -> str:
    """How many claims have which verdict."""
    counts = Counter(each.verdict for each in verdicts)
    return ", ".join(f"{counts[verdict]} {verdict}" for verdict in VERDICTS)


def number_text(value: float | None, unit: str) -> str:
    """A number with at most four significant digits, and its unit."""
    if value is None:
        return ""
    if abs(value) >= 1e4:
        return f"{value:,.0f} {unit}".strip()
    return f"{value:.4g} {unit}".strip()


def accepted_text(judged_claim: Judged) -> str:
    """Which values confirm a claim: "10.26 to 11.34 MB"."""
    claim = judged_claim.claim
    accept = claim.accept
    if accept is None:
        return ""
    if accept.within is not None and claim.paper is not None:
        margin = accept.within * abs(claim.paper)
        low, high = number_text(claim.paper - margin, ""), number_text(claim.paper + margin, claim.unit)
        return f"{low} to {high}"
    least, most = number_text(accept.least, claim.unit), number_text(accept.most, claim.unit)
    if accept.least is not None and accept.most is not None:
        return f"{number_text(accept.least, '')} to {most}"
    return f"at least {least}" if accept.least is not None else f"at most {most}"


def write_claims(verdicts: Sequence[Judged], path: Path) -> None:
    """The claims and verdicts as a table for other programs."""
    rows = [
        (
            each.claim.id,
            each.claim.place,
            "" if each.claim.paper is None else f"{each.claim.paper:g}",
            "" if each.ours is None else f"{each.ours:.6g}",
            each.claim.unit,
            each.verdict,
            each.reason,
        )
        for each in verdicts
    ]
    write_rows(("id", "place", "paper", "ours", "unit", "verdict", "reason"), rows, path)


def write_rows(headings: Sequence[str], rows: Sequence[Sequence[Any]], path: Path) -> None:
    """A table as CSV; numbers have six significant digits."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(headings)
    writer.writerows([f"{value:.6g}" if isinstance(value, float) else value for value in row] for row in rows)
    write_whole(path, text.getvalue())


def _claims_table(verdicts: Sequence[Judged]) -> str:
    lines = ["| Claim | Place | Paper | Ours | Confirms | Verdict |", "| --- | --- | --- | --- | --- | --- |"]
    for each in verdicts:
        claim = each.claim
        remark = each.reason or (claim.remark if each.verdict == "not confirmed" else "")
        cells = (
            claim.states,
            claim.place,
            number_text(claim.paper, claim.unit),
            number_text(each.ours, claim.unit),
            accepted_text(each),
            f"**{each.verdict}**" + (f": {remark}" if remark else ""),
        )
        lines.append(f"| {' | '.join(' '.join(cell.split()) for cell in cells)} |")
    return "\n".join(lines)


def _form_text(results: Sequence[Results]) -> str:
    """Which of its two sweeps the results have, and how often it was performed."""
    first = results[0]
    counts = [len(runs) for runs in first.by_permutation.values()]
    least, most = min(counts), max(counts)
    if least < most:
        performed, planned = sum(counts), sum(first.planned.values())
        return (
            f"The numbers on this page are those of {performed:,} of the {planned:,} runs of the complete grid: "
            f"its {len(counts)} cells were performed {least} to {most} times each."
        )
    often = "once" if most == 1 else f"{most} times"
    if first.sweep.name.endswith(QUICK):
        return f"The numbers on this page are those of the quick form, a part of the grid, performed {often}."
    return f"The numbers on this page are those of the complete grid, performed {often}."


def _runs_text(results: Sequence[Results]) -> str:
    """How many runs ended how; of several sweeps, of each."""
    texts = [_outcomes_text(each) for each in results]
    if len(results) == 1:
        return texts[0]
    return "; ".join(f"{each.sweep.name}: {text}" for each, text in zip(results, texts, strict=True))


def _outcomes_text(results: Results) -> str:
    outcomes = Counter(str(run.record.outcome) for run in results.runs)
    suspect = sum(bool(run.suspect) for run in results.runs)
    parts = [f"{count} {outcome.replace('_', ' ')}" for outcome, count in outcomes.most_common()]
    parts += [f"{len(results.unrecorded)} not performed"] if results.unrecorded else []
    return f"{', '.join(parts)} ({suspect} suspect)" if suspect else ", ".join(parts)
