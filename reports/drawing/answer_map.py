"""The answer of a sweep as a map: for each cell of the grid the best implementation, its median, and the next one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from textwrap import fill
from typing import Any, cast

import matplotlib.style
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from owlt.reports.answer.cell_verdicts import Verdict, verdicts
from owlt.reports.answer.regions import Map, dimensions_of, map_of
from owlt.reports.answer.sentences import next_text, value_text
from owlt.reports.comparison.cells import CRITERIA, Criterion, Sample, cells_of, implementations_in
from owlt.reports.drawing.specification import Specification
from owlt.reports.looks import ALARM, INK, MUTED, RULE, STYLE_NAME, GroupLooks, font_style, looks_of
from owlt.reports.results.rows import Row


def counts_text(numbers: Sequence[int], samples: Sequence[Sample]) -> str:
    """The number of runs behind each mark, runs that did not complete, and suspect runs: "n = 3 each; 1 suspect"."""
    counts = sorted(set(numbers))
    if not counts:
        return "no runs"
    undelivered = sum(sample.undelivered for sample in samples)
    suspect = sum(sample.suspect for sample in samples)
    number = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    return "; ".join(
        [
            f"n = {number} each",
            *([f"{undelivered} of {sum(s.tried for s in samples)} runs not completed"] if undelivered else []),
            *([f"{suspect} suspect"] if suspect else []),
        ]
    )


MM = 25.4
LETTER = 0.62
"""The width of a letter, in sizes of type."""
LINE = 1.3
LINES = 3
SMALL = 0.8
"""The size of the third line, in sizes of type."""
MARGIN_MM = 1.5
BAR = 0.03
"""The width of the bar of colour at the left of a cell, in cells."""
TINT = 0.14


def criterion_of(column: str) -> Criterion | None:
    """The criterion of a column of the table of runs; None if nothing is compared by it."""
    return next((each for each in CRITERIA if each.metric.key == column), None)


def draw_map(rows: Sequence[Row], specification: Specification, order: Sequence[str]) -> Figure:
    """Draw the map of these rows; `order` decides the looks of the implementations. Raises ValueError for a measure by
    which nothing is compared."""
    criterion = criterion_of(specification.y.column)
    if criterion is None:
        raise ValueError(f"{specification.y.name}: no criterion")
    cells = cells_of(rows)
    dimensions = dimensions_of([cell.point for cell in cells])
    shown = map_of(verdicts(cells, criterion, specification.rule), dimensions)
    samples = [sample for cell in cells for sample in cell.samples.values()]
    looks = looks_of(list(dict.fromkeys([*order, *implementations_in(cells)])))
    with matplotlib.style.context([STYLE_NAME, cast(Any, font_style(specification.font_pt))]):
        note = _note(counts_text([sample.tried for sample in samples], samples), specification)
        figure, axes = _frame(shown, specification, note)
        room_pt = axes.get_position().width * specification.width_mm / MM * 72 / axes.get_xlim()[1]
        style = _CellStyle(criterion, looks, specification.font_pt, room_pt)
        for place, row in enumerate(shown.rows):
            for column, verdict in enumerate(row.verdicts):
                if verdict is not None:
                    _draw_cell(axes, (column, place), verdict, style)
        title = f"{criterion.best} ({criterion.metric.unit})" if criterion.metric.unit else criterion.best
        above_pt = 3 + (len(shown.heads) + 0.25) * LINE * specification.font_pt
        axes.set_title(f"{title[0].upper()}{title[1:]}", loc="left", pad=above_pt)
    return figure


def _frame(shown: Map, specification: Specification, note: str) -> tuple[Figure, Axes]:
    """A figure of the width, with a cell for each place of the map, the texts of its dimensions, and a note below."""
    line_mm = LINE * specification.font_pt * MM / 72
    columns = max(len(row.verdicts) for row in shown.rows)
    head_mm = line_mm * (len(shown.heads) + 1.8)
    bottom_mm = (note.count("\n") + 2) * line_mm
    height = specification.height_mm or head_mm + (LINES + 0.7) * line_mm * len(shown.rows) + bottom_mm
    labels = [", ".join(row.heads) for row in shown.rows]
    names = [name for name, _ in shown.heads]
    left_mm = MARGIN_MM + LETTER * specification.font_pt * MM / 72 * max(map(len, [*labels, *names, ""])) + 2
    width = specification.width_mm
    figure = Figure(figsize=(width / MM, height / MM))
    axes = figure.add_axes(
        (
            left_mm / width,
            bottom_mm / height,
            (width - left_mm - MARGIN_MM) / width,
            (height - bottom_mm - head_mm) / height,
        )
    )
    axes.set_xlim(0, columns)
    axes.set_ylim(len(shown.rows), 0)
    axes.grid(False)
    axes.spines[:].set_visible(False)
    axes.set_xticks([])
    axes.set_yticks([place + 0.5 for place in range(len(shown.rows))], labels)
    axes.tick_params(length=0)
    for depth, (name, texts) in enumerate(reversed(shown.heads)):
        _write_heads(axes, name, texts, 3 + depth * LINE * specification.font_pt)
    looks: dict[str, Any] = {"ha": "left", "va": "bottom", "color": MUTED, "fontsize": 0.85 * specification.font_pt}
    figure.text(MARGIN_MM / width, MARGIN_MM / height, note, **looks)
    return figure, axes


def _write_heads(axes: Axes, name: str, texts: Sequence[tuple[str, int]], above_pt: float) -> None:
    """The texts of one dimension above the columns, and its name at the left."""
    where: dict[str, Any] = {"xycoords": ("data", "axes fraction"), "textcoords": "offset points", "va": "bottom"}
    axes.annotate(name, (0, 1), (-4, above_pt), ha="right", color=MUTED, **where)
    at = 0
    for text, columns in texts:
        axes.annotate(text, (at + columns / 2, 1), (0, above_pt), ha="center", **where)
        at += columns


@dataclass(frozen=True)
class _CellStyle:
    """What the cells of a map share: the criterion, the looks of the implementations, and the room for text."""

    criterion: Criterion
    looks: dict[str, GroupLooks]
    font_pt: float
    room_pt: float
    """The width of a cell."""


def _draw_cell(axes: Axes, at: tuple[int, int], verdict: Verdict, style: _CellStyle) -> None:
    """Draw a cell at its column and row: the implementation to take, its value, and the next best."""
    column, row = at
    font_pt = style.font_pt
    box: dict[str, Any] = {"edgecolor": RULE, "linewidth": 0.5}
    if verdict.best is None:
        axes.add_patch(Rectangle((column, row), 1, 1, facecolor="none", **box))
        axes.text(column + 0.5, row + 0.5, "none delivered", ha="center", va="center", color=ALARM, fontsize="small")
        return
    first, *others = verdict.candidates
    is_any = len(verdict.leaders) == len(verdict.standings) > 1
    colour = MUTED if is_any else style.looks[first].colour
    axes.add_patch(
        Rectangle((column, row), 1, 1, facecolor=(colour, 0 if is_any or verdict.is_undecided else TINT), **box)
    )
    axes.add_patch(Rectangle((column, row), BAR, 1, facecolor=colour, edgecolor="none"))
    name = f"{first} + {len(others)}" if len(others) > 1 else " or ".join([first, *others])
    lines = [
        ("any: equivalent" if is_any else f"{name}{' ?' if verdict.is_undecided else ''}", INK, font_pt, "normal"),
        (value_text(verdict, style.criterion), INK, font_pt, "bold"),
        (next_text(verdict, style.criterion), MUTED, SMALL * font_pt, "normal"),
    ]
    for place, (text, ink, size, weight) in enumerate(lines):
        fitted = min(size, style.room_pt * (1 - 3 * BAR) / (LETTER * max(len(text), 1)))
        y = row + (place + 0.75) / (LINES + 0.5)
        axes.text(column + 2.5 * BAR, y, text, ha="left", va="center", color=ink, fontsize=fitted, fontweight=weight)


def _note(counts: str, specification: Specification) -> str:
    """The text below the map, in lines that fit its width."""
    letters = int(specification.width_mm / (0.5 * specification.font_pt * MM / 72))
    return fill(f"{counts}; third line: the next best (?: undecided)", letters)
