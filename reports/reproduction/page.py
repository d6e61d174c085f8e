"""The page of a reproduction in Markdown: the author's text with verdicts, numbers and figures in their places. Its
figures show the points of queries as lines, points, boxes or bars.
"""

from __future__ import annotations

import csv
import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from decimal import ROUND_CEILING, Context
from io import StringIO
from math import ceil, inf, sqrt
from pathlib import Path
from statistics import fmean, median, stdev
from textwrap import fill
from typing import Any

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import NullFormatter

from owlt.reports.comparison.estimates import CONFIDENCE, box_numbers
from owlt.reports.drawing.boxes import BoxLooks, draw_boxes
from owlt.reports.drawing.scales import log_locator
from owlt.reports.looks import INK, MUTED, STYLE, Looks
from owlt.reports.reproduction.archive import TEMPLATE, Evidence, Public, evidence_in, evidence_of, write_archive
from owlt.reports.reproduction.claim_verdicts import MOST_ERROR, VERDICTS, Judged, family_of
from owlt.reports.reproduction.claims import ClaimKind, FigureOf, PanelOf, Reproduction, changed_claims, load_claims
from owlt.reports.reproduction.database import Point, judged, points, table
from owlt.reports.results.load import load_results
from owlt.results.files import DIGEST_LENGTH
from owlt.results.plain_files import make_directory, real_root, write_whole

PAGES = "reproduction"
"""The directory of the page, in the results."""
WIDTH = 120
"""The characters of a line of the page's text."""
PLACES = ("{claims}", "{counts}", "{runs}", "{form}", "{provenance}")
KINDS: dict[ClaimKind, str] = {
    "measurement": "Measurements",
    "setting": "Consequences of settings",
    "arithmetic": "Arithmetic of the paper",
    "program": "Properties of the paper's programs and computers",
}


def make_page(
    directory: Path,
    results_directories: Sequence[Path],
    name: str,
    archive: Path | None = None,
    public: Public = lambda values: values,
) -> tuple[Path, list[Judged]]:
    """Judge the claims of a reproduction from the results of its sweeps, and write the page into PAGES of the first
    results; and an archive of all of it, whose values of JSON are made `public`. Returns the page and the verdicts.

    Raises ClaimsError, ReportError, BadQuery, OSError.
    """
    reproduction, results = load_claims(directory), [load_results(each) for each in results_directories]
    with evidence_of(results, reproduction) as evidence:
        target = results_directories[0] / PAGES
        page, verdicts = write_page(evidence, reproduction, (directory / TEMPLATE).read_text(), target, name)
        if archive:
            kept = {str(table): rows for table, rows in reproduction.archived.items()}
            write_archive(archive, evidence, results, directory, page, public, kept)
    return page, verdicts


def make_page_of_archive(archive: Path, name: str) -> tuple[Path, list[Judged]]:
    """Make the page of an archive again, into a directory beside it whose name ends in PAGES. Raises as `make_page`."""
    with evidence_in(archive, name) as (evidence, reproduction, template):
        target = real_root(archive).with_name(f"{archive.stem}-{PAGES}")
        return write_page(evidence, reproduction, template, target, name)


def write_page(
    evidence: Evidence, reproduction: Reproduction, template: str, directory: Path, name: str
) -> tuple[Path, list[Judged]]:
    """Write NAME.md, NAME-claims.csv, the figures and the tables into a directory. Returns the page and the verdicts.

    Raises BadQuery, OSError.
    """
    target = make_directory(directory)
    tables: dict[str, str] = {}
    connection = evidence.connection
    verdicts = judged(connection, reproduction)
    for figure in reproduction.figures:
        of_panels = [points(connection, panel.points) for panel in figure.panels]
        draw(figure, of_panels, target / f"{name}-{figure.name}.svg", reproduction.series)
    for each in reproduction.tables:
        headings, rows = table(connection, each)
        write_rows(headings, rows, target / f"{name}-{each.name}.csv")
        tables[each.name] = markdown_table(headings, rows)
    write_claims(verdicts, target / f"{name}-claims.csv")
    claims = f"{chosen_text(reproduction, evidence)}\n\n{_claims_text(verdicts)}"
    texts = (claims, counts_text(verdicts), evidence.runs_text, evidence.form_text, _provenance_table(evidence))
    return write_whole(target / f"{name}.md", page_text(template, texts, tables)), verdicts


