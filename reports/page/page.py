"""A results directory becomes a report: its page, `report/index.html`, whose sections are in the order of a reader's
questions, with figures, and tables as CSV beside it.

The report depends on the results alone: built twice, it is the same bytes. Computing numbers belongs to
`reports.comparison`, looks to report.css.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

from owlt.captures.pool import shared
from owlt.captures.protocols.messages import without_collections
from owlt.reports.answer.answer import answer_of
from owlt.reports.answer.assertions import findings_of
from owlt.reports.answer.cell_verdicts import Verdict
from owlt.reports.answer.regions import dimensions_of, map_of, place_text
from owlt.reports.answer.sentences import farthest_text, percent_text, spread_text
from owlt.reports.comparison.cells import GOODPUT, Cell, Criterion, box_of, boxes_of, cells_of, criteria_of, with_labels
from owlt.reports.comparison.derived_tables import DERIVED_FILES, write_derived_tables
from owlt.reports.comparison.estimates import FEW, LEAST_GROUPED
from owlt.reports.comparison.grid import Grid
from owlt.reports.comparison.metrics import FURTHER, MEASURES, METRICS, shown_in
from owlt.reports.comparison.panels import (
    KINDS,
    MANY_PERMUTATIONS,
    Figure,
    comparisons,
    listings,
    needs_listings,
    portraits,
)
from owlt.reports.comparison.stopping import REASONS, load_due_results, rule_of, stops_of
from owlt.reports.comparison.theory import Comparison, agreements, comparisons_of
from owlt.reports.drawing.link_boxes import boxes_of_links
from owlt.reports.drawing.output import WORTH_A_PROCESS, KeptFigures
from owlt.reports.looks import NAMED, SERIES
from owlt.reports.page.certificates import certificate_address, check_words, limits, verdict_words
from owlt.reports.page.figure_files import TimeSection, draw_figures, drawings, image, marks, time_section
from owlt.reports.page.implementations import ORIGINS, ImplementationRow, implementation_rows, origins_of, pairs_section
from owlt.reports.page.provenance import drift_of, mixed_versions, provenance_of
from owlt.reports.page.tables import (
    CAPTION,
    HEADS,
    LEDGER_COLUMNS,
    OUTCOMES,
    TEXT_HEADS,
    corrupted_unseen,
    glance_rows,
    glance_tables,
    ledger_rows,
    outcome_counts,
    passes_of,
    shown_ledger_columns,
    shown_outcomes,
    tcp_cells,
    tcp_problems,
    unexplained,
)
from owlt.reports.rendering import Parts, new_environment
from owlt.reports.replacing import replaced_directory
from owlt.reports.results.channels import channel_head, link_words, outage_words, step_rows, timeline_words
from owlt.reports.results.load import Results, Run, host_baselines_of
from owlt.reports.results.rows import FILES as TABLE_FILES
from owlt.reports.results.rows import write_table
from owlt.reports.sessions.protocols import PHASES, ShownRun, shown_runs
from owlt.reports.sessions.session_figures import Drawn, draw_sessions
from owlt.reports.units import axis_text, delay_text, listed, number_text, probability_text, rate_text, size_text
from owlt.results.files import SAMPLES_NAME
from owlt.results.judgements import known_failure
from owlt.results.waits import WAITS_NAME

PAGE_NAME = "index.html"
FIGURES, PARTS = "figures", "parts"
WRITTEN = (PAGE_NAME, *DERIVED_FILES, *TABLE_FILES, FIGURES, PARTS, "tcp.csv")
"""The entries of a report that a new one replaces; those of older versions too."""
MOST_REGIONS = 12
"""The most regions of an answer in words; the map has all of them."""
MANY_LINES, MOST_LINES = 8, 20
"""With more cells, the reader can select those of a link; with more than the second number, the table has its own
scroll bar."""
MOST_NAMED_COLUMNS = 4
"""With more columns, the cells of the map have the marks of implementations only."""
FEW_FINDINGS = 12
"""With more assertions that are met, the table is folded."""
MANY_ROWS = 48
"""A table with a row for each permutation is folded if it has more rows."""
MANY_RUNS, RUNS_AT_ONCE = 600, 200
"""With more runs, the rows are loaded when they come into view, this many together."""
CLOCKS = {
    "exact": "computation is free, idle time is skipped",
    "skip": "computation takes real time, idle time is skipped",
    "real": "wall clock",
}
RUN_FILES = {
    "record": ("record.json", WAITS_NAME),
    "summary": ("summary.json",),
    "protocol": ("protocol.json",),
    "sender": ("sender.out", "sender.err", "sender.pcap", SAMPLES_NAME),
    "receiver": ("receiver.out", "receiver.err", "receiver.pcap"),
}
"""The files of a run that the page links if they exist, by the name of the group."""
_FILTERS = {
    "delay": delay_text,
    "rate": rate_text,
    "size": size_text,
    "probability": probability_text,
    "number": number_text,
    "listed": listed,
    "head": channel_head,
    "link": link_words,
    "timeline": timeline_words,
    "steps": step_rows,
    "check": check_words,
    "certificate_address": certificate_address,
    "axis_text": lambda axis, point: axis_text(axis, axis.of(point)),
    "limits": limits,
}
_Section = dict[str, Any]
"""The values that the template of a section names."""


def build_report(results_dir: Path, warn: Callable[[str], None] = lambda warning: None, with_pdf: bool = False) -> Path:
    """Build the report of a results directory, and replace an earlier one. Returns its page.

    Figures that are drawn from the same values as those of the earlier report are taken over from it; `with_pdf` adds a
    PDF to each.

    The earlier report stays until this one is complete. `warn` is called with a sentence for each file that
    is damaged or unexpected. Raises ReportError if there is no record, if a required file is invalid, or if the runs
    have different clocks; OSError.
    """
    with without_collections():
        return build_report_of(load_due_results(results_dir), warn, with_pdf)


def build_report_of(results: Results, warn: Callable[[str], None], with_pdf: bool = False) -> Path:
    """Build the report of results that are loaded already, without planned runs that are not due. Raises OSError."""
    for warning in results.warnings:
        warn(warning)
    report = results.directory / "report"
    with replaced_directory(report, WRITTEN) as draft:
        (draft / FIGURES).mkdir()
        suffixes = (".svg", ".pdf") if with_pdf else (".svg",)
        _build(results, draft, KeptFigures(report / FIGURES, draft / FIGURES, suffixes))
    return report / PAGE_NAME


def _build(results: Results, report: Path, kept: KeptFigures) -> None:
    contents = Contents.of(results)
    over_sweep = (*contents.compared, *contents.portrayed)
    rows = results.rows
    cells = cells_of(rows)
    theory = comparisons_of(cells)
    with shared(len(over_sweep) + len(contents.shown_runs), WORTH_A_PROCESS) as share:
        sessions = draw_sessions(results, contents.shown_runs, kept, share)
        draw_figures(results, over_sweep, theory, kept, share)
    drawn = Drawings(sessions, time_section(results, cells, kept))
    kept.write()
    write_table(rows, report)
    write_derived_tables(cells, report)
    parts = Parts(report / PARTS)
    (report / PAGE_NAME).write_text(render_page(results, cells, theory, contents, drawn, kept, parts))
    parts.write()


@dataclass(frozen=True)
class Contents:
    """Figures of all implementations, figures of one each, and the runs whose messages are shown."""

    compared: tuple[Figure, ...]
    portrayed: tuple[Figure, ...]
    shown_runs: tuple[ShownRun, ...]

    @classmethod
    def of(cls, results: Results) -> Contents:
        """The contents for a results directory; a single implementation has only figures over the sweep."""
        return cls(
            compared=tuple(listings(results) if needs_listings(results) else comparisons(results)),
            portrayed=tuple(portraits(results)) if len(results.implementations) > 1 else (),
            shown_runs=tuple(shown_runs(results)),
        )


@dataclass(frozen=True)
class Drawings:
    """What is drawn for the page beside the figures of its contents: the figures of the shown runs, by implementation;
    and where the time went, None if that is not known."""

    sessions: Mapping[str, Drawn]
    time: TimeSection | None = None


def render_page(
    results: Results,
    cells: list[Cell],
    theory: Sequence[Comparison],
    contents: Contents,
    drawn: Drawings,
    kept: KeptFigures,
    parts: Parts,
) -> str:
    """The page as HTML that needs nothing from another site.

    `cells` are those of its table of runs, `theory` what is expected of them; `kept` has the files of the
    figures in `contents`; `parts` gets the parts that are too large for the page.
    """
    environment = new_environment()
    environment.filters |= _FILTERS
    environment.globals |= {
        "later": parts.later,
        "later_rows": parts.later_rows,
        "called": {name: mark + results.labels.get(name, name) for name, mark in marks(results).items()},
    }
    rows = implementation_rows(results)
    return environment.get_template("index.html").render(
        implementations=rows,
        **_common(results),
        **_headline(results, rows),
        **_answer(results, cells, theory),
        **_assertions(results, cells),
        **_theory(cells, theory),
        time=drawn.time,
        **_medians(results),
        **_outcomes(results),
        **_channels(results),
        **_figures(results, contents, kept),
        **pairs_section(results, cells, contents.shown_runs, drawn.sessions),
        **_packets(results),
        **_protocols(results, contents, drawn.sessions),
        **_tcp(results),
        provenance=provenance_of(results),
        **_runs(results),
    )


def _common(results: Results) -> _Section:
    """The values that several sections need."""
    most_runs = max(results.planned.values())
    return {
        "results": results,
        "grid": Grid.of(results),
        "metrics": shown_in(results, METRICS),
        "further": shown_in(results, FURTHER),
        "measures": shown_in(results, MEASURES),
        "marks": marks(results),
        "stops": stops_of(results),
        "stop_reasons": REASONS,
        "known_failure": known_failure,
        "rule": results.sweep.repetitions,
        "most_runs": most_runs,
        "few": most_runs <= FEW,
        "many_rows": MANY_ROWS,
        "is_many": len(results.implementations) > NAMED,
        "lying": needs_listings(results),
        "first_name": next(iter(results.implementations)),
    }


def _headline(results: Results, rows: list[ImplementationRow]) -> _Section:
    return {
        "clock_meaning": CLOCKS.get(results.clock, ""),
        "performed": tuple(map(_date, results.performed)) if results.performed else None,
        "virtual_time": _virtual_time(results),
        "drift": drift_of(results),
        "host_baselines": host_baselines_of(results.directory),
        "goodput_of": GOODPUT.metric.of,
        "origins": origins_of(rows),
        "origin_names": ORIGINS,
        "versions": _versions(results),
        "mixed_versions": mixed_versions(results),
        "undelivered": {name: each for name, each in results.deliveries.items() if not each.all_of_them},
    }


@dataclass(frozen=True)
class _Unanswered:
    """A criterion of a sweep of one implementation, which has boxes and no answer."""

    criterion: Criterion


def _answer(results: Results, cells: list[Cell], theory: Sequence[Comparison]) -> _Section:
    """The first screen. Its texts have the labels of the implementations: so have its cells."""
    labels = results.labels
    cells = with_labels(cells, labels)
    answer = answer_of(cells, rule_of(results.sweep), accounts=results.accounts)
    by_criterion = answer.by_criterion if answer else ()
    dimensions = dimensions_of([cell.point for cell in cells])
    expected = {(name, each.point): replace(each, name=name) for each in theory for name in [labels[each.name]]}
    return {
        "answer": answer,
        "criteria": by_criterion or tuple(map(_Unanswered, criteria_of(cells))),
        "maps": {each.criterion.slug: map_of(each.verdicts, dimensions) for each in by_criterion},
        "lines_by_point": defaultdict(
            dict, {each.criterion.slug: {line.verdict.point: line for line in each.lines} for each in by_criterion}
        ),
        "link_plots": {
            criterion.slug: boxes_of_links(cells, criterion, {each.point: each for each in verdicts}, expected)
            for criterion, verdicts in (
                [(each.criterion, each.verdicts) for each in by_criterion]
                or [(each, ()) for each in criteria_of(cells)]
            )
        },
        "dimensions": dimensions,
        "passes": passes_of(cells, dimensions),
        "changes": {
            channel.name: outage_words(channel.specified)
            for channel in results.distinct_channels
            if channel.specified.timeline
        },
        "series_of": {labels[name]: number for name, number in results.series.items()},
        "cell_quantity": _cell_quantity,
        "cell_spread": spread_text,
        "farthest": farthest_text,
        "cell_place": partial(place_text, dimensions=dimensions),
        "many_lines": MANY_LINES,
        "most_lines": MOST_LINES,
        "percent": percent_text,
        "most_regions": MOST_REGIONS,
        "series": len(SERIES),
        "most_named_columns": MOST_NAMED_COLUMNS,
    }


def _cell_quantity(verdict: Verdict, criterion: Criterion) -> str:
    """The best value of a cell, with its unit."""
    best = verdict.standing(verdict.best) if verdict.best else None
    return "–" if best is None or best.value is None else criterion.metric.quantity_text(best.value)


def _assertions(results: Results, cells: list[Cell]) -> _Section:
    findings = findings_of(results.sweep.assertions, cells)
    dimensions = dimensions_of([cell.point for cell in cells])
    verdicts = [finding.verdict for finding in findings]
    return {
        "findings": findings,
        "not_met": verdicts.count("not met"),
        "without_result": verdicts.count("no result"),
        "few_findings": FEW_FINDINGS,
        "finding_place": partial(place_text, dimensions=dimensions),
    }


def _theory(cells: list[Cell], theory: Sequence[Comparison]) -> _Section:
    dimensions = dimensions_of([cell.point for cell in cells])
    return {
        "agreements": agreements(theory),
        "theory_place": partial(place_text, dimensions=dimensions),
    }


def _medians(results: Results) -> _Section:
    measures = shown_in(results, MEASURES)
    return {
        "least_grouped": LEAST_GROUPED,
        "glance": glance_rows(results),
        "glance_tables": glance_tables(results),
        "measured": {point: [box_of(results, point, metric) for metric in measures] for point in results.planned},
        "boxes": {metric.slug: boxes_of(results, metric) for metric in shown_in(results, METRICS)},
    }


def _outcomes(results: Results) -> _Section:
    counts = outcome_counts(results)
    return {
        "outcomes": counts,
        "outcome_columns": shown_outcomes(counts),
        "outcome_names": OUTCOMES,
        "without_tcp": tcp_problems(results),
    }


def _channels(results: Results) -> _Section:
    return {
        "verdicts": [(channel, verdict_words(channel, results.sweep.certify)) for channel in results.distinct_channels]
    }


def _figures(results: Results, contents: Contents, kept: KeptFigures) -> _Section:
    by_metric = {kind.metric.slug: kind.metric for kind in KINDS}
    return {
        "drawing": drawings(results, (*contents.compared, *contents.portrayed), kept.figures),
        "image": image,
        "with_pdf": ".pdf" in kept.suffixes,
        "one_axis": len(results.planned) > MANY_PERMUTATIONS,
        "side_by_side": tuple(
            metric
            for metric in by_metric.values()
            if metric not in FURTHER and any(figure.panels[0][0].metric == metric for figure in contents.compared)
        ),
        "compared": {
            slug: [figure for figure in contents.compared if figure.panels[0][0].metric == metric]
            for slug, metric in by_metric.items()
        },
        "portrayed": {
            name: [figure for figure in contents.portrayed if list(figure.implementations) == [name]]
            for name in results.implementations
        },
    }


def _packets(results: Results) -> _Section:
    ledgers = ledger_rows(results)
    return {
        "ledgers": ledgers,
        "ledger_columns": shown_ledger_columns(ledgers),
        "all_ledger_columns": len(LEDGER_COLUMNS),
        "unexplained": unexplained(results),
        "unseen": corrupted_unseen(results),
        "cut_runs": sum(run.summary is not None and run.summary.headers_only for run in results.runs),
    }


def _protocols(results: Results, contents: Contents, sessions: Mapping[str, Drawn]) -> _Section:
    names = {shown.name for shown in contents.shown_runs}
    return {
        "shown_runs": contents.shown_runs,
        "not_shown": [name for name in results.implementations if name not in names],
        "phases": PHASES,
        "sessions": sessions,
    }


def _tcp(results: Results) -> _Section:
    return {"tcp_rows": tcp_cells(results), "tcp_heads": HEADS, "tcp_texts": TEXT_HEADS, "tcp_caption": CAPTION}


def _runs(results: Results) -> _Section:
    groups = [results.runs] if len(results.runs) <= MANY_RUNS else _groups(results.runs)
    return {
        "files": {run.record.run_id: _files(run) for run in results.runs},
        "run_groups": {f"runs-{number}": runs for number, runs in enumerate(groups)},
    }


def _groups(runs: Sequence[Run]) -> list[Sequence[Run]]:
    return [runs[first : first + RUNS_AT_ONCE] for first in range(0, len(runs), RUNS_AT_ONCE)]


def _virtual_time(results: Results) -> tuple[str, str] | None:
    """The beginning of the first run and the end of the last, on the rig's clock; None if no run began."""
    began = [run.record.started_at_ns for run in results.runs if run.record.started_at_ns is not None]
    ended = [run.record.ended_at_ns for run in results.runs if run.record.ended_at_ns is not None]
    return (_date(min(began) / 1e9), _date(max(ended) / 1e9)) if began and ended else None


def _date(time_s: float) -> str:
    return f"{datetime.fromtimestamp(int(time_s), UTC):%Y-%m-%d %H:%M:%S}"


def _versions(results: Results) -> dict[str, list[str]]:
    """Every version of what all runs share; more than one of a kind is worth a warning."""
    versions = {
        name: sorted({run.record.versions[name] for run in results.runs if name in run.record.versions})
        for name in ("owlt", "kernel", "python")
    }
    return {name: each for name, each in versions.items() if each}


def _files(run: Run) -> dict[str, list[tuple[str, str]]]:
    """The files of a run that exist, by group: address from the page, short name."""
    return {
        group: [
            (quote(f"../runs/{run.directory.name}/{name}"), name.removeprefix(f"{group}."))
            for name in names
            if (run.directory / name).exists()
        ]
        for group, names in RUN_FILES.items()
    }
