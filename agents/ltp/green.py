"""Blocks that are entirely green: sent once, and delivered completely or lost (RFC 5326, section 2). For blocks that
fit into memory, such as bundles. Files are sent by `agents.ltp.sending`.
"""

from collections import OrderedDict
from collections.abc import Iterator

from owlt.agents.endpoint.intervals import Intervals
from owlt.agents.ltp.segments import DataSegment, SessionId

_PIECE_COST_BYTES = 256
"""The memory that a piece of a block needs in addition to its data."""


def segments_of(
    block: bytes, session_number: int, engine_id: int, client_service: int, segment_bytes: int
) -> Iterator[DataSegment]:
    """The segments of a green block, each with at most `segment_bytes` of it; the last one ends the block."""
    session = SessionId(engine_id, session_number)
    for offset in range(0, len(block), segment_bytes):
        data = block[offset : offset + segment_bytes]
        ends_block = offset + len(data) == len(block)
        yield DataSegment(session, client_service, offset, data, red=False, ends_block=ends_block)


class Reassembly:
    """Puts green blocks together again.

    The memory for incomplete blocks is bounded; beyond that the oldest ones are dropped.
    """

    def __init__(self, most_blocks: int = 1024, most_bytes: int = 64 << 20) -> None:
        self._most_blocks = most_blocks
        self._most_bytes = most_bytes
        self._open: OrderedDict[SessionId, _Open] = OrderedDict()
        self._delivered: OrderedDict[SessionId, None] = OrderedDict()
        self._held_bytes = 0
        self.forgotten = 0
        """Blocks that were given up, for room or because their segments contradict each other."""

    def take(self, segment: DataSegment) -> bytes | None:
        """The complete block, if this segment completes it. Red data and retransmitted segments are ignored."""
        session = segment.session
        if segment.red or session in self._delivered:
            return None
        block = self._open.get(session)
        if block is None:
            block = self._open[session] = _Open()
            self._held_bytes += block.cost_bytes
        self._held_bytes -= block.cost_bytes
        fits = block.add(segment)
        self._held_bytes += block.cost_bytes
        if not fits:
            self._forget(session)
        elif block.is_complete():
            return self._deliver(session)
        while len(self._open) > self._most_blocks or self._held_bytes > self._most_bytes:
            self._forget(next(iter(self._open)))
        return None

    def _deliver(self, session: SessionId) -> bytes:
        """Return a block, and remember it: a retransmitted segment would begin it again."""
        block = self._open.pop(session)
        self._held_bytes -= block.cost_bytes
        self._delivered[session] = None
        if len(self._delivered) > self._most_blocks:
            self._delivered.popitem(last=False)
        return block.content()

    def _forget(self, session: SessionId) -> None:
        self._held_bytes -= self._open.pop(session).cost_bytes
        self.forgotten += 1


class _Open:
    """A block that has arrived in part."""

    def __init__(self) -> None:
        self._pieces: dict[int, bytes] = {}
        self._come = Intervals()
        self._length: int | None = None
        self.cost_bytes = _PIECE_COST_BYTES

    def add(self, segment: DataSegment) -> bool:
        """Add a segment. Returns whether it fits the others: no data after the block's end, and a single end."""
        if segment.ends_block:
            if self._length not in (None, segment.end):
                return False
            self._length = segment.end
        if self._come.add(segment.offset, segment.end):
            before = self._pieces.get(segment.offset, b"")
            if len(segment.data) > len(before):
                self._pieces[segment.offset] = segment.data
                self.cost_bytes += len(segment.data) - len(before) + (0 if before else _PIECE_COST_BYTES)
        return self._length is None or self._come.end <= self._length

    def is_complete(self) -> bool:
        return self._length is not None and self._come.covers(0, self._length)

    def content(self) -> bytes:
        """The complete block. Pieces may overlap."""
        content = bytearray()
        for offset, data in sorted(self._pieces.items()):
            content += data[len(content) - offset :]
        return bytes(content)