def page_text(template: str, texts: Sequence[str], tables: Mapping[str, str]) -> str:
    """The template with its PLACES filled in, and each {table NAME}."""
    for place, text in zip(PLACES, texts, strict=True):
        template = template.replace(place, text)
    for name, text in tables.items():
        template = template.replace(f"{{table {name}}}", text)
    return template


def chosen_text(reproduction: Reproduction, evidence: Evidence) -> str:
    """When the bounds were chosen: as the file of claims states it, and as the results prove it."""
    lines = [f"**When the bounds were chosen.** {' '.join(reproduction.chosen.split())}"]
    for sweep, reproduced in evidence.facts.reproduced.items():
        if reproduced is None:
            lines.append(f"The results of {sweep} have no record of the claims at the start of their runs.")
            continue
        before = f" (recorded after {reproduced.runs_before:,} runs)," if reproduced.runs_before else ","
        state = _changes_text(reproduction, reproduced.claims)
        digest = reproduced.claims_sha256[:DIGEST_LENGTH]
        lines.append(f"At the start of the runs of {sweep}{before} the claims had the digest {digest}; {state}.")
    return "\n".join(fill(line, WIDTH, break_on_hyphens=False, break_long_words=False) for line in lines)


def _changes_text(reproduction: Reproduction, recorded: Mapping[str, str]) -> str:
    """Which claims differ from those of the recorded digests; those of earlier versions have no control sweeps."""
    changed = changed_claims(reproduction, recorded)
    without = changed_claims(reproduction.model_copy(update={"controls": ()}), recorded)
    is_without = len(without) < len(changed)
    text = ", ".join(without if is_without else changed)
    state = f"changed since then: {text}" if text else "no claim has changed since then"
    return f"{state} (these digests do not cover which sweeps are controls)" if is_without else state


def _provenance_table(evidence: Evidence) -> str:
    return markdown_table(("Sweep", "What", "Value"), evidence.facts.rows)


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
    """The number of measurements with each verdict; claims of other kinds are counted separately, in a table."""
    measured = [each for each in verdicts if each.claim.kind == "measurement"]
    counts = Counter(each.verdict for each in measured)
    others = len(verdicts) - len(measured)
    text = f"{len(measured)} measurements ({', '.join(f'{counts[verdict]} {verdict}' for verdict in VERDICTS)})"
    return f"{text}; claims of other kinds, counted separately: {others}" if others else text


def kinds_table(verdicts: Sequence[Judged]) -> str:
    """The number of claims of each kind with each verdict."""
    counts = Counter((each.claim.kind, each.verdict) for each in verdicts)
    rows = [
        (title, *(counts[kind, verdict] for verdict in VERDICTS))
        for kind, title in KINDS.items()
        if any(counts[kind, verdict] for verdict in VERDICTS)
    ]
    return markdown_table(("Kind", *VERDICTS), rows)


def family_text(verdicts: Sequence[Judged]) -> str:
    """The confidence of the intervals, and the error of all verdicts that depend on chance, taken together."""
    family = family_of(verdicts)
    sentences = [confidence_text(verdicts)]
    if not family.verdicts:
        return " ".join((*sentences, "No verdict depends on chance.")).strip()
    sentences += [
        f"Verdicts that depend on chance: {family.verdicts}.",
        f"The probability that at least one of them is wrong is at most {rounded_up(family.error)} (the sum of their "
        "errors, Bonferroni).",
        f"With Holm's correction, {len(family.hold)} of them are significant at a family-wise error of {MOST_ERROR:g}.",
    ]
    if family.least_needed:
        others = family.verdicts - len(family.hold)
        sentences.append(
            f"With {family.most_performed} repetitions, an error is at least {0.5**family.most_performed:g}, so none "
            f"of the {'other ' if family.hold else ''}{others} can be significant; that takes at least "
            f"{family.least_needed} repetitions."
        )
    return " ".join(sentences).strip()


