"""`owlt figure`: one figure for a paper, from the runs of a sweep."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from owlt.inputs.mistake import Mistake, Place, not_one_of
from owlt.orchestrator.commands.output import Printer
from owlt.orchestrator.commands.usage import Json
from owlt.orchestrator.errors import OwltError

if TYPE_CHECKING:
    from owlt.reports.drawing.specification import Filter, Quantity, Specification
    from owlt.reports.results.rows import Row

KINDS = ("box", "bar", "cdf", "heatmap", "line", "map", "time")
TIME = "session_s"
"""The measure of a figure of where the time went."""
MM = {"mm": 1.0, "cm": 10.0, "in": 25.4}
LEAST_MM, MOST_MM = 20.0, 1000.0
LEAST_PT, MOST_PT = 3.0, 40.0


@dataclass(frozen=True)
class FigureOptions:
    """What a figure shows and how large it is, as a user writes it."""

    y: Annotated[
        str,
        typer.Option(
            "--y",
            metavar="MEASURE",
            help="The measure: goodput, str, rts, session_s, or any column of runs.csv; none for time.",
        ),
    ] = ""
    x: Annotated[
        str,
        typer.Option(
            "--x",
            metavar="SETTING",
            help="The setting along the horizontal axis, such as packet_error_rate, delay, rtt; none for a map.",
        ),
    ] = ""
    kind: Annotated[
        str,
        typer.Option(
            "--kind",
            metavar="KIND",
            help="box, bar (mean and SEM), cdf, heatmap, line (medians), map (the best of each cell), or time (where "
            "it went: after 'owlt why RESULTS').",
        ),
    ] = "box"
    group: Annotated[str, typer.Option("--group", metavar="SETTING", help="The setting that colours distinguish.")] = (
        "implementation"
    )
    facet: Annotated[
        list[str] | None,
        typer.Option("--facet", metavar="SETTING", help="A panel for each value of this setting; repeatable."),
    ] = None
    only: Annotated[
        list[str] | None,
        typer.Option(
            "--filter", metavar="NAME=VALUE,...", help="Only runs with these values, such as delay=1250ms; repeatable."
        ),
    ] = None
    theory: Annotated[
        list[str] | None,
        typer.Option(
            "--theory", metavar="NAME", help="A line of theory: rounds, capacity, mathis, padhye or cubic; repeatable."
        ),
    ] = None
    width: Annotated[
        str,
        typer.Option(
            "--width",
            metavar="LENGTH",
            help="Such as 88mm or 3.5in, or ieee-column, ieee-page, nasa-column, nasa-page.",
        ),
    ] = "ieee-column"
    height: Annotated[
        str,
        typer.Option(
            "--height", metavar="LENGTH", help="Height of the figure, such as 60mm; default: from the number of panels."
        ),
    ] = ""
    font: Annotated[str, typer.Option("--font", metavar="SIZE", help="Font size, such as 8pt.")] = "8pt"


def figure(
    results: Annotated[
        list[Path],
        typer.Argument(
            metavar="RESULTS...",
            help="A results directory, such as results/demo; or several, such as "
            "those of two rigs, to compare with --group rig.",
        ),
    ],
    *,
    options: FigureOptions,
    file_format: Annotated[
        str,
        typer.Option("--format", metavar="FORMAT", help="pdf, svg or png; default: the suffix of the file, or pdf."),
    ] = "",
    out: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--out",
            metavar="FILE",
            help="The file to write; default: Y-against-X.FORMAT, Y-map.FORMAT or time-against-X.FORMAT.",
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Draw one figure for a paper.

    The same runs make the same bytes. Text stays text in PDF and SVG. Colours differ in grey too, and each group has a
    marker, a hatch and a line of its own. Below the figure: the number of runs, undelivered files, and settings that
    differ between the runs of one mark.
    """
    from owlt.orchestrator.profiles.load import existing_results
    from owlt.reports.comparison.stopping import load_rows
    from owlt.reports.drawing.paper_figure import draw_figure, save_figure
    from owlt.reports.drawing.specification import NothingSelected

    path = _path(options.x, options.y or options.kind, file_format, out)
    specification = _specification(options)
    if options.kind == "map" and len(results) > 1:
        fix = "combine them first: owlt report A B --out C"
        raise OwltError(Mistake.of("RESULTS", "got several with --kind map", "one results directory", fix))
    loaded = load_rows([existing_results(each) for each in results])
    if options.kind == "time":
        _require_time(loaded.rows, results)
    try:
        order = loaded.order if options.group == "implementation" else ()
        drawn = draw_figure(loaded.rows, replace(specification, order=order, rule=loaded.rule))
    except NothingSelected as problem:
        mistake = not_one_of(problem.value, problem.values).below(f"--filter {problem.name}")
        raise OwltError(replace(mistake, problem=f"no run has {problem.value!r}")) from problem
    try:
        save_figure(drawn, path)
    except OSError as problem:
        raise OwltError(Mistake(f"cannot be written ({problem.strerror})", where=Place(str(path)))) from problem
    printer = Printer(as_json)
    printer.json({"figure": path})
    printer.text(str(path))


