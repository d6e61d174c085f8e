"""The sender's engine: a session for each block of a file, and what reports show to be lost once more."""

import math
from collections import deque
from pathlib import Path

from owlt.agents.endpoint.exit import Unsupported
from owlt.agents.endpoint.outgoing_file import map_file
from owlt.agents.ltp.outbound import OutboundBlock, Piece
from owlt.agents.ltp.segments import DataSegment, Reason, Report, ReportAck, Segment, SessionId
from owlt.agents.ltp.settings import LARGEST_FILE_BYTES, Layout, Settings
from owlt.agents.ltp.side import LINGER_TIMERS, Side
from owlt.agents.ltp.unanswered import Unanswered

FIRST_SERIALS = range(1 << 7, 1 << 13)
"""Where serial numbers begin, at random (section 3.2.1): in two bytes, where 8,192 more find room."""

MOST_GAPS = 1 << 20
"""Pieces that wait to be sent again; while there are more, reports are left unanswered, and will come again."""


class Sending(Side):
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
            settings.timer_s, settings.checkpoint_limit
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
        """A checkpoint need not be sent again."""
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
        """A green file is not answered."""
        answered = self._settings.red_bytes != 0
        self.wakes_at_s = self._quiet_since_s + LINGER_TIMERS * self._settings.timer_s if answered else now_s
        self.ended = now_s >= self.wakes_at_s

    def _is_open(self, session: SessionId) -> bool:
        return session.number in self._open
