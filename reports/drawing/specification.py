"""The specification of a figure: quantities, kind, groups, facets, filters, size."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal, get_args

from owlt.inputs.axes import AXES, BY_NAME, CONDITIONS, Axis
from owlt.inputs.quantities import NAME, RATE
from owlt.reports.comparison.cells import Sample
from owlt.reports.comparison.choice import DEFAULT_RULE, Rule
from owlt.reports.comparison.metrics import FURTHER, MEASURES, METRICS, TIME_TO_DELIVERY
from owlt.reports.results.columns import COLUMNS
from owlt.reports.results.rows import Row
from owlt.reports.units import axis_text, delay_text, tick_text, with_head


class UnknownName(ValueError):
    """A name that is neither a short name nor a column. `known` are the short names."""

    def __init__(self, name: str, known: Sequence[str]) -> None:
        super().__init__(name)
        self.name = name
        self.known = tuple(known)


@dataclass(frozen=True)
class Quantity:
    """A column as an axis: its values are divided by `per_unit`; `text` writes an undivided one."""

    name: str
    column: str
    label: str
    """Without unit, as values with their unit are the ticks of categories."""
    unit: str
    per_unit: float
    text: Callable[[Any], str]
    is_count: bool = False
    is_number: bool = True
    derived: Callable[[Row], float | None] | None = None
    """Computes the quantity from a row, if it is no column of the table of runs."""

    def of(self, row: Row) -> Any:
        """The undivided value of a row."""
        return self.derived(row) if self.derived else row[self.column]

    @property
    def full_label(self) -> str:
        """The label of a numeric axis: "Goodput (Mbit/s)"."""
        return f"{self.label} ({self.unit})" if self.unit else self.label


def _of_axis(axis: Axis) -> Quantity:
    text = partial(axis_text, axis)
    is_number = axis.quantity is not NAME
    return Quantity(axis.name, axis.field, axis.label, axis.unit, axis.per_unit, text, is_number=is_number)


_SETTINGS = (
    *(_of_axis(AXES[key]) for key in CONDITIONS),
    Quantity("rtt", "rtt_ns", "round trip", "ms", 1e6, delay_text),
    _of_axis(AXES["implementations"]),
    Quantity("protocol", "protocol", "protocol", "", 1, str, is_number=False),
)
_ALIASES = {"per": "packet_error_rate", "size": "file_size", "error_rate": "packet_error_rate"}
_METRICS = {
    metric.slug.replace("-", "_"): Quantity(
        metric.slug.replace("-", "_"),
        metric.key,
        metric.name,
        metric.unit,
        metric.per_unit,
        metric.text,
        is_count=metric.kind == "count",
    )
    for metric in METRICS + FURTHER + MEASURES
}
SETTINGS = {each.name: each for each in _SETTINGS}
_METRICS["time_to_delivery"] = Quantity(
    "time_to_delivery",
    "time_to_delivery_s",
    TIME_TO_DELIVERY.name,
    TIME_TO_DELIVERY.unit,
    1,
    TIME_TO_DELIVERY.text,
    derived=TIME_TO_DELIVERY.of_row,
)
NAMES = (*SETTINGS, *_METRICS)
"""All short names."""


def quantity(name: str) -> Quantity:
    """The quantity of a short name or of a column; hyphens and underscores are the same. Raises UnknownName."""
    plain = name.replace("-", "_")
    plain = _ALIASES.get(plain, plain)
    if known := SETTINGS.get(plain) or _METRICS.get(plain):
        return known
    for each in (*_SETTINGS, *_METRICS.values()):
        if each.column == plain:
            return each
    for column in COLUMNS:
        if column.name == plain:
            label = re.sub("_(ns|s|bps|bytes|percent)$", "", column.name).replace("_", " ")
            is_text = column.kind in ("text", "truth")
            return Quantity(plain, plain, label, column.unit, 1, str if is_text else tick_text, is_number=not is_text)
    raise UnknownName(name, NAMES)


class NothingSelected(ValueError):
    """A filter that no row passes. `values` are those that the rows have."""

    def __init__(self, name: str, value: str, values: Sequence[str]) -> None:
        super().__init__(f"{name}={value}")
        self.name, self.value, self.values = name, value, tuple(values)


@dataclass(frozen=True)
class Filter:
    """Rows whose value of a quantity is one of these, as texts: "1250 ms", "1250ms", "0.001"."""

    quantity: Quantity
    values: tuple[str, ...]


def selected(rows: Sequence[Row], filters: Sequence[Filter]) -> list[Row]:
    """The rows that pass all filters. Raises NothingSelected for a value that no row has."""
    for each in filters:
        present = values_of(rows, each.quantity)
        wanted: set[Any] = set()
        for text in each.values:
            matches = {value for value in present if _is_written(text, value, each.quantity)}
            if not matches:
                raise NothingSelected(each.quantity.name, text, [_text(value, each.quantity) for value in present])
            wanted |= matches
        rows = [row for row in rows if each.quantity.of(row) in wanted]
    return list(rows)


def values_of(rows: Sequence[Row], quantity: Quantity) -> list[Any]:
    """The values that the rows have: numbers ascending, texts in the order of the rows; no rate is the highest one."""
    values = list(dict.fromkeys(quantity.of(row) for row in rows))
    if any(isinstance(value, str) for value in values):
        return values
    return sorted(values, key=lambda value: float("inf") if value is None else value)


def divided(rows: Sequence[Row], quantities: Sequence[Quantity]) -> list[tuple[str, list[Row]]]:
    """The rows by their values of some quantities, with a heading each; one part without heading if there are none."""
    parts: list[tuple[str, list[Row]]] = [("", list(rows))]
    for quantity in quantities:
        parts = [
            (
                ", ".join(filter(None, (heading, heading_text(value, quantity)))),
                [row for row in part if quantity.of(row) == value],
            )
            for heading, part in parts
            for value in values_of(part, quantity)
        ]
    return parts


def heading_text(value: Any, quantity: Quantity) -> str:
    """A value as the heading of a panel: "1250 ms", "PER 0.01"."""
    text = _text(value, quantity)
    axis = BY_NAME.get(quantity.name)
    return with_head(axis, text) if axis else text


def samples_by(rows: Sequence[Row], quantity: Quantity) -> dict[Any, Sample]:
    """A sample for each value of a quantity."""
    return {
        value: Sample(tuple(row for row in rows if quantity.of(row) == value)) for value in values_of(rows, quantity)
    }


def values_in(sample: Sample, quantity: Quantity) -> list[tuple[Row, float]]:
    """The rows of a sample that have a value of a delivered file, each with the value in the quantity's unit."""
    return [
        (row, value / quantity.per_unit) for row in sample.delivered_rows if (value := quantity.of(row)) is not None
    ]


