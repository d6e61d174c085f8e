"""One panel of a figure for a paper: each kind draws the samples of its groups into a pair of axes; and the panels of
session time by kind, as stacked bars: a bar for each group at each value of x.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from textwrap import fill
from typing import Any, cast

import matplotlib.style
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm, Normalize
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from owlt.captures.inspection.critical_path import KINDS, Kind
from owlt.reports.comparison.cells import Sample, TimeUse, shown_kinds, time_use
from owlt.reports.comparison.estimates import box_numbers, estimate
from owlt.reports.drawing.answer_map import counts_text
from owlt.reports.drawing.boxes import BoxLooks, draw_boxes
from owlt.reports.drawing.specification import (
    Quantity,
    Specification,
    divided,
    heading_text,
    samples_by,
    values_in,
    values_of,
)
from owlt.reports.looks import ALARM, INK, MUTED, PAPER, STYLE_NAME, TIME, TIME_TITLES, GroupLooks, font_style
from owlt.reports.results.rows import Row
from owlt.reports.units import measured_text

SPAN = 0.8
"""The part of a category that its groups take."""
APART = 0.06
"""The distance of the points of neighbouring groups in a category of a line, so that none hides another."""
FEW = 1
TINT = 0.18
LOG_FROM = 10.0
"""Numbers that span this factor have a logarithmic axis."""


@dataclass(frozen=True)
class Panel:
    """The samples of a panel, by group and by value of x, and the texts of both."""

    samples: Mapping[Any, Mapping[Any, Sample]]
    x: Quantity
    y: Quantity
    xs: tuple[Any, ...]
    groups: tuple[Any, ...]
    looks: Mapping[Any, GroupLooks]

    def values(self, group: Any, x: Any) -> list[tuple[Any, float]]:
        """The rows and values of a group at a value of x."""
        sample = self.samples.get(group, {}).get(x)
        return values_in(sample, self.y) if sample else []

    def all_values(self) -> list[float]:
        """Every value in the panel."""
        return [value for group in self.groups for x in self.xs for _, value in self.values(group, x)]


def draw_box(axes: Axes, panel: Panel) -> None:
    """Boxes with every run as a point; hollow points are suspect runs. A cross: no run delivered its file."""
    step = SPAN / len(panel.groups)
    for place, group in enumerate(panel.groups):
        looks = panel.looks[group]
        samples = [(_at(category, place, panel), panel.values(group, x)) for category, x in enumerate(panel.xs)]
        boxes = [(at, box_numbers([value for _, value in values])) for at, values in samples if len(values) > FEW]
        draw_boxes(axes, boxes, BoxLooks(looks.colour, 0.86 * step, tint=TINT, hatch=looks.hatch))
        for (at, values), x in zip(samples, panel.xs, strict=True):
            _draw_points(axes, at, step, values, looks)
            _mark_failures(axes, at, panel.samples.get(group, {}).get(x), len(values))


def draw_bar(axes: Axes, panel: Panel) -> None:
    """Bars of the mean, with the standard error of the mean as a whisker."""
    step = SPAN / len(panel.groups)
    for place, group in enumerate(panel.groups):
        looks = panel.looks[group]
        for category, x in enumerate(panel.xs):
            at = _at(category, place, panel)
            numbers = estimate([value for _, value in panel.values(group, x)])
            if numbers:
                axes.bar(
                    at,
                    numbers.mean,
                    0.92 * step,
                    facecolor=(looks.colour, TINT),
                    edgecolor=looks.colour,
                    hatch=looks.hatch,
                    linewidth=0.8,
                )
                if numbers.sem is not None:
                    axes.errorbar(at, numbers.mean, numbers.sem, color=INK, capsize=2, linewidth=0.8, capthick=0.8)
            _mark_failures(axes, at, panel.samples.get(group, {}).get(x), numbers.n if numbers else 0)


def draw_cdf(axes: Axes, panel: Panel) -> None:
    """The share of runs with at most each value. Undelivered files count in the share: the line then ends below 1."""
    for group in panel.groups:
        looks = panel.looks[group]
        values = sorted(value for x in panel.xs for _, value in panel.values(group, x))
        tried = sum(sample.tried for sample in panel.samples.get(group, {}).values())
        if not values:
            continue
        shares = np.arange(len(values) + 1) / tried
        axes.step([values[0], *values], shares, where="post", color=looks.colour, linestyle=looks.line)
        axes.plot(
            values, shares[1:], looks.marker, color=looks.colour, markersize=3, markevery=max(1, len(values) // 12)
        )


def draw_line(axes: Axes, panel: Panel) -> None:
    """The median of each group against x, with its interval as a whisker."""
    places = dict(zip(panel.xs, line_places(panel.xs, panel.x), strict=True))
    apart = 0.0 if is_numeric(panel.xs) else APART
    for place, group in enumerate(panel.groups):
        looks = panel.looks[group]
        shift = apart * (place - (len(panel.groups) - 1) / 2)
        points = [
            (places[x] + shift, numbers)
            for x in panel.xs
            if (numbers := estimate([value for _, value in panel.values(group, x)])) is not None
        ]
        if not points:
            continue
        medians = np.array([numbers.median for _, numbers in points])
        bounds = [(n.interval.low, n.interval.high) if n.interval else (n.median, n.median) for _, n in points]
        low, high = np.array(bounds).T
        axes.errorbar(
            [place for place, _ in points],
            medians,
            [medians - low, high - medians],
            color=looks.colour,
            linestyle=looks.line,
            marker=looks.marker,
            markerfacecolor=PAPER,
            capsize=2,
            elinewidth=0.7,
            capthick=0.7,
        )


def draw_heatmap(axes: Axes, panel: Panel, norm: Normalize) -> None:
    """The medians as colours with their numbers: rows are groups, columns values of x. "0/3": no file was delivered."""
    table = np.full((len(panel.groups), len(panel.xs)), np.nan)
    for (row, group), (column, x) in ((r, c) for r in enumerate(panel.groups) for c in enumerate(panel.xs)):
        numbers = estimate([value for _, value in panel.values(group, x)])
        if numbers:
            table[row, column] = numbers.median
        sample = panel.samples.get(group, {}).get(x)
        text = panel.y.text(numbers.median) if numbers else f"{sample.delivered}/{sample.tried}" if sample else ""
        is_dark = numbers is not None and float(norm(numbers.median)) < 0.55
        colour = PAPER if is_dark else INK if numbers else ALARM
        axes.text(column, row, text, ha="center", va="center", color=colour, fontsize="small")
    axes.imshow(table, norm=norm, cmap="cividis", aspect="auto")
    axes.grid(False)
    axes.set_yticks(range(len(panel.groups)))


def heat_norm(values: Sequence[float]) -> Normalize:
    """The scale of colours of all panels: logarithmic if the values span more than a decade."""
    low, high = (min(values), max(values)) if values else (0.0, 1.0)
    if low > 0 and high > LOG_FROM * low:
        return LogNorm(low, high)
    return Normalize(min(low, 0.5 * high), high or 1.0)


def line_places(xs: Sequence[Any], x: Quantity) -> list[float]:
    """Where values of x are on the axis of a line: at their numbers on a logarithmic axis, else side by side."""
    return [float(value) / x.per_unit for value in xs] if is_numeric(xs) else [float(place) for place in range(len(xs))]


def is_numeric(xs: Sequence[Any]) -> bool:
    """Whether an axis is logarithmic: positive numbers, at least three, that span a decade or more."""
    return (
        len(xs) > 2
        and all(isinstance(value, int | float) and not isinstance(value, bool) and value > 0 for value in xs)
        and max(xs) >= LOG_FROM * min(xs)
    )


def _at(category: int, place: int, panel: Panel) -> float:
    return category + (place - (len(panel.groups) - 1) / 2) * SPAN / len(panel.groups)


def _draw_points(axes: Axes, at: float, step: float, values: Sequence[tuple[Any, float]], looks: GroupLooks) -> None:
    """Every run as a point, side by side in their order."""
    for is_suspect in (False, True):
        chosen = [
            (at + 0.5 * step * ((number + 0.5) / len(values) - 0.5), value)
            for number, (row, value) in enumerate(values)
            if bool(row["suspect"]) == is_suspect
        ]
        axes.scatter(
            [place for place, _ in chosen],
            [value for _, value in chosen],
            s=7,
            marker=looks.marker,
            zorder=4,
            linewidths=0.5,
            facecolors=PAPER if is_suspect else looks.colour,
            edgecolors=looks.colour if is_suspect else PAPER,
        )


def _mark_failures(axes: Axes, at: float, sample: Sample | None, n: int) -> None:
    """The number of delivered files above the axis, if some were not delivered."""
    if sample is not None and (sample.undelivered or n < sample.tried):
        axes.annotate(
            f"{sample.delivered}/{sample.tried}",
            (at, 0),
            (0, 2),
            ("data", "axes fraction"),
            "offset points",
            ha="center",
            va="bottom",
            fontsize="x-small",
            color=ALARM,
            rotation=90,
        )


MM = 25.4
LEAST_PANEL_MM = 58.0
"""The least width of panels side by side, without the names at the left."""
LETTER = 0.6
"""The width of a letter, in sizes of type."""
LINE = 1.45
"""The height of a bar's line, in sizes of type."""
BAR = 0.72
"""The height of a bar, in lines."""
ROOM = 1.2
"""The length of the axis over the longest bar, for the number at its end."""