def confidence_text(verdicts: Sequence[Judged]) -> str:
    """The confidence of the intervals on the page; "" if it has none."""
    intervals = [each.of for each in verdicts if each.of and each.of.low < each.of.high]
    ranges = {of.n: of.confidence for of in intervals if of.confidence and of.confidence < CONFIDENCE}
    few = ", ".join(f"{100 * confidence:.4g} % with {n} repetitions" for n, confidence in sorted(ranges.items()))
    rest = f"a confidence of at least {100 * CONFIDENCE:g} %"
    if not intervals:
        return ""
    if not few:
        return f"Intervals have {rest}."
    if all(of.n in ranges and not of.is_share for of in intervals):
        return f"Intervals are the range of the repetitions; the confidence of a range is {few}."
    return f"Intervals have {rest}, except the range of few repetitions: {few}."


def rounded_up(value: float) -> str:
    """An upper bound with at most four significant digits: 0.28125 is "0.2813"."""
    exact = f"{value:.12g}"  # without the error of binary fractions
    return f"{float(Context(prec=4, rounding=ROUND_CEILING).create_decimal(exact)):.4g}"


def number_text(value: float | None, unit: str) -> str:
    """A number with at most four significant digits, and its unit."""
    if value is None:
        return ""
    if abs(value) >= 1e4:
        return f"{value:,.0f} {unit}".strip()
    return f"{value:.4g} {unit}".strip()


def ours_text(judged_claim: Judged) -> str:
    """Our value, its interval if it has one, and its case: "18.9 (18.7 to 19.1) MB"."""
    of, unit = judged_claim.of, judged_claim.claim.unit
    if of is None:
        return ""
    interval = f" ({number_text(of.low, '')} to {number_text(of.high, '')})" if of.low < of.high else ""
    case = f" at {of.case}" if of.case else ""
    return f"{number_text(of.value, '')}{interval} {unit}".strip() + case


def verdict_text(judged_claim: Judged) -> str:
    """The verdict with its cause, what would decide, and the remark."""
    claim, verdict = judged_claim.claim, judged_claim.verdict
    notes = []
    if verdict == "not confirmed" and claim.cause:
        notes.append(f"cause: {claim.cause}")
    if verdict == "undecided" and judged_claim.of:
        where = "inside" if judged_claim.of.is_inside else "outside"
        needed = judged_claim.runs_needed
        enough = (
            f"about {needed} repetitions would decide" if needed else "no feasible number of repetitions would decide"
        )
        notes.append(f"{where}, {enough}")
    remark = judged_claim.reason or ("" if verdict == "undecidable" else claim.remark)
    notes += [remark] if remark else []
    return f"**{verdict}**" + (f": {'; '.join(notes)}" if notes else "")


def accepted_text(judged_claim: Judged) -> str:
    """Which values confirm a claim: "10.26 to 11.34 MB"."""
    claim = judged_claim.claim
    least, most = claim.bounds
    if claim.accept is None:
        return ""
    if -inf < least and most < inf:
        return f"{number_text(least, '')} to {number_text(most, claim.unit)}"
    return f"at least {number_text(least, claim.unit)}" if least > -inf else f"at most {number_text(most, claim.unit)}"


CLAIM_COLUMNS = (
    *("id", "kind", "place", "paper", "ours", "low", "high", "n", "unit", "case", "least", "most"),
    *("verdict", "error", "runs_needed", "cause", "reason"),
)


def claim_row(each: Judged) -> tuple[Any, ...]:
    """The values of CLAIM_COLUMNS of a claim."""
    claim, of = each.claim, each.of
    numbers = (of.value, of.low, of.high, of.n) if of else (None, None, None, None)
    bounds = [bound if claim.accept and abs(bound) < inf else None for bound in claim.bounds]
    cause = claim.cause if each.verdict == "not confirmed" else None
    return (
        *(claim.id, claim.kind, claim.place, claim.paper, *numbers, claim.unit, of.case if of else "", *bounds),
        *(each.verdict, each.error, each.runs_needed, cause, each.reason),
    )


def write_claims(verdicts: Sequence[Judged], path: Path) -> None:
    """The claims and verdicts as a table for other programs."""
    write_rows(CLAIM_COLUMNS, [claim_row(each) for each in verdicts], path)


def write_rows(headings: Sequence[str], rows: Sequence[Sequence[Any]], path: Path) -> None:
    """A table as CSV; numbers have six significant digits."""
    text = StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(headings)
    writer.writerows([f"{value:.6g}" if isinstance(value, float) else value for value in row] for row in rows)
    write_whole(path, text.getvalue())


