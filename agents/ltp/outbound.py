"""A block on its way out: cut in segments, and cut again where reports show gaps (RFC 5326, sections 6.1 and 6.13)."""

from mmap import mmap
from typing import NamedTuple

from agents.intervals import Intervals
from agents.ltp.segments import Checkpoint, DataSegment, Report, SessionId
from agents.ltp.settings import Settings, Stretch

REPORTS_REMEMBERED = 1 << 16
BURSTS_REMEMBERED = 1 << 10


class Piece(NamedTuple):
    """Bytes of a block that make a segment. They are read when it leaves."""

    offset: int
    end: int
    checkpoint: Checkpoint | None


class _Burst(NamedTuple):
    """Data that are sent again because of one report. `cycle` counts the bursts that led to it, each by a report on the
    one before, and itself."""

    data: Intervals
    cycle: int


class OutboundBlock:
    """One session of the sender. It has no queues and no timers: it says what there is to send."""

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
        self._claimed = Intervals()
        self._reports_seen: dict[int, None] = {}
        self._unanswered: dict[int, int] = {}
        self._bursts: dict[int, _Burst] = {}
        self.cycles = 0
        """How many times in a row a report on data that were sent again showed that some were missing still."""

    @property
    def is_sent(self) -> bool:
        """Every byte has been sent once."""
        return self._sent_to == self._length

    @property
    def is_complete(self) -> bool:
        """All is sent, and the red part has come."""
        return self.is_sent and self._claimed.total == self._red_length

    def next_segment(self) -> DataSegment:
        """The next segment that was not sent yet."""
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

    def hear(self, report: Report) -> list[Piece]:
        """What a report shows to be missing and is not sent again already; the last piece asks for the next report."""
        if report.serial in self._reports_seen:
            return []
        self._remember(report)
        lower = report.lower_bound
        for offset, length in report.claims:
            self._claimed.add(lower + offset, lower + offset + length)
        missing = Intervals(self._claimed.gaps(lower, report.upper_bound))
        for start, end in self._sent_again_since(report):
            missing.remove(start, end)
        size = self._settings.segment_bytes
        pieces = [Piece(at, min(at + size, end), None) for start, end in missing for at in range(start, end, size)]
        if pieces:
            checkpoint = self._new_checkpoint(report.serial)
            pieces[-1] = pieces[-1]._replace(checkpoint=checkpoint)
            self._begin_burst(checkpoint, report, missing)
        return pieces

    def _sent_again_since(self, report: Report) -> list[tuple[int, int]]:
        """Data that were sent again, or wait to be, behind the checkpoint that a report answers: it cannot know of
        them. The checkpoint at their own end will tell. A report that answers no checkpoint knows of none."""
        asked = report.checkpoint_serial if report.checkpoint_serial < self._next_serial else 0
        return [stretch for serial, burst in self._bursts.items() if serial > asked for stretch in burst.data]

    def _begin_burst(self, checkpoint: Checkpoint, report: Report, data: Intervals) -> None:
        cause = self._bursts.get(report.checkpoint_serial)
        burst = _Burst(data, cause.cycle + 1 if cause else 1)
        self._bursts[checkpoint.serial] = burst
        self.cycles = max(self.cycles, burst.cycle)
        if len(self._bursts) > BURSTS_REMEMBERED:
            del self._bursts[next(iter(self._bursts))]

    def answered_by(self, report: Report) -> list[int]:
        """The checkpoints that need no report any more, by serial number.

        Beside the one that the report names these are earlier ones that ask for no more than it tells: their own would
        be empty and is not sent (section 6.11).
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

    def _remember(self, report: Report) -> None:
        self._reports_seen[report.serial] = None
        if len(self._reports_seen) > REPORTS_REMEMBERED:
            del self._reports_seen[next(iter(self._reports_seen))]

    def _new_checkpoint(self, report_serial: int) -> Checkpoint:
        checkpoint = Checkpoint(self._next_serial, report_serial)
        self._next_serial += 1
        return checkpoint

    def segment(self, piece: Piece) -> DataSegment:
        """A piece with its data, and with the marks of the place where it lies."""
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
