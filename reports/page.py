"""The page: what the templates show of the results, in the order a reader asks. Looks are report.css's."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import get_args
from urllib.parse import quote

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from reports.builds import builds_of
from reports.certificates import certificate_address, check_words, limits, verdict_words
from reports.channels import channel_head, link_words, step_rows, timeline_words
from reports.glance import glance_rows, glance_tables
from reports.grid import Grid
from reports.inline import inlined
from reports.ledgers import COLUMNS, corrupted_unseen, ledger_rows, shown_columns, unexplained
from reports.listings import needs_listings
from reports.load import Results, Run
from reports.looks import NAMED, SERIES, Looks
from reports.metrics import FURTHER, MEASURES, METRICS, Metric
from reports.panels import Figure
from reports.protocols import PHASES, Said
from reports.records import Outcome
from reports.session_figures import Drawn, SessionFigure
from reports.statistics import FEW, box_of, boxes_of
from reports.tcp_table import CAPTION, HEADS, TEXT_HEADS, tcp_cells, tcp_problems
from reports.units import delay_text, listed, number_text, probability_text, rate_text, size_text

INLINED_RUNS = 1000
"""Beyond so many runs the drawings stay beside the page, for with them it would be too heavy for a browser."""

MANY_ROWS = 48
"""A table of a permutation a row that has more is folded."""

TEMPLATES = Path(__file__).parent / "templates"
OUTCOMES: tuple[str, ...] = get_args(Outcome)
COUNTED = {name: name.replace("_", " ") for name in OUTCOMES} | {
    "missing": "not yet run",
    "suspect": "suspect",
    "without_numbers": "no numbers",
}
"""What is counted of an implementation's runs, and its name in the table."""
CLOCKS = {
    "exact": "computing costs no time, and time when nothing happens is skipped",
    "skip": "computing takes the time it takes, and time when nothing happens is skipped",
    "real": "the wall clock",
}
FILES = {
    "record": ("record.json",),
    "summary": ("summary.json",),
    "protocol": ("protocol.json",),
    "sender": ("sender.out", "sender.err", "sender.pcap", "tcp-sender.csv"),
    "receiver": ("receiver.out", "receiver.err", "receiver.pcap"),
}
"""What may lie beside a record and is linked where it does, by what it is of."""


def render_page(
    results: Results,
    compared: list[Figure],
    portrayed: list[Figure],
    said: Sequence[Said],
    sessions: Mapping[str, Drawn],
    figures: Path,
) -> str:
    """The page as HTML that needs nothing from anywhere; `figures` is where the drawn figures are.

    `sessions` are the drawn ones of the runs in `said`, by implementation.
    """
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
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
        "limits": limits,
    }
    told = {run.record.run_id: _told(run) for run in results.runs}
    outcomes, builds = _outcomes(results), builds_of(results)
    versions, of_builds = _versions(results), {build.name: list(build.versions) for build in builds}
    most_runs = max(results.asked.values())
    is_many = len(results.implementations) > NAMED
    ledgers = ledger_rows(results)

    def drawing(figure: Figure) -> Markup:
        is_portrait = figure in portrayed
        is_folded = (is_many and is_portrait) or figure.panels[0][0].metric in FURTHER
        if len(results.runs) > INLINED_RUNS or is_folded:
            return _image(figure)
        svg = (figures / f"{figure.name}.svg").read_text()
        return Markup(inlined(svg, figure.name, figure.caption, told))  # our own drawing, escaped in `inlined`

    return environment.get_template("index.html").render(
        results=results,
        grid=Grid.of(results),
        metrics=METRICS,
        further=FURTHER,
        measures=MEASURES,
        measured={point: [box_of(results, point, metric) for metric in MEASURES] for point in results.asked},
        many_rows=MANY_ROWS,
        first_name=next(iter(results.implementations)),
        ledgers=ledgers,
        ledger_columns=shown_columns(ledgers),
        all_ledger_columns=len(COLUMNS),
        unexplained=unexplained(results),
        unseen=corrupted_unseen(results),
        cut_runs=sum(run.summary is not None and run.summary.headers_only for run in results.runs),
        said=said,
        unsaid=[name for name in results.implementations if name not in {each.name for each in said}],
        phases=PHASES,
        sessions=sessions,
        tcp_rows=tcp_cells(results),
        tcp_heads=HEADS,
        tcp_texts=TEXT_HEADS,
        tcp_caption=CAPTION,
        without_tcp=tcp_problems(results),
        clock_meaning=CLOCKS.get(results.clock, ""),
        outcomes=outcomes,
        undelivered={name: each for name, each in results.deliveries.items() if not each.all_of_them},
        counted={name: text for name, text in COUNTED.items() if any(counts[name] for counts in outcomes.values())},
        verdicts=[(channel, verdict_words(channel, results.sweep.certify)) for channel in results.distinct_channels],
        taken=_taken(results),
        performed=tuple(map(_date, results.performed)) if results.performed else None,
        versions=versions,
        mixed_versions={name: found for name, found in (versions | of_builds).items() if len(found) > 1},
        most_runs=most_runs,
        few=most_runs <= FEW,
        glance=glance_rows(results),
        glance_tables=glance_tables(results),
        builds=builds,
        is_many=is_many,
        lying=needs_listings(results),
        boxes={metric.slug: boxes_of(results, metric) for metric in METRICS},
        compared={metric.slug: _of_metric(compared, metric) for metric in METRICS + FURTHER},
        portrayed={name: _of_implementation(portrayed, name) for name in results.implementations},
        marks=_marks(results),
        drawing=drawing,
        image=_image,
        files=_files,
        outcome_names=OUTCOMES,
    )


