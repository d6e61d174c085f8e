"""The receiver's engine: puts blocks where they belong in the file, and reports what has arrived (RFC 5326, 6.11)."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Self, TypeVar

from owlt.agents.endpoint.exit import Failed
from owlt.agents.endpoint.files import IncomingFile
from owlt.agents.endpoint.intervals import Intervals
from owlt.agents.ltp import sdnv
from owlt.agents.ltp.segments import (
    Checkpoint,
    Claim,
    DataSegment,
    Reason,
    Report,
    ReportAck,
    Segment,
    SessionId,
    encode,
)
from owlt.agents.ltp.sending import FIRST_SERIALS
from owlt.agents.ltp.settings import Layout, Settings
from owlt.agents.ltp.side import LINGER_TIMERS, LimitReached, SessionSide, Unanswered

Value = TypeVar("Value")

CHECKPOINTS_REMEMBERED = 1 << 16


class Unfitting(Exception):
    """A segment that lies outside its block, or gives the block another end."""


class Miscolored(Exception):
    """Red data behind green data (section 6.21)."""


class InboundBlock:
    """One session of the receiver. It keeps no data, and returns which data are new."""

    def __init__(self, session: SessionId, room_bytes: int, length: int | None, first_serial: int) -> None:
        self._session = session
        self._room_bytes = room_bytes
        self._length = length
        self._next_serial = first_serial
        self._red = Intervals()
        self._red_length: int | None = None
        self._green = Intervals()
        self._green_from: int | None = None
        self._ended = False
        self._primary_upper_bound = 0
        self._answers: dict[int, list[int]] = {}
        self._lower_bounds: dict[int, int] = {}

    @property
    def is_complete(self) -> bool:
        """Every byte has come."""
        return self._length is not None and self._red.total + self._green.total == self._length

    @property
    def awaits_green_only(self) -> bool:
        """The end of the block has been seen, and the red part, if anything shows that there is one, is complete."""
        return self._ended and self._red.total == (self._red_length or 0)

    def take(self, segment: DataSegment) -> bool:
        """Whether the segment has new data.

        Raises:
            Unfitting, Miscolored
        """
        self._check(segment)
        if segment.ends_red_part:
            self._red_length = segment.end
        if segment.ends_block:
            self._length = segment.end
            self._ended = True
        if segment.red:
            return self._red.add(segment.offset, segment.end) > 0
        if self._green_from is None or segment.offset < self._green_from:
            self._green_from = segment.offset
        return self._green.add(segment.offset, segment.end) > 0

    def _check(self, segment: DataSegment) -> None:
        end = segment.end
        if segment.offset == end or end > self._room_bytes:
            raise Unfitting
        if segment.red:
            if self._red_length is not None and end > self._red_length:
                raise Unfitting
            if self._green_from is not None and end > self._green_from:
                raise Miscolored
        elif segment.offset < self._red.end:
            raise Miscolored
        come_to = max(self._red.end, self._green.end)
        if segment.ends_block and (self._length not in (None, end) or end < come_to):
            raise Unfitting
        if segment.ends_red_part and (self._red_length not in (None, end) or end < self._red.end):
            raise Unfitting
        if self._length is not None and end > self._length:
            raise Unfitting

    def answer_to(self, checkpoint: Checkpoint) -> list[int]:
        """The serial numbers of the reports that were made for a checkpoint; none for a new one."""
        return self._answers.get(checkpoint.serial, [])

    def report(self, checkpoint: Checkpoint, upper_bound: int, largest_bytes: int) -> list[Report]:
        """The report on a new checkpoint, whose data end at `upper_bound`, in segments of `largest_bytes` at most."""
        lower_bound = self._lower_bounds.get(checkpoint.report_serial, 0)
        if checkpoint.report_serial == 0:
            lower_bound = self._primary_upper_bound
            self._primary_upper_bound = max(lower_bound, upper_bound)
        reports = list(self._reports(checkpoint.serial, lower_bound, upper_bound, largest_bytes))
        _remember(self._answers, checkpoint.serial, [report.serial for report in reports])
        for report in reports:
            _remember(self._lower_bounds, report.serial, report.lower_bound)
        return reports

    def _reports(self, checkpoint_serial: int, lower: int, upper: int, largest_bytes: int) -> Iterator[Report]:
        """Adjacent reports. Each ends with a claim, except the last, which ends at the upper bound."""
        come = list(self._red.within(lower, upper))
        while come:
            empty = Report(self._session, self._next_serial, checkpoint_serial, upper, lower, ())
            claims = _claims_that_fit(come, lower, largest_bytes - len(encode(empty)))
            del come[: len(claims)]
            claimed_to = lower + claims[-1].offset + claims[-1].length
            bound = claimed_to if come else upper
            yield Report(self._session, self._next_serial, checkpoint_serial, bound, lower, tuple(claims))
            self._next_serial += 1
            lower = bound


def _claims_that_fit(come: list[tuple[int, int]], lower: int, room_bytes: int) -> list[Claim]:
    """As many claims as fit into `room_bytes`, at least one.

    Their count takes up to 3 bytes, of which one is counted.
    """
    claims: list[Claim] = []
    room_bytes -= 2
    for start, end in come:
        claim = Claim(start - lower, end - start)
        room_bytes -= sum(len(sdnv.encode(number)) for number in claim)
        if claims and room_bytes < 0:
            break
        claims.append(claim)
    return claims


def _remember(known: dict[int, Value], serial: int, value: Value) -> None:
    known[serial] = value
    if len(known) > CHECKPOINTS_REMEMBERED:
        del known[next(iter(known))]


GIVE_UP_TIMERS = 2 * LINGER_TIMERS
"""For how many timers the receiver of a complete file retransmits its last reports without an answer. The sender stays
for half as long after each that it receives."""

SMALLEST_REPORT_BYTES = 64
"""The size that a report may have even if data segments are smaller: its bounds and serial numbers alone may need 30
bytes."""


class Receiving(SessionSide):
    """Receives one file into `output`, which appears when it is complete."""

    def __init__(self, output: Path, settings: Settings, now_s: float, file_bytes: int | None = None) -> None:
        super().__init__(settings, sends_block=False)
        self._file = IncomingFile(output)
        self._layout = Layout(file_bytes, settings.block_bytes, settings.first_session)
        self._random = settings.first_serials(sends_block=False)
        self._blocks: dict[int, InboundBlock] = {}
        self._complete_blocks = 0
        self._reports: Unanswered[tuple[int, int], Report] = Unanswered(settings.interval_s, settings.report_limit)
        self._quiet_since_s = now_s

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def facts(self) -> str:
        return f"blocks={self._complete_blocks} {super().facts()}"

    @property
    def _is_complete(self) -> bool:
        return self._complete_blocks == self._layout.count

    @property
    def _awaits_green_only(self) -> bool:
        blocks = self._blocks.values()
        return len(blocks) == self._layout.count and all(block.awaits_green_only for block in blocks)

    def _hear(self, segment: Segment, now_s: float) -> None:
        if isinstance(segment, DataSegment):
            self._hear_data(segment, now_s)
        elif isinstance(segment, ReportAck):
            if self._reports.answered((segment.session.number, segment.report_serial)):
                self._unqueue(segment)
        else:
            self._tally.count("refused")

    def _unqueue(self, ack: ReportAck) -> None:
        """A report need not be sent again."""
        for queued in list(self._urgent):
            if isinstance(queued, Report) and (queued.session, queued.serial) == (ack.session, ack.report_serial):
                self._urgent.remove(queued)

    def _hear_data(self, segment: DataSegment, now_s: float) -> None:
        block = self._block(segment.session)
        if block is None:
            self._tally.count("refused")
            return
        if segment.client_service != self._settings.client_service:
            why = f"data for client service {segment.client_service}, this is {self._settings.client_service}"
            self._give_up(segment.session, Reason.UNREACH, why)
            return
        try:
            self._take(block, segment)
        except Unfitting:
            self._tally.count("refused")
        except Miscolored:
            self._give_up(segment.session, Reason.MISCOLORED, "red data behind green data")
        else:
            if segment.checkpoint is not None:
                self._report(block, segment, segment.checkpoint)

    def _block(self, session: SessionId) -> InboundBlock | None:
        """The block of a session, open from its first segment on; None for a session that is not of the file."""
        block = self._blocks.get(session.number)
        stretch = self._layout.stretch(session.number)
        if block is not None or stretch is None or len(self._blocks) == self._layout.count:
            return block
        room_bytes = stretch.end - stretch.start
        length = None if self._layout.file_bytes is None else room_bytes
        block = InboundBlock(session, room_bytes, length, self._random.choice(FIRST_SERIALS))
        self._blocks[session.number] = block
        return block

    def _take(self, block: InboundBlock, segment: DataSegment) -> None:
        was_complete = block.is_complete
        if block.take(segment):
            stretch = self._layout.stretch(segment.session.number)
            assert stretch is not None
            self._file.write(stretch.start + segment.offset, segment.data)
        if block.is_complete and not was_complete:
            self._complete_blocks += 1
            if self._is_complete:
                self._file.finish()

    def _report(self, block: InboundBlock, segment: DataSegment, checkpoint: Checkpoint) -> None:
        """Reports on a checkpoint; one that comes again is answered by the same reports (section 6.8)."""
        number = segment.session.number
        known = block.answer_to(checkpoint)
        if known:
            again = (self._reports.hasten((number, serial)) for serial in known)
            self._urgent.extend(report for report in again if report is not None)
        elif len(self._reports) < CHECKPOINTS_REMEMBERED:
            largest_bytes = max(SMALLEST_REPORT_BYTES, self._settings.segment_bytes)
            self._urgent.extend(block.report(checkpoint, segment.end, largest_bytes))

    def _left(self, segment: Segment, now_s: float) -> None:
        if isinstance(segment, Report):
            self._reports.left((segment.session.number, segment.serial), segment, now_s)

    def _advance(self, now_s: float) -> None:
        try:
            self._urgent.extend(self._reports.take_due(now_s))
        except LimitReached:
            if not self._is_complete:
                raise
        if self._urgent:
            self.wakes_at_s = math.inf
        elif self._is_complete:
            self._linger(now_s)
        elif self._awaits_green_only:
            self._await_green(now_s)
        else:
            self._wake_or_fail(now_s, self._reports.next_due_s, "sender")

    def _linger(self, now_s: float) -> None:
        """Stay for one timer once every report is acknowledged: only needless retransmissions can still arrive."""
        timers = GIVE_UP_TIMERS if len(self._reports) else 1
        ends_at_s = self._quiet_since_s + timers * self._settings.interval_s
        self.ended = now_s >= ends_at_s
        self.wakes_at_s = min(ends_at_s, self._reports.next_due_s)

    def _await_green(self, now_s: float) -> None:
        """Wait for green data that may be late; lost ones are not sent again."""
        ends_at_s = self._quiet_since_s + LINGER_TIMERS * self._settings.interval_s
        if now_s >= ends_at_s:
            raise Failed(f"green data were lost; {self.facts()}")
        self.wakes_at_s = min(ends_at_s, self._reports.next_due_s)

    def _is_open(self, session: SessionId) -> bool:
        return not self._is_complete and self._layout.stretch(session.number) is not None

    def _has_more(self) -> bool:
        return False

    def _next_segment(self, now_s: float) -> Segment:
        raise AssertionError("a receiver has urgent segments only")
