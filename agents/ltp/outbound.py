"""A block on its way out: cut in segments (RFC 5326, section 6.1), and what is missing of it cut again.

`agents.ltp.retransmission` decides what is missing.
"""

from mmap import mmap
from typing import NamedTuple

from owlt.agents.ltp.retransmission import Retransmission
from owlt.agents.ltp.segments import Checkpoint, DataSegment, Report, SessionId
from owlt.agents.ltp.settings import Settings, Stretch


class Piece(NamedTuple):
    """Bytes of a block that make a segment. They are read when it leaves."""

    offset: int
    end: int
    checkpoint: Checkpoint | None


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
        self._unanswered: dict[int, int] = {}
        self._retransmission = Retransmission()

    @property
    def is_sent(self) -> bool:
        """Every byte has been sent once."""
        return self._sent_to == self._length

    @property
    def is_complete(self) -> bool:
        """All is sent, and the red part has come."""
        return self.is_sent and self._retransmission.claimed_bytes == self._red_length

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

    @property
    def cycles(self) -> int:
        """How many times in a row a report on data that were sent again showed that some were missing still."""
        return self._retransmission.cycles

    def pieces_again(self, report: Report) -> list[Piece]:
        """What a report shows to be missing and is not sent again already; the last piece asks for the next report."""
        missing = self._retransmission.missing(report, self._next_serial)
        size = self._settings.segment_bytes
        pieces = [Piece(at, min(at + size, end), None) for start, end in missing for at in range(start, end, size)]
        if pieces:
            checkpoint = self._new_checkpoint(report.serial)
            pieces[-1] = pieces[-1]._replace(checkpoint=checkpoint)
            self._retransmission.begin_burst(checkpoint.serial, report, missing)
        return pieces

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