def _require_time(rows: Sequence[Row], results: Sequence[Path]) -> None:
    from owlt.reports.comparison.cells import has_time

    if not has_time(rows):
        problem, fix = "no run has a time account", f"owlt why {results[0]}"
        raise OwltError(Mistake(problem, fix=fix, where=Place(str(results[0]))))


def _specification(options: FigureOptions) -> Specification:
    from owlt.reports.comparison.theory import COLUMNS, THEORIES
    from owlt.reports.drawing.specification import WIDTHS_MM, Specification

    if options.kind not in KINDS:
        raise OwltError(not_one_of(options.kind, KINDS).below("--kind"))
    y = _y(options.y, options.kind)
    theory = options.theory or []
    _require_x(options.x, options.kind, y)
    values: dict[str, Any] = {
        "x": _quantity("--x", options.x) if options.x else y,
        "y": y,
        "kind": options.kind,
        "group": _quantity("--group", options.group),
        "facets": tuple(_quantity("--facet", name) for name in options.facet or ()),
        "filters": tuple(_filter(text) for text in options.only or ()),
        "theory": tuple(theory),
        "width_mm": WIDTHS_MM.get(options.width) or _length_mm("--width", options.width),
        "height_mm": _length_mm("--height", options.height) if options.height else None,
        "font_pt": _font_pt(options.font),
    }
    if not y.is_number:
        raise OwltError(Mistake.of("--y", f"got {options.y!r}, which is text", "a number, such as goodput"))
    if unknown := [name for name in theory if name not in THEORIES]:
        raise OwltError(not_one_of(unknown[0], THEORIES).below("--theory"))
    if theory and y.column not in COLUMNS:
        expected = "--y goodput or --y goodput_to_delivery"
        raise OwltError(Mistake.of("--theory", f"does not apply to --y {options.y}", expected))
    return Specification(**values)


def _y(name: str, kind: str) -> Quantity:
    """The measure; that of a figure of where the time went is not chosen."""
    if kind == "time" and name:
        fix = "leave --y out, or choose another --kind"
        raise OwltError(Mistake.of("--y", "cannot be combined with --kind time", "the time of the session only", fix))
    if kind != "time" and not name:
        raise OwltError(Mistake.of("--y", "is missing", "a measure, such as goodput"))
    return _quantity("--y", name or TIME)


def _require_x(x: str, kind: str, y: Quantity) -> None:
    from owlt.reports.drawing.answer_map import criterion_of

    if kind != "map" and not x:
        raise OwltError(Mistake.of("--x", "is missing", "a setting, such as packet_error_rate"))
    if kind == "map" and x:
        fix = "leave --x out, or choose another --kind"
        raise OwltError(Mistake.of("--x", "cannot be combined with --kind map", "the grid of the sweep only", fix))
    if kind == "map" and criterion_of(y.column) is None:
        raise OwltError(Mistake.of("--y", f"got {y.name!r} with --kind map", "a criterion of 'owlt answer'"))


def _quantity(option: str, name: str) -> Quantity:
    from owlt.reports.drawing.specification import UnknownName, quantity

    try:
        return quantity(name)
    except UnknownName as unknown:
        raise OwltError(not_one_of(name, unknown.known, ", or a column of runs.csv").below(option)) from unknown


def _filter(text: str) -> Filter:
    from owlt.reports.drawing.specification import Filter

    name, equals, values = text.partition("=")
    if not equals or not values:
        raise OwltError(Mistake.of("--filter", f"got {text!r}", "NAME=VALUE,..., such as implementation=ltp,cfdp"))
    return Filter(_quantity("--filter", name), tuple(value.strip() for value in values.split(",")))


def _length_mm(option: str, text: str) -> float:
    match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?) *(mm|cm|in)", text)
    length = float(match[1]) * MM[match[2]] if match else 0.0
    if not LEAST_MM <= length <= MOST_MM:
        expected = f"a length from {LEAST_MM:g}mm to {MOST_MM:g}mm, such as 88mm or 3.5in"
        raise OwltError(Mistake.of(option, f"got {text!r}", expected))
    return length


def _font_pt(text: str) -> float:
    match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?) *(?:pt)?", text)
    size = float(match[1]) if match else 0.0
    if not LEAST_PT <= size <= MOST_PT:
        raise OwltError(Mistake.of("--font", f"got {text!r}", f"a size from {LEAST_PT:g}pt to {MOST_PT:g}pt"))
    return size


def _path(x: str, y: str, file_format: str, out: Path | None) -> Path:
    """The file to write; its suffix is its format."""
    from owlt.reports.drawing.output import FORMATS

    suffix = file_format or (out.suffix[1:] if out and out.suffix else "pdf")
    if suffix not in FORMATS:
        raise OwltError(not_one_of(suffix, FORMATS).below("--format" if file_format else "--out"))
    path = out or Path(f"{y}-against-{x}.{suffix}" if x else f"{y}-map.{suffix}")
    if path.suffix != f".{suffix}":
        raise OwltError(
            Mistake.of("--out", f"got {path.name!r} with --format {suffix}", f"a name that ends in .{suffix}")
        )
    return path
