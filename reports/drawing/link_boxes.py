"""The box plots of the first screen: one link, with a line for each implementation.

Lines are rows of a table, so names and medians are text. Each line has a drawing that is stretched to the width of its
cell; only strokes and points keep their size.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import isfinite, log10

from markupsafe import Markup, escape

from owlt.reports.answer.cell_verdicts import Verdict
from owlt.reports.answer.regions import Dimension, dimensions_of
from owlt.reports.answer.sentences import difference_text
from owlt.reports.comparison.cells import Cell, Criterion, Point
from owlt.reports.comparison.estimates import Box, BoxNumbers, PlainRun
from owlt.reports.comparison.metrics import Metric
from owlt.reports.comparison.theory import Comparison
from owlt.reports.drawing.boxes import THEORY_METRIC
from owlt.reports.drawing.scales import Scale, kind_for, places_on, scale_for, ticks_of
from owlt.reports.units import listed, tick_text
from owlt.results.permutation import Permutation

ALONG = "packet_error_rate"
"""The dimension whose values are shown below each other, if there are not too many lines."""
MOST_LINES = 26
WIDTH, HEIGHT = 2000, 40
"""Width and height of a drawing in its own units; the drawing is stretched to its cell."""
MOST_SAID = 4
"""The most implementations that the sentence about theory describes one by one."""
_BOUND = {"slower": "longest expected", "faster": "shortest possible"}
Bounds = tuple[float, float]


@dataclass(frozen=True)
class BoxLine:
    """An implementation on a link: its drawing, and its numbers in words."""

    name: str
    drawing: Markup
    value: str
    """The median, or "mean" and the mean where values are at few levels, with its unit; "" if no run has a value."""
    difference: str
    """The difference from the best implementation; "" for the best one itself."""
    n: str
    is_short: bool
    """Whether files were not delivered."""


@dataclass(frozen=True)
class BoxPanel:
    """One cell. `value` is the cell's value of the dimension that the panels vary; "" if there is none."""

    value: str
    title: str
    point: Point
    lines: tuple[BoxLine, ...]


@dataclass(frozen=True)
class LinkBoxes:
    """The cells of a link, on one scale. `places` has the value of each dimension; "" for the one that panels vary."""

    places: tuple[str, ...]
    panels: tuple[BoxPanel, ...]
    axis: str
    """The metric and its unit."""
    ticks: tuple[tuple[float, str, bool], ...]
    """The ticks: position in percent of the width, text, and whether the tick is left out if there is little room."""
    theory: str
    """The prediction of theory, and the difference of the medians from it; "" without theory."""


@dataclass(frozen=True)
class CriterionBoxes:
    """The boxes of a criterion for every link."""

    links: tuple[LinkBoxes, ...]
    first_place: int

    @property
    def first(self) -> LinkBoxes:
        """The link to show first: the largest file, and the middle of all other values."""
        return self.links[self.first_place]

    @property
    def others(self) -> tuple[LinkBoxes, ...]:
        """All links but the first one."""
        return self.links[: self.first_place] + self.links[self.first_place + 1 :]


def along_of(cells: Sequence[Cell]) -> Dimension | None:
    """The dimension along which the panels of a link are; None if each cell is a link."""
    most = max(len(cell.samples) for cell in cells)
    return next(
        (
            each
            for each in dimensions_of([cell.point for cell in cells])
            if each.axis.key == ALONG and most * len(each.values) <= MOST_LINES
        ),
        None,
    )


def boxes_of_links(
    cells: Sequence[Cell],
    criterion: Criterion,
    verdicts: Mapping[Point, Verdict],
    theory: Mapping[tuple[str, Point], Comparison],
) -> CriterionBoxes:
    """The boxes of all links. `verdicts` say how implementations differ; `theory` is what is expected, by name and
    cell."""
    dimensions, along = dimensions_of([cell.point for cell in cells]), along_of(cells)
    by_values = {tuple(each.of(cell.point) for each in dimensions): cell for cell in cells}
    drawer = _Drawer(criterion, verdicts, theory, along)
    links = []
    shown: list[tuple[int, ...]] = []
    own = [each.values if each != along else (None,) for each in dimensions]
    for values in product(*own):
        choices = along.values if along else (None,)
        keys = [
            tuple(
                choice if value is None and each == along else value
                for value, each in zip(values, dimensions, strict=True)
            )
            for choice in choices
        ]
        of_link = [by_values[key] for key in keys if key in by_values]
        if of_link:
            places = tuple(
                "" if each == along else each.text(value) for value, each in zip(values, dimensions, strict=True)
            )
            links.append(drawer.link(places, of_link))
            shown.append(
                tuple(_distance(each, value) for value, each in zip(values, dimensions, strict=True) if each != along)
            )
    return CriterionBoxes(tuple(links), shown.index(min(shown)))


