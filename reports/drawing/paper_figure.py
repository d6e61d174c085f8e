"""A figure for a paper: the panels of its facets, their axes, legend and the number of runs; saved as the same bytes.

rows = load_results(Path("results/demo")).rows
figure = draw_figure(rows, Specification(y=quantity("goodput"), x=quantity("packet_error_rate")))
save_figure(figure, Path("goodput.pdf"))
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import ceil
from pathlib import Path
from textwrap import fill
from typing import Any, cast

import matplotlib
import matplotlib.style
import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullFormatter, NullLocator

from owlt.inputs.axes import OF_THE_LINK, conditions_of
from owlt.reports.comparison.cells import Point
from owlt.reports.comparison.theory import THEORIES, curve
from owlt.reports.drawing.answer_map import counts_text, draw_map
from owlt.reports.drawing.output import write_figure
from owlt.reports.drawing.paper_panels import (
    LOG_FROM,
    Panel,
    draw_bar,
    draw_box,
    draw_cdf,
    draw_heatmap,
    draw_line,
    draw_time,
    heat_norm,
    is_numeric,
    line_places,
)
from owlt.reports.drawing.scales import apply_scale, scale_for
from owlt.reports.drawing.specification import SETTINGS, Specification, divided, samples_by, selected, values_of
from owlt.reports.looks import INK, MUTED, PAPER, STYLE_NAME, GroupLooks, font_style, looks_of
from owlt.reports.results.rows import Row
from owlt.reports.units import listed, tick_text

MM = 25.4
"""Per inch."""
LEAST_PANEL_MM = 44.0
"""The least width of panels side by side."""
MARK_LETTERS = 7
"""The width of a mark in the legend, in letters."""
PANEL_SHAPE = 0.72
"""The height of a panel over its width."""
MOST_PANEL_HEIGHT_MM = 60.0
INK_LINES: tuple[Any, ...] = ((0, (6, 2)), (0, (2, 2)), (0, (6, 2, 2, 2)), (0, (1, 1)), (0, (9, 2)))
"""The lines of theories, in their order."""


def draw_figure(rows: Sequence[Row], specification: Specification) -> Figure:
    """Draw a figure of the rows that pass its filters. Raises NothingSelected."""
    chosen = selected(rows, specification.filters)
    if specification.kind == "map":
        return draw_map(chosen, specification, [*specification.order, *values_of(rows, specification.group)])
    groups = list(dict.fromkeys([*specification.order, *values_of(rows, specification.group)]))
    if specification.kind == "time":
        return draw_time(chosen, specification, groups, pooled_text(chosen, specification))
    present = [group for group in groups if group in values_of(chosen, specification.group)]
    looks = looks_of(groups)  # of all groups, so that a filter does not change them
    facets = divided(chosen, specification.facets)
    panels = [_panel(part, specification, tuple(present), looks) for _, part in facets]
    with matplotlib.style.context([STYLE_NAME, cast(Any, font_style(specification.font_pt))]):
        figure, grid = _frame(specification, len(panels), _legend_mm(specification, present))
        norm = heat_norm([value for panel in panels for value in _medians(panel)])
        for axes, panel, (heading, _) in zip(grid, panels, facets, strict=True):
            _draw(axes, panel, specification, norm)
            axes.set_title(heading, loc="left")
            _draw_theory(axes, panel, specification)
        _scale(grid, panels, specification)
        _label(grid, panels, specification)
        _finish(figure, grid, panels, specification, norm, pooled_text(chosen, specification))
    return figure


def save_figure(figure: Figure, path: Path) -> None:
    """Write a figure as PDF, SVG or PNG, by the suffix: the same bytes every time. Raises OSError."""
    with matplotlib.style.context(STYLE_NAME):
        write_figure(figure, path, path.suffix[1:], "owlt")


def _panel(
    rows: list[Row], specification: Specification, groups: tuple[Any, ...], looks: dict[Any, GroupLooks]
) -> Panel:
    return Panel(
        samples={
            group: samples_by([row for row in rows if specification.group.of(row) == group], specification.x)
            for group in groups
        },
        x=specification.x,
        y=specification.y,
        xs=tuple(values_of(rows, specification.x)),
        groups=groups,
        looks=looks,
    )


def _medians(panel: Panel) -> list[float]:
    return [
        sorted(values)[len(values) // 2]
        for group in panel.groups
        for x in panel.xs
        if (values := [value for _, value in panel.values(group, x)])
    ]


def _frame(specification: Specification, panels: int, legend_mm: float) -> tuple[Figure, list[Axes]]:
    """A figure of the width, with a pair of axes for each panel: side by side if there is room, else below."""
    width = specification.width_mm
    across = max(1, min(panels, int(width // LEAST_PANEL_MM)))
    down = ceil(panels / across)
    own = min(PANEL_SHAPE * width / across, MOST_PANEL_HEIGHT_MM)
    height = specification.height_mm or down * (own + 6) + 8 + legend_mm
    figure = Figure(figsize=(width / MM, height / MM), layout="constrained")
    figure.get_layout_engine().set(w_pad=0.02, h_pad=0.02)  # type: ignore[union-attr,call-arg]
    grid = list(figure.subplots(down, across, squeeze=False).flat)
    for unused in grid[panels:]:
        unused.remove()
    return figure, grid[:panels]


def _draw(axes: Axes, panel: Panel, specification: Specification, norm: Any) -> None:
    match specification.kind:
        case "box":
            draw_box(axes, panel)
        case "bar":
            draw_bar(axes, panel)
        case "cdf":
            draw_cdf(axes, panel)
        case "line":
            draw_line(axes, panel)
        case "heatmap":
            draw_heatmap(axes, panel, norm)


def _theory_values(panel: Panel, specification: Specification) -> list[tuple[int, list[float | None]]]:
    """The values of each theory at each value of x, in the unit of y, with the place of its line."""
    if specification.kind not in ("box", "bar", "line"):
        return []
    by_x = [[row for of_group in panel.samples.values() if x in of_group for row in of_group[x].rows] for x in panel.xs]
    return [
        (
            place,
            [None if value is None else value / panel.y.per_unit for value in curve(THEORIES[name], by_x)],
        )
        for place, name in enumerate(specification.theory)
    ]


def _draw_theory(axes: Axes, panel: Panel, specification: Specification) -> None:
    is_line = specification.kind == "line"
    places = line_places(panel.xs, panel.x) if is_line else [float(place) for place in range(len(panel.xs))]
    for number, values in _theory_values(panel, specification):
        points = [(place, value) for place, value in zip(places, values, strict=True) if value is not None]
        looks: dict[str, Any] = {"color": INK, "linestyle": INK_LINES[number], "linewidth": 0.9, "zorder": 5}
        axes.plot([place for place, _ in points], [value for _, value in points], **looks)


def _scale(grid: list[Axes], panels: Sequence[Panel], specification: Specification) -> None:
    """One scale of values for all panels, so that they can be compared."""
    values = [value for panel in panels for value in panel.all_values()]
    values += [
        value
        for panel in panels
        for _, of_theory in _theory_values(panel, specification)
        for value in of_theory
        if value is not None
    ]
    if specification.kind == "heatmap" or not values:
        return
    is_log = min(values) > 0 and max(values) > LOG_FROM * min(values) and specification.kind != "bar"
    kind = "count" if specification.y.is_count else "rate"
    scale = scale_for("log" if is_log else "linear", values, kind)  # type: ignore[arg-type]
    for axes in grid:
        apply_scale(axes, scale, specification.y.is_count, lying=specification.kind == "cdf")
        if specification.kind == "cdf":
            axes.set_ylim(0, 1.03)


def _label(grid: list[Axes], panels: Sequence[Panel], specification: Specification) -> None:
    """Ticks and labels of both axes; those that neighbours share only once."""
    is_line = specification.kind == "line"
    for place, (axes, panel) in enumerate(zip(grid, panels, strict=True)):
        specs = axes.get_subplotspec()
        first = specs is None or specs.is_first_col()
        last = specs is None or specs.is_last_row() or place + _across(grid) >= len(grid)
        match specification.kind:
            case "cdf":
                axes.set_ylabel("share of runs" if first else "")
                axes.set_xlabel(specification.y.full_label if last else "")
            case "heatmap":
                axes.set_yticklabels([specification.group.text(group) for group in panel.groups] if first else [])
                _categories(axes, panel, last, is_line)
            case _:
                axes.set_ylabel(specification.y.full_label if first else "")
                _categories(axes, panel, last, is_line)
        if specification.kind != "heatmap" and not first:
            axes.tick_params(labelleft=False)


def _across(grid: list[Axes]) -> int:
    specs = grid[0].get_subplotspec()
    return 1 if specs is None else specs.get_gridspec().ncols


def _categories(axes: Axes, panel: Panel, is_last: bool, is_line: bool) -> None:
    """The ticks of x: at each value, written with its unit."""
    texts = [panel.x.text(value) if value is not None or panel.x.name == "rate" else "–" for value in panel.xs]
    is_log = is_line and is_numeric(panel.xs)
    places = line_places(panel.xs, panel.x) if is_log else [float(place) for place in range(len(panel.xs))]
    if is_log:
        axes.set_xscale("log")
        axes.xaxis.set_minor_locator(NullLocator())
        axes.xaxis.set_minor_formatter(NullFormatter())
    else:
        axes.set_xlim(-0.5, len(panel.xs) - 0.5)
    axes.xaxis.set_major_locator(FixedLocator(places))
    axes.set_xticks(places, texts)
    axes.tick_params(axis="x", length=0 if not is_log else 2)
    axes.set_xlabel(panel.x.label if is_last else "")


def _finish(
    figure: Figure, grid: list[Axes], panels: Sequence[Panel], specification: Specification, norm: Any, pooled: str
) -> None:
    """The legend above the panels, and the number of runs below them."""
    if specification.kind == "heatmap":
        bar = figure.colorbar(ScalarMappable(norm, "cividis"), ax=grid, shrink=0.9, pad=0.02)
        bar.set_label(specification.y.full_label)
        bar.outline.set_visible(False)
        if isinstance(norm, LogNorm):
            bar.locator = LogLocator(subs=(1, 2, 5))
        bar.formatter = FuncFormatter(lambda value, _: tick_text(value))
        bar.ax.yaxis.set_minor_formatter(NullFormatter())
    else:
        handles = [_handle(specification, group, panels[0].looks[group]) for group in panels[0].groups]
        if specification.kind in ("box", "bar", "line"):
            handles += [
                Line2D([], [], color=INK, linestyle=INK_LINES[place], linewidth=0.9, label=THEORIES[name].label)
                for place, name in enumerate(specification.theory)
            ]
        across = _legend_columns([str(handle.get_label()) for handle in handles], specification)
        figure.legend(handles=handles, loc="outside upper left", ncols=across, handlelength=2.4)
    note = "; ".join(filter(None, (runs_text(panels, specification.kind == "cdf"), pooled)))
    letters = int(specification.width_mm / (0.5 * specification.font_pt * MM / 72))
    figure.supxlabel(fill(note, letters), x=0.01, ha="left", fontsize=0.85 * specification.font_pt, color=MUTED)


def _handle(specification: Specification, group: Any, looks: GroupLooks) -> Any:
    label = specification.group.text(group)
    if specification.kind in ("box", "bar"):
        return Patch(facecolor=(looks.colour, 0.18), edgecolor=looks.colour, hatch=looks.hatch, label=label)
    return Line2D(
        [],
        [],
        color=looks.colour,
        linestyle=looks.line,
        marker=looks.marker,
        label=label,
        markerfacecolor=PAPER if specification.kind == "line" else looks.colour,
    )


def _legend_columns(labels: Sequence[str], specification: Specification) -> int:
    """As many columns as fit the width: about half the size of type a letter, and the mark of each."""
    letters = specification.width_mm / (0.55 * specification.font_pt * MM / 72)

    def width(columns: int) -> int:
        parts = np.array_split([len(label) for label in labels], columns)  # as matplotlib fills a legend
        return sum(int(part.max()) + MARK_LETTERS for part in parts)

    return max((columns for columns in range(1, len(labels) + 1) if width(columns) <= letters), default=1)


def _legend_mm(specification: Specification, groups: Sequence[Any]) -> float:
    """The height of the legend."""
    if specification.kind == "heatmap":
        return 0.0
    labels = [specification.group.text(group) for group in groups]
    labels += [THEORIES[name].label for name in specification.theory]
    return ceil(len(labels) / _legend_columns(labels, specification)) * 1.5 * specification.font_pt * MM / 72


def runs_text(panels: Iterable[Panel], is_curve: bool = False) -> str:
    """The number of runs behind each mark, or each curve of all values of x; and how many files were not delivered."""
    by_group = [list(of_group.values()) for panel in panels for of_group in panel.samples.values()]
    samples = [sample for of_group in by_group for sample in of_group]
    numbers = [sample.tried for sample in samples]
    if is_curve:
        numbers = [sum(sample.tried for sample in of_group) for of_group in by_group]
    return counts_text(numbers, samples)


def pooled_text(rows: Sequence[Row], specification: Specification) -> str:
    """The settings that differ between the runs of one mark: they are neither an axis, nor groups, nor facets."""
    shown = {each.column for each in (specification.x, specification.group, *specification.facets)}
    if specification.kind == "cdf":
        shown.remove(specification.x.column)
    if "delay_ns" in shown or "rtt_ns" in shown:
        shown |= {"delay_ns", "rtt_ns"}
    if "implementation" in shown:
        shown |= {"protocol"}
    texts = []
    not_axes = {*OF_THE_LINK} - {*conditions_of(map(Point.of_row, rows))}
    for setting in (each for name, each in SETTINGS.items() if name not in not_axes):
        values = [value for value in values_of(rows, setting) if value is not None]
        if setting.column not in shown and setting.name != "rtt" and len(values) > 1:
            texts.append(f"{setting.label} {listed([setting.text(value) for value in values])}")
    return f"together: {', '.join(texts)}" if texts else ""
