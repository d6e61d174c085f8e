"""The sender's engine: a session for each block of a file; data that reports show to be missing are sent again (RFC
5326, 6.13).

Nothing is sent again because time has passed; only unanswered checkpoints, reports and cancellations are: see
`side.Unanswered`.
"""

from __future__ import annotations

import math
from collections import deque
from mmap import mmap
from pathlib import Path
from typing import NamedTuple

from owlt.agents.endpoint.exit import Unsupported
from owlt.agents.endpoint.files import map_file
from owlt.agents.endpoint.intervals import Intervals
from owlt.agents.ltp.segments import Checkpoint, DataSegment, Reason, Report, ReportAck, Segment, SessionId
from owlt.agents.ltp.settings import LARGEST_FILE_BYTES, Layout, Settings, Stretch
from owlt.agents.ltp.side import LINGER_TIMERS, SessionSide, Unanswered

REPORTS_REMEMBERED = 1 << 16
BURSTS_REMEMBERED = 1 << 10


class _Burst(NamedTuple):
    """Data that are sent again because of one report. `cycle` is the number of this burst in its sequence, from 1: each
    burst follows from a report on the burst before it."""

    data: Intervals
    cycle: int


class Retransmission:
    """The claims of the reports on one block, and the data that were sent again because of each."""

    def __init__(self) -> None:
        self._claimed = Intervals()
        self._reports_seen: dict[int, None] = {}
        self._bursts: dict[int, _Burst] = {}
        self.cycles = 0
        """How many times in a row a report on data that were sent again showed that some were missing still."""

    @property
    def claimed_bytes(self) -> int:
        """How many bytes have arrived, according to all reports together."""
        return self._claimed.total

    def missing(self, report: Report, next_serial: int) -> Intervals:
        """The data that a report shows to be missing and that are not being sent again; none if the report is a
        retransmission.

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
        """Record that data are sent again because of a report; the checkpoint at their end requests the next report."""
        cause = self._bursts.get(report.checkpoint_serial)
        burst = _Burst(data, cause.cycle + 1 if cause else 1)
        self._bursts[checkpoint_serial] = burst
        self.cycles = max(self.cycles, burst.cycle)
        if len(self._bursts) > BURSTS_REMEMBERED:
            del self._bursts[next(iter(self._bursts))]

    def _sent_again_since(self, report: Report, next_serial: int) -> list[tuple[int, int]]:
        """Data that were sent again, or are queued for it, after the checkpoint that a report answers.

        The report cannot include them; the checkpoint at their own end requests a report on them. A report that answers
        no checkpoint includes none of them.
        """
        asked = report.checkpoint_serial if report.checkpoint_serial < next_serial else 0
        return [stretch for serial, burst in self._bursts.items() if serial > asked for stretch in burst.data]

    def _remember(self, report: Report) -> None:
        self._reports_seen[report.serial] = None
        if len(self._reports_seen) > REPORTS_REMEMBERED:
            del self._reports_seen[next(iter(self._reports_seen))]


class Piece(NamedTuple):
    """Bytes of a block that form a segment. They are read from the file when the segment is sent."""

    offset: int
    end: int
    checkpoint: Checkpoint | None


class OutboundBlock:
    """One session of the sender. It has no queues and no timers; it returns the segments to send."""

    def __init__(
        self, session: SessionId, file: mmap | bytes, stretch: Stretch, settings: Settings, first_serial: int
    ) -> None:
        length = stretch.end - stretch.start
        self.session = session
        self._file = file
        self._start = stretch.start
        self._settings = settings
        self._length = length
        self._red_length = length if settings.red_bytes is None else min(length, settings.red_bytes)
        self._next_serial = first_serial
        self._sent_to = 0
        self._red_segments = 0
        self._unanswered: dict[int, int] = {}
        self._retransmission = Retransmission()

    @property
    def is_sent(self) -> bool:
        """Every byte has been sent once."""
        return self._sent_to == self._length

    @property
    def is_complete(self) -> bool:
        """All is sent, and the red part has arrived."""
        return self.is_sent and self._retransmission.claimed_bytes == self._red_length

    def next_segment(self) -> DataSegment:
        """The next segment that has not been sent yet."""
        offset = self._sent_to
        red = offset < self._red_length
        end = min(offset + self._settings.segment_bytes, self._red_length if red else self._length)
        self._sent_to = end
        checkpoint = None
        if red:
            self._red_segments += 1
            every = self._settings.checkpoint_every
            if end == self._red_length or (every and self._red_segments % every == 0):
                checkpoint = self._new_checkpoint(report_serial=0)
                self._unanswered[checkpoint.serial] = end
        return self.segment(Piece(offset, end, checkpoint))

    def fits(self, report: Report) -> bool:
        """Whether a report is of red data that were sent."""
        return report.upper_bound <= min(self._sent_to, self._red_length)

    @property
    def cycles(self) -> int:
        """How many times in a row a report on data that were sent again showed that some were missing still."""
        return self._retransmission.cycles

    def pieces_again(self, report: Report) -> list[Piece]:
        """The pieces that a report shows to be missing and that are not being sent again; the last piece requests the
        next report."""
        missing = self._retransmission.missing(report, self._next_serial)
        size = self._settings.segment_bytes
        pieces = [Piece(at, min(at + size, end), None) for start, end in missing for at in range(start, end, size)]
        if pieces:
            checkpoint = self._new_checkpoint(report.serial)
            pieces[-1] = pieces[-1]._replace(checkpoint=checkpoint)
            self._retransmission.begin_burst(checkpoint.serial, report, missing)
        return pieces

    def answered_by(self, report: Report) -> list[int]:
        """The serial numbers of the checkpoints that no longer need a report.

        These are the checkpoint that the report names, and earlier ones that request no more than the report contains:
        their own report would be empty and is not sent (section 6.11).
        """
        serials = [report.checkpoint_serial]
        for serial, end in self._unanswered.items():
            if serial > report.checkpoint_serial:
                break
            if end <= report.upper_bound:
                serials.append(serial)
        for serial in serials:
            self._unanswered.pop(serial, None)
        return serials

    def _new_checkpoint(self, report_serial: int) -> Checkpoint:
        checkpoint = Checkpoint(self._next_serial, report_serial)
        self._next_serial += 1
        return checkpoint

    def segment(self, piece: Piece) -> DataSegment:
        """A piece as a segment: with its data, and the flags that follow from its position."""
        offset, end, checkpoint = piece
        return DataSegment(
            self.session,
            self._settings.client_service,
            offset,
            self._file[self._start + offset : self._start + end],
            red=end <= self._red_length,
            checkpoint=checkpoint,
            ends_red_part=end == self._red_length,
            ends_block=end == self._length,
        )


FIRST_SERIALS = range(1 << 7, 1 << 13)
"""Where serial numbers begin, at random (section 3.2.1): in two bytes, where 8,192 more find room."""

MOST_GAPS = 1 << 20
"""The most pieces that wait to be sent again: while there are more, reports are not answered, and are repeated."""


class Sending(SessionSide):
    """Sends one file and stays until the receiver has certainly received its last answer."""

    def __init__(self, file: Path, settings: Settings) -> None:
        super().__init__(settings, sends_block=True)
        size_bytes = file.stat().st_size
        if not 0 < size_bytes <= LARGEST_FILE_BYTES:
            raise Unsupported(
                f"a file of {size_bytes} bytes; LTP carries 1 and more, this receiver {LARGEST_FILE_BYTES}"
            )
        self._file = map_file(file)
        self._layout = Layout(size_bytes, settings.block_bytes, settings.first_session)
        self._random = settings.first_serials(sends_block=True)
        self._opened = 0
        self._open: dict[int, OutboundBlock] = {}
        self._filling: OutboundBlock | None = None
        self._repeated: deque[DataSegment] = deque()
        self._gaps: deque[tuple[OutboundBlock, Piece]] = deque()
        self._checkpoints: Unanswered[tuple[int, int], DataSegment] = Unanswered(
            settings.interval_s, settings.checkpoint_limit
        )

    def _has_more(self) -> bool:
        return bool(self._repeated or self._gaps) or self._filling is not None or self._may_open()

    def _next_segment(self, now_s: float) -> DataSegment:
        if self._repeated:
            self._tally.count("data_again")
            return self._repeated.popleft()
        self._quiet_since_s = now_s
        if self._gaps:
            self._tally.count("data_again")
            block, piece = self._gaps.popleft()
            return block.segment(piece)
        return self._next_new_segment()

    def _next_new_segment(self) -> DataSegment:
        if self._filling is None:
            self._filling = self._open_next()
        block = self._filling
        segment = block.next_segment()
        if block.is_sent:
            self._filling = None
            self._close_if_complete(block)
        return segment

    def _left(self, segment: Segment, now_s: float) -> None:
        if isinstance(segment, DataSegment) and segment.checkpoint is not None:
            key = segment.session.number, segment.checkpoint.serial
            self._checkpoints.left(key, segment, now_s)
            self.wakes_at_s = -math.inf
        elif not self.has_datagram():
            self.wakes_at_s = -math.inf

    def _may_open(self) -> bool:
        return self._opened < self._layout.count and len(self._open) < self._settings.sessions

    def _open_next(self) -> OutboundBlock:
        number = self._settings.first_session + self._opened
        stretch = self._layout.stretch(number)
        assert stretch is not None
        session = SessionId(self._settings.sender_engine, number)
        block = OutboundBlock(session, self._file, stretch, self._settings, self._random.choice(FIRST_SERIALS))
        self._opened += 1
        self._open[number] = block
        return block

    def _hear(self, segment: Segment, now_s: float) -> None:
        if not isinstance(segment, Report) or len(self._gaps) > MOST_GAPS:
            self._tally.count("refused")
            return
        self._urgent.append(ReportAck(segment.session, segment.serial))  # whatever it says (section 6.13)
        block = self._open.get(segment.session.number)
        was_opened = 0 <= segment.session.number - self._settings.first_session < self._opened
        if not was_opened or (block is not None and not block.fits(segment)):
            self._tally.count("refused")
        elif block is not None:
            self._hear_report(block, segment)

    def _hear_report(self, block: OutboundBlock, report: Report) -> None:
        number = block.session.number
        for serial in block.answered_by(report):
            if self._checkpoints.answered((number, serial)):
                self._unqueue(number, serial)
        self._gaps.extend((block, piece) for piece in block.pieces_again(report))
        if block.cycles > self._settings.cycle_limit:
            why = f"data were still missing after being retransmitted {self._settings.cycle_limit} times"
            self._give_up(block.session, Reason.RXMTCYCEXC, why)
        self._close_if_complete(block)

    def _unqueue(self, number: int, serial: int) -> None:
        """Remove a checkpoint from the segments to send again."""
        for segment in list(self._repeated):
            if segment.session.number == number and segment.checkpoint and segment.checkpoint.serial == serial:
                self._repeated.remove(segment)

    def _close_if_complete(self, block: OutboundBlock) -> None:
        if block.is_complete:
            number = block.session.number
            del self._open[number]
            self._repeated = deque(segment for segment in self._repeated if segment.session.number != number)
            self._gaps = deque((owner, piece) for owner, piece in self._gaps if owner is not block)
            self._checkpoints.forget(lambda key: key[0] == number)

    def _advance(self, now_s: float) -> None:
        self._repeated.extend(self._checkpoints.take_due(now_s))
        if self.has_datagram():
            self.wakes_at_s = self._checkpoints.next_due_s
        elif self._open:
            self._wake_or_fail(now_s, self._checkpoints.next_due_s, "receiver")
        else:
            self._linger(now_s)

    def _linger(self, now_s: float) -> None:
        """Stay to answer retransmitted reports; a green file is not acknowledged, so the transfer ends at once."""
        answered = self._settings.red_bytes != 0
        self.wakes_at_s = self._quiet_since_s + LINGER_TIMERS * self._settings.interval_s if answered else now_s
        self.ended = now_s >= self.wakes_at_s

    def _is_open(self, session: SessionId) -> bool:
        return session.number in self._open