def _distance(dimension: Dimension, value: object) -> int:
    """The distance of a value from the value that is shown first."""
    wanted = (
        len(dimension.values) - 1 if dimension.axis.key in ("file_size", "duration") else len(dimension.values) // 2
    )
    return abs(dimension.values.index(value) - wanted)


@dataclass(frozen=True)
class _Drawer:
    criterion: Criterion
    verdicts: Mapping[Point, Verdict]
    theory: Mapping[tuple[str, Point], Comparison]
    along: Dimension | None

    def link(self, places: tuple[str, ...], cells: Sequence[Cell]) -> LinkBoxes:
        """The boxes of cells that differ in the dimension along the panels only."""
        metric = self.criterion.metric
        boxes = {
            (cell.point, name): self.criterion.box(sample, Permutation(implementation="-", **cell.point._asdict()))
            for cell in cells
            for name, sample in cell.samples.items()
        }
        compared = {
            key: each for cell in cells for name in cell.samples if (each := self.theory.get(key := (name, cell.point)))
        }
        bounds = {(point, name): found for (name, point), each in compared.items() if (found := _bounds(metric, each))}
        values = [value for box in boxes.values() for value in box.shown_values]
        shown = metric.scaled(max(values, default=1.0))
        factor = metric.per_unit / shown.per_unit
        reached = [factor * each for each in (*values, *(bound for both in bounds.values() for bound in both if bound))]
        scale = scale_for(kind_for([reached]), reached, metric.kind)
        if any(box.share for box in boxes.values()):
            scale = Scale("linear", 0, 100)
        place = places_on(scale)
        panels = tuple(
            BoxPanel(
                value=self.along.text(self.along.of(cell.point)) if self.along else "",
                title=self.along.phrase([self.along.of(cell.point)]) if self.along else "",
                point=cell.point,
                lines=tuple(
                    self._line(
                        name,
                        cell,
                        boxes[cell.point, name],
                        _Looks(place, shown, factor, bounds.get((cell.point, name))),
                    )
                    for name in cell.samples
                ),
            )
            for cell in cells
        )
        ticks = tuple(
            (
                round(100 * place(each), 2),
                tick_text(each),
                scale.kind == "log" and not log10(each).is_integer(),
            )
            for each in ticks_of(scale, metric.kind == "count")
        )
        return LinkBoxes(
            places, panels, shown.label, ticks, self._theory_text(list(compared.values())) if bounds else ""
        )

    def _line(self, name: str, cell: Cell, box: Box, looks: _Looks) -> BoxLine:
        verdict = self.verdicts.get(cell.point)
        standing = verdict.standing(name) if verdict else None
        numbers = box.numbers
        value = ""
        if standing and standing.value is not None:
            value = f"{'mean ' if standing.is_mean else ''}{looks.text(standing.value)}"
        elif numbers:
            value = looks.text(numbers.median)
        if box.share:
            n = f"{box.share.count} of {box.share.n}"
        elif box.undelivered:
            n = f"{box.delivered} of {box.delivered + box.undelivered} delivered"
        else:
            n = f"n = {box.n_text}" if box.n else "no run yet"
        return BoxLine(
            name=name,
            drawing=looks.drawn(name, box),
            value=value,
            difference=difference_text(standing, self.criterion, True) if standing and numbers else "",
            n=n,
            is_short=box.undelivered > 0,
        )

    def _theory_text(self, compared: Sequence[Comparison]) -> str:
        """How far the medians are from what is expected: outside a range, or below an upper bound."""
        by_name: dict[str, list[Comparison]] = {}
        for each in compared:
            by_name.setdefault(each.name, []).append(each)
        inside, texts = [], []
        for name, of_name in by_name.items():
            farthest = max(of_name, key=lambda each: max(each.factor, 1 / each.factor))
            if farthest.verdict != "inside":
                bound = _BOUND[farthest.verdict]
                texts.append(f"{name} takes {farthest.factor:.2g} times the {bound} time{self._at(farthest.point)}")
            elif isfinite(farthest.expected.high_s):
                inside.append(name)
            else:
                factors = [each.measured_s / each.expected.low_s for each in of_name]
                ends = list(dict.fromkeys(f"{end:.2g}" for end in (min(factors), max(factors))))
                texts.append(f"{name} takes {' to '.join(ends)} times the shortest possible time")
        if inside:
            texts.insert(0, f"{listed(inside)} {'is' if len(inside) == 1 else 'are'} as expected")
        more = len(texts) - MOST_SAID
        return "Theory (grey): " + "; ".join(texts[:MOST_SAID]) + (f"; {more} more below" if more > 0 else "") + "."

    def _at(self, point: Point) -> str:
        return f" ({self.along.phrase([self.along.of(point)])})" if self.along else ""