def _claims_text(verdicts: Sequence[Judged]) -> str:
    """The number of claims of each kind with each verdict, their joint error, and a table for each kind."""
    by_kind = {title: [each for each in verdicts if each.claim.kind == kind] for kind, title in KINDS.items()}
    tables = [f"**{title}**\n\n{_claims_table(judged)}" for title, judged in by_kind.items() if judged]
    return "\n\n".join((kinds_table(verdicts), fill(family_text(verdicts), WIDTH), *tables))


def _claims_table(verdicts: Sequence[Judged]) -> str:
    lines = ["| Claim | Place | Paper | Ours | Confirms | Verdict |", "| --- | --- | --- | --- | --- | --- |"]
    for each in verdicts:
        claim = each.claim
        cells = (
            claim.states,
            claim.place,
            number_text(claim.paper, claim.unit),
            ours_text(each),
            accepted_text(each),
            verdict_text(each),
        )
        lines.append(f"| {' | '.join(' '.join(cell.split()) for cell in cells)} |")
    return "\n".join(lines)


NO_POINTS = "no completed run in this part of the grid"
MOST_MARKERS = 30
"""The most points of a series with markers; longer lines have none, and more points are dots."""
TOO_PRECISE = re.compile(r"(\d\.\d\d)\d+(?=[^<>]*>)")
"""A coordinate of an SVG file with more than hundredths of a point; the labels stand between tags."""
ROOM_ABOVE = 1.04
"""The end of an axis from zero, as a multiple of its highest value."""
GROUP = 0.8
"""The width of the boxes or bars at one value of x; 1 is the distance to the next value."""

SMALL_SVG: dict[Any, Any] = {"svg.hashsalt": "owlt", "svg.fonttype": "none"}
"""Settings for files that are small and the same each time."""

Series = dict[str, dict[float, list[float]]]
"""The values of each series by x."""


def draw(figure: FigureOf, by_panel: Sequence[Sequence[Point]], path: Path, order: Sequence[str] = ()) -> None:
    """Write the figure from the points of its panels; the same points give the same bytes. Raises OSError.

    `order` has the series whose looks are the same in several figures.
    """
    panels = [
        (f"{panel.title}, {facet}" if facet else panel.title, panel, _by_series(of_panel, facet))
        for panel, of_panel in zip(figure.panels, by_panel, strict=True)
        for facet in list(dict.fromkeys(each[3] for each in of_panel)) or [""]
    ]
    present = dict.fromkeys(name for _, _, series in panels for name in series)
    names = [*order, *(name for name in present if name not in order)]
    looks = {name: Looks(names.index(name)) for name in sorted(present, key=names.index)}
    across = min(figure.across, len(panels))
    down = ceil(len(panels) / across)
    with rc_context({**STYLE, **SMALL_SVG}):
        size = (5.6, 3.2) if len(panels) == 1 else (7.2, 2.2 * down + 0.3)
        canvas = Figure(figsize=size, layout="constrained")
        grid = list(canvas.subplots(down, across, squeeze=False).flat)
        for unused in grid[len(panels) :]:
            unused.remove()
        for axes, (title, panel, series) in zip(grid, panels, strict=False):
            _draw(axes, panel, series, looks)
            axes.set_title(title, loc="left", fontsize=8)
        if looks:
            handles = [
                Line2D([], [], color=each.colour, marker=each.marker, markersize=4, linewidth=1, label=name)
                for name, each in looks.items()
            ]
            canvas.legend(handles=handles, loc="outside lower center", ncols=min(len(looks), 4), fontsize=7)
        write_svg(canvas, path)


def write_svg(canvas: Figure, path: Path) -> None:
    """Write a figure without dates and needless digits. Raises OSError."""
    drawn = StringIO()
    canvas.savefig(drawn, format="svg", metadata={"Date": None})
    write_whole(path, TOO_PRECISE.sub(r"\1", drawn.getvalue()))


def _by_series(of_panel: Sequence[Point], facet: str) -> Series:
    series: defaultdict[str, defaultdict[float, list[float]]] = defaultdict(lambda: defaultdict(list))
    for name, x, y, of_facet in of_panel:
        if of_facet == facet:
            series[name][x].append(y)
    return {name: dict(by_x) for name, by_x in series.items()}


