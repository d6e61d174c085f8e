"""The compared numbers of a run, each with its unit and its definition in words.

Four are shown everywhere (METRICS), two more have folded figures (FURTHER), and all measures of captures are in a table
(MEASURES).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from owlt.captures.accounting.summary import CaptureSummary
from owlt.reports.results.load import Results, Run
from owlt.reports.results.rows import Row
from owlt.reports.units import Units, measured_text, number_text, unit_for
from owlt.results.judgements import COMPLETED

BITS = 8
MetricKind = Literal["rate", "count", "amount"]
"""Counts and amounts grow with the file; counts are whole numbers."""


_RATES: Units = tuple(
    (unit, size, size) for unit, size in (("Gbit/s", 1e9), ("Mbit/s", 1e6), ("kbit/s", 1e3), ("bit/s", 1.0))
)
_AMOUNTS: Units = tuple((unit, size, size) for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3), ("B", 1.0)))
SCALES = {"Mbit/s": _RATES, "kbit/s": _RATES, "MB": _AMOUNTS}
"""The units of metrics whose unit depends on their values."""
LEAST_IN_UNIT = 1e-3
"""A smaller value has a unit of its own."""


@dataclass(frozen=True)
class Metric:
    """One number of a run. `per_unit` is the shown unit in units of the summary (bit/s, packets, bytes)."""

    key: str
    """The field of CaptureSummary."""
    slug: str
    name: str
    unit: str
    per_unit: float
    kind: MetricKind
    meaning: str
    formula: str = ""
    needs_file: bool = False
    """Whether it is not defined for a run that sends for a duration."""
    is_time: bool = False
    """Whether it is the time in which the file is sent at the rate `key`, in s."""

    @property
    def label(self) -> str:
        """Name and unit, for an axis or a table head."""
        return f"{self.name} ({self.unit})" if self.unit else self.name

    @property
    def grows_with_file(self) -> bool:
        """Whether values of files of different sizes must not be compared."""
        return self.kind != "rate"

    def text(self, value: float) -> str:
        """A value, or a statistic of values, as tables show it."""
        return number_text(round(value, 2)) if self.kind == "count" else measured_text(value)

    def scaled(self, greatest: float) -> Metric:
        """The metric in the unit for values up to this one, given in its present unit: kbit/s below 1 Mbit/s."""
        units = SCALES.get(self.unit)
        if units is None:
            return self
        unit, per_unit = unit_for(units, greatest * self.per_unit)
        return replace(self, unit=unit, per_unit=per_unit)

    def quantity_text(self, value: float) -> str:
        """A value in its present unit, written with the unit that suits it: "832.9 kbit/s"."""
        shown = self.scaled(value)
        text = shown.text(value * self.per_unit / shown.per_unit)
        unit = "packet" if (text, shown.unit) == ("1", "packets") else shown.unit
        return f"{text} {unit}".rstrip()

    def cell_text(self, value: float) -> str:
        """A value in a table whose head has the unit; with a unit of its own if it is too small for that one."""
        return self.quantity_text(value) if self.unit in SCALES and 0 < value < LEAST_IN_UNIT else self.text(value)

    def of_summary(self, summary: CaptureSummary, file_size_bytes: int | None = None) -> float | None:
        """The number in its unit; None if the captures have no such number."""
        return self._in_its_unit(getattr(summary, self.key), file_size_bytes)

    def of(self, run: Run) -> float | None:
        """The number of a completed run whose captures have a summary; None for any other run."""
        if not run.completed or not run.summary:
            return None
        return self.of_summary(run.summary, run.record.permutation.file_size_bytes)

    def of_row(self, row: Row) -> float | None:
        """The number from a row of the table of runs whose file was delivered."""
        return self._in_its_unit(row[self.key], row["file_size_bytes"] if self.is_time else None)

    def _in_its_unit(self, value: float | None, file_size_bytes: int | None) -> float | None:
        if value is None:
            return None
        if self.is_time:
            return BITS * file_size_bytes / value if file_size_bytes and value else None
        return value / self.per_unit


METRICS = (
    Metric(
        key="goodput_bps",
        slug="goodput",
        name="Goodput",
        unit="Mbit/s",
        per_unit=1e6,
        kind="rate",
        meaning="The bits of the file divided by the time from the first to the last packet of the session, from "
        "either host, at the emulator's port towards the sender. Headers and retransmissions do not count as bits of "
        "the file; the time to open and close the session counts. If data is sent for a duration: the bits that the "
        "receiver received in that time, divided by it.",
        formula="8 × file bytes / (last packet − first packet)",
    ),
    Metric(
        key="goodput_to_delivery_bps",
        slug="goodput-to-delivery",
        name="Goodput to delivery",
        unit="Mbit/s",
        per_unit=1e6,
        kind="rate",
        needs_file=True,
        meaning="The bits of the file divided by the time from the first packet until the receiver's file is "
        "delivered: the time of later packets does not count. It is lower than the goodput if the file is delivered "
        "after the session's last packet was captured at the sender's port.",
        formula="8 × file bytes / (file delivered − first packet)",
    ),
    Metric(
        key="str_sent",
        slug="str",
        name="STR",
        unit="packets",
        per_unit=1,
        kind="count",
        meaning="Sender to receiver: the packets of the session that the sender sent, counted before they enter the "
        "channel, retransmissions included.",
    ),
    Metric(
        key="rts_sent",
        slug="rts",
        name="RTS",
        unit="packets",
        per_unit=1,
        kind="count",
        meaning="Receiver to sender: the packets of the session that the receiver sent, counted in the same way. "
        "On an asymmetric link this is the load on the slow return channel.",
    ),
)

FURTHER = (
    Metric(
        key="total_data_bytes",
        slug="total-data",
        name="Total data",
        unit="MB",
        per_unit=1e6,
        kind="amount",
        meaning="All bytes of the Ethernet frames that the sender sent in the session: headers, control messages and "
        "retransmissions included.",
    ),
    Metric(
        key="normalized_goodput_bps",
        slug="normalized-goodput",
        name="Normalized goodput",
        unit="Mbit/s",
        per_unit=1e6,
        kind="rate",
        needs_file=True,
        meaning="The goodput times the ratio of file bytes to total data: of two implementations with the same "
        "goodput, the one that sends less has the higher value. This definition is owlt's own.",
        formula="goodput × file bytes / total data",
    ),
)

MEASURES = (
    Metric(
        key="throughput_forward_bps",
        slug="throughput-forward",
        name="Throughput →",
        unit="Mbit/s",
        per_unit=1e6,
        kind="rate",
        meaning="All bits of the session's frames that left the channel, divided by the duration of the session: → "
        "those of the sender, ← those of the receiver.",
        formula="8 × bytes as delivered / (last packet − first packet)",
    ),
    Metric(
        key="throughput_reverse_bps",
        slug="throughput-reverse",
        name="Throughput ←",
        unit="kbit/s",
        per_unit=1e3,
        kind="rate",
        meaning="",
    ),
    FURTHER[0],
    Metric(
        key="rts_sent_bytes",
        slug="data-back",
        name="Total data ←",
        unit="kB",
        per_unit=1e3,
        kind="amount",
        meaning="All bytes of the Ethernet frames that the receiver sent in the session. On an asymmetric link this is "
        "the load on the slow return channel.",
    ),
    Metric(
        key="data_ratio",
        slug="data-ratio",
        name="Data ratio",
        unit="",
        per_unit=1,
        kind="rate",
        needs_file=True,
        meaning="Bytes sent for each byte of the file; a protocol without headers, retransmissions and control "
        "messages would have a ratio of 1.",
        formula="total data / file bytes",
    ),
    FURTHER[1],
    Metric(
        key="efficiency",
        slug="efficiency",
        name="Efficiency",
        unit="%",
        per_unit=0.01,
        kind="rate",
        meaning="The share of the forward channel's capacity during the session that carried bits of the file. Not "
        "available if its rate is unlimited or changes.",
        formula="goodput / rate",
    ),
    Metric(
        key="utilisation",
        slug="utilisation",
        name="Utilisation",
        unit="%",
        per_unit=0.01,
        kind="rate",
        meaning="The share of the forward channel's capacity that carried any of the session's bits.",
        formula="throughput → / rate",
    ),
)

TIME_TO_DELIVERY = Metric(
    key="goodput_to_delivery_bps",
    slug="time-to-delivery",
    name="Time to delivery",
    unit="s",
    per_unit=1,
    kind="rate",
    needs_file=True,
    is_time=True,
    meaning="The time from the first packet of the session until the receiver's file is delivered.",
    formula="file delivered − first packet",
)
"""In figures and in the answer: the tables have the goodput to delivery, which contains the same information."""

DELIVERED = Metric(
    key="outcome",
    slug="delivery",
    name="Delivered",
    unit="%",
    per_unit=1,
    kind="rate",
    meaning="The share of the files that were delivered, of the runs that have a result.",
    formula="delivered files / runs with a result",
)
"""In the answer only: a share of runs, not a number of one run."""


def defined_in(results: Results, metrics: tuple[Metric, ...]) -> tuple[Metric, ...]:
    """The metrics that are defined for the load of the sweep: a file, or data for a duration."""
    has_files = any(point.duration_ns is None for point in results.planned)
    return tuple(metric for metric in metrics if has_files or not metric.needs_file)


def shown_in(results: Results, metrics: tuple[Metric, ...]) -> tuple[Metric, ...]:
    """Those that are defined for the load of the sweep, each in the unit for the greatest of its values."""
    defined = defined_in(results, metrics)
    delivered = [row for row in results.rows if row["outcome"] == COMPLETED]
    return tuple(
        metric.scaled(max((row[metric.key] or 0.0 for row in delivered), default=0.0) / metric.per_unit or 1.0)
        if metric.unit in SCALES
        else metric
        for metric in defined
    )
