"""An assertion as a value: the measure, its bound, and the permutations to which it applies."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any, Literal

import numpy as np

from owlt.inputs.axes import AXES, Axis, matches, selected
from owlt.inputs.axes import Interval as AxisInterval
from owlt.inputs.quantities import parse_rate_bps, parse_size_bytes
from owlt.reports.comparison.cells import Cell, Point, Sample
from owlt.reports.comparison.estimates import Interval, median_interval
from owlt.reports.comparison.metrics import FURTHER, MEASURES, METRICS, Metric
from owlt.reports.comparison.theory import least_transfer_s
from owlt.reports.results.rows import Row
from owlt.reports.units import (
    delay_text,
    duration_text,
    listed,
    named_axis_text,
    number_text,
    probability_text,
    rate_text,
    size_text,
)

Statistic = Literal["median", "mean", "minimum", "maximum"]
BOUNDS = ("at_least", "at_most")


@dataclass(frozen=True)
class Measured:
    """The measure of an assertion: a metric; None: the share of delivered files."""

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
    """Whether the bound is the least value that meets the assertion; else it is the greatest."""
    bound: float
    reference: str | None
    """The reference of which the bound is a share: "capacity", "rate" or an implementation."""
    values: Mapping[str, Sequence[Any]]
    """The values and intervals to which it is limited, by the key of their axis."""

    def is_about(self, point: Point, implementation: str) -> bool:
        """Whether it applies to a permutation; an implementation includes its variants."""
        return implementation != self.reference and all(
            matches(key, implementation if key == "implementations" else AXES[key].of(point), values)
            for key, values in self.values.items()
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
        """The permutations to which it applies: "ltp, PER 0.0001"; "all permutations" without a limit."""
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
        values={axis: selected(axis, written[axis]) for axis in AXES if axis in written},
    )


_METRICS = {metric.slug.replace("-", "_"): metric for metric in METRICS + FURTHER + MEASURES}


def _number(written: float | str) -> float:
    if not isinstance(written, str):
        return float(written)
    return parse_rate_bps(written) if written.endswith("bit/s") else float(parse_size_bytes(written))


def _reference(name: str | None) -> str:
    return f"the {name}" if name in ("capacity", "rate") else str(name)


def _values_text(key: str, values: Sequence[Any]) -> str:
    axis = AXES[key]
    return listed(
        [
            _interval_text(axis, each) if isinstance(each, AxisInterval) else named_axis_text(axis, each)
            for each in values
        ]
    )


def _interval_text(axis: Axis, bounds: AxisInterval) -> str:
    least, most = (named_axis_text(axis, bound) for bound in (bounds.least, bounds.most))
    if bounds.least is None:
        return f"up to {most}"
    return f"from {least}" if bounds.most is None else f"{least} to {most}"


BITS = 8
AssertionVerdict = Literal["not met", "no result", "met"]
VERDICTS: tuple[AssertionVerdict, ...] = ("not met", "no result", "met")
"""The order of a list: what needs attention is first. no result: no run has one, or the reference has none."""


@dataclass(frozen=True)
class Finding:
    """An assertion in one permutation. Values are in base units."""

    assertion: Assertion
    point: Point
    implementation: str
    verdict: AssertionVerdict
    value: float | None
    """None without a run; inf: not delivered, where a greatest value is asserted."""
    bound: float | None
    """The bound in base units; None if the reference has no value."""
    n: int
    """The number of runs of the value."""
    undelivered: int
    interval: Interval | None
    """The interval of a median of delivered files."""

    @property
    def is_met(self) -> bool:
        """Whether it is met."""
        return self.verdict == "met"

    @property
    def text(self) -> str:
        """The finding in one line."""
        runs = f"n = {self.n}" + (f", {self.undelivered} not delivered" if self.undelivered else "")
        where = f"{self.implementation}, {point_text(self.point)}"
        sign = "at least" if self.assertion.is_least else "at most"
        expected = f"expected {sign} {self.bound_text} ({runs})"
        return f"{self.verdict}: {self.assertion.what}: {where}: {self.value_text}, {expected}"

    @property
    def value_text(self) -> str:
        """The value, and its share of the reference: "8.31 Mbit/s (0.85 of it)"; "–" without one."""
        if self.value is None:
            return "–"
        text = self.assertion.measured.text(self.value)
        if not self.assertion.reference or not self.bound or self.value == inf:
            return text
        return (
            f"{text} ({self.value / (self.bound / self.assertion.bound):.3g} of it)" if self.assertion.bound else text
        )

    @property
    def bound_text(self) -> str:
        """The bound: "9.1 Mbit/s"; "–" if the reference has no value."""
        return "–" if self.bound is None else self.assertion.measured.text(self.bound)

    @property
    def interval_text(self) -> str:
        """The interval of the median: "8.1 to 8.4 Mbit/s"; "–" if there is none."""
        if self.interval is None:
            return "–"
        low, high = (self.assertion.measured.text(bound) for bound in (self.interval.low, self.interval.high))
        number, _, unit = low.rpartition(" ")
        return f"{number if number and high.endswith(f' {unit}') else low} to {high}"

    def as_json(self) -> dict[str, Any]:
        """Its values, for JSON output."""
        return {
            "assertion": self.assertion.what,
            "where": self.assertion.where,
            **self.point.values,
            "implementation": self.implementation,
            "verdict": self.verdict,
            "value": self.value,
            "bound": self.bound,
            "n": self.n,
            "undelivered": self.undelivered,
            "interval": self.interval,
        }


def point_text(point: Point) -> str:
    """A cell in words, with all its dimensions."""
    channel = point.channel_name or f"{rate_text(point.rate_bps)}, {delay_text(point.delay_ns)}"
    if not point.channel_name:
        own = [axis for axis in AXES.values() if axis.way == "reverse" and axis.is_own(point)]
        channel = ", ".join([channel, *(named_axis_text(axis, axis.of(point)) for axis in own)])
    load = (
        size_text(point.file_size_bytes) if point.file_size_bytes is not None else duration_text(point.duration_ns or 0)
    )
    channel += "" if point.ip == 4 else f", IPv{point.ip}"
    return f"{channel}, PER {probability_text(point.packet_error_rate)}, {load}"


def findings_of(written: Sequence[Mapping[str, Any]], cells: Sequence[Cell]) -> list[Finding]:
    """All findings for the assertions of a plan; those that are not met first."""
    findings = [finding for each in written for finding in _findings(assertion_of(each), cells)]
    return sorted(findings, key=lambda finding: VERDICTS.index(finding.verdict))


def _findings(assertion: Assertion, cells: Sequence[Cell]) -> Iterator[Finding]:
    for cell in cells:
        for name, sample in cell.samples.items():
            if assertion.is_about(cell.point, name):
                yield _finding(assertion, cell, name, sample)


def _finding(assertion: Assertion, cell: Cell, name: str, sample: Sample) -> Finding:
    values = _values(assertion, sample)
    value = _statistic(assertion, values)
    bound = _bound(assertion, cell, sample)
    delivered = [each for each in values if 0 < each < inf]
    has_interval = assertion.measured.metric is not None and assertion.statistic == "median"
    return Finding(
        assertion=assertion,
        point=cell.point,
        implementation=name,
        verdict=_verdict(assertion, value, bound),
        value=value,
        bound=bound,
        n=len(values),
        undelivered=sample.undelivered,
        interval=median_interval(delivered) if has_interval else None,
    )


def _verdict(assertion: Assertion, value: float | None, bound: float | None) -> AssertionVerdict:
    if value is None or bound is None:
        return "no result"
    return "met" if (value >= bound if assertion.is_least else value <= bound) else "not met"


def _values(assertion: Assertion, sample: Sample) -> list[float]:
    """The values of all runs with a result, in base units; of delivered files: 1 or 0 for each."""
    metric = assertion.measured.metric
    if metric is None:
        return [1.0] * (sample.tried - sample.undelivered) + [0.0] * sample.undelivered
    worst = 0.0 if assertion.is_least else inf
    return [metric.per_unit * value for value in sample.values(metric)] + [worst] * sample.undelivered


def _statistic(assertion: Assertion, values: Sequence[float]) -> float | None:
    if not values:
        return None
    if assertion.measured.metric is None:
        return float(np.mean(values))
    match assertion.statistic:
        case "median":
            return float(np.median(values))
        case "mean":
            return float(np.mean(values))
        case "minimum":
            return min(values)
        case "maximum":
            return max(values)


def _bound(assertion: Assertion, cell: Cell, sample: Sample) -> float | None:
    """The bound in base units: a share of what the assertion refers to, if it does."""
    reference = assertion.reference
    if reference is None:
        return assertion.bound
    if reference in ("capacity", "rate"):
        greatest = _greatest_bps(sample.rows[0], reference)
        return None if greatest is None else assertion.bound * greatest
    other = cell.samples.get(reference)
    value = _statistic(assertion, _values(assertion, other)) if other else None
    return None if value is None else assertion.bound * value


def _greatest_bps(row: Row, reference: str) -> float | None:
    """The rate of the forward channel; or its capacity for the file: the goodput of a transfer that takes the time of
    the file's bits at that rate and the one-way delay. None of a channel that changes or has no limit."""
    rate_bps: float | None = row["forward_rate_bps"]
    if row["timeline"]:
        return None
    if reference == "rate" or row["file_size_bytes"] is None:
        return rate_bps
    least_s = least_transfer_s(row["file_size_bytes"], rate_bps, row["forward_delay_ns"] / 1e9)
    return BITS * row["file_size_bytes"] / least_s if least_s else None
