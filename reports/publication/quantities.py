"""What a figure can show: columns of the table of runs under short names, with labels, units and texts of values."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from owlt.reports.comparison.metrics import FURTHER, MEASURES, METRICS
from owlt.reports.results.columns import COLUMNS
from owlt.reports.style.units import delay_text, duration_text, probability_text, rate_text, size_text, tick_text


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

    @property
    def full_label(self) -> str:
        """The label of a numeric axis: "Goodput (Mbit/s)"."""
        return f"{self.label} ({self.unit})" if self.unit else self.label


_SETTINGS = (
    Quantity("delay", "delay_ns", "one-way delay", "ms", 1e6, delay_text),
    Quantity("rtt", "rtt_ns", "round trip", "ms", 1e6, delay_text),
    Quantity("rate", "rate_bps", "rate", "Mbit/s", 1e6, rate_text),
    Quantity("packet_error_rate", "packet_error_rate", "packet error rate", "", 1, probability_text),
    Quantity("file_size", "file_size_bytes", "file size", "MB", 1e6, lambda value: size_text(int(value))),
    Quantity("duration", "duration_ns", "duration", "s", 1e9, lambda value: duration_text(int(value))),
    Quantity("channel", "channel_name", "channel", "", 1, str, is_number=False),
    Quantity("implementation", "implementation", "implementation", "", 1, str, is_number=False),
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