def _text(value: Any, quantity: Quantity) -> str:
    axis = BY_NAME.get(quantity.name)
    return "–" if value is None and not (axis and axis.quantity is RATE) else quantity.text(value)


def _is_written(text: str, value: Any, quantity: Quantity) -> bool:
    """Whether a text is that of a value, spaces aside, or the same number."""
    plain = text.replace(" ", "").replace("us", "µs").replace("\N{GREEK SMALL LETTER MU}", "µ")
    if plain == _text(value, quantity).replace(" ", ""):
        return True
    try:
        return isinstance(value, int | float) and float(plain) == float(value)
    except ValueError:
        return False


Kind = Literal["box", "bar", "cdf", "heatmap", "line", "map", "time"]
KINDS: tuple[str, ...] = get_args(Kind)
WIDTHS_MM = {
    "ieee-column": 88.9,
    "ieee-page": 181.9,
    "nasa-column": 82.55,
    "nasa-page": 165.1,
}
"""The widths of a column and of the text of the page, of IEEE transactions and NASA technical memoranda."""


@dataclass(frozen=True)
class Specification:
    """A figure. `height_mm` None: from the number of panels.

    A map has the grid of the answer: `y` is its criterion; x, facets and theory are not used. Where the time went has
    the session time for `y`.
    """

    y: Quantity
    x: Quantity
    kind: Kind = "box"
    group: Quantity = field(default_factory=lambda: quantity("implementation"))
    facets: tuple[Quantity, ...] = ()
    filters: tuple[Filter, ...] = ()
    theory: tuple[str, ...] = ()
    """The names of theories to draw, of `reports.comparison.theory`; of a figure of goodput."""
    order: tuple[str, ...] = ()
    """Groups in the order that decides their looks; the others follow in the order of the rows."""
    rule: Rule = DEFAULT_RULE
    """Of a map: what the choice demands."""
    width_mm: float = WIDTHS_MM["ieee-column"]
    height_mm: float | None = None
    font_pt: float = 8.0