def _draw(axes: Axes, panel: PanelOf, series: Series, looks: dict[str, Looks]) -> None:
    axes.grid(alpha=0.3, linewidth=0.5)
    axes.set_axisbelow(True)
    match panel.kind:
        case "line":
            _draw_lines(axes, series, looks)
        case "points":
            _draw_points(axes, series, looks)
        case "box" | "bar":
            _draw_groups(axes, panel, series, looks)
    axes.set_xlabel(panel.x.label)
    axes.set_ylabel(panel.y.label)
    if panel.x.log and not panel.is_grouped:
        axes.set_xscale("log")
        _label_decades(axes.xaxis, *axes.get_xlim())
    if panel.y.log:
        axes.set_yscale("log")
        _label_decades(axes.yaxis, *axes.get_ylim())
    elif panel.y.from_zero:
        axes.set_ylim(0, ROOM_ABOVE * axes.get_ylim()[1])
    if not series:
        axes.text(0.5, 0.5, NO_POINTS, transform=axes.transAxes, ha="center", color=MUTED)


def _label_decades(axis: Axis, low: float, high: float) -> None:
    """Ticks with plain numbers on a logarithmic axis."""
    axis.set_major_locator(log_locator(low, high))
    axis.set_major_formatter(_plain)
    axis.set_minor_formatter(NullFormatter())


def _draw_lines(axes: Axes, series: Series, looks: dict[str, Looks]) -> None:
    """Medians, and the range of the runs."""
    for name, values in series.items():
        at = sorted(values)
        low, high = ([edge(values[x]) for x in at] for edge in (min, max))
        axes.fill_between(at, low, high, color=looks[name].colour, alpha=0.15, linewidth=0)
        marker = looks[name].marker if len(at) <= MOST_MARKERS else ""
        middle = [median(values[x]) for x in at]
        axes.plot(at, middle, color=looks[name].colour, marker=marker, markersize=3.5, linewidth=1)


def _draw_points(axes: Axes, series: Series, looks: dict[str, Looks]) -> None:
    for name, values in series.items():
        flat = [(x, y) for x in sorted(values) for y in values[x]]
        marker = looks[name].marker if len(flat) <= MOST_MARKERS else ","
        axes.plot(*zip(*flat, strict=True), linestyle="", marker=marker, markersize=3.5, color=looks[name].colour)


def _draw_groups(axes: Axes, panel: PanelOf, series: Series, looks: dict[str, Looks]) -> None:
    """Boxes with every run, or bars of means with their standard errors, side by side at each value of x."""
    xs = sorted({x for values in series.values() for x in values})
    names = [name for name in looks if name in series]
    width = GROUP / max(len(names), 1)
    for number, name in enumerate(names):
        colour = looks[name].colour
        placed = [
            (xs.index(x) + (number + 0.5) * width - GROUP / 2, values) for x, values in sorted(series[name].items())
        ]
        if panel.kind == "bar":
            axes.bar([at for at, _ in placed], [fmean(values) for _, values in placed], 0.9 * width, color=colour)
            errors = [_standard_error(values) for _, values in placed]
            means = [fmean(values) for _, values in placed]
            axes.errorbar([at for at, _ in placed], means, errors, fmt="none", ecolor=INK, elinewidth=0.6, capsize=1.5)
            continue
        boxes = [(at, box_numbers(values)) for at, values in placed]
        draw_boxes(axes, boxes, BoxLooks(colour, 0.75 * width))
        flat = [(at, value) for at, values in placed for value in sorted(set(values))]
        axes.plot(*zip(*flat, strict=True), linestyle="", marker=looks[name].marker, markersize=1.6, color=colour)
    axes.set_xticks(range(len(xs)), [category_text(x) for x in xs])
    if xs:
        axes.set_xlim(-0.5, len(xs) - 0.5)
    axes.grid(visible=False, axis="x")


def _standard_error(values: Sequence[float]) -> float:
    return stdev(values) / sqrt(len(values)) if len(values) > 1 else 0.0


def category_text(value: float) -> str:
    """A value of x below its boxes: 0, 1e-5, 0.001, 10,000."""
    return f"{value:,.0f}" if value >= 1 else f"{value:g}".replace("e-0", "e-")


def _plain(value: float, _: object) -> str:
    """A tick of a logarithmic axis: 0.001, 1, 1,000."""
    return f"{value:,.0f}" if value >= 1 else f"{value:g}"
