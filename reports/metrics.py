"""What is compared: four numbers of a run, each with its unit and its meaning in words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from captures.summary import CaptureSummary
from reports.load import Run
from reports.units import measured_text, number_text


@dataclass(frozen=True)
class Metric:
    """One number of a run. `per_unit` is how many of the summary's units (bit/s, packets) make one shown."""

    key: str
    """Its field in CaptureSummary."""
    slug: str
    name: str
    unit: str
    per_unit: float
    kind: Literal["rate", "count"]
    meaning: str
    formula: str = ""

    @property
    def label(self) -> str:
        """Name and unit, for an axis or a table head."""
        return f"{self.name} ({self.unit})"

    def text(self, value: float) -> str:
        """A value, or a statistic of values, as tables show it."""
        return measured_text(value) if self.kind == "rate" else number_text(value)

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
