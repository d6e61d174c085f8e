"""What is compared: numbers of a run, each with its unit and its meaning in words.

Four stand in front everywhere (METRICS), two more are drawn where who wants them unfolds them (FURTHER), and all that
captures give are in a table (MEASURES).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from captures.summary import CaptureSummary
from reports.load import Run
from reports.units import measured_text, number_text

MetricKind = Literal["rate", "count", "amount"]
"""Counts and amounts grow with the file; counts are whole numbers."""


@dataclass(frozen=True)
class Metric:
    """One number of a run. `per_unit` is how many of the summary's units (bit/s, packets, bytes) make one shown."""

    key: str
    """Its field in CaptureSummary."""
    slug: str
    name: str
    unit: str
    per_unit: float
    kind: MetricKind
    meaning: str
    formula: str = ""

    @property
    def label(self) -> str:
        """Name and unit, for an axis or a table head."""
        return f"{self.name} ({self.unit})" if self.unit else self.name

    @property
    def grows_with_file(self) -> bool:
        """Whether values of files of different sizes are not to be compared."""
        return self.kind != "rate"

    def text(self, value: float) -> str:
        """A value, or a statistic of values, as tables show it."""
        return number_text(value) if self.kind == "count" else measured_text(value)

    def of_summary(self, summary: CaptureSummary) -> float | None:
        """The number in its unit, None where the captures gave none."""
        value: float | None = getattr(summary, self.key)
        return None if value is None else value / self.per_unit

    def of(self, run: Run) -> float | None:
        """The number of a run that has one to compare: completed, with its captures summarised."""
        return self.of_summary(run.summary) if run.completed and run.summary else None


METRICS = (
    Metric(
        key="goodput_bps",
        slug="goodput",
        name="Goodput",
        unit="Mbit/s",
        per_unit=1e6,
        kind="rate",
        meaning="Eight times the bytes of the file, over the time from the first to the last packet of the "
        "session, of either host, at the emulator's port towards the sender. Headers and packets sent again "
        "do not count as bits of the file; the protocol's opening and its good-bye do count as time.",
        formula="8 × file bytes / (last packet − first packet)",
    ),
    Metric(
        key="goodput_until_whole_bps",
        slug="goodput-until-whole",
        name="Goodput until whole",
        unit="Mbit/s",
        per_unit=1e6,
        kind="rate",
        meaning="The same bits over the time from that first packet until the receiver's file was whole: what "
        "is left when a protocol that keeps talking after the file has arrived is not charged for it. It is the lower "
        "of the two where the file is whole only after the last packet, which still has to arrive and be written.",
        formula="8 × file bytes / (file whole − first packet)",
    ),
    Metric(
        key="str_sent",
        slug="str",
        name="STR",
        unit="packets",
        per_unit=1,
        kind="count",
        meaning="Sender to receiver: the packets of the session that the sender sent, counted before the "
        "channel could damage any. Retransmissions count each time.",
    ),
    Metric(
        key="rts_sent",
        slug="rts",
        name="RTS",
        unit="packets",
        per_unit=1,
        kind="count",
        meaning="Receiver to sender: the packets of the session that the receiver sent, counted the same way. "
        "On an asymmetric link this is what the thin return channel has to carry.",
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
        meaning="All bytes that the sender sent for the file, in Ethernet frames of the session, as sent: headers, "
        "control and what was sent again with them.",
    ),
    Metric(
        key="normalized_goodput_bps",
        slug="normalized-goodput",
        name="Normalized goodput",
        unit="Mbit/s",
        per_unit=1e6,
        kind="rate",
        meaning="The goodput times the share of the file in the total data: of two with the same goodput, the one that "
        "sent less for it has more. The form is ours; it equals the goodput of a sender that sends nothing but the "
        "file.",
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
        meaning="All bits of the session’s frames that came out of the channel, over the session: → those of the "
        "sender, ← those of the receiver.",
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
        key="data_ratio",
        slug="data-ratio",
        name="Data ratio",
        unit="",
        per_unit=1,
        kind="rate",
        meaning="Bytes sent for each byte of the file; 1 would be a protocol without headers, repairs and control.",
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
        meaning="The share of what the forward channel could carry during the session that became file. None where its "
        "rate is unlimited or changes.",
        formula="goodput / rate",
    ),
    Metric(
        key="utilisation",
        slug="utilisation",
        name="Utilisation",
        unit="%",
        per_unit=0.01,
        kind="rate",
        meaning="The share of it that was used, for whatever.",
        formula="throughput → / rate",
    ),
)
