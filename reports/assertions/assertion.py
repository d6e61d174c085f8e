"""An assertion as a value: what is measured, its bound, and the permutations that it is about."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any, Literal

from owlt.reports.comparison.cells import Point
from owlt.reports.comparison.metrics import FURTHER, MEASURES, METRICS, Metric
from owlt.reports.style.units import (
    delay_text,
    duration_text,
    listed,
    number_text,
    probability_text,
    rate_text,
    size_text,
    written_delay_ns,
    written_rate_bps,
    written_size_bytes,
)

Statistic = Literal["median", "mean", "minimum", "maximum"]
BOUNDS = ("at_least", "at_most")
FIELDS = {
    "implementations": "implementation",
    "file_size": "file_size_bytes",
    "duration": "duration_ns",
    "channel": "channel_name",
    "rate": "rate_bps",
    "delay": "delay_ns",
    "packet_error_rate": "packet_error_rate",
}
"""The field of a permutation for each axis."""
VARIANT = "+"
"""Between the name of an implementation and what a variant of it changes."""


@dataclass(frozen=True)
class Measured:
    """What an assertion is about: a metric; None: the share of delivered files."""

    name: str
    metric: Metric | None

    @property
    def label(self) -> str:
        """Its name in words: "goodput to delivery"."""
        return self.name.replace("_", " ") if self.name not in ("str", "rts") else self.name.upper()

    def text(self, value: float) -> str:
        """A value in base units with its unit: "8.31 Mbit/s", "100 %"."""
        if value == inf:
            return "not delivered"
        if self.metric is None or self.metric.unit == "%":
            return f"{100 * value:.4g} %"
        shown = value / self.metric.per_unit
        return f"{self.metric.text(shown) if shown else 0} {self.metric.unit}".rstrip()

    def exact_text(self, value: float) -> str:
        """A value that was not measured, without digits that it does not need: "1 Mbit/s"."""
        if self.metric is None or self.metric.unit == "%":
            return self.text(value)
        return f"{number_text(value / self.metric.per_unit)} {self.metric.unit}".rstrip()


@dataclass(frozen=True)
class Assertion:
    """One assertion. `bound` is in base units (bit/s, bytes, packets), or a share of the reference."""

    measured: Measured
    statistic: Statistic
    is_least: bool
    """Whether the bound is the least value that meets it; else it is the greatest."""
    bound: float
    reference: str | None
    """What the bound is a share of: "capacity", "rate" or an implementation."""
    values: Mapping[str, Sequence[Any]]
    """Of each axis that it is limited to: values, and intervals as pairs of bounds."""

    def is_about(self, point: Point, implementation: str) -> bool:
        """Whether it is about a permutation; an implementation stands for its variants, too."""
        fields = point._asdict() | {"implementation": implementation}
        names = (implementation, implementation.partition(VARIANT)[0])
        return implementation != self.reference and all(
            any(name in values for name in names)
            if axis == "implementations"
            else any(_is_in(fields[FIELDS[axis]], each) for each in values)
            for axis, values in self.values.items()
        )

    @property
    def what(self) -> str:
        """What it states, without its place: "median goodput at least 0.9 of capacity"."""
        amount = (
            f"{self.bound:g} of {_reference(self.reference)}"
            if self.reference
            else self.measured.exact_text(self.bound)
        )
        words = "at least" if self.is_least else "at most"
        name = "delivered files" if self.measured.metric is None else f"{self.statistic} {self.measured.label}"
        return f"{name} {words} {amount}"

    @property
    def where(self) -> str:
        """The permutations that it is about: "ltp, PER 0.0001"; "all permutations" without a limit."""
        return ", ".join(_values_text(axis, values) for axis, values in self.values.items()) or "all permutations"

    @property
    def sentence(self) -> str:
        """What it states, and of which permutations."""
        return f"{self.what}: {self.where}"


def assertion_of(written: Mapping[str, Any]) -> Assertion:
    """The assertion in a plan."""
    name = written["measure"]
    metric = _METRICS.get(name)
    (bound,) = (each for each in BOUNDS if each in written)
    return Assertion(
        measured=Measured(name, metric),
        statistic=written.get("statistic", "median"),
        is_least=bound == "at_least",
        bound=_number(written[bound]),
        reference=written.get("of"),
        values={axis: [_parsed(axis, each) for each in written[axis]] for axis in FIELDS if axis in written},
    )


_METRICS = {metric.slug.replace("-", "_"): metric for metric in METRICS + FURTHER + MEASURES}
_PARSE = {
    "file_size": written_size_bytes,
    "duration": written_delay_ns,
    "delay": written_delay_ns,
    "rate": lambda text: inf if text == "unlimited" else written_rate_bps(text),
}
_TEXTS = {
    "file_size": lambda value: size_text(int(value)),
    "duration": lambda value: duration_text(int(value)),
    "delay": lambda value: delay_text(int(value)),
    "rate": lambda value: rate_text(None if value == inf else value),
    "packet_error_rate": lambda value: f"PER {probability_text(value)}",
}


def _number(written: float | str) -> float:
    if not isinstance(written, str):
        return float(written)
    return written_rate_bps(written) if written.endswith("bit/s") else float(written_size_bytes(written))


def _parsed(axis: str, written: Any) -> Any:
    """A value of an axis as a number or a name; an interval as its two bounds."""
    parse: Any = _PARSE.get(axis, lambda value: value)
    if isinstance(written, Mapping):
        return parse(written["from"]) if "from" in written else -inf, parse(written["to"]) if "to" in written else inf
    return parse(written)


def _is_in(value: Any, allowed: Any) -> bool:
    number = inf if value is None else value
    return allowed[0] <= number <= allowed[1] if isinstance(allowed, tuple) else bool(number == allowed)


def _reference(name: str | None) -> str:
    return f"the {name}" if name in ("capacity", "rate") else str(name)


def _values_text(axis: str, values: Sequence[Any]) -> str:
    text: Any = _TEXTS.get(axis, str)
    return listed([_interval_text(each, text) if isinstance(each, tuple) else text(each) for each in values])


def _interval_text(bounds: tuple[float, float], text: Any) -> str:
    low, high = bounds
    if low == -inf:
        return f"up to {text(high)}"
    return f"from {text(low)}" if high == inf else f"{text(low)} to {text(high)}"
