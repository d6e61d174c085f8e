"""Which rows a figure shows, and how they are divided: filters, facets, groups and categories."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from owlt.reports.comparison.cells import Sample
from owlt.reports.publication.quantities import Quantity
from owlt.reports.results.rows import Row


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
        rows = [row for row in rows if row[each.quantity.column] in wanted]
    return list(rows)


def values_of(rows: Sequence[Row], quantity: Quantity) -> list[Any]:
    """The values that the rows have: numbers ascending, texts in the order of the rows; no rate is the highest one."""
    values = list(dict.fromkeys(row[quantity.column] for row in rows))
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
                [row for row in part if row[quantity.column] == value],
            )
            for heading, part in parts
            for value in values_of(part, quantity)
        ]
    return parts


def heading_text(value: Any, quantity: Quantity) -> str:
    """A value as the heading of a panel: "1250 ms", "PER 0.01"."""
    text = _text(value, quantity)
    return f"PER {text}" if quantity.name == "packet_error_rate" else text


def samples_by(rows: Sequence[Row], quantity: Quantity) -> dict[Any, Sample]:
    """A sample for each value of a quantity."""
    return {
        value: Sample(tuple(row for row in rows if row[quantity.column] == value))
        for value in values_of(rows, quantity)
    }


def values_in(sample: Sample, quantity: Quantity) -> list[tuple[Row, float]]:
    """The rows of a sample that have a value of a delivered file, each with the value in the quantity's unit."""
    return [
        (row, row[quantity.column] / quantity.per_unit)
        for row in sample.rows
        if row["outcome"] == "completed" and row[quantity.column] is not None
    ]


def _text(value: Any, quantity: Quantity) -> str:
    return "–" if value is None and quantity.column != "rate_bps" else quantity.text(value)


def _is_written(text: str, value: Any, quantity: Quantity) -> bool:
    """Whether a text is that of a value, spaces aside, or the same number."""
    plain = text.replace(" ", "").replace("us", "µs").replace("\N{GREEK SMALL LETTER MU}", "µ")
    if plain == _text(value, quantity).replace(" ", ""):
        return True
    try:
        return isinstance(value, int | float) and float(plain) == float(value)
    except ValueError:
        return False