def _image(figure: Figure | SessionFigure) -> Markup:
    """A drawing that stays beside the page."""
    return Markup('<img src="figures/{}.svg" alt="{}" loading="lazy">').format(figure.name, figure.caption)


def _marks(results: Results) -> dict[str, Markup]:
    """What stands before an implementation's name: its colour, and its marker's shape where colours repeat."""
    shaped = len(results.implementations) > len(SERIES)
    mark = Markup('<span class="mark{}" style="--colour: var(--series-{})"></span>')
    return {
        name: mark.format(f" shape-{looks.shape}" if shaped else "", number % len(SERIES))
        for name in results.implementations
        for number in [results.series[name]]
        for looks in [Looks(number)]
    }


def _outcomes(results: Results) -> dict[str, Counter[str]]:
    """How often each implementation had each outcome, was asked for, is missing, is suspect, has no numbers."""
    counts: dict[str, Counter[str]] = {name: Counter() for name in results.implementations}
    for permutation, asked in results.asked.items():
        runs = results.by_permutation[permutation]
        counts[permutation.implementation] += Counter(run.record.outcome for run in runs) + Counter(
            asked=asked,
            missing=asked - len(runs),
            suspect=sum(bool(run.suspect) for run in runs),
            without_numbers=sum(run.completed and run.summary is None for run in runs),
        )
    return counts


def _taken(results: Results) -> tuple[str, str] | None:
    """When the first run began and the last ended, on the rig's clock; None where no run began."""
    began = [run.record.started_at_ns for run in results.runs if run.record.started_at_ns is not None]
    ended = [run.record.ended_at_ns for run in results.runs if run.record.ended_at_ns is not None]
    return (_date(min(began) / 1e9), _date(max(ended) / 1e9)) if began and ended else None


def _date(time_s: float) -> str:
    return f"{datetime.fromtimestamp(int(time_s), UTC):%Y-%m-%d %H:%M:%S}"


def _versions(results: Results) -> dict[str, list[str]]:
    """Every version of what all runs share; more than one of a kind is worth a warning."""
    found = {
        name: sorted({run.record.versions[name] for run in results.runs if name in run.record.versions})
        for name in ("owlt", "kernel", "python")
    }
    return {name: versions for name, versions in found.items() if versions}


def _of_metric(figures: list[Figure], metric: Metric) -> list[Figure]:
    return [figure for figure in figures if figure.panels[0][0].metric == metric]


def _of_implementation(figures: list[Figure], name: str) -> list[Figure]:
    return [figure for figure in figures if list(figure.implementations) == [name]]


def _told(run: Run) -> str:
    """What a point says under the pointer."""
    values = (
        f"{metric.name}: {metric.text(value)} {metric.unit}"
        for metric in METRICS
        if (value := metric.of(run)) is not None
    )
    return "\n".join((run.record.run_id, *values, *(f"suspect: {reason}" for reason in run.suspect)))


def _files(run: Run) -> dict[str, list[tuple[str, str]]]:
    """The files that lie beside a run's record: by what they are of, (address from the page, short name)."""
    return {
        of: [
            (quote(f"../runs/{run.directory.name}/{name}"), name.removeprefix(f"{of}."))
            for name in names
            if (run.directory / name).exists()
        ]
        for of, names in FILES.items()
    }