def _bounds(metric: Metric, comparison: Comparison) -> Bounds | None:
    """The bounds of theory in the unit of a metric; the lower or the upper one is 0 if there is none."""
    if metric.is_time:
        return comparison.expected.low_s, comparison.expected.high_s if isfinite(comparison.expected.high_s) else 0
    low, high = comparison.goodput_bounds_bps
    if metric.slug != THEORY_METRIC or not isfinite(high):
        return None
    return low / metric.per_unit, high / metric.per_unit


@dataclass(frozen=True)
class _Looks:
    """The looks of a drawing in the unit `shown`; `factor`: the criterion's unit in it."""

    place: Callable[[float], float]
    """The place of a value on the scale, from 0 to 1."""
    shown: Metric
    factor: float
    bounds: Bounds | None

    def text(self, value: float) -> str:
        """A value with its unit."""
        return f"{self.shown.text(self.factor * value)} {self.shown.unit}".rstrip()

    def at(self, value: float) -> str:
        """The place of a value in the drawing."""
        return str(round(WIDTH * self.place(self.factor * value)))

    def drawn(self, name: str, box: Box) -> Markup:
        """The drawing of a box: the range of theory, the box, every run."""
        numbers = box.numbers
        frame = self._box(numbers) if numbers and (box.n > 1 or box.share) else ""
        return Markup(  # numbers of our own, and an escaped text
            f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" preserveAspectRatio="none" role="img" '
            f'aria-label="{escape(self._words(name, box))}">'
            f"{self._theory()}{frame}{self._points(box, False)}{self._points(box, True)}</svg>"
        )

    def _theory(self) -> str:
        if not self.bounds:
            return ""
        low, high = self.bounds
        if low and high:
            return f'<path class="expected" d="M{self.at(low)} 2H{self.at(high)}V38H{self.at(low)}Z"/>'
        return f'<path class="bound" d="M{self.at(low or high)} 2V38"/>'

    def _box(self, numbers: BoxNumbers) -> str:
        low, q1, median, q3, high = map(
            self.at, (numbers.whisker_low, numbers.q1, numbers.median, numbers.q3, numbers.whisker_high)
        )
        whiskers = f"M{low} 20H{q1}M{q3} 20H{high}M{low} 14V26M{high} 14V26"
        return f'<path class="box" d="M{q1} 6H{q3}V34H{q1}Z{whiskers}"/><path class="median" d="M{median} 4V36"/>'

    def _points(self, box: Box, suspect: bool) -> str:
        """The runs, one below the other in the order of their repetitions."""
        places = [f"M{self.at(value)} {_height(run, box)}h0" for run, value in box.values if run.is_suspect == suspect]
        if not places:
            return ""
        path = "".join(places)
        drawn = f'<path class="run" d="{path}"/>'
        return f'{drawn}<path class="run hollow" d="{path}"/>' if suspect else drawn

    def _words(self, name: str, box: Box) -> str:
        """The drawing for screen readers."""
        numbers = box.numbers
        if numbers is None:
            return f"{name}: no run has a value"
        median, q1, q3 = map(self.text, (numbers.median, numbers.q1, numbers.q3))
        if box.share:
            return f"{name}: {median}, interval {q1} to {q3}, {box.share.count} of {box.share.n}"
        words = f"{name}: median {median}, quartiles {q1} and {q3}, n = {box.n}"
        if self.bounds:
            low, high = self.bounds
            expected = (
                f"{self.text(low)} to {self.text(high)}"
                if low and high
                else f"{'at least' if low else 'at most'} {self.text(low or high)}"
            )
            words += f"; expected {expected}"
        return words


def _height(run: PlainRun, box: Box) -> str:
    """Where a run's point is, from the top: the first repetition highest."""
    return str(round(10 + 20 * (run.repetition - 0.5) / max(box.planned, 1)))