@dataclass(frozen=True)
class _Bar:
    """A bar: its group, its runs, and their time use; None if no run that delivered its file has a time account."""

    name: str
    sample: Sample
    use: TimeUse | None


@dataclass(frozen=True)
class _Block:
    """The bars at one value of x; `heading` is "" if there is only one value."""

    heading: str
    bars: tuple[_Bar, ...]

    @property
    def lines(self) -> int:
        """How many lines it takes."""
        return len(self.bars) + bool(self.heading)


@dataclass(frozen=True)
class _Panel:
    heading: str
    blocks: tuple[_Block, ...]

    @property
    def bars(self) -> list[_Bar]:
        return [bar for block in self.blocks for bar in block.bars]


def draw_time(rows: Sequence[Row], specification: Specification, order: Sequence[Any], pooled: str) -> Figure:
    """Draw the bars of these rows. `order` is that of the groups; `pooled` are settings that differ within a bar."""
    panels = [
        _Panel(heading, _blocks(part, specification, order)) for heading, part in divided(rows, specification.facets)
    ]
    bars = [bar for panel in panels for bar in panel.bars]
    kinds = shown_kinds(bar.use for bar in bars if bar.use)
    with matplotlib.style.context([STYLE_NAME, cast(Any, font_style(specification.font_pt))]):
        figure, grid = _frame(specification, panels, kinds)
        for axes, panel in zip(grid, panels, strict=True):
            _draw_panel(axes, panel)
        _label(grid, panels)
        _note(figure, panels, specification, pooled)
        handles = [Patch(facecolor=TIME[kind], label=TIME_TITLES[kind]) for kind in kinds]
        columns = _legend_columns(specification, kinds)
        figure.legend(handles=handles, loc="outside upper left", ncols=columns, handlelength=1.2)
    return figure


