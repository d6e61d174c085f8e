"""Which data of a block are sent again: what a report shows to be missing (RFC 5326, section 6.13).

Nothing is sent again because time has passed; only unanswered checkpoints, reports and cancellations are
(`agents.ltp.unanswered`).
"""

from typing import NamedTuple

from owlt.agents.endpoint.intervals import Intervals
from owlt.agents.ltp.segments import Report

REPORTS_REMEMBERED = 1 << 16
BURSTS_REMEMBERED = 1 << 10


class _Burst(NamedTuple):
    """Data that are sent again because of one report. `cycle` counts the bursts that led to it, each by a report on the
    one before, and itself."""

    data: Intervals
    cycle: int


class Retransmission:
    """What the reports on one block claim, and what was sent again because of each."""

    def __init__(self) -> None:
        self._claimed = Intervals()
        self._reports_seen: dict[int, None] = {}
        self._bursts: dict[int, _Burst] = {}
        self.cycles = 0
        """How many times in a row a report on data that were sent again showed that some were missing still."""

    @property
    def claimed_bytes(self) -> int:
        """How many bytes have come, by all reports together."""
        return self._claimed.total

    def missing(self, report: Report, next_serial: int) -> Intervals:
        """What a report shows to be missing and is not sent again already; nothing if the report came before.

        `next_serial` is that of the next checkpoint: a report with this or a greater one answers no checkpoint.
        """
        if report.serial in self._reports_seen:
            return Intervals()
        self._remember(report)
        lower = report.lower_bound
        for offset, length in report.claims:
            self._claimed.add(lower + offset, lower + offset + length)
        missing = Intervals(self._claimed.gaps(lower, report.upper_bound))
        for start, end in self._sent_again_since(report, next_serial):
            missing.remove(start, end)
        return missing

    def begin_burst(self, checkpoint_serial: int, report: Report, data: Intervals) -> None:
        """Data are sent again because of a report; the checkpoint at their end asks for the next report."""
        cause = self._bursts.get(report.checkpoint_serial)
        burst = _Burst(data, cause.cycle + 1 if cause else 1)
        self._bursts[checkpoint_serial] = burst
        self.cycles = max(self.cycles, burst.cycle)
        if len(self._bursts) > BURSTS_REMEMBERED:
            del self._bursts[next(iter(self._bursts))]

    def _sent_again_since(self, report: Report, next_serial: int) -> list[tuple[int, int]]:
        """Data that were sent again, or wait to be, behind the checkpoint that a report answers: it cannot know of
        them. The checkpoint at their own end will tell. A report that answers no checkpoint knows of none."""
        asked = report.checkpoint_serial if report.checkpoint_serial < next_serial else 0
        return [stretch for serial, burst in self._bursts.items() if serial > asked for stretch in burst.data]

    def _remember(self, report: Report) -> None:
        self._reports_seen[report.serial] = None
        if len(self._reports_seen) > REPORTS_REMEMBERED:
            del self._reports_seen[next(iter(self._reports_seen))]