def _blocks(rows: Sequence[Row], specification: Specification, order: Sequence[Any]) -> tuple[_Block, ...]:
    """A block for each value of x, with a bar for each group that has runs."""
    x, group = specification.x, specification.group
    values = values_of(rows, x)
    blocks = []
    for value in values:
        samples = samples_by([row for row in rows if x.of(row) == value], group)
        names = [name for name in order if name in samples]
        bars = tuple(_Bar(group.text(name), samples[name], time_use(samples[name])) for name in names)
        blocks.append(_Block(heading_text(value, x) if len(values) > 1 else "", bars))
    return tuple(blocks)


def _frame(specification: Specification, panels: Sequence[_Panel], kinds: Sequence[Kind]) -> tuple[Figure, list[Axes]]:
    """A figure of the width, with a pair of axes for each panel: side by side if there is room, else below."""
    width, font_mm = specification.width_mm, specification.font_pt * MM / 72
    names_mm = LETTER * font_mm * max((len(bar.name) for panel in panels for bar in panel.bars), default=0)
    across = max(1, min(len(panels), int((width - names_mm) // LEAST_PANEL_MM)))
    down = ceil(len(panels) / across)
    lines = max((sum(block.lines for block in panel.blocks) for panel in panels), default=1)
    legend_mm = ceil(len(kinds) / _legend_columns(specification, kinds)) * 1.6 * font_mm
    height = specification.height_mm or down * (LINE * font_mm * lines + 5 * font_mm) + legend_mm + 4 * font_mm
    figure = Figure(figsize=(width / MM, height / MM), layout="constrained")
    figure.get_layout_engine().set(w_pad=0.02, h_pad=0.02)  # type: ignore[union-attr,call-arg]
    grid = list(figure.subplots(down, across, squeeze=False).flat)
    for unused in grid[len(panels) :]:
        unused.remove()
    return figure, grid[: len(panels)]


def _draw_panel(axes: Axes, panel: _Panel) -> None:
    """Bars from the top to the bottom, in blocks with a heading each."""
    ticks, at = [], 0.0
    axes.set_title(panel.heading, loc="left", fontweight="bold")
    for block in panel.blocks:
        if block.heading:
            axes.annotate(block.heading, (0, at), (2, 0), textcoords="offset points", va="center", color=MUTED)
            at += 1
        for bar in block.bars:
            _draw_bar(axes, at, bar)
            ticks.append((at, bar.name))
            at += 1
    axes.set_yticks([place for place, _ in ticks], [name for _, name in ticks])
    axes.set_ylim(at - 0.3, -0.7)
    longest_s = max((bar.use.mean_s + (bar.use.sem_s or 0) for bar in panel.bars if bar.use), default=1.0)
    axes.set_xlim(0, ROOM * longest_s)
    axes.grid(axis="x")
    axes.grid(visible=False, axis="y")
    axes.tick_params(axis="y", length=0)


def _draw_bar(axes: Axes, at: float, bar: _Bar) -> None:
    """The parts of a mean session one behind the other, its standard error as a whisker, and its time."""
    note = "" if bar.sample.delivered == bar.sample.tried else f"{bar.sample.delivered}/{bar.sample.tried}"
    if bar.use is not None and bar.use.runs < bar.sample.delivered:
        note = f"{bar.use.runs} of {bar.sample.delivered} runs have a time account"
    if bar.use is None:
        why = note or "no time account"
        axes.annotate(why, (0, at), (3, 0), textcoords="offset points", va="center", fontsize="small", color=ALARM)
        return
    left = 0.0
    for kind in KINDS:
        if seconds := bar.use.seconds(kind):
            axes.barh(at, seconds, BAR, left=left, facecolor=TIME[kind], edgecolor=PAPER, linewidth=0.2)
            left += seconds
    if bar.use.sem_s:
        axes.errorbar(left, at, xerr=bar.use.sem_s, color=INK, capsize=1.5, elinewidth=0.7, capthick=0.7)
    end = left + (bar.use.sem_s or 0)
    text = axes.annotate(
        measured_text(left), (end, at), (3, 0), textcoords="offset points", va="center", fontsize="small", color=INK
    )
    if note:
        axes.annotate(f" {note}", (1, 0.5), xycoords=text, va="center", fontsize="x-small", color=ALARM)


def _label(grid: list[Axes], panels: Sequence[_Panel]) -> None:
    """The labels of the axes, those that neighbours share only once."""
    for place, axes in enumerate(grid):
        specs = axes.get_subplotspec()
        across = 1 if specs is None else specs.get_gridspec().ncols
        if place + across >= len(grid):
            axes.set_xlabel("mean time of a session (s)")
        names, left = ([bar.name for bar in panels[at].bars] for at in (place, place - place % across))
        if place % across and names == left:
            axes.tick_params(labelleft=False)


def _note(figure: Figure, panels: Sequence[_Panel], specification: Specification, pooled: str) -> None:
    """The number of runs, below the panels."""
    samples = [bar.sample for panel in panels for bar in panel.bars]
    counts = counts_text([sample.tried for sample in samples], samples)
    has_whiskers = any(bar.use and bar.use.sem_s for panel in panels for bar in panel.bars)
    whisker = "whisker: standard error of the mean" if has_whiskers else ""
    note = "; ".join(filter(None, (counts, pooled, whisker)))
    letters = int(specification.width_mm / (0.5 * specification.font_pt * MM / 72))
    looks: dict[str, Any] = {"ha": "left", "fontsize": 0.85 * specification.font_pt, "color": MUTED}
    figure.supxlabel(fill(note, letters), x=0.01, **looks)


def _legend_columns(specification: Specification, kinds: Sequence[Kind]) -> int:
    """As many columns as fit the width."""
    letters = specification.width_mm / (0.55 * specification.font_pt * MM / 72)
    longest = max((len(TIME_TITLES[kind]) for kind in kinds), default=1) + 5
    return max(1, min(len(kinds), int(letters / longest)))
